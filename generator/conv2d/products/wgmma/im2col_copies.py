"""What both sides of `conv2d_warpgroup_im2col` share: copies of pixels by TMA in im2col mode, and their limits.

No launch lays images out before the GEMM. One producer thread issues copies of 64 channels of all pixels of a stage,
described by a tensor map of the images (`TensorMap`). A copy fills in zeros where a tap reads outside the images, and
swizzles the pixels as wgmma reads them. Weights are loaded the same way, as images of filters whose pixels are taps, so
that fprop and dgrad are one launch.

Source: PTX manual, cp.async.bulk.tensor, im2col mode; matrix descriptors of wgmma, swizzle of 128 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.products.split16.split16_lattice import Lattice
from warpsmith.generator.conv2d.products.split16.split16_model import MEMORY_SHARE, Sustained
from warpsmith.generator.conv2d.products.split16.split16_operand import Images
from warpsmith.generator.conv2d.products.wgmma.wgmma_window import (
    Read,
)
from warpsmith.generator.device import Device
from warpsmith.generator.program import TensorMap

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
COPY_BYTES_PER_CYCLE = 52
"""Bytes that a multiprocessor's copy engine brings. This and the shares below are fitted to 86 times of images and 64
of weights, of 45 passes of layers by configs of short searches (H200): 5.3% and 1.9% off in the mean."""
COLUMNS = (64, 96, 128, 192, 256)
"""Columns per tile where weights are contiguous along result channels. A copy loads 64 channels, so tiles of 96 load
more than they read.
"""
STARTS = 4
"""Start configs of a search: the model's next choices after the default, because the model is 5% off in the mean."""


def tensor_map_of(images: Images, lattice: Lattice, first: tuple[int, int], pixels: int) -> TensorMap:
    """Tensor map of x, or dy, whose positions are those of the lattice."""
    sizes = images.rows.sources, images.columns.sources
    return TensorMap(
        images.operand.name,
        images.operand.dtype,
        shape=(images.images, *sizes, images.groups * images.channels),
        first=first,
        extent=(lattice.rows.pitch, lattice.columns.pitch),
        step=(images.rows.multiple, images.columns.multiple),
        channels=CHANNELS,
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


def program_ns(rounds_ns: float, problem: Conv2d, sustained: Sustained, device: Device) -> float:
    """Nanoseconds of a program: its rounds of tiles, its begin, and the operands' bytes from memory."""
    nbytes = sum(operand.nbytes for operand in problem.operands)
    reading_ns = sustained.memory * nbytes / (MEMORY_SHARE * device.rates.memory_bytes_per_ns)
    return rounds_ns + sustained.begin_ns + reading_ns
