"""A transposed convolution as the gradient of a layer's input, with its size by PyTorch's rule."""

from __future__ import annotations

from typing import Any

from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d.layer.shapes import pads_of, pair_of, sizes_of
from warpsmith.generator.padding import Pads

Sizes = tuple[int, int, int, int]


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
        _axis(sizes[axis], taps[axis], steps[axis], pads[axis], more[axis], spread[axis]) for axis in (0, 1)
    )
    return (images, own * groups, rows, columns), (above_below, left_right)


def _axis(size: int, taps: int, stride: int, pads: Pads, more: int, dilation: int) -> tuple[int, Pads]:
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
