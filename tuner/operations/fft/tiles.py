"""Signals that are tiles of planes: reading them from planes and writing them back, as the problem defines it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.fft import Fft, Tiling

Index = tuple[Any, ...]


def tiles_of(problem: Fft, planes: NDArray[Any], part: slice) -> NDArray[Any]:
    """Signals of these transforms, (transforms, *valid), with zeros where a tile lies outside its plane."""
    assert problem.tiling is not None
    found = np.zeros((part.stop - part.start, *problem.signal_size), planes.dtype)
    for numbers, inside, there in _pieces(problem.tiling, problem.signal_size, part):
        found[(numbers, *inside)] = planes[there]
    return found


def put_tiles(problem: Fft, planes: NDArray[Any], part: slice, signals: NDArray[Any]) -> None:
    """Writes the signals of these transforms, (transforms, *valid), into `planes`, without the parts outside."""
    assert problem.tiling is not None
    for numbers, inside, there in _pieces(problem.tiling, problem.signal_size, part):
        planes[there] = signals[(numbers, *inside)]


def _pieces(tiling: Tiling, valid: tuple[int, ...], part: slice) -> Iterator[tuple[NDArray[Any], Index, Index]]:
    """Yields, for each tile of a plane, the transforms that use it, the tile's inside part, and that part's place in
    the planes.
    """
    numbers = np.arange(part.start, part.stop)
    tile = numbers // tiling.inner % tiling.tiles
    plane = numbers // (tiling.inner * tiling.tiles) * tiling.inner + numbers % tiling.inner
    for which, at in enumerate(np.ndindex(*tiling.count)):
        mine = np.flatnonzero(tile == which)
        begin = [n * step + origin for n, step, origin in zip(at, tiling.step, tiling.origin, strict=True)]
        first = [max(0, -b) for b in begin]
        end = [min(points, whole - b) for b, points, whole in zip(begin, valid, tiling.plane, strict=True)]
        if not len(mine) or any(e <= f for f, e in zip(first, end, strict=True)):
            continue
        inside = tuple(slice(f, e) for f, e in zip(first, end, strict=True))
        there = tuple(slice(b + f, b + e) for b, f, e in zip(begin, first, end, strict=True))
        yield mine, inside, (plane[mine], *there)
