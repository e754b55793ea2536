"""Gaps of a tile and thread orders of its passes, chosen by counting bank conflicts."""

from __future__ import annotations

import dataclasses
import functools
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.fft.block.block_tile import (
    BANKS,
    Address,
    BlockTile,
    Gaps,
    Lead,
    PassWork,
    Pool,
    Sets,
    TileShape,
    Touch,
    digits_of,
    set_address,
    strides_of,
)

_MOST = 16
"""Exclusive bound on the elements of a gap: 16 would shift the banks by a whole cycle."""
_WARPS = 4
"""Warps per stage whose accesses are counted."""
_GUESSES = 192
_GUESSED = (*range(_MOST), 0, 0, 0, 0, 1, 1, 2, 2, 3, 4)
"""Gaps that a guess draws from, small ones more often."""
_ROUNDS = 2
_MEMORY = 0.05
"""Cost of doubling a tile, as a share of its accesses: a larger tile may leave room for fewer others."""
_APART = 4096
"""Larger than the number of values of any digit."""

Numbers = NDArray[Any]


@functools.lru_cache(maxsize=4096)
def fitted_tile(shape: TileShape, touches: tuple[Touch, ...]) -> BlockTile:
    """The tile of that shape whose gaps and thread orders avoid bank conflicts best.

    The search draws a few guesses, then improves the best one gap at a time.

    Args:
        shape: transforms, radices and room of the tile.
        touches: accesses to the tile by the stages that are not passes.
    """
    conflicts = _Conflicts.of(shape, touches)
    digits = digits_of(shape)
    slots = [(digit, part) for digit, (_, outer) in enumerate(digits) for part in (0, 1) if part or outer > 1]
    dense: Gaps = ((0, 0),) * len(digits)
    rng = random.Random(0)
    guesses = [dense]
    for _ in range(_GUESSES):
        # Only random() gives the same numbers with every version of Python.
        drawn = {slot: _GUESSED[int(rng.random() * len(_GUESSED))] for slot in slots}
        guesses.append(tuple((drawn.get((digit, 0), 0), drawn[digit, 1]) for digit in range(len(digits))))
    best = conflicts.best_of(guesses)
    for digit, part in slots * _ROUNDS:
        best = conflicts.best_of([best, *(_replaced(best, digit, part, gap) for gap in range(_MOST))])
    return BlockTile.with_gaps(shape, best, conflicts.leads(best))


def _replaced(gaps: Gaps, digit: int, part: int, gap: int) -> Gaps:
    within, after = gaps[digit]
    return (*gaps[:digit], (gap, after) if part == 0 else (within, gap), *gaps[digit + 1 :])


@dataclasses.dataclass(frozen=True, slots=True)
class _Access:
    """Accesses of one stage's counted warps, in one order of its threads."""

    group: int
    """Number of the stage."""
    lead: Lead | None
    """Thread order of a pass; None outside the passes."""
    weight: float
    """Accesses that each counted half-warp stands for."""
    parts: Numbers
    """Coefficients of the strides in each lane's address: lanes x strides."""
    half_warps: Numbers
    """Number of the half-warp that each lane belongs to."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Conflicts:
    """Counts wavefronts of shared memory for many tiles of one shape at once."""

    shape: TileShape
    accesses: tuple[_Access, ...]
    parts: Numbers
    half_warps: Numbers
    """Half-warp of each lane, over all accesses."""
    starts: tuple[int, ...]
    """First half-warp of each access."""
    groups: tuple[int, ...]
    """First access of each stage."""
    weights: Numbers
    """Weight of each access."""

    @classmethod
    def of(cls, shape: TileShape, touches: tuple[Touch, ...]) -> _Conflicts:
        accesses = tuple(_accesses(shape, touches))
        counts = [int(access.half_warps[-1]) + 1 for access in accesses]
        starts = [sum(counts[:i]) for i in range(len(counts))]
        parts = np.concatenate([access.parts for access in accesses]).astype(np.float32)
        half_warps = np.concatenate([access.half_warps + start for access, start in zip(accesses, starts, strict=True)])
        stages = [access.group for access in accesses]
        groups = tuple(stages.index(stage) for stage in dict.fromkeys(stages))
        weights = np.array([access.weight for access in accesses])
        return cls(shape, accesses, parts, half_warps, tuple(starts), groups, weights)

    def best_of(self, candidates: list[Gaps]) -> Gaps:
        """The gaps with the lowest cost; the first of equal ones."""
        strides = [strides_of(self.shape, gaps) for gaps in candidates]
        fitting = [i for i, each in enumerate(strides) if each[-1] * self.shape.transforms <= self.shape.room]
        chosen = np.array([strides[i] for i in fitting], np.float32).T
        counts = self._counts(chosen)
        total = np.minimum.reduceat(counts, self.groups).sum(0)
        sizes = chosen[-1] / (self.shape.x * self.shape.y)
        return candidates[fitting[int(np.argmin(total * (1 - _MEMORY + _MEMORY * sizes)))]]

    def leads(self, gaps: Gaps) -> tuple[Lead, ...]:
        """Best thread order of each pass."""
        counts = self._counts(np.array([strides_of(self.shape, gaps)], np.float32).T)[:, 0]
        found: dict[int, tuple[float, Lead]] = {}
        for access, count in zip(self.accesses, counts, strict=True):
            if access.lead and (access.group not in found or count < found[access.group][0]):
                found[access.group] = (count, access.lead)
        return tuple(lead for _, lead in found.values())

    def _counts(self, strides: Numbers) -> Numbers:
        """Wavefronts of each access for each column of strides: accesses x columns."""
        columns, count = strides.shape[1], int(self.half_warps[-1]) + 1
        banks = (self.parts @ strides).astype(np.int32) % BANKS
        keys = (np.arange(columns) * count + self.half_warps[:, None]) * BANKS + banks
        taken = np.bincount(keys.ravel(), minlength=columns * count * BANKS)
        worst = taken.reshape(columns, count, BANKS).max(2)
        return self.weights[:, None] * np.add.reduceat(worst, self.starts, axis=1).T


def _accesses(shape: TileShape, touches: tuple[Touch, ...]) -> Iterator[_Access]:
    """Accesses of every stage to the tile, in terms of strides that are not chosen yet."""
    count = sum(1 if outer == 1 else 2 for _, outer in digits_of(shape)) + 1
    # The strides are powers of a large number, so a place shows its digits.
    tile = BlockTile.with_strides(shape, tuple(_APART**i for i in range(count)))
    works = tile.passes
    for group, work in enumerate(works):
        if shape.is_mirrored_pass(group, len(works)):
            yield _mirrored_access(shape, group, work, count, is_there=False)
            continue
        for lead in _leads(work, is_global=shape.is_global_pass(group, len(works))):
            led = work.led_by(lead)
            yield _access(group, lead, 2 * work.step.radix, led.pool, led.address, count)
    for group, touch in enumerate(touches, len(works)):
        address = Address(tile.after if touch.is_after else tile.before)
        yield _access(group, None, 1, touch.pool, address, count, functools.partial(touch.indices, shape))
    for group, work in enumerate(works):
        if shape.is_mirrored_pass(group, len(works)):
            yield _mirrored_access(shape, len(works) + len(touches), work, count, is_there=True)


def _mirrored_access(shape: TileShape, group: int, work: PassWork, count: int, *, is_there: bool) -> _Access:
    """Access to one of the two sets of a pass over mirrored sets: read or written, not both."""
    sets, lead = Sets.of_pass(shape, work), None if is_there else Lead("t")
    indices = functools.partial(sets.indices, is_there=is_there)
    return _access(group, lead, work.step.radix, sets.pool, set_address(work, "y", "digit"), count, indices)


def _leads(work: PassWork, *, is_global: bool) -> tuple[Lead, ...]:
    """Thread orders of a pass, the usual one first. In global memory only the order of neighbours is left."""
    names = [name for name, _ in work.pool.variables] or ["t"]
    if is_global:
        return (Lead(names[0]),)
    # Lanes that differ in `later` read different twiddles.
    ordered = sorted(names, key=lambda name: name == "later")
    return tuple(Lead(name, is_stored) for is_stored in (True, False) for name in ordered)


def _access(
    group: int,
    lead: Lead | None,
    times: int,
    pool: Pool,
    address: Address,
    count: int,
    indices: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> _Access:
    warps = math.ceil(pool.items / 32)
    sampled = sorted({round(i * (warps - 1) / max(1, _WARPS - 1)) for i in range(_WARPS)})
    items = np.concatenate([np.arange(32 * warp, min(32 * warp + 32, pool.items)) for warp in sampled])
    lanes = np.concatenate([np.arange(min(32, pool.items - 32 * warp)) + 32 * i for i, warp in enumerate(sampled)])
    numbers = indices(pool.values(items))
    parts = np.zeros((len(items), count), np.int32)
    for name, place in address.terms:
        for digit in place.digits:
            stride = round(math.log(digit.stride, _APART))
            parts[:, stride] += numbers.get(name, 0) // digit.weight % digit.extent
    return _Access(group, lead, times * warps / len(sampled), parts, lanes // (32 // 2))
