"""Order of the tiles of `fft_block`: which block has which tiles, and which data it prefetches."""

from __future__ import annotations

import dataclasses
from math import ceil, prod

from warpsmith.generator.fft.block.block_choice import Choice
from warpsmith.generator.fft.problem import Fft, Layout
from warpsmith.generator.fft.words import Packing, Stores


@dataclasses.dataclass(frozen=True, slots=True)
class Walk:
    """Tiles of a problem in the order of its transforms; tiles that share transforms follow each other."""

    problem: Fft
    choice: Choice

    @property
    def step(self) -> int:
        """Transforms of the problem per tile."""
        return self.choice.transforms * self.choice.packing.transforms

    @property
    def tiles(self) -> int:
        """Tiles of the whole problem."""
        return self.choice.shares * ceil(self.problem.batch / self.step)

    @property
    def blocks(self) -> int:
        needed = ceil(self.tiles / self.choice.tiles)
        return min(needed, self.choice.blocks or needed)

    @property
    def is_persistent(self) -> bool:
        """True if a block has several tiles, one after the other."""
        return self.blocks * self.choice.tiles < self.tiles

    @property
    def stride(self) -> int:
        """Tiles from one to the next one of the same threads, in persistent blocks."""
        return self.blocks * self.choice.tiles

    @property
    def ahead(self) -> int:
        """Transforms from a tile to the one whose data it prefetches into the L2 cache; 0 without prefetching."""
        return self.choice.ahead // self.choice.shares * self.step

    @property
    def places_ahead(self) -> int:
        """Places in the spectrum, a batch apart, of the data that is prefetched; 0 if the data is contiguous."""
        is_spread = self.problem.inverse and self.problem.layout is Layout.FREQUENCY
        return prod(self.problem.spectrum_size) if self.ahead and is_spread else 0

    @property
    def last_first(self) -> int:
        """First transform of the last tile."""
        return max(0, self.problem.batch - self.step)

    @property
    def overlaps(self) -> bool:
        """True if the last tile repeats a transform of another tile with another partner, and so must not store it."""
        return self.choice.packing is Packing.PAIR and self.problem.batch > 1 and self.problem.batch % 2 == 1

    @property
    def is_guarded(self) -> bool:
        """True if threads check before each store whether the result belongs to another tile."""
        return self.overlaps and self.choice.stores is not Stores.BULK
