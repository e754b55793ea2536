"""Windows of pixels that TMA loads in im2col mode from the operand's own layout, and which taps share them.

No launch lays images out before the GEMM. One producer thread issues copies of 64 channels of all pixels of a stage,
described by a tensor map of the images (`TensorMap`). A copy fills in zeros where a tap reads outside the images, and
swizzles the pixels as wgmma reads them. Weights are loaded the same way, as images of filters whose pixels are taps, so
that fprop and dgrad are one launch.

There are no padding positions between images, and none between rows if each tap has its own pixels. A stage of pixels
belongs to one row of a filter or to one tap. It is identified by the source row and column that its first position
reads.

Source: PTX manual, cp.async.bulk.tensor, im2col mode; matrix descriptors of wgmma, swizzle of 128 bytes.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
from collections.abc import Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.products.split16.split16_image_tiles import Step
from warpsmith.generator.conv2d.products.split16.split16_lattice import Lattice, LineTap
from warpsmith.generator.conv2d.products.split16.split16_model import MEMORY_SHARE
from warpsmith.generator.conv2d.products.split16.split16_operand import Images
from warpsmith.generator.conv2d.products.split16.split16_weight_tiles import TapSet
from warpsmith.generator.device import Device
from warpsmith.generator.program import TensorMap


class Sharing(enum.StrEnum):
    """The taps of a filter that read the same stage of pixels."""

    ROW = "row"
    """Taps of a row share a stage, each one position further on; zero positions lie between rows."""
    NONE = "none"
    """Each tap has its own pixels, and each position is a result."""


@dataclasses.dataclass(frozen=True, slots=True)
class WindowStep(Step):
    """One tap of fprop or dgrad."""

    row: int
    """Source row that the first row of the result reads; negative above the image. In a `Window`, counted from its
    corner.
    """
    column: int
    """Source column of the first pixel in each row of the stage."""


@dataclasses.dataclass(frozen=True, slots=True)
class WindowTapSet(TapSet):
    """Taps of one filter row whose sums a block of wgrad computes side by side."""

    row: int
    """Row of x that the first row of dy reads; negative above the image. In a `Window`, counted from its corner."""
    column: int
    """Column of x that the first column of dy reads with the first of these taps."""


Read = TypeVar("Read", WindowStep, WindowTapSet)


class Window(NamedTuple, Generic[Read]):
    """The window over images that a layer reads, and the reads within it."""

    row: int
    """Source row that the first position of an image reads with the topmost tap."""
    column: int
    reads: tuple[Read, ...]
    """Reads whose rows and columns count from the window's corner."""

    @classmethod
    def of(cls, reads: Sequence[Read]) -> Window[Read]:
        """The window of taps, or tap sets, whose rows and columns are those of the source."""
        row = min((each.row for each in reads), default=0)
        column = min((each.column for each in reads), default=0)
        inside = (dataclasses.replace(each, row=each.row - row, column=each.column - column) for each in reads)
        return cls(row, column, tuple(inside))


def window_lattice(on_line: Lattice, shares: bool) -> Lattice:
    """A lattice without padding rows between images, and without padding between rows if no taps share pixels."""
    rows, columns = on_line.rows, on_line.columns
    rows = dataclasses.replace(rows, pitch=rows.steps)
    columns = columns if shares else dataclasses.replace(columns, pitch=columns.steps)
    return dataclasses.replace(on_line, lines=(rows, columns))


def window_steps(lattice: Lattice, sharing: Sharing) -> list[list[WindowStep]]:
    """The taps of each phase of fprop or dgrad, one filter row after the other."""
    return [list(_steps(lattice, *phase, sharing)) for phase in _phases(lattice)]


def window_tap_sets(lattice: Lattice, size: int) -> Iterator[WindowTapSet]:
    """Tap sets of wgrad, each with at most `size` taps of one row and one plane. Missing taps repeat the last one and
    store nothing.
    """
    ((down, across),) = _phases(lattice)
    for row, plane in itertools.product(down, list(_by_plane(across))):
        for begin in range(0, len(plane), size):
            taps = plane[begin : begin + size]
            shifts = [tap.shift - taps[0].shift for tap in taps]
            missing = size - len(taps)
            yield WindowTapSet(
                shifts=(*shifts, *[shifts[-1]] * missing),
                weights=(*(row.weight * lattice.filter_columns + tap.weight for tap in taps), *[-1] * missing),
                row=lattice.rows.source(row),
                column=lattice.columns.source(taps[0]),
            )


def _phases(lattice: Lattice) -> Iterator[tuple[tuple[LineTap, ...], tuple[LineTap, ...]]]:
    """Filter rows and filter columns that the results of each phase read."""
    return itertools.product(lattice.rows.phases, lattice.columns.phases)


def _by_plane(across: tuple[LineTap, ...]) -> Iterator[list[LineTap]]:
    """Filter columns grouped by plane; within a plane, a shift leads from one to the next."""
    in_order = sorted(across, key=lambda tap: (tap.plane, tap.shift))
    return (list(taps) for _, taps in itertools.groupby(in_order, key=lambda tap: tap.plane))


def _steps(
    lattice: Lattice, down: tuple[LineTap, ...], across: tuple[LineTap, ...], sharing: Sharing
) -> Iterator[WindowStep]:
    """The steps of one phase."""
    stages = list(_by_plane(across)) if sharing is Sharing.ROW else [[tap] for tap in across]
    for row, stage in itertools.product(down, stages):
        first, last = stage[0], stage[-1]
        for tap in stage:
            yield WindowStep(
                shift=tap.shift - first.shift,
                weight=row.weight * lattice.filter_columns + tap.weight,
                begins=tap is first,
                ends=tap is last,
                row=lattice.rows.source(row),
                column=lattice.columns.source(first),
            )


NAME = "conv2d_warpgroup_im2col"
CHANNELS = 64
"""Channels per copy: 128 bytes of a pixel, the widest swizzle."""
LINE_BYTES = 2 * CHANNELS
PRODUCT_CHANNELS = 16
"""Channels that one wgmma instruction sums over (K)."""
SWIZZLED_PIXELS = 8
"""Pixels that the 128-byte swizzle permutes together; stages begin at multiples."""
LEAST_CORNER, MOST_CORNER, MOST_OFFSET, MOST_STEP = -128, 127, 255, 8
"""Limits of cuTensorMapEncodeIm2col, rank 4: corners of the window over images, a copy's offset in the window, and the
step from pixel to pixel.
"""
STARTS = 4
"""Start configs of a search: the model's next choices after the default, because the model is 5% off in the mean."""


def tensor_map_of(
    images: Images, lattice: Lattice, first: tuple[int, int], pixels: int, channels: int = CHANNELS
) -> TensorMap:
    """Tensor map of x, or dy, whose positions are those of the lattice."""
    sizes = images.rows.sources, images.columns.sources
    return TensorMap(
        images.operand.name,
        images.operand.dtype,
        shape=(images.images, *sizes, images.groups * images.channels),
        first=first,
        extent=(lattice.rows.pitch, lattice.columns.pitch),
        step=(images.rows.multiple, images.columns.multiple),
        channels=channels,
        pixels=pixels,
    )


def why_no_map(tensor_map: TensorMap, reads: Sequence[Read]) -> str | None:
    """Why a tensor map cannot describe these images, in one line; None if it can."""
    if any(not LEAST_CORNER <= each <= MOST_CORNER for corner in tensor_map.corners for each in corner):
        return f"its window of pixels begins or ends more than {MOST_CORNER} pixels from the images' edges"
    if max((max(each.row, each.column) for each in reads), default=0) > MOST_OFFSET:
        return f"its taps lie more than {MOST_OFFSET} pixels apart"
    if max(tensor_map.step) > MOST_STEP:
        return f"its pixels lie more than {MOST_STEP} apart"
    return None


def lines_of(channels: int) -> int:
    """Channels rounded up to whole copies."""
    return -(-channels // CHANNELS) * CHANNELS


def pixels_of(taps: int) -> int:
    """Pixels that a stage's taps read, rounded up to whole swizzle groups."""
    return -(-taps // SWIZZLED_PIXELS) * SWIZZLED_PIXELS


def moved_ns(problem: Conv2d, device: Device) -> float:
    """Nanoseconds to move the operands' bytes between memory and the GPU."""
    nbytes = sum(operand.nbytes for operand in problem.operands)
    return nbytes / (MEMORY_SHARE * device.rates.memory_bytes_per_ns)
