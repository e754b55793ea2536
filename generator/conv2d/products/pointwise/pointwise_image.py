"""The image side of `conv2d_pointwise` (fprop, dgrad): search space, default config and program."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import LayerSide
from warpsmith.generator.conv2d.layer.text import Conv2dText, conv2d_arguments
from warpsmith.generator.conv2d.products.pointwise.pointwise_image_geometry import SUM_TERMS, PointwiseImageGeometry
from warpsmith.generator.conv2d.products.pointwise.pointwise_model import image_ns
from warpsmith.generator.conv2d.products.pointwise.pointwise_tiles import (
    BLOCKS,
    NAME,
    OTHER_REGISTERS,
    STAGES,
    TILE,
    PointwiseTile,
    tile_constraints,
    tile_parameters,
    vector_of,
)
from warpsmith.generator.conv2d.products.split16.split16_arithmetic import Arithmetic
from warpsmith.generator.conv2d.products.split16.split16_model import TimedConfig
from warpsmith.generator.device import Device
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

CHANNELS = (16, 32, 64)
TILES = tuple(range(1, 65))
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
