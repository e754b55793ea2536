"""Shapes of layers by PyTorch's rules: canonical numbers, sizes of results, transposed convolutions, and checks that
refuse impossible shapes with one line of explanation each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from warpsmith.errors import BadArgument
from warpsmith.generator.canonical import integer
from warpsmith.generator.padding import PaddingMode, Pads, pads_text
from warpsmith.generator.problem import Operand

Pair = tuple[int, int]
"""Rows and columns."""
Sizes = tuple[int, int, int, int]

MAX_SIZE = 2**30
"""Exclusive limit of a size. Kernels count in 32 bits: a row, and what a block of threads reaches beyond it, stay below
2^31.
"""
COUNTED = 2**31
"""Number of elements from which on kernels count in 64 bits."""
MAX_ELEMENTS = 2**36
"""Exclusive limit of an operand's elements: with a thread for each result, there are no more blocks than a grid may
have.
"""
MAX_STEP = 2**15
"""Exclusive limit of stride, padding and dilation, for the same reason."""


def sizes_of(value: Any, name: str, words: str) -> Sizes:
    """Four positive sizes; `words` names them in the error message. Raises BadArgument."""
    try:
        first, second, rows, columns = (integer(n) for n in value)
        if not all(0 < n < MAX_SIZE for n in (first, second, rows, columns)):
            raise ValueError
    except (TypeError, ValueError):
        raise BadArgument(f"{name} must be four positive sizes below 2^30, {words}; got {_described(value)}") from None
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
            f"got {_described(value)}"
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
            f"'same' or 'valid'; got {_described(value)}"
        ) from None
    return above_below, left_right


def output_size(size: int, taps: int, stride: int, pads: Pads, dilation: int) -> int:
    """Rows or columns of the result (torch.nn.Conv2d, "Shape"); less than 1 if the filter does not fit."""
    room = size + sum(pads) - dilation * (taps - 1) - 1
    return room // stride + 1 if room >= 0 else 0


def shapes_of_transposed(
    given: Any, weight: Any, stride: Any, padding: Any, output_padding: Any, dilation: Any, groups: int
) -> tuple[Sizes, tuple[Pads, Pads]]:
    """The shape (N, C, H, W) of the result, and the padding of the layer whose gradient it is.

    A stride leaves rows below the last tap's that no row of the input touches: `output_padding` adds these, as far as
    it is less than the stride. Each whole stride of it takes as many rows off the padding below.

    Args:
        given: shape of the input, (N, C_in, h, w).
        weight: shape of the weights, (C_in, C_out/G, R, S).
        stride, padding, output_padding, dilation, groups: as in torch.nn.functional.conv_transpose2d.

    Raises BadArgument where PyTorch refuses the arguments too, and if the result has rows, or columns, that lie more
    than the padding beyond the reach of every tap.

    Source: torch.nn.ConvTranspose2d, "Shape".
    """
    images, channels, *sizes = sizes_of(given, "input", "N,C_in,H,W")
    filters, own, *taps = sizes_of(weight, "weight", "C_in,C_out/G,R,S")
    if filters != channels:
        raise BadArgument(f"the weight is for {filters} channels; the input has {channels}")
    steps, spread = pair_of(stride, "stride", 1), pair_of(dilation, "dilation", 1)
    more = pair_of(output_padding, "output_padding", 0)
    pads = pads_of(padding, steps, spread, taps)
    (rows, above_below), (columns, left_right) = (
        _transposed_axis(sizes[axis], taps[axis], steps[axis], pads[axis], more[axis], spread[axis]) for axis in (0, 1)
    )
    return (images, own * groups, rows, columns), (above_below, left_right)


def _transposed_axis(size: int, taps: int, stride: int, pads: Pads, more: int, dilation: int) -> tuple[int, Pads]:
    """Rows, or columns, of the result, and the padding before and after it."""
    if more >= max(stride, dilation):
        raise BadArgument(f"output_padding must be less than the stride or the dilation; got {more}")
    before, after = pads
    result = (size - 1) * stride - before - after + dilation * (taps - 1) + more + 1
    if result < 1:
        raise BadArgument(f"a padding of {before} and {after} leaves nothing of the result")
    left = after - more // stride * stride
    if left < 0:
        raise BadArgument(
            f"an output_padding of {more} with stride {stride} and a padding of {after} reaches beyond every tap; "
            "add the rest to the result"
        )
    return result, (before, left)


def check_channels(given: Sizes, weight: Sizes, groups: int) -> None:
    """Raises BadArgument if channels, filters and groups do not fit each other."""
    (_, channels, _, _), (filters, own, _, _) = given, weight
    for what, number in (("channels", channels), ("filters", filters)):
        if number % groups:
            raise BadArgument(f"{number} {what} do not divide into {groups} groups")
    if own * groups != channels:
        raise BadArgument(
            f"the weight is for {own} channels a group; the input has {channels} in {groups} "
            f"group{'s' if groups > 1 else ''}, {channels // groups} each"
        )


def check_padding(mode: PaddingMode, size: Pair, padding: tuple[Pads, Pads]) -> None:
    """Raises BadArgument for more padding than its mode allows, and for padded rows or columns that no int counts."""
    if mode is PaddingMode.ZEROS:
        return
    for what, length, pads in zip(("rows", "columns"), size, padding, strict=True):
        most = mode.most(length)
        if most is not None and max(pads) > most:
            raise BadArgument(
                f"padding_mode {mode} makes at most {most} {what} on each side of an image of {length}; "
                f"got {pads_text(pads)}"
            )
    if max(length + sum(pads) for length, pads in zip(size, padding, strict=True)) >= MAX_SIZE:
        raise BadArgument("the padded x has 2^30 elements or more in a row or a column")


def check_window(taps: Pair, dilation: Pair, padded: Pair) -> None:
    """Raises BadArgument if the filter is larger than the padded image, so that the result has no elements."""
    spans = [(count - 1) * step + 1 for count, step in zip(taps, dilation, strict=True)]
    if any(span > size for span, size in zip(spans, padded, strict=True)):
        span, size = ("x".join(map(str, each)) for each in (spans, padded))
        raise BadArgument(f"the filter spans {span} and is larger than the padded input of {size}")


def check_counts(operands: Iterable[Operand]) -> None:
    """Raises BadArgument if kernels cannot count the weights in 32 bits, or the elements of an operand in a grid."""
    for operand in operands:
        if operand.name in ("w", "dw") and operand.size >= COUNTED:
            raise BadArgument(f"{operand.name} has 2^31 elements or more; split the filters")
        if operand.size >= MAX_ELEMENTS:
            raise BadArgument(f"{operand.name} has 2^36 elements or more; split the batch")


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


def _described(value: Any) -> str:
    is_list = isinstance(value, tuple | list)
    return "x".join(map(str, value)) if is_list and all(isinstance(n, int | float) for n in value) else repr(value)
