"""Choice of the results to check: corners, edges, borders of tiles, and random ones."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.problem import Operand

_MOST_CORNERS = 64
_MOST_GROUPS = 8
"""Largest number of result groups to check, if each group has its own scale."""
_AT_START, _AT_END, _AT_TILES = 0.1, 0.2, 0.6
"""Cumulative shares of coordinates at the start of an axis, at its end, and beside a border of tiles."""
_LARGEST_TILE = 9
"""Exclusive upper bound of the binary logarithm of tile sizes whose borders are checked."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Positions of sampled results."""

    index: NDArray[np.int64]
    """Index of each in C order."""
    offset: NDArray[np.int64]
    """Bytes from the first result."""
    group: NDArray[np.int64]
    """Group number of each."""


def samples_of(output: Operand, count: int, groups: int, seed: int) -> Samples:
    """Chooses results that show most faults.

    Args:
        output: the result operand.
        count: number of samples; there may be more if there are more corners.
        groups: number of equal groups along the first axis.
        seed: seed of the random ones.
    """
    generator = np.random.default_rng(seed)
    shape = output.shape
    corners = list(itertools.islice(itertools.product(*(sorted({0, extent - 1}) for extent in shape)), _MOST_CORNERS))
    structured = max(0, count - len(corners)) * 2 // 3
    uniform = max(0, count - len(corners) - structured)
    axes = [
        np.concatenate(
            [
                np.array([corner[axis] for corner in corners], np.int64),
                _structured(extent, structured, generator),
                generator.integers(0, extent, uniform),
            ]
        )
        for axis, extent in enumerate(shape)
    ]
    group = np.zeros(len(axes[0]), np.int64)
    if groups > 1:
        each = shape[0] // groups
        chosen = np.unique([0, groups - 1, *generator.integers(0, groups, _MOST_GROUPS - 2)])
        group = chosen[np.arange(len(group)) % len(chosen)]
        axes[0] = group * each + axes[0] % each
    offset = np.zeros(len(group), np.int64)
    for places, stride in zip(axes, output.strides, strict=True):
        offset += places * stride
    return Samples(np.ravel_multi_index(tuple(axes), shape).astype(np.int64), offset, group)


def _structured(extent: int, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Coordinates along an axis: its ends, and both sides of multiples of powers of two."""
    kind, tile = generator.random(count), 2 ** generator.integers(2, _LARGEST_TILE, count)
    border = generator.integers(0, extent // tile + 1) * tile - generator.integers(0, 2, count)
    found = generator.integers(0, extent, count)
    found = np.where(kind < _AT_TILES, np.clip(border, 0, extent - 1), found)
    found = np.where(kind < _AT_END, extent - 1, found)
    return np.asarray(np.where(kind < _AT_START, 0, found), np.int64)
