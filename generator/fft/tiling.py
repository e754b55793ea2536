"""Tiles of planes: a batch of transforms whose signals are overlapping or adjacent tiles of larger planes.

Source: Vasilache et al. 2014, "Fast Convolutional Nets With fbfft", section 6 (a large convolution as several small
ones).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from math import ceil, prod
from typing import Any

from warpsmith.errors import BadArgument
from warpsmith.generator.canonical import count, integer
from warpsmith.generator.fft.shapes import dimensions

MOST = 2**31 - 1
"""Most tiles of a batch, elements of a plane, and points up to a tile's farthest end: kernels count them in int."""


@dataclasses.dataclass(frozen=True, slots=True)
class Tiling:
    """Assignment of each transform of a batch to a tile of a plane.

    The batch is (outer, tile, inner), the slowest first: `inner` planes share a tile's number. If the spectrum lies
    frequency by frequency, each of its matrices has a row for every tile of every outer index and a column for every
    inner index. The planes are (outer * inner, *plane), those with the same outer index side by side; tiles are
    numbered row by row.

    Point i of tile t is point t * step + origin + i of its plane, along each axis. A forward transform reads points
    outside the plane as zeros; an inverse one does not store them.
    """

    count: tuple[int, ...]
    """Tiles of a plane along each axis."""
    step: tuple[int, ...]
    """Points from one tile to the next."""
    origin: tuple[int, ...]
    """The point of a plane at which its first tile begins; negative before the plane."""
    plane: tuple[int, ...]
    """Points of a plane."""
    inner: int = 1
    """Planes that share a tile's number."""

    @property
    def tiles(self) -> int:
        """Tiles of a plane."""
        return prod(self.count)

    def planes(self, batch: int) -> int:
        """Planes of a batch of `batch` tiles."""
        return batch // self.tiles

    def place(self, transform: int) -> tuple[int, tuple[int, ...]]:
        """The plane of a transform, and the point of the plane at which its tile begins."""
        rest, inside = divmod(transform, self.inner)
        outer, tile = divmod(rest, self.tiles)
        at = []
        for many, step, origin in zip(self.count[::-1], self.step[::-1], self.origin[::-1], strict=True):
            tile, number = divmod(tile, many)
            at.append(number * step + origin)
        return outer * self.inner + inside, tuple(at[::-1])

    def reach(self, axis: int, points: int) -> tuple[int, int]:
        """First point of a plane that tiles of `points` points touch along an axis, and the one behind the last."""
        first = self.origin[axis]
        return first, first + (self.count[axis] - 1) * self.step[axis] + points

    def alike(self) -> Tiling:
        """The same tiling of one small plane: it keeps the steps and origins and drops the counts."""
        return dataclasses.replace(self, count=(1,) * len(self.count), plane=self.step, inner=1)

    def words(self) -> str:
        """Text in a problem's key: `6x6 step=22x22 origin=-5x-5 plane=118x118 inner=3`."""
        parts = {
            "step": dimensions(self.step),
            "origin": dimensions(self.origin) if any(self.origin) else None,
            "plane": dimensions(self.plane),
            "inner": self.inner if self.inner > 1 else None,
        }
        told = (f"{name}={value}" for name, value in parts.items() if value is not None)
        return " ".join([dimensions(self.count), *told])

    def spec(self) -> dict[str, Any]:
        """JSON values of the fields."""
        return {name: list(getattr(self, name)) for name in _AXES} | {"inner": self.inner}


_AXES = ("count", "step", "origin", "plane")


def tiling_of(value: Any, valid: tuple[int, ...], batch: int, *, is_inverse: bool) -> Tiling | None:
    """Canonical tiling from a Tiling or a spec's mapping; None for None.

    Args:
        value: a Tiling, or its fields by name.
        valid: points of a transform that are read or written, along each axis.
        batch: the number of transforms.
        is_inverse: whether the results are tiles; then exactly one tile must store each number of a plane.

    Raises:
        BadArgument: `value` is no tiling, or does not fit the batch or the result's planes.
    """
    if value is None:
        return None
    fields = value.spec() if isinstance(value, Tiling) else value
    if not isinstance(fields, Mapping) or not {*_AXES} <= {*fields} <= {*_AXES, "inner"}:
        raise BadArgument(f"tiling must have {', '.join(_AXES)} and inner; got {value!r}")
    least = {name: None if name == "origin" else 1 for name in _AXES}
    axes = {name: _numbers(fields[name], f"tiling's {name}", len(valid), least[name]) for name in _AXES}
    tiling = Tiling(**axes, inner=count(fields.get("inner", 1), "tiling's inner"))
    _check(tiling, valid, batch)
    if is_inverse:
        _check_result(tiling, valid)
    return tiling


def _numbers(value: Any, name: str, axes: int, least: int | None) -> tuple[int, ...]:
    try:
        found = tuple(integer(n) for n in value)
    except TypeError:
        raise BadArgument(f"{name} must be a number for each axis; got {value!r}") from None
    if len(found) != axes or (least is not None and min(found) < least):
        raise BadArgument(
            f"{name} must be {axes} numbers{'' if least is None else ' above 0'}; got {dimensions(found)}"
        )
    return found


def _check(tiling: Tiling, valid: tuple[int, ...], batch: int) -> None:
    """Raises BadArgument unless the batch is whole planes and kernels can count the tiles and points."""
    together = tiling.tiles * tiling.inner
    if batch % together:
        raise BadArgument(
            f"a batch of {batch} has no whole planes: {tiling.inner} planes of {dimensions(tiling.count)} tiles are "
            f"{together} transforms"
        )
    reaches = (abs(at) for axis, points in enumerate(valid) for at in tiling.reach(axis, points))
    if max(batch, prod(tiling.plane), *reaches) > MOST:
        raise BadArgument("tiling has 2^31 tiles or more, or planes of as many points")


def _check_result(tiling: Tiling, valid: tuple[int, ...]) -> None:
    """Raises BadArgument unless exactly one tile stores each point of a plane."""
    if tiling.step != valid or any(tiling.origin):
        raise BadArgument(
            f"tiles of a result lie side by side from the first point on, {dimensions(valid)} apart; got step "
            f"{dimensions(tiling.step)}, origin {dimensions(tiling.origin)}"
        )
    needed = tuple(ceil(points / step) for points, step in zip(tiling.plane, tiling.step, strict=True))
    if tiling.count != needed:
        raise BadArgument(
            f"planes of {dimensions(tiling.plane)} have {dimensions(needed)} tiles of {dimensions(tiling.step)}; got "
            f"{dimensions(tiling.count)}"
        )
