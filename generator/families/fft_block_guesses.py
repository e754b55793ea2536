"""Configs of `fft_block` that a search tries first.

Of 70 real transforms of 8 to 256 points the winners of long searches were alike: the fewest passes, of radices near
each other, over tiles of 1000 to 4000 numbers, with a thread for each transform of the largest radix.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from math import ceil, prod

from warpsmith.generator.device import Device
from warpsmith.generator.families.fft_block_choice import Access
from warpsmith.generator.families.fft_block_space import (
    GAPS,
    THREADS,
    TRANSFORMS,
    fits,
    packings,
    shares_of,
    word,
)
from warpsmith.generator.families.fft_words import Packing, Stores, Twiddles, complex_columns
from warpsmith.generator.fft import Fft
from warpsmith.generator.space import Value
from warpsmith.generator.transforms.factors import factorizations

ELEMENTS = (2048, 4096, 1280)
"""Of a tile, about."""
LARGE = 8192
"""Complex numbers of a transform that has a multiprocessor for itself: more threads, then."""
LARGEST_RADIX = 28
"""Of a guess: beyond, registers run out."""
SMALL = 1024
"""Complex numbers of a transform of two dimensions that shares a tile with others."""
FLAT_PLANS, WARP_PLANS, SQUARE_PLANS = 4, 2, 3
"""Factorizations that are tried: of a row, of a warp's own transform or of small sides, and of large sides."""
WARPS = 4
"""Of a block whose warps have a tile each."""
MOST = 20
"""Guesses: a third of a short search."""


@dataclasses.dataclass(frozen=True, slots=True)
class Guess:
    """What sets good configs apart; the rest of a config follows."""

    packing: Packing
    x_radices: tuple[int, ...]
    y_radices: tuple[int, ...] = ()
    shares: int = 1
    elements: int = ELEMENTS[0]
    """Of a tile, about; 0 for one that keeps a single warp busy, without barriers."""
    first: str = "x"

    def values(self, batch: int, device: Device) -> dict[str, Value]:
        """Of all parameters, for so many transforms."""
        points, largest = prod((*self.x_radices, *self.y_radices)), max((*self.x_radices, *self.y_radices))
        number = ceil(batch / self.packing.transforms)
        # A small batch is spread over all multiprocessors, and each tile over many threads.
        is_small = number * self.shares <= device.multiprocessors
        most = min((self.elements or 32 * largest) // points, ceil(number / device.multiprocessors))
        transforms = max(each for each in TRANSFORMS if each <= max(1, most))
        items = transforms * points // largest if self.elements else 32
        threads = min(items, 512 if points > LARGE or is_small else 256)
        passes = len(self.x_radices) + len(self.y_radices)
        return {
            "packing": self.packing.value,
            "x_radices": word(self.x_radices),
            "y_radices": word(self.y_radices),
            "shares": self.shares,
            "first": self.first,
            "transforms": transforms,
            "threads": next(each for each in THREADS if threads <= each),
            "tiles": 1 if self.elements else WARPS,
            # A thread with all of a transform would read far from its neighbours.
            "signal": (Access.DIRECT if passes > 1 else Access.STAGED).value,
            "spectrum": Access.STAGED.value,
            "twiddles": Twiddles.POWERS.value,
            "stores": Stores.PLAIN.value,
            "min_blocks": 0,
            "gaps": GAPS[-1],
            "blocks": 0,
            "ahead": 0,
        }


def guesses(problem: Fft, device: Device) -> tuple[Guess, ...]:
    """A few good ones, the best first."""
    return tuple(itertools.islice(_guesses(problem, device), MOST))


def _guesses(problem: Fft, device: Device) -> Iterator[Guess]:
    if len(problem.size) == 2:
        yield from _square_guesses(problem, device)
        return
    for elements in (ELEMENTS[0], 0, *ELEMENTS[1:]):
        for packing in packings(problem):
            for x_radices in _plans(complex_columns(problem, packing), FLAT_PLANS if elements else WARP_PLANS):
                yield Guess(packing, x_radices, elements=elements)


def _square_guesses(problem: Fft, device: Device) -> Iterator[Guess]:
    rows, sides = problem.size[0], ("x", "y") if problem.inverse else ("y", "x")
    is_small = rows * complex_columns(problem, packings(problem)[0]) <= SMALL
    # Of small transforms a tile has several, in one way or another; of large ones one, and its passes matter more.
    tiles = (ELEMENTS[0], 0, ELEMENTS[-1]) if is_small else ELEMENTS[:1]
    most = WARP_PLANS if is_small else SQUARE_PLANS
    for elements, packing, first in itertools.product(tiles, packings(problem), sides[:1] if is_small else sides):
        columns = complex_columns(problem, packing)
        if packing is Packing.PAIR and rows * columns > (elements or SMALL):
            continue  # half the tile does, in twice as many blocks
        is_shared = problem.batch <= device.multiprocessors or not fits(rows * columns, device)
        shares = max(shares_of(problem)) if is_shared else 1
        for radices in itertools.product(_plans(columns, most), _plans(rows // shares, most)):
            yield Guess(packing, *radices, shares, elements, first)


def _plans(points: int, most: int) -> tuple[tuple[int, ...], ...]:
    """A few factorizations with the fewest passes, the most even ones first."""
    found = factorizations(points)
    found = tuple(radices for radices in found if max(radices, default=1) <= LARGEST_RADIX) or found
    return tuple(radices for radices in found if len(radices) == len(found[0]))[:most]
