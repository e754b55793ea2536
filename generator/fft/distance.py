"""Distance between two transforms in octaves of size: how far the winner of one is from fitting the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsmith.generator.distances import FARTHEST, RULE_CHANGED, SIDE_CHANGED, octaves

if TYPE_CHECKING:
    from warpsmith.generator.fft.problem import Fft

POINTS_OCTAVE = 4.0
"""Octaves per factor of 2 in the points of a transform, which then has other radices."""
POINTS_CHANGED = 1.0
"""Octaves that any change of the points adds, however small."""


def between_transforms(one: Fft, other: Fft) -> float | None:
    """`Problem.distance` of two transforms; None past FARTHEST."""
    if len(one.size) != len(other.size):
        return None
    points = sum(octaves(here, there) for here, there in zip(one.size, other.size, strict=True))
    there = sum(octaves(*each) for each in zip(_valid_parts(one), _valid_parts(other), strict=True))
    is_real = one.kind != "c2c", other.kind != "c2c"
    rest = (
        POINTS_CHANGED * (one.size != other.size)
        + POINTS_OCTAVE * points
        + there
        + SIDE_CHANGED * ((one.valid is None) != (other.valid is None))
        + RULE_CHANGED * (one.kind is not other.kind) * (2 if is_real[0] != is_real[1] else 1)
        + SIDE_CHANGED * (one.kind is other.kind and one.inverse != other.inverse)
        + SIDE_CHANGED * (one.norm is not other.norm)
        + RULE_CHANGED * (one.layout is not other.layout)
        + RULE_CHANGED * (one.order is not other.order)
        + SIDE_CHANGED * (one.start != other.start)
        + _between_tilings(one, other)
        + SIDE_CHANGED * (one.border != other.border)
        + SIDE_CHANGED * (one.may_pair != other.may_pair)
        + RULE_CHANGED * (_kind_of_product(one) != _kind_of_product(other))
    )
    return octaves(one.batch, other.batch) + rest if rest <= FARTHEST else None


def _between_tilings(one: Fft, other: Fft) -> float:
    """Octaves between tilings: whole signals against tiles count as another layout, other origins as a small change."""
    if one.tiling is None or other.tiling is None:
        return RULE_CHANGED * (one.tiling is not other.tiling)
    return SIDE_CHANGED * ((one.tiling.alike() != other.tiling.alike()) + 0.5 * (one.tiling != other.tiling))


def _kind_of_product(problem: Fft) -> object:
    """Kind of the product that the transform's loads compute; None without one."""
    return problem.product and problem.product.alike()


def _valid_parts(problem: Fft) -> tuple[float, ...]:
    """Fraction of each axis that the signal fills."""
    return tuple(there / points for there, points in zip(problem.signal_size, problem.size, strict=True))
