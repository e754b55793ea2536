"""Layers of 16-bit channels-last operands that TMA loads in im2col mode from the operands' own layout.

No launch lays images out before the GEMM. One producer thread issues copies of 64 channels of all pixels of a stage,
described by a tensor map of the images (`TensorMap`). A copy fills in zeros where a tap reads outside the images, and
swizzles the pixels as wgmma reads them. Weights are loaded the same way, as images of filters whose pixels are taps, so
that fprop and dgrad are one launch.

Source: PTX manual, cp.async.bulk.tensor, im2col mode; matrix descriptors of wgmma, swizzle of 128 bytes.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import ClassVar, Self

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.text import Conv2dText
from warpsmith.generator.conv2d.layer.words import Pass
from warpsmith.generator.conv2d.products.split16.split16_image_tiles import Reach
from warpsmith.generator.conv2d.products.split16.split16_lattice import Lattice
from warpsmith.generator.conv2d.products.split16.split16_model import L2_SHARE, Sustained
from warpsmith.generator.conv2d.products.split16.split16_operand import Images
from warpsmith.generator.conv2d.products.split16.split16_programs import MAIN, PARTS, multiplying, summing
from warpsmith.generator.conv2d.products.wgmma.wgmma_image_geometry import BARRIER_BYTES, ImageGeometry
from warpsmith.generator.conv2d.products.wgmma.wgmma_weight_geometry import WeightGeometry
from warpsmith.generator.conv2d.products.wgmma.wgmma_window import (
    Read,
    Sharing,
    Window,
    WindowStep,
    WindowTapSet,
    window_lattice,
    window_steps,
    window_tap_sets,
)
from warpsmith.generator.program import Pointer, Program, TensorMap, Unit, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config
from warpsmith.generator.steps import aligned

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
_IMAGE_L2_SHARE, _WEIGHT_L2_SHARE = 46 / 28 * L2_SHARE, 47 / 28 * L2_SHARE
IMAGES = Sustained(
    tensor_share=2036 / 2048,
    step_cycles=19,
    l2_share=_IMAGE_L2_SHARE,
    tile_cycles=1385,
    latency_cycles=700,
    begin_ns=5900,
    memory=0.82,
)
WEIGHTS = Sustained(
    tensor_share=2184 / 2048,
    step_cycles=27,
    l2_share=_WEIGHT_L2_SHARE,
    tile_cycles=2334,
    latency_cycles=700,
    begin_ns=5700,
    memory=0.23,
)
"""More than the tensor cores do: the clock is that of long layers (`CLOCK_SHARE`), and short ones run faster. Six
configs with two stages, which the fit leaves out, took twice as long as with more."""


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


def why_no_map(told: TensorMap, reads: Sequence[Read]) -> str | None:
    """Why a tensor map cannot describe these images, in one line; None if it can."""
    if any(not LEAST_CORNER <= each <= MOST_CORNER for corner in told.corners for each in corner):
        return f"its window of pixels begins or ends more than {MOST_CORNER} pixels from the images' edges"
    if max((max(each.row, each.column) for each in reads), default=0) > MOST_OFFSET:
        return f"its taps lie more than {MOST_OFFSET} pixels apart"
    if max(told.step) > MOST_STEP:
        return f"its pixels lie more than {MOST_STEP} apart"
    return None


def lines_of(channels: int) -> int:
    """Channels rounded up to whole copies."""
    return -(-channels // CHANNELS) * CHANNELS


def pixels_of(taps: int) -> int:
    """Pixels that a stage's taps read, rounded up to whole swizzle groups."""
    return -(-taps // SWIZZLED_PIXELS) * SWIZZLED_PIXELS


@dataclasses.dataclass(frozen=True)
class Im2colGeometry(ImageGeometry):
    """One config of fprop or dgrad."""

    first_row: int = 0
    first_column: int = 0
    """Source row and column that the first position of an image reads with the topmost and leftmost taps."""

    name: ClassVar[str] = NAME
    maps: ClassVar[bool] = True
    sustained: ClassVar[Sustained] = IMAGES

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> Self:
        sharing = Sharing(config.text("sharing"))
        on_line = super().of(problem, Config.of({**config.values(), "reach": Reach.ROW.value}))
        lattice = window_lattice(on_line.lattice, sharing is Sharing.ROW)
        phases = window_steps(lattice, sharing)
        window = Window.of(list(itertools.chain.from_iterable(phases)))
        return dataclasses.replace(
            on_line,
            lattice=lattice,
            steps=window.reads,
            first_taps=(0, *itertools.accumulate(map(len, phases))),
            run=pixels_of(on_line.positions + max((step.shift for step in window.reads), default=0)),
            first_row=window.row,
            first_column=window.column,
        )

    @property
    def turns_filters(self) -> bool:
        """Whether weights are contiguous along channels of the result (N), not along the summed channels (K)."""
        return self.filters.is_turned

    @property
    def last_steps(self) -> int:
        """wgmma steps of 16 channels in the last block of channels, which may have fewer channels than a stage."""
        return -(-(self.filters.summed - (self.filters.blocks - 1) * CHANNELS) // PRODUCT_CHANNELS)

    @property
    def filled(self) -> float:
        steps, blocks = CHANNELS // PRODUCT_CHANNELS, self.filters.blocks
        return ((blocks - 1) * steps + self.last_steps) / (blocks * steps)

    @property
    def ends_early(self) -> bool:
        """Whether the last block of channels has fewer wgmma steps than the others."""
        return self.last_steps * PRODUCT_CHANNELS < CHANNELS

    @property
    def tensor_maps(self) -> tuple[TensorMap, TensorMap]:
        """Tensor maps of the source images and of the weights: images of filters with a pixel for each tap."""
        weights = self.filters.operand
        filters, channels, rows, columns = weights.shape
        return (
            tensor_map_of(self.images, self.lattice, (self.first_row, self.first_column), self.run),
            TensorMap(
                weights.name,
                weights.dtype,
                shape=(filters, rows, columns, channels),
                first=(0, 0),
                extent=(1, 1),
                step=(1, 1),
                channels=CHANNELS,
                pixels=CHANNELS if self.turns_filters else self.columns,
            ),
        )

    @property
    def why_not(self) -> str | None:
        """Why tensor maps cannot describe the operands, as for `why_no_map`."""
        images, weights = self.tensor_maps
        taps = [each for each in self.steps if isinstance(each, WindowStep)]
        return why_no_map(images, taps) or why_no_map(weights, ())

    @property
    def copy_cycles(self) -> float:
        return LINE_BYTES * self.run / COPY_BYTES_PER_CYCLE

    @property
    def filter_lines(self) -> int:
        """Lines of 128 bytes per stage of weights."""
        return lines_of(self.columns) if self.turns_filters else self.columns

    @property
    def pixel_bytes(self) -> int:
        """Bytes per stage of pixels."""
        return LINE_BYTES * self.run

    @property
    def workspace_bytes(self) -> int:
        return 0

    @property
    def shared_bytes(self) -> int:
        filters = self.filter_stages * LINE_BYTES * self.filter_lines
        barriers = 2 * BARRIER_BYTES * (self.pixel_stages + self.filter_stages)
        return self.pixel_stages * self.pixel_bytes + filters + barriers


@dataclasses.dataclass(frozen=True)
class Im2colWeights(WeightGeometry):
    """One config of wgrad."""

    first_row: int = 0
    first_column: int = 0
    """Row and column of x that the first position of an image reads with the topmost and leftmost taps."""

    name: ClassVar[str] = NAME
    maps: ClassVar[bool] = True
    sustained: ClassVar[Sustained] = WEIGHTS

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> Self:
        on_line = super().of(problem, config)
        lattice = window_lattice(on_line.lattice, on_line.taps > 1)
        window = Window.of(list(window_tap_sets(lattice, on_line.taps)))
        length = -(-lattice.positions // on_line.terms) * on_line.terms
        return dataclasses.replace(
            on_line,
            lattice=lattice,
            tap_sets=window.reads,
            dy=dataclasses.replace(on_line.dy, length=length),
            run=pixels_of(on_line.terms + max(each.shifts[-1] for each in window.reads)),
            first_row=window.row,
            first_column=window.column,
        )

    @property
    def tensor_maps(self) -> tuple[TensorMap, TensorMap]:
        """Tensor maps of x and dy."""
        x = tensor_map_of(self.x, self.lattice, (self.first_row, self.first_column), self.run)
        return x, tensor_map_of(self.dy, self.lattice, (0, 0), self.terms)

    @property
    def why_not(self) -> str | None:
        """Why tensor maps cannot describe the operands, as for `why_no_map`."""
        x, dy = self.tensor_maps
        taps = [each for each in self.tap_sets if isinstance(each, WindowTapSet)]
        return why_no_map(x, taps) or why_no_map(dy, taps)

    @property
    def copy_cycles(self) -> float:
        return self.stage_bytes / COPY_BYTES_PER_CYCLE

    @property
    def stage_bytes(self) -> int:
        return LINE_BYTES * (self.channel_groups * self.run + lines_of(self.columns) // CHANNELS * self.terms)

    @property
    def workspace_bytes(self) -> int:
        return aligned(self.sum_bytes)


def im2col_program(problem: Conv2d, config: Config) -> Program:
    """The program of any pass."""
    return (_weight_program if problem.pass_ is Pass.WGRAD else _image_program)(problem, config)


def _weight_program(problem: Conv2d, config: Config) -> Program:
    geometry = Im2colWeights.of(problem, config)
    text = render("conv2d/warpgroup_weight.cu.jinja", p=Conv2dText.of(problem), g=geometry, config=config.key())
    multiply = multiplying(NAME, geometry, (*geometry.tensor_maps, Pointer(PARTS)))
    total, add = summing(NAME, problem, geometry)
    return Program(NAME, config, (Unit(MAIN, text), total), (multiply, add), (Workspace(PARTS, geometry.sum_bytes),))


def _image_program(problem: Conv2d, config: Config) -> Program:
    geometry = Im2colGeometry.of(problem, config)
    text = render("conv2d/warpgroup_image.cu.jinja", p=Conv2dText.of(problem), g=geometry, config=config.key())
    bias = (Pointer("b"),) if problem.bias else ()
    multiply = multiplying(NAME, geometry, (*geometry.tensor_maps, *bias, Pointer(problem.output.name)))
    return Program(NAME, config, (Unit(MAIN, text),), (multiply,), ())
