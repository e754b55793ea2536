"""`cgemm` with few rows or few columns: reads the long operand once, straight into registers, at the rate of memory.

If results have one to four columns, each number of a is used once per column. Tiles in shared memory would save
nothing, and the accumulators need few registers. Threads read neighbouring numbers of the long operand in either
layout. Along its terms, some lanes of a warp share a sum. Along its rows, each thread has rows of its own, and warps
share sums if there are few rows. Shared sums are added in a fixed order.

Source: Bell and Garland 2009, "Implementing Sparse Matrix-Vector Multiplication on Throughput-Oriented Processors" (a
thread or several a row, whichever reads neighbours); Rivera et al. 2021, "TSM2X: High-performance tall-and-skinny
matrix-matrix multiplication on GPUs".
"""

from __future__ import annotations

import dataclasses

from warpsmith.generator.architectures import STATIC_SHARED_BYTES
from warpsmith.generator.cgemm.plain_family import CHAIN
from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.cgemm.text import CgemmText, cgemm_arguments
from warpsmith.generator.cgemm.tiled_family import changed
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family, Work
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

THIN = 4
"""Most rows or columns of a result."""
THREADS = (64, 128, 256, 512)
SHARERS = (1, 2, 4, 8, 16, 32)
OWN = (1, 2, 4, 8)
UNROLLS = (1, 2, 4, 8, 16)
MOST_SUMS = 32
"""Most accumulators of a thread, two registers each."""


@dataclasses.dataclass(frozen=True, slots=True)
class ThinShape:
    """Long and thin operand of a problem, and their memory layouts.

    The long one has as many rows as the result's long side. The thin one has a column for each line of the short side.
    """

    problem: Cgemm

    @property
    def is_a_long(self) -> bool:
        return self.problem.m >= self.problem.n

    @property
    def rows(self) -> int:
        """Rows of the long operand."""
        return max(self.problem.m, self.problem.n)

    @property
    def thin(self) -> int:
        """Columns of the thin operand."""
        return min(self.problem.m, self.problem.n)

    @property
    def is_by_terms(self) -> bool:
        """True if the terms of a row of the long operand lie side by side, False if its rows do."""
        return not self.problem.a.transposes if self.is_a_long else self.problem.b.transposes

    @property
    def is_thin_by_terms(self) -> bool:
        """True if the terms of a column of the thin operand lie side by side."""
        return self.problem.b.transposes if self.is_a_long else not self.problem.a.transposes

    @property
    def vector(self) -> int:
        """Numbers of the long operand per vector load: two terms of a row, or two rows."""
        return 1 if (self.problem.k if self.is_by_terms else self.rows) % 2 else 2

    @property
    def term_vectors(self) -> int:
        """Steps of a sum."""
        return self.problem.k // self.vector if self.is_by_terms else self.problem.k

    @property
    def row_vectors(self) -> int:
        """Rows of the long operand, or vectors of them."""
        return self.rows if self.is_by_terms else self.rows // self.vector

    @property
    def sums(self) -> int:
        """Accumulators of a thread for each of its rows or pairs of rows."""
        return self.thin * (1 if self.is_by_terms else self.vector)

    def shared_bytes(self, threads: int, sharers: int, own: int) -> int:
        """Bytes of shared memory per block for partial sums: of all threads that share a sum but the first."""
        if self.is_by_terms:
            return 0
        return 8 * (sharers - 1) * (threads // sharers) * own * self.sums


@dataclasses.dataclass(frozen=True, slots=True)
class ThinGeometry:
    """Geometry of one config on one problem."""

    shape: ThinShape
    threads: int
    sharers: int
    own: int
    unroll: int

    @classmethod
    def of(cls, problem: Cgemm, config: Config) -> ThinGeometry:
        numbers = (config.integer(name) for name in ("threads", "sharers", "own", "unroll"))
        return cls(ThinShape(problem), *numbers)

    @property
    def slots(self) -> int:
        """Groups of rows per block."""
        return self.threads // self.sharers

    @property
    def groups(self) -> int:
        """Groups of rows per product; a thread has one group."""
        return -(-self.shape.row_vectors // self.own)

    @property
    def blocks(self) -> int:
        return -(-self.shape.problem.batch * self.groups // self.slots)

    @property
    def is_ragged(self) -> bool:
        """True if the last group of rows has fewer rows."""
        return self.shape.row_vectors % self.own != 0

    @property
    def is_exact(self) -> bool:
        """True if the last block is full."""
        return self.shape.problem.batch * self.groups % self.slots == 0

    @property
    def steps(self) -> int:
        """Steps of a sum for each thread."""
        return self.shape.term_vectors // self.sharers

    @property
    def rest(self) -> int:
        """Threads, among those that share a sum, with one step more."""
        return self.shape.term_vectors % self.sharers

    @property
    def chain_steps(self) -> int:
        """Steps whose terms are added one after the other; 0 for all."""
        steps = CHAIN // (self.shape.vector if self.shape.is_by_terms else 1)
        return steps if self.steps > steps else 0

    @property
    def results(self) -> int:
        """Rows of the result per thread."""
        return self.own * (1 if self.shape.is_by_terms else self.shape.vector)

    @property
    def index(self) -> str:
        """CUDA type that counts groups, beyond the last one in the last block too."""
        return "unsigned" if self.blocks * self.slots < 2**32 else "unsigned long long"


USUAL_LANES, USUAL_ROWS, USUAL_THREADS = 8, 4, 256
"""Default lanes per sum, rows per thread and threads per block. Eight lanes that share a sum read 128 contiguous bytes;
a thread has loads of four rows of the long operand in flight."""
BUSY = 0.5
"""Share of an SM's threads, below which warps share sums."""


class CgemmThin(Family[Cgemm]):
    """`cgemm` whose results have one to four rows or columns."""

    name = "cgemm_thin"

    def why_not(self, problem: Cgemm, device: Device) -> str | None:
        if min(problem.m, problem.n) > THIN:
            return f"takes results of {THIN} rows or columns at the most"
        return None

    def is_likely(self, problem: Cgemm, device: Device) -> bool:
        """True for every problem that the family solves on a GPU."""
        return device.kind is DeviceKind.CUDA and self.why_not(problem, device) is None

    def space(self, problem: Cgemm, device: Device) -> Space:
        shape = ThinShape(problem)
        by = "lanes of a warp" if shape.is_by_terms else "warps"
        return Space(
            parameters=(
                Parameter("threads", THREADS, "threads of a block"),
                Parameter("sharers", SHARERS, f"{by} that share a sum"),
                Parameter("own", OWN, "rows, or pairs of them, of the long operand that a thread has"),
                Parameter("unroll", UNROLLS, "steps of a sum whose loads are in flight at once"),
            ),
            constraints=(
                Constraint(
                    f"a sum has {shape.term_vectors} steps for all that share it",
                    lambda sharers: sharers == 1 or sharers <= shape.term_vectors,
                ),
                Constraint(
                    f"the long operand has {shape.row_vectors} rows, or pairs of them",
                    lambda own: own == 1 or own <= shape.row_vectors,
                ),
                Constraint(
                    f"a thread has registers for {MOST_SUMS} sums",
                    lambda own: own * shape.sums <= max(MOST_SUMS, shape.sums),
                ),
                Constraint(
                    f"warps that share sums have {STATIC_SHARED_BYTES} bytes of shared memory",
                    lambda threads, sharers, own: shape.shared_bytes(threads, sharers, own) <= STATIC_SHARED_BYTES,
                ),
                Constraint(
                    "a warp reads neighbours",
                    lambda threads, sharers: shape.is_by_terms or threads // sharers >= 32,
                ),
            ),
        )

    def default(self, problem: Cgemm, device: Device) -> Config:
        shape = ThinShape(problem)
        wanted = {"threads": USUAL_THREADS, "sharers": 1, "own": 1, "unroll": 8}
        if shape.is_by_terms:
            lanes = max(each for each in SHARERS if each == 1 or each <= min(USUAL_LANES, shape.term_vectors))
            wanted |= {"sharers": lanes, "own": USUAL_ROWS, "unroll": 2}
        else:
            busy = BUSY * device.limits.threads_per_multiprocessor * device.multiprocessors
            enough = busy / (shape.problem.batch * shape.row_vectors)
            wanted["sharers"] = next((each for each in SHARERS if each >= enough), SHARERS[-1])
        config = self.space(problem, device).like(wanted)
        assert config is not None
        return config

    def starts(self, problem: Cgemm, device: Device) -> tuple[Config, ...]:
        wanted: list[dict[str, Value]] = [{"own": own, "sharers": each} for own in (1, 2, 4) for each in (1, 4, 16)]
        wanted += [{"unroll": 4}, {"threads": 128}]
        return changed(self.space(problem, device), self.default(problem, device), wanted)

    def work(self, problem: Cgemm, config: Config) -> Work:
        geometry = ThinGeometry.of(problem, config)
        long = max(operand.nbytes for operand in problem.inputs)
        return Work(problem.multiply_adds, long + long * geometry.shape.thin // geometry.own)

    def unrolled(self, problem: Cgemm, config: Config) -> int:
        geometry = ThinGeometry.of(problem, config)
        return 4 * geometry.unroll * geometry.own * geometry.shape.sums

    def program(self, problem: Cgemm, config: Config) -> Program:
        geometry = ThinGeometry.of(problem, config)
        source = render("cgemm/thin.cu.jinja", p=CgemmText.of(problem), g=geometry, config=config.key())
        launch = Launch.of_blocks(self.name, geometry.blocks, geometry.threads, cgemm_arguments(problem))
        return Program.of_source(self.name, config, source, (launch,))
