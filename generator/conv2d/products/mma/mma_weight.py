"""The weight side of `conv2d_mma` (wgrad): geometry, search space, model, default config and program."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.products.mma.mma_tiles import (
    LEAST,
    MOST_WARPS,
    NAME,
    ROWS,
    TILE,
    MmaWarps,
    block_ns,
    memory_constraints,
    most_stages,
    register_constraint,
    stage_ns,
    stage_parameters,
    sum_steps,
    tile_constraints,
    warp_parameters,
    warp_tiles,
    why_no_least,
)
from warpsmith.generator.conv2d.products.split16.split16_folding import folded
from warpsmith.generator.conv2d.products.split16.split16_model import (
    TimedConfig,
    best_split,
    busy_multiprocessor,
    split_ns,
)
from warpsmith.generator.conv2d.products.split16.split16_programs import weight_program
from warpsmith.generator.conv2d.products.split16.split16_side import Split16Side
from warpsmith.generator.conv2d.products.split16.split16_weight_tiles import WeightTiles
from warpsmith.generator.device import Device
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

TERMS = (32, 64, 128)
TAPS = (1, 2, 3)
SPLITS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128)
LEAST_WEIGHT: dict[str, Value] = {**LEAST, "taps": TAPS[0], "terms": TERMS[0], "splits": SPLITS[0]}
"""The config that takes least memory. If it is illegal for a layer, all configs are."""


@dataclasses.dataclass(frozen=True)
class MmaWeightGeometry(WeightTiles):
    """One config of wgrad."""

    warps: MmaWarps
    """Warps per tap."""
    min_blocks: int
    """Blocks that an SM must have registers for (minBlocksPerMultiprocessor of __launch_bounds__)."""

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> MmaWeightGeometry:
        warps = MmaWarps.of(config)
        return cls.tiled(
            NAME,
            problem,
            taps=config.integer("taps"),
            rows=warps.tile_rows,
            columns=warps.tile_columns,
            tile_k=config.integer("terms"),
            stages=config.integer("stages"),
            splits=config.integer("splits"),
            warps=warps,
            min_blocks=config.integer("min_blocks"),
        )

    @property
    def sum_steps(self) -> int:
        """Steps of 16 terms after which a sum leaves the tensor cores."""
        return sum_steps(self.arithmetic, self.tile_k)

    @property
    def threads(self) -> int:
        return 32 * self.warps.count * self.taps

    @property
    def x_pitch(self) -> int:
        return self.run

    @property
    def shared_bytes(self) -> int:
        return self.stages * self.stage_bytes


def weight_space(problem: Conv2d, device: Device) -> Space:
    layer = folded(problem)
    count, channels = layer.weight[2] * layer.weight[3], layer.group_channels
    return Space(
        parameters=(
            *warp_parameters("channels of x", "channels of dy"),
            Parameter("taps", TAPS, "of a block, side by side"),
            Parameter("terms", TERMS, "positions that a stage sums over"),
            *stage_parameters("of shared memory"),
            Parameter("splits", SPLITS, "parts of a sum, each of a block of its own"),
        ),
        constraints=(
            *tile_constraints(problem, device, problem.group_filters, "channels of dy"),
            Constraint(f"a filter has {count} taps", lambda taps: taps <= count),
            Constraint(
                f"a tile has less than twice the {channels} channels of x, or {ROWS[0]}",
                lambda warps_down, warp_rows: (
                    warps_down * warp_rows < 2 * channels or (warps_down == 1 and warp_rows == ROWS[0])
                ),
            ),
            Constraint(
                f"a block has at most {MOST_WARPS} warps",
                lambda warps_down, warps_across, taps: warps_down * warps_across * taps <= MOST_WARPS,
            ),
            register_constraint(problem, device, has_taps=True),
            _steps_constraint(problem),
            *memory_constraints(
                problem,
                device,
                functools.partial(MmaWeightGeometry.of, problem),
                LEAST_WEIGHT,
                (*TILE, "taps", "terms"),
                ("splits",),
            ),
        ),
    )


def _steps_constraint(problem: Conv2d) -> Constraint:
    @functools.cache
    def has_steps(taps: int, terms: int, splits: int) -> bool:
        values = {**LEAST_WEIGHT, "taps": taps, "terms": terms, "splits": splits}
        return MmaWeightGeometry.of(problem, Config.of(values)).has_steps

    reads = ("taps", "terms", "splits")
    return Constraint("each part of a sum has stages of its own", has_steps, reads)


def weight_ns(geometry: MmaWeightGeometry, device: Device) -> float:
    """Nanoseconds that an SM takes for all its blocks, plus its share of adding up partial sums."""
    return _ns_by_splits(geometry, device)(geometry.splits)


def _ns_by_splits(geometry: MmaWeightGeometry, device: Device) -> Callable[[int], float]:
    """The time for each number of parts that sums have."""
    warps, taps, rates = geometry.warps, geometry.taps, busy_multiprocessor(device)
    step_ns = stage_ns(geometry.arithmetic, warps, taps, geometry.tile_k, geometry.stage_bytes, rates)
    all_steps, tiles, weights = geometry.steps, geometry.tiles, geometry.weights

    def time_ns(splits: int) -> float:
        summed_ns = split_ns(2 * 4 * splits * weights, device)
        steps, blocks = -(-all_steps // splits), tiles * splits
        return block_ns(blocks, steps, step_ns, warps.count * taps, geometry.min_blocks, device) + summed_ns

    return time_ns


@functools.lru_cache(maxsize=256)  # for a device, and for the one by which times are compared
def weight_choice(problem: Conv2d, device: Device) -> TimedConfig:
    """The tile with the split-K factor that is expected to take least time."""
    least = Config.of(LEAST_WEIGHT)
    least_ns = weight_ns(MmaWeightGeometry.of(problem, least), device)
    return min(_choices(problem, device), key=lambda each: each.ns, default=TimedConfig(least, least_ns))


def _choices(problem: Conv2d, device: Device) -> Iterator[TimedConfig]:
    """The legal config with the most stages for each tile, taps and terms, with its best split-K factor."""
    space = weight_space(problem, device)
    for tile in warp_tiles():
        for taps in TAPS:
            for terms in TERMS[1:]:
                whole = most_stages(space, {**tile, "taps": taps, "terms": terms, "splits": 1})
                if whole is not None:
                    yield best_split(space, whole, SPLITS, _ns_by_splits(MmaWeightGeometry.of(problem, whole), device))


class MmaWeights(Split16Side):
    """wgrad."""

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        return why_no_least(problem, self.space(problem, device), Config.of(LEAST_WEIGHT))

    def space(self, problem: Conv2d, device: Device) -> Space:
        return weight_space(problem, device)

    def choice(self, problem: Conv2d, device: Device) -> TimedConfig:
        return weight_choice(problem, device)

    def geometry(self, problem: Conv2d, config: Config) -> MmaWeightGeometry:
        return MmaWeightGeometry.of(problem, config)

    def program(self, problem: Conv2d, config: Config) -> Program:
        return weight_program(NAME, "conv2d/mma_weight.cu.jinja", problem, config, self.geometry(problem, config))
