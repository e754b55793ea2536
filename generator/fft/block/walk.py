"""How the tiles of `fft_block` follow each other: which block has which, and whose data it fetches ahead."""

from __future__ import annotations

import dataclasses
from math import ceil, prod

from warpsmith.generator.fft.block.choice import Choice
from warpsmith.generator.fft.problem import Fft, Layout
from warpsmith.generator.fft.words import Packing, Stores


@dataclasses.dataclass(frozen=True, slots=True)
class Walk:
    """The tiles of a problem, in the order of its transforms; those that share transforms follow each other."""

    problem: Fft
    choice: Choice

    @property
    def step(self) -> int:
        """Transforms of the problem in a tile."""
        return self.choice.transforms * self.choice.packing.transforms

    @property
    def tiles(self) -> int:
        """In all."""
        return self.choice.shares * ceil(self.problem.batch / self.step)

    @property
    def blocks(self) -> int:
        needed = ceil(self.tiles / self.choice.tiles)
        return min(needed, self.choice.blocks or needed)

    @property
    def is_persistent(self) -> bool:
        """Whether a block goes on from tile to tile."""
        return self.blocks * self.choice.tiles < self.tiles

    @property
    def stride(self) -> int:
        """From a tile to the next one of the same threads, where there are several."""
        return self.blocks * self.choice.tiles

    @property
    def ahead(self) -> int:
        """Transforms from a tile to the one whose data it fetches into the L2 cache; 0 where it fetches none."""
        return self.choice.ahead // self.choice.shares * self.step

    @property
    def places_ahead(self) -> int:
        """Places in the spectrum, a batch apart, at which lies what is fetched; 0 where it lies together."""
        is_spread = self.problem.inverse and self.problem.layout is Layout.FREQUENCY
        return prod(self.problem.spectrum_size) if self.ahead and is_spread else 0

    @property
    def last_first(self) -> int:
        """The first transform of the last tile."""
        return max(0, self.problem.batch - self.step)

    @property
    def overlaps(self) -> bool:
        """Whether the last tile does again what another does with other partners, and so must leave it out."""
        return self.choice.packing is Packing.PAIR and self.problem.batch > 1 and self.problem.batch % 2 == 1

    @property
    def is_guarded(self) -> bool:
        """Whether threads ask, before they write a result, if it is another tile's."""
        return self.overlaps and self.choice.stores is not Stores.BULK
