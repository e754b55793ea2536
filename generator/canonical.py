"""Canonical form of problems' arguments, so that equal problems have equal keys."""

from __future__ import annotations

import hashlib
import math
import operator
import struct
from numbers import Complex, Real
from typing import Any

from warpsmith.errors import BadArgument
from warpsmith.generator.problem import DType


def integer(value: Any) -> int:
    """`value` as an int; NumPy's integers too. Raises TypeError for anything else.

    A boolean is refused, though Python takes True for 1: a JSON `true` in the place of a size is a mistake.
    """
    if isinstance(value, bool):
        raise TypeError("a boolean is no number")
    return int(operator.index(value))


def flag(value: Any, name: str) -> bool:
    """True or False from a boolean of Python or NumPy, 0 or 1. Raises BadArgument for anything else.

    The text "no", for example, is refused, because Python takes it for True.
    """
    try:
        if value == 0 or value == 1:
            return bool(value)
    except (TypeError, ValueError, RuntimeError):  # raised by arrays
        pass
    raise BadArgument(f"{name} must be True or False; got {value!r}")


def as_float32(value: float, name: str) -> float:
    """`value` rounded to float32 and without a sign on zero, so that equal problems have equal keys."""
    try:
        # A boolean is a JSON `true`, as for `integer`. NumPy would drop an imaginary part with a warning.
        if isinstance(value, bool) or (isinstance(value, Complex) and not isinstance(value, Real)):
            raise TypeError
        rounded: float = struct.unpack("<f", struct.pack("<f", float(value)))[0]
    except OverflowError:  # past the largest float32
        rounded = math.inf
    except (TypeError, ValueError, RuntimeError):  # PyTorch raises the last one for a complex number
        raise BadArgument(f"{name} must be numeric; got {value!r}") from None
    if not math.isfinite(rounded):
        raise BadArgument(f"{name} must be finite as float32; got {value}")
    return rounded + 0.0


def extent(value: Any, name: str) -> tuple[int, int]:
    """Rows and columns. Raises BadArgument unless both are 1 to 2^30 - 1."""
    try:
        rows, columns = (integer(n) for n in value)
        # From 2^30 on, a column and the width of a thread could overflow the kernels' int.
        if not (0 < rows < 2**30 and 0 < columns < 2**30):
            raise ValueError
    except (TypeError, ValueError):
        got = "x".join(map(str, value)) if isinstance(value, tuple | list) else repr(value)
        raise BadArgument(f"{name} must be two positive sizes below 2^30, ROWSxCOLUMNS; got {got}") from None
    return rows, columns


def sizes(value: Any, name: str) -> tuple[int, ...]:
    """One or two sizes below 2^15; a single number is one size. Raises BadArgument for anything else."""
    try:
        given = tuple(value) if hasattr(value, "__iter__") else (value,)
        found = tuple(integer(n) for n in given)
        if not (1 <= len(found) <= 2 and all(0 < n < 2**15 for n in found)):
            raise ValueError
    except (TypeError, ValueError):
        got = "x".join(map(str, value)) if isinstance(value, tuple | list) else repr(value)
        raise BadArgument(
            f"{name} must be one or two positive sizes below 32768, N or ROWSxCOLUMNS; got {got}"
        ) from None
    return found


def count(value: Any, name: str, most: int | None = None, least: int = 1) -> int:
    """Integer from `least` to `most`; NumPy's integers too. Raises BadArgument for anything else."""
    try:
        number = integer(value)
        if number < least or (most is not None and number > most):
            raise ValueError
    except (TypeError, ValueError):
        raise BadArgument(f"{name} must be {least} {f'to {most}' if most else 'or more'}; got {value!r}") from None
    return number


def row_pitch(pitch: Any, elements: int, dtype: DType, name: str, most: int = 2**31 - 1) -> int | None:
    """Canonical row pitch in bytes; None if rows of `elements` elements have no gaps. Raises BadArgument.

    A row with its gap may have `most` elements: by default as many as the kernels' int counts.
    """
    if pitch is None:
        return None
    dense, step = elements * dtype.itemsize, dtype.itemsize
    try:
        nbytes = integer(pitch)
        if not dense <= nbytes <= most * step or nbytes % step:
            raise ValueError
    except (TypeError, ValueError):
        raise BadArgument(f"{name} must be {dense} bytes or more, in steps of {step}; got {pitch!r}") from None
    return None if nbytes == dense else nbytes


def flattened(values: Any) -> tuple[list[Any], tuple[int, ...]]:
    """Numbers of a flat list, of rows, or of filters of rows, in order, and the shape; the shape is () if ragged."""
    if isinstance(values, str | bytes):  # a letter is a string of letters
        return [values], ()
    if isinstance(values, list | tuple) and set(map(type, values)) <= {int, float}:  # as canonical weights are
        return list(values), (len(values),)
    try:
        inner = [flattened(value) for value in list(values)]
    except TypeError:  # a number, or an array without dimensions: it has __iter__ and cannot iterate
        return [values], ()
    shapes = {shape for _, shape in inner}
    shape = (len(inner), *shapes.pop()) if len(shapes) == 1 else ()
    return [value for flat, _ in inner for value in flat], shape


def digest(weights: tuple[float, ...]) -> str:
    """Sixteen hexadecimal digits of a hash of these values."""
    return hashlib.sha256(struct.pack(f"<{len(weights)}f", *weights)).hexdigest()[:16]
