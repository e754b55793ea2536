"""Default configs of `conv2d_mma`, ranked by a model of the clocks that an SM takes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

from warpsmith.generator.conv2d.halves.arithmetic import Arithmetic
from warpsmith.generator.conv2d.halves.choice import Choice, best_split
from warpsmith.generator.conv2d.halves.image_tiles import Reach
from warpsmith.generator.conv2d.halves.model import BYTES_A_US, CLOCKS_A_US, L2_BYTES_A_CLOCK, TILE_CLOCKS, other_us
from warpsmith.generator.conv2d.mma.image_geometry import ImageGeometry
from warpsmith.generator.conv2d.mma.space import (
    CHANNELS,
    LEAST_IMAGE,
    LEAST_WEIGHT,
    SPLITS,
    TAPS,
    TERMS,
    image_space,
    weight_space,
)
from warpsmith.generator.conv2d.mma.warps import Warps, sum_steps
from warpsmith.generator.conv2d.mma.weight_geometry import WeightGeometry
from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.conv2d.words import Pass
from warpsmith.generator.device import Device
from warpsmith.generator.space import Config, Space, Value

PRODUCTS_A_CLOCK = {(8, 0): 1024, (9, 0): 1270}
"""fp16 products per clock per SM, accumulated in float32. A100 by its data sheet; H200 measured, 62 % of what wgmma
does.
"""
FEWER_PRODUCTS_A_CLOCK = 512
"""fp16 products per clock per SM of other GPUs, which have smaller tensor cores (Ada's data sheet)."""
KEPT_UP = 0.75
"""Share of that rate that a kernel with enough warps sustains. With 0.85 the model was 1.02 to 1.25 times below ten of
12 times of first and strided layers on an H100 (2026-11-25).
"""
SHARED_BYTES_A_CLOCK = 128
ADDED_A_CLOCK = 256
"""Sums per clock that an SM adds up outside of the tensor cores: 64 (A100) or 128, and half of that while others
multiply.
"""
WARPS_NEEDED = 8
"""Warps per SM, two for each of its tensor cores: one loads while the other multiplies."""
STEP_CLOCKS = 80
"""Clocks per stage for its barrier and for the addresses of the next copies."""
WARP_TILES = (
    *((2, 4, 64, 32), (4, 2, 64, 32), (4, 2, 32, 64), (2, 4, 64, 64), (4, 2, 64, 64)),  # 8 warps
    *((2, 2, 64, 32), (2, 2, 32, 32), (4, 1, 32, 32), (4, 1, 64, 64), (2, 2, 64, 64), (4, 1, 32, 16)),
    *((2, 1, 64, 32), (2, 1, 32, 32), (1, 2, 64, 32), (1, 2, 32, 32), (1, 4, 32, 16), (1, 1, 32, 32), (1, 1, 32, 16)),
    *((4, 1, 64, 16), (2, 1, 64, 16), (2, 1, 32, 16)),  # for few channels
)
"""Candidate tiles: warps down and across a block, rows and columns of a warp."""


@functools.lru_cache(maxsize=256)  # for a device, and for the one by which times are compared
def choice_of(problem: Conv2d, device: Device) -> Choice:
    """The tile, and for wgrad the split-K factor, that are expected to take least time."""
    is_weight = problem.pass_ is Pass.WGRAD
    choices = (_weight_choices if is_weight else _image_choices)(problem, device)
    least = Config.of(LEAST_WEIGHT if is_weight else LEAST_IMAGE)
    return min(choices, key=lambda each: each.clocks, default=Choice(least, clocks_of(problem, least, device)))


def expected_ns(problem: Conv2d, device: Device) -> float:
    """Expected nanoseconds of the default config, including the launches that make its 16-bit operands."""
    choice = choice_of(problem, device)
    geometry = WeightGeometry if problem.pass_ is Pass.WGRAD else ImageGeometry
    halves = geometry.of(problem, choice.config).halves_bytes
    return 1000 * (choice.clocks / CLOCKS_A_US + other_us(problem, halves))


def clocks_of(problem: Conv2d, config: Config, device: Device) -> float:
    """Clocks that an SM takes for all its blocks, plus its share of adding up partial sums."""
    if problem.pass_ is Pass.WGRAD:
        geometry = WeightGeometry.of(problem, config)
        return _weight_clocks(geometry, device)(geometry.splits)
    return _image_clocks(ImageGeometry.of(problem, config), device)


def _image_clocks(geometry: ImageGeometry, device: Device) -> float:
    steps = len(geometry.steps) / len(geometry.lattice.phases) * geometry.filters.blocks
    pixels, filters = geometry.stage_bytes
    begun = sum(step.begins for step in geometry.steps) / max(len(geometry.steps), 1)
    step = _step_clocks(geometry.arithmetic, geometry.warps, 1, 8 * geometry.chunks, pixels * begun + filters, device)
    warps = geometry.warps.count
    return _block_clocks(geometry.blocks, steps, step, warps, geometry.min_blocks, device)


def _weight_clocks(geometry: WeightGeometry, device: Device) -> Callable[[int], float]:
    """The clocks of a tile as a function of its split-K factor."""
    warps, taps = geometry.warps, geometry.taps
    step = _step_clocks(geometry.arithmetic, warps, taps, geometry.terms, geometry.stage_bytes, device)
    all_steps, tiles, weights = geometry.steps, geometry.tiles, geometry.weights

    def clocks(splits: int) -> float:
        summed = 2 * 4 * splits * weights / BYTES_A_US * CLOCKS_A_US
        steps, blocks = -(-all_steps // splits), tiles * splits
        return _block_clocks(blocks, steps, step, warps.count * taps, geometry.min_blocks, device) + summed

    return clocks


def _step_clocks(arithmetic: Arithmetic, warps: Warps, taps: int, depth: int, nbytes: float, device: Device) -> float:
    """Clocks of a stage that sums over `depth` terms: the slowest of tensor cores, shared memory and L2."""
    count = warps.count * taps
    each = PRODUCTS_A_CLOCK.get(device.compute_capability, FEWER_PRODUCTS_A_CLOCK)
    products = arithmetic.products * warps.rows * warps.columns * depth * count
    multiplying = products / each
    sums = depth // (16 * sum_steps(arithmetic, depth)) if arithmetic.promotes else 0
    adding = sums * warps.rows * warps.columns * count / ADDED_A_CLOCK
    loaded = arithmetic.parts * 2 * (warps.rows + warps.columns) * depth * count
    return max((multiplying + adding) / KEPT_UP, (loaded + nbytes) / SHARED_BYTES_A_CLOCK, nbytes / L2_BYTES_A_CLOCK)


def _block_clocks(blocks: int, steps: float, step: float, warps: int, together: int, device: Device) -> float:
    """Clocks of an SM for its share of the blocks, `together` of which are resident at once."""
    own = -(-blocks // device.multiprocessors)
    rounds = -(-own // together)
    idle = max(1.0, WARPS_NEEDED / (warps * min(own, together)))
    return own * steps * step * idle + rounds * (steps * STEP_CLOCKS + TILE_CLOCKS)


def _image_choices(problem: Conv2d, device: Device) -> Iterator[Choice]:
    """For each tile, depth and reach, the legal config with the most stages."""
    space = image_space(problem, device)
    for tile in _tiles():
        for channels in CHANNELS:
            for reach in Reach:
                chosen: dict[str, Value] = {**tile, "channels": channels, "reach": reach.value}
                if (found := _most_stages(space, chosen)) is not None:
                    yield Choice(found, clocks_of(problem, found, device))


def _weight_choices(problem: Conv2d, device: Device) -> Iterator[Choice]:
    """For each tile, taps and terms, the legal config with the most stages and its best split-K factor."""
    space = weight_space(problem, device)
    for tile in _tiles():
        for taps in TAPS:
            for terms in TERMS[1:]:
                whole = _most_stages(space, {**tile, "taps": taps, "terms": terms, "splits": 1})
                if whole is not None:
                    clocks = _weight_clocks(WeightGeometry.of(problem, whole), device)
                    yield best_split(space, whole, SPLITS, clocks)


def _tiles() -> Iterator[dict[str, Value]]:
    names = ("warps_down", "warps_across", "warp_rows", "warp_columns")
    for sizes in WARP_TILES:
        tile: dict[str, Value] = dict(zip(names, sizes, strict=True))
        for blocks in (1, 2):
            yield {**tile, "min_blocks": blocks}


def _most_stages(space: Space, chosen: dict[str, Value]) -> Config | None:
    """The config with the most stages that fit; None if even two stages, which take least memory, do not fit."""
    values = {**chosen, "stages": 2}
    if not space.contains(Config.of(values)):
        return None
    more = ({**values, "stages": stages} for stages in (4, 3))
    return Config.of(next((each for each in more if space.allows(each, ("stages",))), values))
