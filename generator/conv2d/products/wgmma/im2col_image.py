"""The image side of `conv2d_warpgroup_im2col` (fprop, dgrad): geometry, search space, default and program."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator
from typing import ClassVar, Self

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import LayerSide
from warpsmith.generator.conv2d.layer.text import Conv2dText
from warpsmith.generator.conv2d.products.split16.split16_image_tiles import Reach
from warpsmith.generator.conv2d.products.split16.split16_model import L2_SHARE, Sustained, TimedConfig
from warpsmith.generator.conv2d.products.split16.split16_operand import CHUNK
from warpsmith.generator.conv2d.products.split16.split16_programs import MAIN, multiplying
from warpsmith.generator.conv2d.products.wgmma import wgmma_image
from warpsmith.generator.conv2d.products.wgmma.clusters import (
    CLUSTER_BLOCKS,
    CLUSTERS,
    SURE,
    adding_ns,
    clusters_at_once,
)
from warpsmith.generator.conv2d.products.wgmma.im2col_window import (
    CHANNELS,
    LINE_BYTES,
    NAME,
    PRODUCT_CHANNELS,
    STARTS,
    Sharing,
    Window,
    WindowStep,
    lines_of,
    moved_ns,
    pixels_of,
    tensor_map_of,
    why_no_map,
    window_lattice,
    window_steps,
)
from warpsmith.generator.conv2d.products.wgmma.wgmma_image import (
    WgmmaImageGeometry,
    image_choices,
    image_parameters,
    stages_fit,
    tile_constraints,
)
from warpsmith.generator.conv2d.products.wgmma.wgmma_tiles import (
    BARRIER_BYTES,
    OTHER_REGISTERS,
    REGISTERS,
    why_no_least,
)
from warpsmith.generator.device import Device
from warpsmith.generator.program import Pointer, Program, TensorMap, Unit
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

COLUMNS = (16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 192, 256)
"""Between powers of two lie tiles that have no column beyond the result, or with which all tiles take one turn less:
24x1024x14x14 to 512 has 25 x 5 tiles of 192 x 112 for 132 multiprocessors, but 37 x 4 of 128 x 128. Where weights are
contiguous along channels of the result (dgrad), a copy loads 64 of these, and no tile is smaller.
"""
PIXEL_STAGES, FILTER_STAGES = (2, 3, 4, 6, 8), (2, 3, 4, 6, 8)
FEW = ((4, 4), (4, 3), (3, 4), (3, 3), (3, 2), (2, 4), (2, 3), (2, 2))
PREFERRED = {Sharing.ROW: ((4, 8), (4, 6), *FEW), Sharing.NONE: ((8, 8), (6, 6), (6, 4), *FEW)}
"""Pairs of pixel stages and weight stages, in order of preference, by what taps share. With eight stages for four,
layers of 7x7 to 14x14 pixels take 6% to 16% less time; others take equal times (H200).
"""
IMAGES = Sustained(
    tensor_share=1.15,
    step_cycles=68,
    l2_share=68 / 28 * L2_SHARE,
    tile_cycles=0,
    column_cycles=3.7,
    latency_cycles=950,
    begin_ns=1750,
    memory=0.6,
)
"""Fitted to 179 times of 40 passes (H200, 2026-11-30): 16% off in the root mean square, and its choice takes 1.005
times as long as the best of a pass in the mean, 1.11 at most; 1.010 and 1.08 of 43 other passes in another run. The
tensor cores' share is that of a lower clock than these kernels have, `CLOCK_SHARE`.
"""

QUAD = 4
"""Adjacent channels that a thread adds and stores for a cluster: 16 bytes of float32 sums."""
PAIR_CYCLES, LEAST_PAIRS = 45.0, 16
"""Clock cycles to store a column of 64 results two channels at a time, and channels of the result up to which a pixel's
lie in a sector (24x24x56x56 to 58 channels took 18.9 us, and 7.2 were expected; 64 to 2 as expected).
"""


@dataclasses.dataclass(frozen=True)
class Im2colImageGeometry(WgmmaImageGeometry):
    """One config of fprop or dgrad."""

    first_row: int = 0
    first_column: int = 0
    """Source row and column that the first position of an image reads with the topmost and leftmost taps."""

    name: ClassVar[str] = NAME
    maps: ClassVar[bool] = True
    sustained: ClassVar[Sustained] = IMAGES
    stage_channels: ClassVar[int] = CHANNELS
    """Channels of a stage: 128 bytes of a pixel."""
    operand_registers: ClassVar[int] = 0
    """Registers of a consumer thread for pixels."""

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
            run=pixels_of(on_line.tile_m + max((step.shift for step in window.reads), default=0)),
            first_row=window.row,
            first_column=window.column,
        )

    @classmethod
    def least_columns(cls, problem: Conv2d) -> int:
        """Columns of the smallest tile: those of one copy of weights that are contiguous along them."""
        return CHANNELS if problem.pass_.is_transposed else COLUMNS[0]

    @property
    def splits(self) -> int:
        return self.most_blocks if self.most_blocks in CLUSTERS else 1

    @property
    def blocks(self) -> int:
        return super().blocks if self.splits == 1 else self.tiles * self.splits

    def rounds(self, device: Device) -> int:
        return super().rounds(device) if self.splits == 1 else -(-self.tiles // clusters_at_once(self.splits, device))

    def adding_ns(self, device: Device) -> float:
        return 0.0 if self.splits == 1 else adding_ns(self.sum_bytes, self.splits, device)

    def divided(self, device: Device) -> Iterator[Self]:
        yield self
        most = most_splits(self.filters.blocks, self.results)
        for splits in CLUSTERS:
            if splits <= most and self.tiles <= SURE * clusters_at_once(splits, device):
                divided = dataclasses.replace(self, most_blocks=splits)
                if divided.shared_bytes <= device.shared_per_block_bytes:
                    yield divided

    @property
    def sum_pitch(self) -> int:
        """Floats from pixel to pixel of a tile's sums in shared memory: eight more than channels."""
        return self.columns + 8

    @property
    def sum_bytes(self) -> int:
        """Bytes of a tile's sums in shared memory."""
        return 4 * self.tile_m * self.sum_pitch

    @property
    def transposes_filters(self) -> bool:
        """Whether weights are contiguous along channels of the result (N), not along the summed channels (K)."""
        return self.filters.is_transposed

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
                pixels=CHANNELS if self.transposes_filters else self.columns,
            ),
        )

    @property
    def column_cycles(self) -> float:
        return PAIR_CYCLES if self.results % CHUNK and self.results > LEAST_PAIRS else super().column_cycles

    @property
    def why_not(self) -> str | None:
        """Why tensor maps cannot describe the operands, as for `why_no_map`."""
        images, weights = self.tensor_maps
        taps = [each for each in self.steps if isinstance(each, WindowStep)]
        return why_no_map(images, taps) or why_no_map(weights, ())

    @property
    def product_columns(self) -> float:
        # 16 channels by n columns: (64 + n) x 32 bytes of shared memory, 128 a cycle, and n / 2 cycles of products.
        return max(self.columns, 32 + self.columns / 2)

    @property
    def copy_cycles(self) -> float:
        return 0.0  # the share of L2 in IMAGES is the copies'

    @property
    def filter_lines(self) -> int:
        """Lines of 128 bytes per stage of weights."""
        return lines_of(self.columns) if self.transposes_filters else self.columns

    @property
    def filter_reads(self) -> float:
        if not self.transposes_filters:
            return self.filter_lines
        # A copy of 64 channels that does not begin at a line of L2 reads from two.
        apart = sum(tile * self.columns % CHANNELS != 0 for tile in range(self.tiles_across))
        return self.filter_lines * (1 + apart / self.tiles_across)

    @property
    def pixel_bytes(self) -> int:
        """Bytes per stage of pixels."""
        return LINE_BYTES * self.run

    @property
    def workspace_bytes(self) -> int:
        return 0

    @property
    def positions_are_results(self) -> bool:
        axes = (self.lattice.rows, self.lattice.columns)
        return len(self.lattice.phases) == 1 and all(axis.pitch == axis.results for axis in axes)

    @property
    def shared_bytes(self) -> int:
        filters = self.filter_stages * LINE_BYTES * self.filter_lines
        barriers = 2 * BARRIER_BYTES * (self.pixel_stages + self.filter_stages)
        stages = self.pixel_stages * self.pixel_bytes + filters
        return max(stages, self.sum_bytes if self.splits > 1 else 0) + barriers


def most_splits(channel_blocks: int, results: int) -> int:
    """Most blocks of a cluster: each sums over some of the blocks of 64 channels, and stores QUAD results at once."""
    return channel_blocks if results % QUAD == 0 else 1


def least_image(problem: Conv2d, kind: type[Im2colImageGeometry]) -> Config:
    """The config that takes least memory."""
    values = {name: value for name, value in wgmma_image.least_image(problem).values().items() if name != "reach"}
    own: dict[str, Value] = {"pixel_stages": PIXEL_STAGES[0], "sharing": Sharing.NONE.value}
    tile: dict[str, Value] = {"channels": kind.stage_channels, "columns": kind.least_columns(problem)}
    return Config.of({**values, **own, **tile})


def image_space(problem: Conv2d, device: Device, kind: type[Im2colImageGeometry]) -> Space:
    parameters = (_parameters(problem, device, kind).get(each.name, each) for each in image_parameters(device))
    tiles = tile_constraints(problem, device, kind.least_columns(problem))
    return Space(tuple(parameters), (*tiles, *_constraints(problem, device, kind)))


def _parameters(problem: Conv2d, device: Device, kind: type[Im2colImageGeometry]) -> dict[str, Parameter]:
    """Parameters by the names of those that they replace."""
    columns = tuple(each for each in COLUMNS if each >= kind.least_columns(problem))
    sharing = tuple(each.value for each in Sharing)
    return {
        "columns": Parameter("columns", columns, "channels of the result, a warpgroup"),
        "channels": Parameter("channels", (kind.stage_channels,), "that a stage sums over: 128 bytes of a pixel"),
        "reach": Parameter("sharing", sharing, "which taps read the same stage of pixels"),
        "pixel_stages": Parameter("pixel_stages", PIXEL_STAGES, "stages of shared memory for pixels"),
        "filter_stages": Parameter("filter_stages", FILTER_STAGES, "stages of shared memory for weights"),
        "blocks": Parameter(
            "blocks",
            (0, *CLUSTERS, device.multiprocessors),
            f"that take tiles in turns; 0: one a tile; to {CLUSTER_BLOCKS}: a cluster of so many a tile",
        ),
    }


def _constraints(problem: Conv2d, device: Device, kind: type[Im2colImageGeometry]) -> Iterator[Constraint]:
    least = least_image(problem, kind).values()
    channel_blocks = -(-problem.summed_channels // kind.stage_channels)
    most = most_splits(channel_blocks, problem.result_channels)

    @functools.cache
    def tile(warpgroups: int, columns: int, sharing: str) -> Im2colImageGeometry:
        sizes: dict[str, Value] = {"warpgroups": warpgroups, "columns": columns, "sharing": sharing}
        return kind.of(problem, Config.of({**least, **sizes}))

    def fits(warpgroups: int, columns: int, sharing: str, pixel_stages: int, filter_stages: int, blocks: int) -> bool:
        own = dataclasses.replace(tile(warpgroups, columns, sharing), most_blocks=blocks)
        return stages_fit(own, pixel_stages, filter_stages, device)

    yield Constraint(
        "taps share pixels where a row of the filter has several",
        lambda sharing: sharing == Sharing.NONE or problem.weight[3] > 1,
    )
    yield Constraint(
        f"blocks of a cluster sum over some of {channel_blocks} times {kind.stage_channels} channels and store {QUAD} "
        "at once",
        lambda blocks: blocks not in CLUSTERS or blocks <= most,
    )
    yield Constraint(f"a block has at most {device.shared_per_block_bytes} bytes of shared memory", fits)
    if needed := kind.operand_registers:
        yield Constraint(
            f"a thread has registers for its sums, {needed} for pixels and {OTHER_REGISTERS} more",
            lambda warpgroups, columns: columns // 2 + needed + OTHER_REGISTERS <= REGISTERS[warpgroups],
        )


@functools.lru_cache(maxsize=256)
def _choices(problem: Conv2d, device: Device, kind: type[Im2colImageGeometry]) -> tuple[TimedConfig, ...]:
    """Configs as the model ranks them. Ranking takes 30 to 60 ms and serves `default`, `starts` and `expected_ns`."""
    choices = [({"sharing": each.value, "channels": kind.stage_channels}, PREFERRED[each]) for each in Sharing]
    least = least_image(problem, kind)
    return tuple(image_choices(problem, device, image_space(problem, device, kind), choices, kind, least))


class Im2colImages(LayerSide):
    """fprop and dgrad."""

    def __init__(self, kind: type[Im2colImageGeometry] = Im2colImageGeometry) -> None:
        self.kind = kind

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        space, least = self.space(problem, device), least_image(problem, self.kind)
        return why_no_least(problem, space, least) or self.kind.of(problem, least).why_not

    def space(self, problem: Conv2d, device: Device) -> Space:
        return image_space(problem, device, self.kind)

    def default(self, problem: Conv2d, device: Device) -> Config:
        return _choices(problem, device, self.kind)[0].config

    def starts(self, problem: Conv2d, device: Device) -> tuple[Config, ...]:
        return tuple(each.config for each in _choices(problem, device, self.kind)[1 : 1 + STARTS])

    def expected_ns(self, problem: Conv2d, device: Device) -> float:
        """Nanoseconds of the default's begin, and of its rounds of tiles and bytes from memory, which overlap."""
        rounds_ns, moving_ns = _choices(problem, device, self.kind)[0].ns, moved_ns(problem, device)
        sustained = self.kind.sustained
        return sustained.begin_ns + max(rounds_ns, moving_ns) + sustained.memory * min(rounds_ns, moving_ns)

    def program(self, problem: Conv2d, config: Config) -> Program:
        geometry = self.kind.of(problem, config)
        text = render("conv2d/warpgroup_image.cu.jinja", p=Conv2dText.of(problem), g=geometry, config=config.key())
        bias = (Pointer("b"),) if problem.bias else ()
        multiply = multiplying(NAME, geometry, (*geometry.tensor_maps, *bias, Pointer(problem.output.name)))
        return Program(NAME, config, (Unit(MAIN, text),), (multiply,), ())
