"""The image side of `conv2d_warpgroup` (fprop, dgrad): geometry, search space, model, default and program."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Self

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.products.split16.split16_arithmetic import (
    Arithmetic,
)
from warpsmith.generator.conv2d.products.split16.split16_folding import folded
from warpsmith.generator.conv2d.products.split16.split16_image_tiles import ImageTiles, Reach
from warpsmith.generator.conv2d.products.split16.split16_model import (
    Sustained,
    TimedConfig,
    busy_multiprocessor,
)
from warpsmith.generator.conv2d.products.split16.split16_operand import CHUNK
from warpsmith.generator.conv2d.products.split16.split16_programs import image_program
from warpsmith.generator.conv2d.products.split16.split16_side import Split16Side
from warpsmith.generator.conv2d.products.wgmma.wgmma_tiles import (
    BARRIER_BYTES,
    COLUMNS,
    COPY_CYCLES,
    COPYING_REGISTERS,
    LINE,
    NAME,
    OTHER_REGISTERS,
    PIXEL_BYTES,
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

GROUP_M = 64
"""Positions per consumer warpgroup: the 64 rows (M) of a wgmma product."""
STAGED_BYTES = 4 * 16 * (GROUP_M + 4)
"""Bytes of the epilogue staging tile per warpgroup."""
CHANNELS = (16, 32, 64)
PIXEL_STAGES, FILTER_STAGES = (1, 2, 3), (2, 3, 4, 6)
Stages = Sequence[tuple[int, int]]
"""Pairs of pixel stages and weight stages, in order of preference."""
PREFERRED_STAGES: Stages = ((2, 4), (2, 3), (2, 2), (1, 3), (1, 2))


AHEAD_CYCLES = 2700.0
"""Clock cycles of a tile of few stages that those of the tile before it hide: 64 filters of 3x3 taps and 3 channels
take 4,500 to 5,900 cycles a tile where 7,800 were expected, 32 filters 3,100 to 4,600 (10 layers, H200, 2026-11-30)."""


@dataclasses.dataclass(frozen=True)
class WgmmaImageGeometry(ImageTiles):
    """One config of fprop or dgrad."""

    warpgroups: int
    pixel_stages: int
    filter_stages: int
    most_blocks: int
    """Value of the parameter `blocks`: persistent blocks, which take tiles in turn; 0 if each tile has its own block.
    With tensor maps also the blocks of a cluster for each tile.
    """

    name: ClassVar[str] = NAME
    """Name of the family and of the GEMM kernel."""
    sustained: ClassVar[Sustained] = LINE
    numbers: ClassVar[type[Arithmetic]] = Arithmetic
    """What the tensor cores multiply."""

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> Self:
        warpgroups = config.integer("warpgroups")
        return cls.tiled(
            cls.name,
            problem,
            cls.numbers.of(problem),
            tile_m=GROUP_M * warpgroups,
            columns=config.integer("columns"),
            channels=config.integer("channels"),
            reach=Reach(config.text("reach")),
            warpgroups=warpgroups,
            pixel_stages=config.integer("pixel_stages"),
            filter_stages=config.integer("filter_stages"),
            most_blocks=config.integer("blocks"),
        )

    @property
    def blocks(self) -> int:
        blocks = min(self.most_blocks or self.tiles, self.tiles)
        phases = len(self.lattice.phases)
        if phases == 1 or self.phase_order or blocks == self.tiles:
            return blocks
        # Phases have different numbers of taps, and consecutive tiles belong to different phases. With 132 blocks and 4
        # phases, each block would have tiles of one phase only, and blocks of the phase with most taps would take 1.8
        # times their share.
        around = phases * self.tiles_across
        return next(fewer for fewer in range(blocks, 0, -1) if math.gcd(fewer, around) == 1)

    @property
    def splits(self) -> int:
        """Blocks of a cluster, which sum over a part of a tile's channels each; 1 if a block sums over all."""
        return 1

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
    def product_columns(self) -> float:
        """Columns that a wgmma product takes time for; more than it has if shared memory holds it up."""
        return self.columns

    @property
    def filter_lines(self) -> int:
        """Columns of weights that a stage is filled with."""
        return self.columns

    @property
    def filter_reads(self) -> float:
        """Lines of a stage of weights that L2 serves."""
        return self.filter_lines

    @property
    def copy_cycles(self) -> float:
        """Clock cycles of the producer warp for a stage of pixels."""
        return COPY_CYCLES * self.arithmetic.parts * self.chunks

    @property
    def filled(self) -> float:
        """Mean share of a stage's wgmma products that are computed."""
        return 1.0

    @property
    def column_cycles(self) -> float:
        """Clock cycles to store a column of a consumer warpgroup's tile: 64 results."""
        return self.sustained.column_cycles

    def rounds(self, device: Device) -> int:
        """Tiles that a multiprocessor takes one after the other, at most."""
        return -(-self.tiles // device.multiprocessors)

    def tile_steps(self, device: Device) -> float:
        """Taps of a tile, in the mean of those that a multiprocessor takes."""
        return len(self.steps) / len(self.lattice.phases)

    def adding_ns(self, device: Device) -> float:
        """Nanoseconds in which the blocks of a cluster add the sums of a tile."""
        return 0.0

    def divided(self, device: Device) -> Iterator[Self]:
        """This config, and the ones with clusters that may take less time."""
        yield self

    @property
    def is_loaded_ahead(self) -> bool:
        """Whether all stages of a tile are loaded while the tile before it is stored: those of a few channels' taps."""
        return self.filters.blocks == 1 and 1 < len(self.steps) <= self.filter_stages

    @property
    def stores_vectors(self) -> bool:
        """Whether lanes store channel vectors of 16-bit results: four steps of 8 channels, exchanged within a quad. The
        last exchange of a tile may have two. Tiles of 16 columns store pairs: vectors have not been timed there.
        """
        has_16_bits, is_wide = not self.arithmetic.scales, self.columns >= 4 * CHUNK
        fills_vectors = self.results % CHUNK == 0 and self.columns % (2 * CHUNK) == 0
        return has_16_bits and self.channels_last and is_wide and fills_vectors

    @property
    def staged_bytes(self) -> int:
        """Bytes of the epilogue staging tile; 0 for channels-last results, which are stored directly."""
        return 0 if self.channels_last else self.warpgroups * STAGED_BYTES

    @property
    def shared_bytes(self) -> int:
        chunks = self.arithmetic.parts * self.chunks
        pixels = self.pixel_stages * chunks * self.run
        filters = self.filter_stages * chunks * self.columns
        barriers = 2 * BARRIER_BYTES * (self.pixel_stages + self.filter_stages)
        return PIXEL_BYTES * (pixels + filters) + self.staged_bytes + barriers


def least_image(problem: Conv2d) -> Config:
    """The fprop or dgrad config that takes least memory. If it is illegal for a layer, all configs are."""
    return Config.of(
        {
            "warpgroups": WARPGROUPS[0],
            "columns": COLUMNS[0],
            "channels": CHANNELS[0],
            "reach": Reach.ROW.value,
            "pixel_stages": least_pixel_stages(problem),
            "filter_stages": FILTER_STAGES[0],
            "blocks": 0,
        }
    )


def least_pixel_stages(problem: Conv2d) -> int:
    """1 if sums leave the tensor cores after each stage, else 2.

    Otherwise the products of a stage are known to be done, and its memory to be free, only when those of the next stage
    have begun, which needs memory of its own.
    """
    return 1 if Arithmetic.of(problem).promotes else 2


def image_space(problem: Conv2d, device: Device) -> Space:
    return Space(image_parameters(device), (*image_constraints(problem, device), _image_workspace(problem)))


def image_parameters(device: Device) -> tuple[Parameter, ...]:
    """Parameters of the GEMM kernel of fprop and dgrad."""
    return (
        Parameter("warpgroups", WARPGROUPS, "of a block, which multiply: 64 positions each"),
        Parameter("columns", COLUMNS, "channels of the result, a warpgroup"),
        Parameter("channels", CHANNELS, "that a stage sums over, after which sums leave the tensor cores"),
        Parameter("reach", tuple(each.value for each in Reach), "taps whose pixels are copied at once"),
        Parameter("pixel_stages", PIXEL_STAGES, "stages of shared memory for pixels"),
        Parameter("filter_stages", FILTER_STAGES, "stages of shared memory for weights"),
        Parameter("blocks", (0, device.multiprocessors), "that take tiles in turns; 0: one a tile"),
    )


def image_constraints(problem: Conv2d, device: Device) -> tuple[Constraint, ...]:
    """Constraints of that kernel. For filters of one tap, none depends on the number or size of the images."""
    tile = _column_constraint(problem, COLUMNS[0]), _depth_constraint(problem), _stage_constraint(problem)
    registers = _register_constraints(problem, device)
    return (*tile, _reach_constraint(problem), *registers, _image_shared(problem, device))


def tile_constraints(problem: Conv2d, device: Device, least: int = COLUMNS[0]) -> tuple[Constraint, ...]:
    """Constraints of its tiles alone, whatever the layout of pixels. `least` is a number of columns that any tile may
    have.
    """
    return (_column_constraint(problem, least), _stage_constraint(problem), *_register_constraints(problem, device))


def _column_constraint(problem: Conv2d, least: int) -> Constraint:
    results = folded(problem).result_channels
    return Constraint(
        f"a tile has less than twice the {results} channels of a result, or {least}",
        lambda columns: columns < 2 * results or columns == least,
    )


def _depth_constraint(problem: Conv2d) -> Constraint:
    summed = folded(problem).summed_channels
    return Constraint(
        f"a stage has less than twice the {summed} channels of a sum, or {CHANNELS[0]}",
        lambda channels: channels < 2 * summed or channels == CHANNELS[0],
    )


def _stage_constraint(problem: Conv2d) -> Constraint:
    least = least_pixel_stages(problem)
    return Constraint(
        f"products of {least} stages of pixels are under way at once",
        lambda pixel_stages: pixel_stages >= least,
    )


def _reach_constraint(problem: Conv2d) -> Constraint:
    return Constraint(
        "a filter of one row has a reach of its row",
        lambda reach: reach == Reach.ROW or problem.weight[2] > 1,
    )


def _register_constraints(problem: Conv2d, device: Device) -> tuple[Constraint, ...]:
    return (
        Constraint(
            f"a thread needs {sums_of(problem)} registers for two columns and {OTHER_REGISTERS} more; with 1, 2 or 3 "
            f"warpgroups it has {', '.join(map(str, REGISTERS.values()))}",
            lambda warpgroups, columns: fits_registers(problem, warpgroups, columns, device),
        ),
    )


def _image_shared(problem: Conv2d, device: Device) -> Constraint:
    @functools.cache  # a search, and each ranking of tiles, asks for several numbers of stages
    def tile(warpgroups: int, columns: int, channels: int, reach: str) -> WgmmaImageGeometry:
        return _image_geometry(problem, warpgroups, columns, channels, reach)

    def fits(warpgroups: int, columns: int, channels: int, reach: str, pixel_stages: int, filter_stages: int) -> bool:
        return stages_fit(tile(warpgroups, columns, channels, reach), pixel_stages, filter_stages, device)

    return Constraint(f"a block has at most {device.shared_per_block_bytes} bytes of shared memory", fits)


def stages_fit(tile: WgmmaImageGeometry, pixel_stages: int, filter_stages: int, device: Device) -> bool:
    """Whether a block has shared memory for so many stages of a tile, whatever numbers the tile has."""
    geometry = dataclasses.replace(tile, pixel_stages=pixel_stages, filter_stages=filter_stages)
    return geometry.shared_bytes <= device.shared_per_block_bytes


def _image_workspace(problem: Conv2d) -> Constraint:
    return Constraint(
        f"halves of pixels and weights take at most {problem.workspace_limit} bytes",
        lambda warpgroups, columns, channels, reach: (
            _image_geometry(problem, warpgroups, columns, channels, reach).workspace_bytes <= problem.workspace_limit
        ),
    )


def _image_geometry(problem: Conv2d, warpgroups: int, columns: int, channels: int, reach: str) -> WgmmaImageGeometry:
    """Geometry of a tile with the fewest stages."""
    chosen: dict[str, Value] = {"warpgroups": warpgroups, "columns": columns, "channels": channels, "reach": reach}
    stages: dict[str, Value] = {"pixel_stages": PIXEL_STAGES[0], "filter_stages": FILTER_STAGES[0], "blocks": 0}
    return WgmmaImageGeometry.of(problem, Config.of({**chosen, **stages}))


@functools.lru_cache(maxsize=256)  # for a device, and for the one by which times are compared
def image_choice(problem: Conv2d, device: Device) -> TimedConfig:
    """The tile of fprop or dgrad whose rounds are expected to take least time."""
    space, reaches = image_space(problem, device), [({"reach": reach.value}, PREFERRED_STAGES) for reach in Reach]
    least = Config.of({**least_image(problem).values(), "blocks": device.multiprocessors})
    return image_choices(problem, device, space, reaches, WgmmaImageGeometry, least)[0]


def image_choices(
    problem: Conv2d,
    device: Device,
    space: Space,
    choices: Sequence[tuple[Mapping[str, Value], Stages]],
    kind: type[WgmmaImageGeometry],
    least: Config,
) -> list[TimedConfig]:
    """Tiles of fprop or dgrad, sorted by expected time; at least one.

    Args:
        problem, device: layer and GPU.
        space: legal configs.
        choices: values of the parameters beside tile, stages and blocks, and the stages of each, tried with each tile;
            they may fix the channels.
        kind: geometry class of a config.
        least: config to return if none of those tried is legal.
    """
    configs = dict.fromkeys(_image_candidates(problem, device, space, choices))
    found = (
        TimedConfig(Config.of({**config.values(), "blocks": each.most_blocks}), image_ns(each, device))
        for config in configs
        for each in kind.of(problem, config).divided(device)
    )
    return ranked(found) or [TimedConfig(least, image_ns(kind.of(problem, least), device))]


def image_ns(geometry: WgmmaImageGeometry, device: Device) -> float:
    """Nanoseconds of all rounds of tiles of fprop or dgrad."""
    steps, stages = len(geometry.steps), sum(step.begins for step in geometry.steps)
    depth, share = geometry.chunks * 8, stages / max(steps, 1)
    nbytes = 2 * geometry.arithmetic.parts * depth * (geometry.filter_reads + geometry.run * share)
    copying = COPY_CYCLES + geometry.copy_cycles * share
    products = geometry.tile_m * geometry.product_columns * depth * geometry.filled
    part_products = geometry.arithmetic.products * products
    rates, sustained = busy_multiprocessor(device), geometry.sustained
    step_ns = stage_ns(rates, sustained, geometry.filter_stages, part_products, nbytes, copying)
    tile_ns = geometry.tile_steps(device) * -(-geometry.filters.blocks // geometry.splits) * step_ns
    ahead = AHEAD_CYCLES if geometry.arithmetic.scales and geometry.is_loaded_ahead else 0.0
    column_cycles = geometry.column_cycles * geometry.columns * geometry.warpgroups
    tile_ns += rates.cycles_ns(sustained.tile_cycles - ahead + column_cycles)
    return geometry.rounds(device) * (tile_ns + geometry.adding_ns(device))


def _image_candidates(
    problem: Conv2d,
    device: Device,
    space: Space,
    choices: Sequence[tuple[Mapping[str, Value], Stages]],
) -> Iterator[Config]:
    """The legal config with the most stages for each tile, depth and choice."""
    summed, results = folded(problem).summed_channels, folded(problem).result_channels
    least = CHANNELS[0]
    depths = [each for each in CHANNELS if each == least or -(-summed // each) * each < summed + least]
    for warpgroups, columns in warpgroup_tiles(problem, results, device, space):
        for channels in depths[-2:]:
            for choice, stages in choices:
                tile = {"warpgroups": warpgroups, "columns": columns, "channels": channels, **choice}
                configs = (
                    Config.of({**tile, "pixel_stages": ps, "filter_stages": fs, "blocks": device.multiprocessors})
                    for ps, fs in stages
                )
                if (found := next(filter(space.contains, configs), None)) is not None:
                    yield found


class WgmmaImages(Split16Side):
    """fprop and dgrad."""

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        return why_no_least(problem, self.space(problem, device), least_image(problem))

    def space(self, problem: Conv2d, device: Device) -> Space:
        return image_space(problem, device)

    def choice(self, problem: Conv2d, device: Device) -> TimedConfig:
        return image_choice(problem, device)

    def geometry(self, problem: Conv2d, config: Config) -> WgmmaImageGeometry:
        return WgmmaImageGeometry.of(problem, config)

    def program(self, problem: Conv2d, config: Config) -> Program:
        return image_program(NAME, "conv2d/warpgroup_image.cu.jinja", problem, config, self.geometry(problem, config))
