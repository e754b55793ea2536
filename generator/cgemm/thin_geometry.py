"""Geometry of one config of `cgemm_thin` on a problem: which threads read what, and which share sums."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.cgemm.plain_family import CHAIN
from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.space import Config

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
