"""The image side of `conv2d_pointwise` (fprop, dgrad): geometry, search space, model, default config and program."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import LayerSide
from warpsmith.generator.conv2d.layer.text import Conv2dText, conv2d_arguments
from warpsmith.generator.conv2d.products.pointwise.pointwise_model import image_ns
from warpsmith.generator.conv2d.products.pointwise.pointwise_tiles import (
    BLOCKS,
    NAME,
    OTHER_REGISTERS,
    STAGES,
    TILE,
    PointwiseTile,
    vector_of,
    tile_constraints,
    tile_parameters,
)
from warpsmith.generator.conv2d.products.split16.split16_arithmetic import Arithmetic
from warpsmith.generator.conv2d.products.split16.split16_model import TimedConfig
from warpsmith.generator.device import Device
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

CHANNELS = (16, 32, 64)
TILES = tuple(range(1, 65))
WARP_PIXELS = 16
"""Pixels of a warp in products by wgmma."""
SUM_TERMS = 32
"""Most terms that tensor cores sum before float32 registers add them up: six instructions of mma, as `conv2d_mma`."""
PADDING = 4
"""Floats between the channels of a stage: 2 channels are 8 banks further, for tiles of a multiple of 16 pixels."""
LOADED = 64
"""Weights that a thread has in flight: each round of loads waits for the L2 cache, and one after the other took a third
of a kernel's time."""
LEAST: dict[str, Value] = {
    "warps": 1,
    "down": 1,
    "across": 1,
    "rows": 16,
    "columns": 16,
    "channels": 16,
    "stages": 2,
    "min_blocks": 1,
    "tiles": 1,
}
"""The config that takes least memory. If it is illegal for a layer, all configs are."""


@dataclasses.dataclass(frozen=True, slots=True)
class PointwiseImageGeometry:
    """One config of fprop or dgrad.

    Rows of the product are channels of the result, columns pixels of all images, terms channels of the source.
    """

    tile: PointwiseTile
    parts: int
    """fp16 parts per number."""
    results: int
    terms: int
    columns: int
    """Pixels of all images: those of y."""
    plane: int
    """Pixels of an image."""
    written: int
    """Elements of the result."""
    channels: int
    """Terms per stage."""
    stages: int
    min_blocks: int
    """Blocks that an SM must have registers for (minBlocksPerMultiprocessor of __launch_bounds__)."""
    tiles: int
    """Tiles of pixels per block; a block keeps its weights for all of them."""
    vector: int
    """Pixels that are copied, and stored, at once."""
    is_transposed: bool
    """Whether terms are filters, as in dgrad, so that adjacent weights belong to adjacent results."""
    gathers: bool
    """Whether the source's pixels are those of a strided layer."""
    scatters: bool
    """Whether the result's pixels are, with zeros between them."""
    stores_pairs: bool
    """Whether two adjacent pixels of dy are vectors of four of dx, by strides of two."""

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> PointwiseImageGeometry:
        plane = math.prod(problem.output_size)
        is_strided, tile = problem.stride != (1, 1), PointwiseTile.of(config)
        return cls(
            tile=tile,
            parts=Arithmetic.of(problem).parts,
            results=problem.result_channels,
            terms=problem.summed_channels,
            columns=problem.input[0] * plane,
            plane=plane,
            written=problem.output.size,
            channels=config.integer("channels"),
            stages=config.integer("stages"),
            min_blocks=config.integer("min_blocks"),
            tiles=config.integer("tiles"),
            vector=vector_of(problem),
            is_transposed=problem.pass_.is_transposed,
            gathers=is_strided and not problem.pass_.is_transposed,
            scatters=is_strided and problem.pass_.is_transposed,
            stores_pairs=_stores_pairs(problem) and tile.warps > 1,
        )

    padding = PADDING

    @property
    def sum_terms(self) -> int:
        return min(SUM_TERMS, self.channels)

    @property
    def steps(self) -> int:
        """Stages per tile."""
        return -(-self.terms // self.channels)

    @property
    def row_tiles(self) -> int:
        return -(-self.results // self.tile.all_rows)

    @property
    def column_tiles(self) -> int:
        return -(-self.columns // self.tile.all_columns)

    @property
    def column_blocks(self) -> int:
        return -(-self.column_tiles // self.tiles)

    @property
    def blocks(self) -> int:
        return self.row_tiles * self.column_blocks

    @property
    def weight_vectors(self) -> int:
        """Vectors of 8 terms of a row of weights, in whole stages."""
        return self.steps * self.channels // 8

    @property
    def weight_floats(self) -> int:
        """Weights that a lane reads at once."""
        return 4 if self.terms % 4 == 0 and self.terms > 64 else 2

    @property
    def weight_loads(self) -> int:
        """Reads of a lane per row of weights."""
        return -(-8 * self.weight_vectors // (32 * self.weight_floats))

    @property
    def weights_at_once(self) -> int:
        """Rows of weights that a warp has in flight in fprop; vectors of 8 terms that a thread has in dgrad."""
        if self.is_transposed:
            all_vectors = self.weight_vectors * self.tile.all_rows
            return min(-(-all_vectors // self.tile.threads), LOADED // 8)
        rows = -(-self.tile.all_rows // self.tile.all_warps)
        return max(1, min(rows, LOADED // (self.weight_loads * self.weight_floats)))

    @property
    def is_uneven(self) -> bool:
        """Whether some threads have no channel in the last round of copies of a stage."""
        return self.channels % (self.tile.threads * self.vector // self.tile.all_columns) > 0

    @property
    def shared_bytes(self) -> int:
        rows, columns = self.tile.all_rows, self.tile.all_columns
        weights = 16 * self.parts * self.weight_vectors * (rows + 1)
        if self.tile.warps > 1:
            own_stages = self.tile.all_warps * self.stages * self.channels * (WARP_PIXELS + PADDING)
            return weights + 4 * own_stages + 4 * rows
        split = 2 * columns * (2 * self.parts * self.channels + 4 * self.channels // self.sum_terms)
        return weights + split + 4 * self.stages * self.channels * (columns + PADDING) + 4 * rows

    @property
    def split_columns(self) -> int:
        """Pixels that a warp splits at once: 16, or 8 where the warps of a block would not all have some otherwise."""
        return 16 if self.tile.all_columns * self.channels // self.sum_terms >= 16 * self.tile.all_warps else 8

    @property
    def split_shift(self) -> bool:
        """Whether other warps split the next terms of a stage."""
        parts = self.tile.all_columns // self.split_columns
        return parts < self.tile.all_warps and self.channels > self.sum_terms


def _stores_pairs(problem: Conv2d) -> bool:
    rows, columns = problem.output_size
    doubled = problem.input[2:] == (2 * rows, 2 * columns) and columns % 2 == 0
    return problem.pass_.is_transposed and problem.stride == (2, 2) and doubled


def _registers(parts: int, tile: PointwiseTile, sum_terms: int) -> int:
    """Registers per thread, roughly: sums in float32 and of a product, operands, pixels that are split."""
    if tile.warps > 1:
        return 2 * tile.sums + parts * sum_terms // 4 + OTHER_REGISTERS
    across = tile.columns // 8
    return tile.sums + 4 * across + across * parts * sum_terms // 8 + 4 * parts + OTHER_REGISTERS


def image_space(problem: Conv2d, device: Device) -> Space:
    results, terms, vector = problem.result_channels, problem.summed_channels, vector_of(problem)
    parts = Arithmetic.of(problem).parts
    return Space(
        parameters=(
            *tile_parameters(device, "channels of the result", "pixels"),
            Parameter("channels", CHANNELS, "of the source per stage"),
            Parameter("stages", STAGES, "of pixels: one is split, the others are on their way"),
            Parameter("min_blocks", BLOCKS, "that a multiprocessor has registers and shared memory for"),
            Parameter("tiles", TILES, "of pixels per block, which keeps its weights"),
        ),
        constraints=(
            *tile_constraints(),
            Constraint(
                f"a tile has less than twice the {results} channels of the result, or those of one product",
                lambda warps, down, rows: down * rows < max(2 * results, 16 * warps + 1),
            ),
            Constraint(
                f"a stage has less than twice the {terms} channels of a sum, or {CHANNELS[0]}",
                lambda channels: channels < max(2 * terms, CHANNELS[0] + 1),
            ),
            Constraint(
                f"the threads of a block copy whole channels of pixels, {vector} at once",
                lambda warps, down, across, columns: (
                    warps > 1 or 32 * down * across % (across * columns // vector) == 0
                ),
            ),
            Constraint(
                "the threads of all blocks of a multiprocessor have registers for their sums",
                lambda warps, down, across, rows, columns, channels, min_blocks: (
                    _registers(parts, PointwiseTile(warps, down, across, rows, columns), min(SUM_TERMS, channels))
                    <= device.thread_registers(32 * warps * down * across * min_blocks)
                ),
            ),
            _memory_constraint(problem, device),
        ),
    )


def _memory_constraint(problem: Conv2d, device: Device) -> Constraint:
    limits, reads = device.limits, (*TILE, "channels", "stages", "min_blocks")

    @functools.cache
    def fits(*values: Value) -> bool:
        geometry = PointwiseImageGeometry.of(problem, Config.of({**LEAST, **dict(zip(reads, values, strict=True))}))
        share = device.shared_per_multiprocessor_bytes // geometry.min_blocks - limits.reserved_shared_bytes
        return geometry.shared_bytes <= min(device.shared_per_block_bytes, share)

    return Constraint(
        f"a block has at most {device.shared_per_block_bytes} bytes of shared memory for weights and stages, and all "
        f"blocks of a multiprocessor {device.shared_per_multiprocessor_bytes}",
        fits,
        reads,
    )


TILE_SIZES = (
    *((1, 4, 2, 64, 32), (1, 2, 4, 64, 32), (1, 1, 8, 64, 32), (1, 4, 2, 32, 32), (1, 2, 4, 32, 32), (1, 1, 8, 32, 32)),
    *((1, 2, 2, 64, 32), (1, 1, 4, 64, 32), (1, 4, 1, 64, 32), (1, 8, 1, 32, 32), (1, 2, 2, 32, 32), (1, 1, 4, 32, 32)),
    *((1, 4, 1, 32, 32), (1, 1, 8, 16, 32), (1, 1, 4, 16, 32), (1, 2, 4, 16, 32), (1, 4, 2, 32, 64), (1, 2, 4, 32, 64)),
    *((1, 4, 4, 16, 32), (1, 4, 2, 64, 16), (1, 2, 2, 64, 16), (1, 4, 1, 32, 16), (1, 2, 1, 16, 16)),
    *((4, 1, 2, 16, 64), (4, 1, 4, 16, 64), (4, 1, 1, 32, 64), (4, 1, 2, 32, 64), (4, 1, 4, 32, 64)),
    *((4, 1, 1, 64, 64), (4, 1, 2, 64, 64), (4, 1, 4, 64, 64), (4, 2, 1, 64, 64), (4, 2, 2, 64, 64), (4, 4, 1, 64, 64)),
    *((4, 1, 1, 128, 64), (4, 1, 2, 128, 64), (4, 2, 1, 128, 64), (4, 1, 3, 128, 64), (4, 3, 1, 128, 64)),
)
"""Candidate tiles: warps, down, across, rows and columns."""


@functools.lru_cache(maxsize=256)
def image_choice(problem: Conv2d, device: Device) -> TimedConfig:
    """The config that is expected to take least time."""
    least = Config.of(LEAST)
    least_ns = image_ns(PointwiseImageGeometry.of(problem, least), device)
    return min(_choices(problem, device), key=lambda each: each.ns, default=TimedConfig(least, least_ns))


def _choices(problem: Conv2d, device: Device) -> Iterator[TimedConfig]:
    """Each tile and number of blocks with the most stages that fit, and tiles for one round of blocks."""
    space = image_space(problem, device)
    channels = min(SUM_TERMS, max(16, problem.summed_channels // 16 * 16))
    for sizes in TILE_SIZES:
        for blocks in BLOCKS:
            chosen: dict[str, Value] = dict(zip(TILE, sizes, strict=True))
            chosen |= {"channels": channels, "min_blocks": blocks, "tiles": 1}
            stages = next((each for each in (4, 3, 2) if _fits(space, chosen, each)), None)
            if stages is not None:
                yield _in_rounds(problem, device, {**chosen, "stages": stages})


def _fits(space: Space, chosen: dict[str, Value], stages: int) -> bool:
    return space.contains(Config.of({**chosen, "stages": stages}))


def _in_rounds(problem: Conv2d, device: Device, chosen: dict[str, Value]) -> TimedConfig:
    """The number of tiles per block that is expected to be the fastest: for one round of blocks, or for two."""
    one = PointwiseImageGeometry.of(problem, Config.of(chosen))
    whole = -(-one.blocks // (device.multiprocessors * one.min_blocks))
    counts = {min(TILES[-1], tiles) for tiles in (1, -(-whole // 2), whole)}
    configs = [Config.of({**chosen, "tiles": tiles}) for tiles in sorted(counts)]
    timed = (TimedConfig(each, image_ns(PointwiseImageGeometry.of(problem, each), device)) for each in configs)
    return min(timed, key=lambda each: each.ns)


class PointwiseImages(LayerSide):
    """fprop and dgrad."""

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        if self.space(problem, device).contains(Config.of(LEAST)):
            return None
        return f"keeps the weights of 16 channels in {device.shared_per_block_bytes} bytes of shared memory"

    def space(self, problem: Conv2d, device: Device) -> Space:
        return image_space(problem, device)

    def default(self, problem: Conv2d, device: Device) -> Config:
        return image_choice(problem, device).config

    def expected_ns(self, problem: Conv2d, device: Device) -> float:
        return image_choice(problem, device).ns

    def program(self, problem: Conv2d, config: Config) -> Program:
        geometry = PointwiseImageGeometry.of(problem, config)
        text = Conv2dText.of(problem)
        template = (
            "conv2d/pointwise_image.cu.jinja" if geometry.tile.warps == 1 else "conv2d/pointwise_warpgroup.cu.jinja"
        )
        source = render(template, p=text, g=geometry, config=config.key())
        launch = Launch.of_blocks(NAME, geometry.blocks, geometry.tile.threads, conv2d_arguments(problem))
        launch = dataclasses.replace(launch, shared_bytes=geometry.shared_bytes)
        return Program.of_source(NAME, config, source, (launch,))
