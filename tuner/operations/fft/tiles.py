"""Signals that are tiles of planes, taken from them and put back, as the problem defines them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.fft import Fft, Tiling

Index = tuple[Any, ...]


def tiles_of(problem: Fft, planes: NDArray[Any], part: slice) -> NDArray[Any]:
    """What exists of these transforms' signals, (transforms, *valid): zeros where a tile lies outside its plane."""
    assert problem.tiling is not None
    found = np.zeros((part.stop - part.start, *problem.signal_size), planes.dtype)
    for numbers, inside, there in _pieces(problem.tiling, problem.signal_size, part):
        found[(numbers, *inside)] = planes[there]
    return found


def put_tiles(problem: Fft, planes: NDArray[Any], part: slice, signals: NDArray[Any]) -> None:
    """Writes the signals of these transforms, (transforms, *valid), into `planes`, without what lies outside."""
    assert problem.tiling is not None
    for numbers, inside, there in _pieces(problem.tiling, problem.signal_size, part):
        planes[there] = signals[(numbers, *inside)]


def _pieces(tiling: Tiling, valid: tuple[int, ...], part: slice) -> Iterator[tuple[NDArray[Any], Index, Index]]:
    """For each tile of a plane: which of the transforms it is, its part in the plane, and that part there."""
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
