"""Shared memory of `fft_block`: each tile, and beside it the sources and targets of bulk copies."""

from __future__ import annotations

import dataclasses
from math import ceil

from warpsmith.generator.fft.block.block_choice import Choice
from warpsmith.generator.fft.problem import Fft
from warpsmith.generator.fft.words import Loads, Stores

UNIT = 16
"""Bytes that a bulk copy's size and addresses are multiples of."""


@dataclasses.dataclass(frozen=True, slots=True)
class Memory:
    """Shared memory of one tile; places are complex numbers from its start, which is a multiple of UNIT bytes.

    The source and the target of bulk copies share one place, at different times, if a tile comes between them.
    """

    problem: Fft
    choice: Choice
    tile_elements: int
    """Complex numbers of the tile itself, gaps included; 0 without a tile."""

    @property
    def is_read_at_once(self) -> bool:
        return self.choice.loads is Loads.BULK

    @property
    def is_written_at_once(self) -> bool:
        return self.choice.stores is Stores.BULK

    @property
    def has_copies(self) -> bool:
        return self.is_read_at_once or self.is_written_at_once

    @property
    def source_place(self) -> int:
        """Place of the source; the barrier that waits for it lies before it."""
        return UNIT // 8 if self.is_read_at_once else 0

    @property
    def target_place(self) -> int:
        return self.source_place if self.tile_elements else self.source_place + self._source

    @property
    def tile_place(self) -> int:
        return max(self.source_place + self._source, self.target_place + self._target)

    @property
    def pitch(self) -> int:
        """Complex numbers from one tile to the next."""
        end = self.tile_place + self.tile_elements
        return end + end % 2 if self.has_copies else end

    @property
    def _source(self) -> int:
        return self._copied(self.problem.inputs[0].nbytes) if self.is_read_at_once else 0

    @property
    def _target(self) -> int:
        return self._copied(self.problem.output.nbytes) if self.is_written_at_once else 0

    def _copied(self, nbytes: int) -> int:
        transforms = self.choice.transforms * self.choice.packing.transforms
        return _copied_bytes(nbytes, self.problem.batch, transforms) // 8


def copied_bytes(problem: Fft, transforms: int, loads: str, stores: str) -> int:
    """Bytes of shared memory that bulk copies of `transforms` transforms take beside a tile, at most."""
    source = _copied_bytes(problem.inputs[0].nbytes, problem.batch, transforms) if loads == Loads.BULK else 0
    target = _copied_bytes(problem.output.nbytes, problem.batch, transforms) if stores == Stores.BULK else 0
    return max(source, target) + UNIT if source or target else 0


def _copied_bytes(nbytes: int, batch: int, transforms: int) -> int:
    """Bytes of `transforms` transforms of a batch, in whole units; they may start at any place within a unit."""
    return UNIT * (ceil(min(transforms, batch) * nbytes / (batch * UNIT)) + 1)
