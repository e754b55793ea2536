"""Tiles of one config of `cgemm_tensor` on one problem: the work of warps, and the layout of shared memory."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.cgemm.tiled_geometry import PAIR, WARP, Geometry, Side
from warpsmith.generator.space import Config

SLICE = 8
"""Terms of one tensor-core product; its sums are rounded as float32 before they join the others."""
FRAGMENT_ROWS, FRAGMENT_COLUMNS = 16, 8
"""Rows and columns of one such product."""
CHAIN = 256 * SLICE
"""Terms that are added one after the other, in 256 sums of a slice each; longer sums are sums of such sums."""


@dataclasses.dataclass(frozen=True, slots=True)
class TensorSide(Side):
    """Tiles of one operand: `own` rows or columns belong to a warp, `threads` counts a block's warps on the side."""

    @property
    def pitch(self) -> int:
        """Complex numbers from one row of a slice to the next in shared memory.

        Eight threads are served at once. If terms lie side by side, they read 64 bytes of each of two consecutive rows.
        Else they read two times 16 bytes, 64 bytes apart, of four rows. A row pitch of 16 bytes more than a multiple of
        128 puts those into different banks.
        """
        return SLICE if self.terms_inner else self.block + PAIR

    @property
    def slice(self) -> int:
        """Complex numbers from slice to slice; if terms lie side by side, padded so that copies hit different banks."""
        return SLICE * (self.block + 1) if self.terms_inner else SLICE * self.pitch

    @property
    def tile(self) -> int:
        return self.slice * (self.terms // SLICE)

    @property
    def in_pairs(self) -> bool:
        """True if a thread's columns lie in pairs, so that one store takes two."""
        return self.name == "b"


@dataclasses.dataclass(frozen=True, slots=True)
class TensorGeometry(Geometry):
    """Geometry of one config. It has no lanes: the tensor cores prescribe which thread of a warp holds which result."""

    slices: int
    """Slices that are unrolled."""

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
        """Instructions of a warp per slice: products, additions of their sums, and splits of numbers."""
        a, b = self.a.own, self.b.own
        parts, sums = (3, 3) if self.multiplies == 3 else (2, 2)
        fragments = (a // FRAGMENT_ROWS) * (b // FRAGMENT_COLUMNS)
        numbers = (a + b) * SLICE // WARP
        return fragments * (3 * self.multiplies + 4 * sums) + 3 * parts * numbers

    @property
    def written(self) -> int:
        """Unrolled instructions."""
        return self.slice_instructions * self.slices
