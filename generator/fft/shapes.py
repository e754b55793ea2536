"""Canonical form of the arguments of `fft` that name axes and points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpsmith.errors import BadArgument
from warpsmith.generator.canonical import integer, sizes


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
