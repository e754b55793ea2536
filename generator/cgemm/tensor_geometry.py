"""The tiles of one config of `cgemm_tensor` on one problem: who computes what, and what lies where in shared memory."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.cgemm.tiled_geometry import PAIR, WARP, Geometry, Side
from warpsmith.generator.space import Config

SLICE = 8
"""Terms of one product of the tensor cores, which are rounded as float32 rounds before they join the others."""
FRAGMENT_ROWS, FRAGMENT_COLUMNS = 16, 8
"""Results of one such product."""
CHAIN = 256 * SLICE
"""Terms of so many sums that are added up one after the other; longer ones are sums of such sums."""


@dataclasses.dataclass(frozen=True, slots=True)
class TensorSide(Side):
    """One operand's tiles: `own` results along its side are a warp's, and `threads` counts a block's warps there."""

    @property
    def pitch(self) -> int:
        """Complex numbers from row to row of a slice in shared memory.

        Eight threads are served at once. Where terms lie side by side, they read 64 bytes of two rows that follow each
        other. Else they read two times 16 bytes, 64 bytes apart, of four rows: 16 bytes more than a multiple of 128
        from row to row put them into banks of their own.
        """
        return SLICE if self.terms_inner else self.block + PAIR

    @property
    def slice(self) -> int:
        """Complex numbers from slice to slice: of rows of terms, as many bytes more as put copies into other banks."""
        return SLICE * (self.block + 1) if self.terms_inner else SLICE * self.pitch

    @property
    def tile(self) -> int:
        return self.slice * (self.terms // SLICE)

    @property
    def in_pairs(self) -> bool:
        """A thread's columns lie in pairs, so that one store takes two."""
        return self.name == "b"


@dataclasses.dataclass(frozen=True, slots=True)
class TensorGeometry(Geometry):
    """One config on one problem. There are no lanes: the tensor cores say which thread of a warp holds what."""

    slices: int
    """That are written out."""

    @classmethod
    def of(cls, problem: Cgemm, config: Config) -> TensorGeometry:
        return cls(
            a=TensorSide.of(problem, config, "a"),
            b=TensorSide.of(problem, config, "b"),
            batch=problem.batch,
            terms=config.integer("terms"),
            stages=config.integer("stages"),
            lanes=WARP,
            products=config.integer("products"),
            splits=config.integer("splits"),
            multiplies=config.integer("multiplies"),
            min_blocks=config.integer("min_blocks"),
            slices=config.integer("slices"),
        )

    @property
    def threads(self) -> int:
        return WARP * self.a.threads * self.b.threads

    @property
    def chain_steps(self) -> int:
        steps = CHAIN // self.terms
        return steps if self.split_steps > steps else 0

    @property
    def slice_instructions(self) -> int:
        """Of a warp for a slice: products, sums of theirs, and parts of numbers."""
        a, b = self.a.own, self.b.own
        parts, sums = (3, 3) if self.multiplies == 3 else (2, 2)
        fragments = (a // FRAGMENT_ROWS) * (b // FRAGMENT_COLUMNS)
        numbers = (a + b) * SLICE // WARP
        return fragments * (3 * self.multiplies + 4 * sums) + 3 * parts * numbers

    @property
    def written(self) -> int:
        """Instructions."""
        return self.slice_instructions * self.slices
