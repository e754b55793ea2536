"""Canonical numbers from the arguments of `conv2d`, and the size of its result, by PyTorch's rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from warpsmith.errors import BadArgument
from warpsmith.generator.canonical import integer
from warpsmith.generator.padding import Pads

Pair = tuple[int, int]
"""Rows and columns."""

MAX_SIZE = 2**30
"""Exclusive limit of a size. Kernels count in 32 bits: a row, and what a block of threads reaches beyond it, stay below
2^31.
"""
MAX_STEP = 2**15
"""Exclusive limit of stride, padding and dilation, for the same reason."""


def sizes_of(value: Any, name: str, words: str) -> tuple[int, int, int, int]:
    """Four positive sizes; `words` names them in the error message. Raises BadArgument."""
    try:
        first, second, rows, columns = (integer(n) for n in value)
        if not all(0 < n < MAX_SIZE for n in (first, second, rows, columns)):
            raise ValueError
    except (TypeError, ValueError):
        raise BadArgument(f"{name} must be four positive sizes below 2^30, {words}; got {_told(value)}") from None
    return first, second, rows, columns


def pair_of(value: Any, name: str, least: int) -> Pair:
    """Rows and columns, each at least `least`; a single number is both. Raises BadArgument."""
    try:
        first, second = _numbers(value)
        if not all(least <= n < MAX_STEP for n in (first, second)):
            raise ValueError
    except (TypeError, ValueError):
        raise BadArgument(
            f"{name} must be a number from {least} to {MAX_STEP - 1}, or two of them, rows and columns; "
            f"got {_told(value)}"
        ) from None
    return first, second


def pads_of(value: Any, stride: Pair, dilation: Pair, taps: Iterable[int]) -> tuple[Pads, Pads]:
    """The rows above and below, and the columns left and right, of an argument `padding`. Raises BadArgument."""
    word = value if isinstance(value, str) else None
    if word == "valid":
        return (0, 0), (0, 0)
    if word == "same":
        if stride != (1, 1):
            raise BadArgument("padding same keeps the size of the image, which a stride does not: use numbers")
        totals = [step * (count - 1) for step, count in zip(dilation, taps, strict=True)]
        rows, columns = ((total // 2, total - total // 2) for total in totals)
        return rows, columns
    try:
        above_below, left_right = (_axis_pads(each) for each in _sides(value))
    except (TypeError, ValueError):
        raise BadArgument(
            f"padding must be a number from 0 to {MAX_STEP - 1}, rows and columns, ((above, below), (left, right)), "
            f"'same' or 'valid'; got {_told(value)}"
        ) from None
    return above_below, left_right


def output_size(size: int, taps: int, stride: int, pads: Pads, dilation: int) -> int:
    """Rows or columns of the result (torch.nn.Conv2d, "Shape"); less than 1 if the filter does not fit."""
    room = size + sum(pads) - dilation * (taps - 1) - 1
    return room // stride + 1 if room >= 0 else 0


def _numbers(value: Any) -> Iterator[int]:
    """A single number twice, or each of several numbers."""
    given = tuple(value) if hasattr(value, "__iter__") else (value, value)
    return (integer(n) for n in given)


def _sides(value: Any) -> tuple[Any, ...]:
    return tuple(value) if hasattr(value, "__iter__") and not isinstance(value, str) else (value, value)


def _axis_pads(value: Any) -> Pads:
    before, after = _numbers(value)
    if not all(0 <= n < MAX_STEP for n in (before, after)):
        raise ValueError
    return before, after


def _told(value: Any) -> str:
    is_list = isinstance(value, tuple | list)
    return "x".join(map(str, value)) if is_list and all(isinstance(n, int | float) for n in value) else repr(value)
