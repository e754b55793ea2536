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

from warpsmith.generator.architectures import STATIC_SHARED_BYTES
from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.cgemm.text import CgemmText, cgemm_arguments
from warpsmith.generator.cgemm.thin_geometry import (
    MOST_SUMS,
    OWN,
    SHARERS,
    THIN,
    THREADS,
    UNROLLS,
    ThinGeometry,
    ThinShape,
)
from warpsmith.generator.cgemm.tiled_choice import changed
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value
from warpsmith.generator.work import Work

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
