"""Checks that refuse impossible convolution layers, with one line of explanation each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d.layer.shapes import MAX_SIZE
from warpsmith.generator.conv2d.layer.words import Pass, Precision
from warpsmith.generator.padding import PaddingMode, told_pads
from warpsmith.generator.problem import DType

if TYPE_CHECKING:
    from warpsmith.generator.conv2d.layer.problem import Conv2d

DTYPES = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
"""Element types of layers."""
PRECISIONS = {
    DType.FLOAT32: tuple(Precision),
    DType.FLOAT16: (Precision.IEEE, Precision.F16),
    DType.BFLOAT16: (Precision.IEEE, Precision.BF16),
}
"""Precisions per element type. 16-bit data are rounded to their own type, and would lose digits in the other."""
COUNTED = 2**31
"""Number of elements from which on kernels count in 64 bits."""
MAX_ELEMENTS = 2**36
"""Exclusive limit of an operand's elements: with a thread for each result, there are no more blocks than a grid may
have.
"""


def check_layer(layer: Conv2d) -> None:
    """Check that the fields fit each other; each field by itself is valid already. Raises BadArgument."""
    _check_words(layer)
    _check_channels(layer)
    _check_padding(layer)
    _check_sizes(layer)


def _check_words(layer: Conv2d) -> None:
    able = PRECISIONS[layer.dtype]
    if layer.precision not in able:
        choices = ", ".join(able)
        raise BadArgument(f"precision {layer.precision} is not for {layer.dtype} data; choose one of {choices}")
    for name in ("bias", "relu"):
        if getattr(layer, name) and layer.pass_ is Pass.WGRAD:
            raise BadArgument(f"pass wgrad has no {name}: only fprop and dgrad have")


def _check_channels(layer: Conv2d) -> None:
    (_, channels, _, _), (filters, own, _, _) = layer.input, layer.weight
    for what, number in (("channels", channels), ("filters", filters)):
        if number % layer.groups:
            raise BadArgument(f"{number} {what} do not divide into {layer.groups} groups")
    if own * layer.groups != channels:
        raise BadArgument(
            f"the weight is for {own} channels a group; the input has {channels} in {layer.groups} "
            f"group{'s' if layer.groups > 1 else ''}, {channels // layer.groups} each"
        )


def _check_padding(layer: Conv2d) -> None:
    """Check that padding is as large as its mode allows, and that rows and columns of padded images fit an int."""
    if layer.padding_mode is PaddingMode.ZEROS:
        return
    for what, size, pads in zip(("rows", "columns"), layer.input[2:], layer.padding, strict=True):
        most = layer.padding_mode.most(size)
        if most is not None and max(pads) > most:
            raise BadArgument(
                f"padding_mode {layer.padding_mode} makes at most {most} {what} on each side of an image of {size}; "
                f"got {told_pads(pads)}"
            )
    if max(layer.padded_size) >= MAX_SIZE:
        raise BadArgument("the padded x has 2^30 elements or more in a row or a column")


def _check_sizes(layer: Conv2d) -> None:
    """Check that a result has elements, and that kernels can count the weights in int."""
    if min(layer.output_size) < 1:
        padded = "x".join(map(str, layer.padded_size))
        spans = zip(layer.weight[2:], layer.dilation, strict=True)
        taps = "x".join(str((taps - 1) * dilation + 1) for taps, dilation in spans)
        raise BadArgument(f"the filter spans {taps} and is larger than the padded input of {padded}")
    for operand in layer.operands:
        if operand.name in ("w", "dw") and operand.size >= COUNTED:
            raise BadArgument(f"{operand.name} has 2^31 elements or more; split the filters")
        if operand.size >= MAX_ELEMENTS:
            raise BadArgument(f"{operand.name} has 2^36 elements or more; split the batch")
