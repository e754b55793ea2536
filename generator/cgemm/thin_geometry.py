"""A config of `cgemm_thin` on a problem: who reads what, and who adds up."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.cgemm.plain import CHAIN
from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.space import Config

THIN = 4
"""Rows or columns of a result at the most."""
THREADS = (64, 128, 256, 512)
SHARERS = (1, 2, 4, 8, 16, 32)
OWN = (1, 2, 4, 8)
UNROLLS = (1, 2, 4, 8, 16)
MOST_SUMS = 32
"""Of a thread, two registers each."""


@dataclasses.dataclass(frozen=True, slots=True)
class ThinShape:
    """The long and the thin operand of a problem, and how they lie in memory.

    The long one has rows, as many as the result has along its long side; the thin one has a column for each of the few.
    """

    problem: Cgemm

    @property
    def is_a_long(self) -> bool:
        return self.problem.m >= self.problem.n

    @property
    def rows(self) -> int:
        """Of the long operand."""
        return max(self.problem.m, self.problem.n)

    @property
    def thin(self) -> int:
        """Columns of the thin one."""
        return min(self.problem.m, self.problem.n)

    @property
    def is_by_terms(self) -> bool:
        """Whether the terms of a row of the long operand lie together, and not its rows."""
        return not self.problem.a.transposes if self.is_a_long else self.problem.b.transposes

    @property
    def is_thin_by_terms(self) -> bool:
        """Whether the terms of a column of the thin one do."""
        return self.problem.b.transposes if self.is_a_long else not self.problem.a.transposes

    @property
    def vector(self) -> int:
        """Numbers of the long operand that are read at once: two terms of a row, or two rows."""
        return 1 if (self.problem.k if self.is_by_terms else self.rows) % 2 else 2

    @property
    def term_vectors(self) -> int:
        """Steps of a sum."""
        return self.problem.k // self.vector if self.is_by_terms else self.problem.k

    @property
    def row_vectors(self) -> int:
        """Rows, or what is read of them at once."""
        return self.rows if self.is_by_terms else self.rows // self.vector

    @property
    def sums(self) -> int:
        """Of a thread, for each of its own rows or pairs of rows."""
        return self.thin * (1 if self.is_by_terms else self.vector)

    def shared_bytes(self, threads: int, sharers: int, own: int) -> int:
        """Of a block, for what all but the first of those that share a sum have of it."""
        if self.is_by_terms:
            return 0
        return 8 * (sharers - 1) * (threads // sharers) * own * self.sums


@dataclasses.dataclass(frozen=True, slots=True)
class ThinGeometry:
    """One config on one problem."""

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
        """Groups of rows of a block."""
        return self.threads // self.sharers

    @property
    def groups(self) -> int:
        """Of a product: what a thread has is one."""
        return -(-self.shape.row_vectors // self.own)

    @property
    def blocks(self) -> int:
        return -(-self.shape.problem.batch * self.groups // self.slots)

    @property
    def is_ragged(self) -> bool:
        """Whether the last groups of rows have fewer of them."""
        return self.shape.row_vectors % self.own != 0

    @property
    def is_exact(self) -> bool:
        """Whether the last block is full."""
        return self.shape.problem.batch * self.groups % self.slots == 0

    @property
    def steps(self) -> int:
        """Of a sum that each thread has."""
        return self.shape.term_vectors // self.sharers

    @property
    def rest(self) -> int:
        """Threads of those that share a sum that have one step more."""
        return self.shape.term_vectors % self.sharers

    @property
    def chain_steps(self) -> int:
        """Whose terms are added up one after the other; 0 for all."""
        steps = CHAIN // (self.shape.vector if self.shape.is_by_terms else 1)
        return steps if self.steps > steps else 0

    @property
    def results(self) -> int:
        """Rows of the result that a thread has."""
        return self.own * (1 if self.shape.is_by_terms else self.shape.vector)

    @property
    def index(self) -> str:
        """The type that counts groups, of blocks beyond the last one too."""
        return "unsigned" if self.blocks * self.slots < 2**32 else "unsigned long long"
