"""The weight side of `conv2d_warpgroup` (wgrad): geometry, search space, model, default config and program."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import ClassVar, Self

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.products.split16.split16_folding import folded
from warpsmith.generator.conv2d.products.split16.split16_model import (
    Sustained,
    TimedConfig,
    best_split,
    busy_multiprocessor,
    split_ns,
)
from warpsmith.generator.conv2d.products.split16.split16_programs import weight_program
from warpsmith.generator.conv2d.products.split16.split16_side import Split16Side
from warpsmith.generator.conv2d.products.split16.split16_weight_tiles import WeightTiles
from warpsmith.generator.conv2d.products.wgmma.wgmma_tiles import (
    BARRIER_BYTES,
    COLUMNS,
    COPY_CYCLES,
    COPYING_REGISTERS,
    GROUP_CHANNELS,
    LINE,
    NAME,
    OTHER_REGISTERS,
    REGISTERS,
    WARPGROUPS,
    block_threads,
    fits_registers,
    ranked,
    stage_ns,
    sums_of,
    warpgroup_tiles,
    why_no_least,
)
from warpsmith.generator.device import Device
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

STAGES = (2, 3, 4)
TAPS, TERMS = (1, 2, 3), (32, 64, 128)
SPLITS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128)
WEIGHT_STAGES = (3, 2)
"""Stages of wgrad, in order of preference."""
LEAST_WEIGHT: dict[str, Value] = {
    "taps": TAPS[0],
    "channel_groups": WARPGROUPS[0],
    "columns": COLUMNS[0],
    "terms": TERMS[0],
    "stages": STAGES[0],
    "splits": SPLITS[0],
}
"""The wgrad config that takes least memory. If it is illegal for a layer, all configs are."""


@dataclasses.dataclass(frozen=True)
class WgmmaWeightGeometry(WeightTiles):
    """One config of wgrad."""

    channel_groups: int
    """Warpgroups of a block along the channels of x, for each tap."""

    name: ClassVar[str] = NAME
    """Name of the family and of the GEMM kernel."""
    sustained: ClassVar[Sustained] = LINE

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> Self:
        channel_groups = config.integer("channel_groups")
        return cls.tiled(
            cls.name,
            problem,
            taps=config.integer("taps"),
            rows=GROUP_CHANNELS * channel_groups,
            columns=config.integer("columns"),
            tile_k=config.integer("terms"),
            stages=config.integer("stages"),
            splits=config.integer("splits"),
            channel_groups=channel_groups,
        )

    @property
    def stores_results(self) -> bool:
        """Whether blocks store weights; otherwise they store sums, which another launch adds up."""
        return False

    @property
    def adds_in_cluster(self) -> bool:
        """Whether the parts of a sum are blocks of a cluster, which add them up and store weights."""
        return False

    def l2_bytes(self, splits: int, device: Device) -> float:
        """Bytes of a stage, as often as they take a multiprocessor's share of the L2 rate."""
        return self.stage_bytes

    def rounds(self, splits: int, device: Device) -> int:
        """How many blocks a multiprocessor computes one after the other if sums have so many parts."""
        return -(-self.tiles * splits // device.multiprocessors)

    def summing_ns(self, splits: int, device: Device) -> float:
        """Nanoseconds of storing the sums of `splits` parts and adding them up."""
        return split_ns(2 * 4 * splits * self.weights, device)

    @property
    def warpgroups(self) -> int:
        """Consumer warpgroups per block."""
        return self.taps * self.channel_groups

    @property
    def threads(self) -> int:
        """Threads per block: the consumer warpgroups and one producer warpgroup."""
        return block_threads(self.warpgroups)

    @property
    def registers(self) -> int:
        """Registers per consumer thread after setmaxnreg; 0 if the launch gives it enough."""
        return REGISTERS[self.warpgroups] if self.warpgroups > 1 else 0

    @property
    def copying_registers(self) -> int:
        """Registers per producer thread after setmaxnreg."""
        return COPYING_REGISTERS

    @property
    def copy_cycles(self) -> float:
        """Clock cycles of the producer warp for a stage."""
        return COPY_CYCLES * (1 + self.arithmetic.parts * self.x_chunks)

    @property
    def x_pitch(self) -> int:
        """Pitch of channel vectors, in units of 16 bytes. It is odd, so that neighbours lie in different banks."""
        return self.run | 1

    @property
    def shared_bytes(self) -> int:
        return self.stages * (self.stage_bytes + 2 * BARRIER_BYTES)


def weight_space(
    problem: Conv2d, device: Device, kind: type[WgmmaWeightGeometry] = WgmmaWeightGeometry, least: int = COLUMNS[0]
) -> Space:
    """The space of wgrad for tiles of class `kind`. `least` is a number of columns that any tile may have."""
    return Space(
        parameters=(
            Parameter("taps", TAPS, "of a block, side by side"),
            Parameter("channel_groups", WARPGROUPS, "of 64 channels of x, side by side for each tap"),
            Parameter("columns", COLUMNS, "channels of dy, a warpgroup"),
            Parameter("terms", TERMS, "positions that a stage sums over, after which sums leave the tensor cores"),
            Parameter("stages", STAGES, "of shared memory"),
            Parameter("splits", SPLITS, "parts of a sum, each of a block of its own"),
        ),
        constraints=(*_weight_constraints(problem, device, least), *_weight_memory(problem, device, kind)),
    )


def _weight_constraints(problem: Conv2d, device: Device, least: int) -> tuple[Constraint, ...]:
    layer, filters = folded(problem), problem.group_filters
    channels, count = layer.group_channels, layer.weight[2] * layer.weight[3]
    return (
        Constraint(
            f"a tile has less than twice the {filters} channels of dy, or {least}",
            lambda columns: columns < 2 * filters or columns == least,
        ),
        Constraint(
            f"groups of 64 channels are no more than x needs, which has {channels}",
            lambda channel_groups: channel_groups <= -(-channels // 64),
        ),
        Constraint(f"a filter has {count} taps", lambda taps: taps <= count),
        Constraint(
            f"a block has at most {WARPGROUPS[-1]} warpgroups",
            lambda taps, channel_groups: taps * channel_groups <= WARPGROUPS[-1],
        ),
        Constraint(
            f"a thread needs {sums_of(problem)} registers for two columns and {OTHER_REGISTERS} more; with 1, 2 or 3 "
            f"warpgroups it has {', '.join(map(str, REGISTERS.values()))}",
            lambda taps, channel_groups, columns: fits_registers(problem, taps * channel_groups, columns, device),
        ),
    )


def _weight_memory(problem: Conv2d, device: Device, kind: type[WgmmaWeightGeometry]) -> tuple[Constraint, ...]:
    def geometry(
        taps: int, channel_groups: int, columns: int, terms: int, stages: int, splits: int
    ) -> WgmmaWeightGeometry:
        chosen = {"taps": taps, "channel_groups": channel_groups, "columns": columns}
        return kind.of(problem, Config.of({**chosen, "terms": terms, "stages": stages, "splits": splits}))

    kept = "parts of sums" if kind.maps else "halves of both images and parts of sums"
    return (
        Constraint(
            f"a block has at most {device.shared_per_block_bytes} bytes of shared memory",
            lambda taps, channel_groups, columns, terms, stages: (
                geometry(taps, channel_groups, columns, terms, stages, 1).shared_bytes <= device.shared_per_block_bytes
            ),
        ),
        Constraint(
            "each part of a sum has stages of its own",
            lambda taps, channel_groups, columns, terms, splits: (
                geometry(taps, channel_groups, columns, terms, 2, splits).has_steps
            ),
        ),
        Constraint(
            f"{kept} take at most {problem.workspace_limit} bytes",
            lambda taps, channel_groups, columns, terms, splits: (
                geometry(taps, channel_groups, columns, terms, 2, splits).workspace_bytes <= problem.workspace_limit
            ),
        ),
    )


@functools.lru_cache(maxsize=256)  # for a device, and for the one by which times are compared
def weight_choice(problem: Conv2d, device: Device) -> TimedConfig:
    """The tile of wgrad, with its split-K factor, that is expected to take least time."""
    return weight_choices(problem, device, weight_space(problem, device), WgmmaWeightGeometry, Config.of(LEAST_WEIGHT))[
        0
    ]


def weight_choices(
    problem: Conv2d,
    device: Device,
    space: Space,
    kind: type[WgmmaWeightGeometry],
    least: Config,
    stages: Sequence[int] = WEIGHT_STAGES,
) -> list[TimedConfig]:
    """Tiles of wgrad with their split-K factors; arguments and order are those of `image_choices`."""
    found = _choices(problem, device, kind, stages, space)
    return ranked(found) or [TimedConfig(least, weight_ns(kind.of(problem, least), device))]


def weight_ns(geometry: WgmmaWeightGeometry, device: Device) -> float:
    """Nanoseconds of all rounds of blocks of wgrad, and of adding up its partial sums."""
    return _ns_of_splits(geometry, device, geometry.splits)


def _ns_of_splits(geometry: WgmmaWeightGeometry, device: Device, splits: int) -> float:
    """Nanoseconds of `weight_ns` with another split-K factor than the config's."""
    products = GROUP_CHANNELS * geometry.warpgroups * geometry.columns * geometry.tile_k
    part_products = geometry.arithmetic.products * products
    rates, sustained = busy_multiprocessor(device), geometry.sustained
    read_bytes = geometry.l2_bytes(splits, device)
    step_ns = stage_ns(rates, sustained, geometry.stages, part_products, read_bytes, geometry.copy_cycles)
    rounds = geometry.rounds(splits, device)
    tile_ns = -(-geometry.steps // splits) * step_ns + rates.cycles_ns(sustained.tile_cycles)
    return rounds * tile_ns + geometry.summing_ns(splits, device)


def _choices(
    problem: Conv2d, device: Device, kind: type[WgmmaWeightGeometry], stages: Sequence[int], space: Space
) -> Iterator[TimedConfig]:
    """The best split-K factor of each tile."""
    layer = folded(problem)
    count, groups = layer.weight[2] * layer.weight[3], -(-layer.group_channels // GROUP_CHANNELS)
    for warpgroups, columns in warpgroup_tiles(problem, problem.group_filters, device, space):
        for taps in (each for each in WARPGROUPS if warpgroups % each == 0 and each <= count):
            if warpgroups // taps > groups:
                continue
            tile: dict[str, Value] = {
                "taps": taps,
                "channel_groups": warpgroups // taps,
                "columns": columns,
                "splits": 1,
            }
            for terms in TERMS[1:]:
                wholes = (Config.of({**tile, "terms": terms, "stages": each}) for each in stages)
                if (whole := next(filter(space.contains, wholes), None)) is not None:
                    time_ns = functools.partial(_ns_of_splits, kind.of(problem, whole), device)
                    yield best_split(space, whole, SPLITS, time_ns)


class WgmmaWeights(Split16Side):
    """wgrad."""

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        return why_no_least(problem, self.space(problem, device), Config.of(LEAST_WEIGHT))

    def space(self, problem: Conv2d, device: Device) -> Space:
        return weight_space(problem, device)

    def choice(self, problem: Conv2d, device: Device) -> TimedConfig:
        return weight_choice(problem, device)

    def geometry(self, problem: Conv2d, config: Config) -> WgmmaWeightGeometry:
        return WgmmaWeightGeometry.of(problem, config)

    def program(self, problem: Conv2d, config: Config) -> Program:
        return weight_program(NAME, "conv2d/warpgroup_weight.cu.jinja", problem, config, self.geometry(problem, config))
