"""Choices of "Optimizing a CNN in CUDA" as values of parameters, and limits that its kernels share."""

from __future__ import annotations

import enum

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import why_not_usual_data, why_not_usual_end
from warpsmith.generator.device import Device
from warpsmith.generator.padding import PaddingMode
from warpsmith.generator.space import Constraint, Parameter, words

MAX_GRID = 65535
"""Most blocks of a grid along y or z."""
MAX_UNROLLED_TAPS = 1024
"""Most multiply-adds that a text unrolls."""
MAX_SUMS = 64
"""Most sums that a thread keeps in registers: with 128 of them, 3x3 taps and a window, ptxas leaves two blocks of 256
threads per SM."""
ROWS = (1, 2, 4, 8, 16)
"""Rows of a plane that a thread computes, one below the other."""


class Bounds(enum.StrEnum):
    """Way in which taps beside the image read zeros."""

    CHECKED = "checked"
    """Each load compares its row and column with the image's size."""
    PADDED = "padded"
    """A launch before copies the image into a larger one with zeros around it."""


class Kept(enum.StrEnum):
    """Values that a thread of fprop or dgrad keeps in registers."""

    SUMS = "sums"
    WEIGHTS = "weights"
    """Sums, and the weights of one channel."""
    WINDOW = "window"
    """Sums, weights, and the pixels under the taps, of which each row of results loads one row anew."""


class Batch(enum.StrEnum):
    """Place of the loop over the images of the batch."""

    OUTER = "outer"
    INNER = "inner"
    """Inside the loop over channels: weights are loaded once for all images, each of which has sums of its own."""


class Mask(enum.StrEnum):
    """Place where a gradient is set to zero wherever a ReLU's result is zero."""

    FUSED = "fused"
    """Each tap reads the ReLU's result beside the gradient."""
    APART = "apart"
    """A launch before masks the gradient, and pads it too if the bounds are `padded`."""


class Sums(enum.StrEnum):
    """Order in which a gradient of weights goes through the taps."""

    TAP = "tap"
    """One tap after the other: a sum over the images and its reduction."""
    REGISTERS = "registers"
    """All taps at once, each with a sum in a register; all reductions follow."""


class Reduction(enum.StrEnum):
    """Way in which a block adds up the sums of its threads."""

    SHARED = "shared"
    """Half of the threads add the sums of the other half, in shared memory, until one is left."""
    SHUFFLE = "shuffle"
    """The same until 32 sums are left, which a warp adds up by shuffles."""
    TWO_LEVELS = "two_levels"
    """Each warp adds up by shuffles, then one warp the sums of all warps."""


class LastStep(enum.StrEnum):
    """Type of the sums that shuffles add up."""

    FLOAT = "float"
    DOUBLE = "double"


def block_parameters() -> tuple[Parameter, ...]:
    """Parameters of a block's shape and of a thread's share, which all kernels have."""
    return (
        Parameter("bounds", words(Bounds), "zeros beside the image: each load checks its place, or a padded copy"),
        Parameter("rows", ROWS, "rows of results of a thread, one below the other"),
        Parameter("across", (16, 32, 64), "threads of a block along a row"),
        Parameter("down", (1, 2, 4, 8, 16), "threads of a block along a column"),
        Parameter("min_blocks", (0, 1, 2, 4, 8), "blocks per SM that the compiler leaves registers for; 0: its choice"),
    )


def block_constraints(device: Device) -> tuple[Constraint, ...]:
    """Constraints on the shape of a block."""
    return (
        Constraint(
            "a block has whole warps, and 1,024 threads at the most",
            lambda across, down: across * down % 32 == 0 and across * down <= 1024,
        ),
        Constraint(
            f"an SM has {device.threads_per_multiprocessor} threads at the most",
            lambda across, down, min_blocks: across * down * max(min_blocks, 1) <= device.threads_per_multiprocessor,
        ),
    )


def why_not_a_ladders_layer(layer: Conv2d) -> str | None:
    """The reason why no kernel of the document computes a layer, in one line; None if one does."""
    if (reason := why_not_usual_data(layer) or why_not_usual_end(layer)) is not None:
        return reason
    if layer.stride != (1, 1) or layer.dilation != (1, 1) or layer.groups > 1:
        return "solves layers of stride 1, dilation 1 and one group only"
    if layer.padding_mode is not PaddingMode.ZEROS:
        return f"pads with zeros only, and not by {layer.padding_mode}"
    rows, columns = layer.weight[2:]
    if (taps := rows * columns) > MAX_UNROLLED_TAPS:
        return f"unrolls all taps of a filter, {MAX_UNROLLED_TAPS} of them at the most; this one has {taps}"
    if max(layer.input[2], layer.output_size[0]) > MAX_GRID:
        return f"has a row of blocks for each row of results, {MAX_GRID} of them at the most"
    blocks = layer.pass_.select(layer.weight[0], layer.input[1], layer.weight[0] * layer.input[1])
    if blocks > MAX_GRID:
        return f"has a layer of blocks for each plane of results, or weight of a tap, {MAX_GRID} of them at the most"
    return None
