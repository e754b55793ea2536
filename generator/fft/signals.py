"""Signals of a transform: the part that exists and its first point, borders around it, and tiles of larger planes.

Source: Vasilache et al. 2014, "Fast Convolutional Nets With fbfft", section 6 (a large convolution as several small
ones).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from math import ceil, prod
from typing import Any

from warpsmith.errors import BadArgument
from warpsmith.generator.canonical import count, integer, sizes
from warpsmith.generator.padding import PaddingMode, Pads, pads_text
from warpsmith.generator.problem import member


def dimensions(size: tuple[int, ...]) -> str:
    """Sizes as text: `32x32`."""
    return "x".join(map(str, size))


def valid_of(value: Any, size: tuple[int, ...]) -> tuple[int, ...] | None:
    """The part of a signal that exists; None for all of it. Raises BadArgument for no part of `size`."""
    if value is None:
        return None
    valid = sizes(value, "valid")
    if len(valid) != len(size) or any(part > whole for part, whole in zip(valid, size, strict=True)):
        raise BadArgument(f"valid must be a part of {dimensions(size)}; got {dimensions(valid)}")
    return None if valid == size else valid


def start_of(value: Any, size: tuple[int, ...]) -> tuple[int, ...] | None:
    """A point of a transform of this size; None for the first one. Raises BadArgument for anything else."""
    if value is None:
        return None
    try:
        given = value if hasattr(value, "__iter__") else (value,)
        start = tuple(integer(n) for n in given)
    except TypeError:
        raise BadArgument(f"start must be a point of {dimensions(size)}; got {value!r}") from None
    if len(start) != len(size) or not all(0 <= at < points for at, points in zip(start, size, strict=True)):
        raise BadArgument(f"start must be a point of {dimensions(size)}; got {dimensions(start)}")
    return start if any(start) else None


def last_axes(shape: Sequence[int], points: tuple[int, ...] | None, axes: Sequence[int] | int | None) -> int:
    """Number of transformed axes, 1 or 2. Raises BadArgument if `axes` are not the last ones."""
    if axes is None:
        axes = range(-len(points or (1,)), 0)
    wanted = (axes,) if isinstance(axes, int) else tuple(axes)
    from_end = [axis - len(shape) if axis >= 0 else axis for axis in wanted]
    if not 1 <= len(wanted) <= min(2, len(shape)) or from_end != list(range(-len(wanted), 0)):
        raise BadArgument(
            f"axes must be the last one or two of the array's {len(shape)} dimensions, in order; got "
            f"{', '.join(map(str, wanted))}: move them there first, as numpy.moveaxis does"
        )
    if points is not None and len(points) != len(wanted):
        raise BadArgument(f"s has {len(points)} numbers for {len(wanted)} axes")
    return len(wanted)


REPEATING = tuple(mode for mode in PaddingMode if mode is not PaddingMode.ZEROS)
"""Modes that a border may have; zeros need no border."""
_MAX_PADS = 2**15


@dataclasses.dataclass(frozen=True, slots=True)
class Border:
    """Elements of a signal that a forward transform reads once more, before and behind it along each axis.

    Args:
        mode: which elements; `zeros` is refused. `reflect` has PyTorch's meaning, that of `mirror`.
        pads: numbers of elements before and after the signal along each axis, rows first.

    Raises:
        BadArgument: pads that are no such numbers or are all 0, or an unknown mode.
    """

    mode: PaddingMode
    pads: tuple[Pads, ...]

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # the documented way to canonicalise a frozen dataclass
        set_field(self, "mode", member(PaddingMode, self.mode, "border", REPEATING))
        try:
            pads = tuple((before, after) for before, after in self.pads)
        except (TypeError, ValueError):
            raise BadArgument(f"pads of a border must be (before, after) for each axis; got {self.pads!r}") from None
        set_field(self, "pads", tuple((_pad(before), _pad(after)) for before, after in pads))
        if not any(map(sum, self.pads)):
            raise BadArgument("a border without elements is none")

    @classmethod
    def of(cls, value: Any) -> Border | None:
        """Border from a Border, a spec's mapping, or text such as `mirror:2+1x3`; None for None. Raises BadArgument."""
        if value is None or isinstance(value, cls):
            return value
        if isinstance(value, Mapping) and value.keys() == {"mode", "pads"}:
            return cls(**value)
        if match := re.fullmatch(r"\s*([\w-]+):([\d+x]+)\s*", str(value)):
            sides = [side.split("+") for side in match[2].split("x")]
            if all(1 <= len(side) <= 2 and all(side) for side in sides):
                pads = tuple((int(side[0]), int(side[-1])) for side in sides)
                return cls(member(PaddingMode, match[1], "border", REPEATING), pads)
        raise BadArgument(f"border must be MODE:PADS, such as mirror:1 or mirror:2+1x3; got {value!r}")

    def __str__(self) -> str:
        return f"{self.mode}:{'x'.join(map(pads_text, self.pads))}"

    def spec(self) -> dict[str, Any]:
        """JSON values of the fields."""
        return {"mode": str(self.mode), "pads": [list(pads) for pads in self.pads]}

    def around(self, signal: tuple[int, ...]) -> tuple[int, ...]:
        """Size of a signal with its border."""
        return tuple(there + sum(pads) for there, pads in zip(signal, self.pads, strict=True))

    def check(self, signal: tuple[int, ...], size: tuple[int, ...], *, inverse: bool) -> None:
        """Raises BadArgument if the border does not fit `signal`, or both together exceed `size` points."""
        if inverse:
            raise BadArgument("an inverse transform has no border")
        if len(self.pads) != len(size):
            raise BadArgument(f"border {self} is for {len(self.pads)} axes; the transform has {len(size)}")
        for there, pads, points in zip(signal, self.pads, size, strict=True):
            most = self.mode.most(there)
            if most is not None and max(pads) > most:
                raise BadArgument(
                    f"border {self.mode} has at most {most} on each side of {there}; got {pads_text(pads)}"
                )
            if there + sum(pads) > points:
                raise BadArgument(f"the signal and its border are {there + sum(pads)} points, of {points}")


def _pad(value: Any) -> int:
    return count(value, "pads of a border", most=_MAX_PADS - 1, least=0)


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
        fields = (f"{name}={value}" for name, value in parts.items() if value is not None)
        return " ".join([dimensions(self.count), *fields])

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
