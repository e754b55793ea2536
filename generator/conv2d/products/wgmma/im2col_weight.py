"""The weight side of `conv2d_warpgroup_im2col` (wgrad): geometry, search space, default config and program."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import ClassVar, Self

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import LayerSide
from warpsmith.generator.conv2d.layer.text import Conv2dText
from warpsmith.generator.conv2d.products.split16.split16_model import L2_SHARE, Sustained, TimedConfig
from warpsmith.generator.conv2d.products.split16.split16_programs import MAIN, PARTS, multiplying, summing
from warpsmith.generator.conv2d.products.wgmma import wgmma_weight
from warpsmith.generator.conv2d.products.wgmma.clusters import CLUSTER_BLOCKS, adding_ns, clusters_at_once
from warpsmith.generator.conv2d.products.wgmma.im2col_window import (
    CHANNELS,
    LINE_BYTES,
    NAME,
    STARTS,
    Window,
    WindowTapSet,
    lines_of,
    moved_ns,
    pixels_of,
    tensor_map_of,
    why_no_map,
    window_lattice,
    window_tap_sets,
)
from warpsmith.generator.conv2d.products.wgmma.wgmma_tiles import BARRIER_BYTES, GROUP_CHANNELS, why_no_least
from warpsmith.generator.conv2d.products.wgmma.wgmma_weight import (
    LEAST_WEIGHT,
    WgmmaWeightGeometry,
    weight_choices,
)
from warpsmith.generator.device import Device
from warpsmith.generator.program import Pointer, Program, TensorMap, Unit, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space
from warpsmith.generator.steps import aligned

COLUMNS = (64, 96, 128, 192, 256)
"""A copy loads 64 channels, so tiles of 96 load more than they read."""
STAGES = (2, 3, 4, 6, 8)
COPY_BYTES_PER_CYCLE = 100
"""Bytes that a multiprocessor's copy engine brings."""
SUM_BEGIN_NS = 650
"""Nanoseconds of a second launch that adds up parts, and begins before the first has ended."""
SHARED_LINES = 0.157
"""How much more L2 serves with each doubling of a tap's tiles: blocks that read the same lines at once are served
together. Blocks of other taps read lines next to them: 9 or 25 taps of one tile each got 8 TB/s, 32 tiles 11 to 14.
"""
WEIGHTS = Sustained(
    tensor_share=1.03,
    step_cycles=19,
    l2_share=34.5 / 28 * L2_SHARE,
    tile_cycles=0,
    latency_cycles=1560,
    begin_ns=2700,
    memory=0.444,
)
"""Fitted, with the constants above, to 223 times of 24 passes (H200, 2026-11-30): 16% off in the root mean square, and
its choice takes 1.016 times as long as the best of a pass in the mean, 1.15 at most.
"""
LEAST = Config.of({**LEAST_WEIGHT, "columns": CHANNELS})
"""The config that takes least memory."""


@dataclasses.dataclass(frozen=True)
class Im2colWeightGeometry(WgmmaWeightGeometry):
    """One config of wgrad."""

    first_row: int = 0
    first_column: int = 0
    """Row and column of x that the first position of an image reads with the topmost and leftmost taps."""

    name: ClassVar[str] = NAME
    maps: ClassVar[bool] = True
    sustained: ClassVar[Sustained] = WEIGHTS
    cluster_blocks: ClassVar[int] = CLUSTER_BLOCKS
    """Most blocks of a cluster; 1 if parts are always added by another launch."""

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> Self:
        on_line = super().of(problem, config)
        lattice = window_lattice(on_line.lattice, on_line.taps > 1)
        window = Window.of(list(window_tap_sets(lattice, on_line.taps)))
        length = -(-lattice.positions // on_line.tile_k) * on_line.tile_k
        return dataclasses.replace(
            on_line,
            lattice=lattice,
            tap_sets=window.reads,
            dy=dataclasses.replace(on_line.dy, length=length),
            run=pixels_of(on_line.tile_k + max(each.shifts[-1] for each in window.reads)),
            first_row=window.row,
            first_column=window.column,
        )

    @property
    def tensor_maps(self) -> tuple[TensorMap, TensorMap]:
        """Tensor maps of x and dy."""
        x = tensor_map_of(self.x, self.lattice, (self.first_row, self.first_column), self.run)
        return x, tensor_map_of(self.dy, self.lattice, (0, 0), self.tile_k)

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
        return LINE_BYTES * (self.channel_groups * self.run + lines_of(self.columns) // CHANNELS * self.tile_k)

    @property
    def stores_results(self) -> bool:
        return self.splits == 1 or self.adds_in_cluster

    @property
    def adds_in_cluster(self) -> bool:
        return self.is_cluster(self.splits)

    def is_cluster(self, splits: int) -> bool:
        """Whether the blocks of so many parts of a sum are a cluster."""
        return 1 < splits <= self.cluster_blocks

    @property
    def sum_pitch(self) -> int:
        """Floats from column to column of a warpgroup's sums in shared memory: four more than rows."""
        return GROUP_CHANNELS + 4

    @property
    def shared_bytes(self) -> int:
        sums = 4 * self.sum_pitch * self.columns * self.warpgroups
        stages = max(self.stages * self.stage_bytes, sums if self.adds_in_cluster else 0)
        return stages + 2 * BARRIER_BYTES * self.stages

    def l2_bytes(self, splits: int, device: Device) -> float:
        """Fewer blocks than multiprocessors have all of the L2 rate, and blocks of the same tap more of it."""
        served = 1 + SHARED_LINES * math.log2(self.tiles / len(self.tap_sets))
        return self.stage_bytes * min(1.0, self.tiles * splits / device.multiprocessors) / served

    def rounds(self, splits: int, device: Device) -> int:
        if not self.is_cluster(splits):
            return super().rounds(splits, device)
        return -(-self.tiles // clusters_at_once(splits, device))

    def summing_ns(self, splits: int, device: Device) -> float:
        if splits == 1:
            return 0.0
        if not self.is_cluster(splits):
            return SUM_BEGIN_NS + super().summing_ns(splits, device)
        return adding_ns(4 * GROUP_CHANNELS * self.columns * self.warpgroups, splits, device)

    @property
    def workspace_bytes(self) -> int:
        return 0 if self.stores_results else aligned(self.sum_bytes)


def weight_space(problem: Conv2d, device: Device, kind: type[Im2colWeightGeometry]) -> Space:
    usual, across = wgmma_weight.weight_space(problem, device, kind, CHANNELS), problem.weight[3]
    own = {
        "columns": Parameter("columns", COLUMNS, "channels of dy, a warpgroup"),
        "stages": Parameter("stages", STAGES, "of shared memory"),
    }
    in_a_row = Constraint(f"a row of the filter has {across} taps", lambda taps: taps <= across)
    parameters = (own.get(each.name, each) for each in usual.parameters)
    return Space(tuple(parameters), (*usual.constraints, in_a_row))


@functools.lru_cache(maxsize=256)
def _choices(problem: Conv2d, device: Device, kind: type[Im2colWeightGeometry]) -> tuple[TimedConfig, ...]:
    """Configs as the model ranks them. Ranking takes 30 to 60 ms and serves `default`, `starts` and `expected_ns`."""
    space = weight_space(problem, device, kind)
    return tuple(weight_choices(problem, device, space, kind, LEAST, STAGES[::-1]))


class Im2colWeights(LayerSide):
    """wgrad."""

    def __init__(self, kind: type[Im2colWeightGeometry] = Im2colWeightGeometry) -> None:
        self.kind = kind

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        space, least = self.space(problem, device), LEAST
        return why_no_least(problem, space, least) or self.kind.of(problem, least).why_not

    def space(self, problem: Conv2d, device: Device) -> Space:
        return weight_space(problem, device, self.kind)

    def default(self, problem: Conv2d, device: Device) -> Config:
        return _choices(problem, device, self.kind)[0].config

    def starts(self, problem: Conv2d, device: Device) -> tuple[Config, ...]:
        return tuple(each.config for each in _choices(problem, device, self.kind)[1 : 1 + STARTS])

    def expected_ns(self, problem: Conv2d, device: Device) -> float:
        rounds_ns, moving_ns = _choices(problem, device, self.kind)[0].ns, moved_ns(problem, device)
        return rounds_ns + WEIGHTS.begin_ns + WEIGHTS.memory * moving_ns

    def program(self, problem: Conv2d, config: Config) -> Program:
        geometry = self.kind.of(problem, config)
        text = render("conv2d/warpgroup_weight.cu.jinja", p=Conv2dText.of(problem), g=geometry, config=config.key())
        main = Unit(MAIN, text)
        if geometry.stores_results:
            return Program(
                NAME, config, (main,), (multiplying(NAME, geometry, (*geometry.tensor_maps, Pointer("dw"))),)
            )
        multiply = multiplying(NAME, geometry, (*geometry.tensor_maps, Pointer(PARTS)))
        total, add = summing(NAME, problem, geometry)
        return Program(NAME, config, (main, total), (multiply, add), (Workspace(PARTS, geometry.sum_bytes),))
