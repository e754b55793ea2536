"""Default configs of `conv2d_mma`, ranked by a model of the clocks that an SM takes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.words import Pass
from warpsmith.generator.conv2d.products.mma.mma_image_geometry import ImageGeometry
from warpsmith.generator.conv2d.products.mma.mma_space import (
    CHANNELS,
    LEAST_IMAGE,
    LEAST_WEIGHT,
    SPLITS,
    TAPS,
    TERMS,
    image_space,
    weight_space,
)
from warpsmith.generator.conv2d.products.mma.mma_warps import Warps, sum_steps
from warpsmith.generator.conv2d.products.mma.mma_weight_geometry import WeightGeometry
from warpsmith.generator.conv2d.products.split16.split16_arithmetic import Arithmetic
from warpsmith.generator.conv2d.products.split16.split16_choice import Choice, best_split
from warpsmith.generator.conv2d.products.split16.split16_image_tiles import Reach
from warpsmith.generator.conv2d.products.split16.split16_model import (
    L2_SHARE,
    TILE_CYCLES,
    busy_multiprocessor,
    other_ns,
    split_ns,
)
from warpsmith.generator.device import Device, Rates
from warpsmith.generator.space import Config, Space, Value
from warpsmith.generator.tensor_cores import TensorType, instruction_of

MMA = instruction_of(TensorType.F16)
"""The instruction; that of bf16 is as fast."""
TENSOR_SHARE = 0.75
"""Share of the instruction's rate that a kernel with enough warps sustains: with 0.85 the model was 1.02 to 1.25 times
below ten of 12 times of first and strided layers on an H100 (2026-11-25)."""
ADDED_SHARE = 2.0
"""Sums that leave the tensor cores, for each float32 multiply-add: other warps multiply meanwhile."""
WARPS_NEEDED = 8
"""Warps per SM, two for each of its tensor cores: one loads while the other multiplies."""
STEP_CYCLES = 80
"""Clock cycles for the barrier of a stage, and to find what is copied next."""
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
    return min(choices, key=lambda each: each.ns, default=Choice(least, multiprocessor_ns(problem, least, device)))


def expected_ns(problem: Conv2d, device: Device) -> float:
    """Expected nanoseconds of the default config, including the launches that make its 16-bit operands."""
    choice = choice_of(problem, device)
    geometry = WeightGeometry if problem.pass_ is Pass.WGRAD else ImageGeometry
    halves = geometry.of(problem, choice.config).halves_bytes
    return choice.ns + other_ns(problem, halves, device)


def multiprocessor_ns(problem: Conv2d, config: Config, device: Device) -> float:
    """Nanoseconds that an SM takes for all its blocks, plus its share of adding up partial sums."""
    if problem.pass_ is Pass.WGRAD:
        geometry = WeightGeometry.of(problem, config)
        return _weight_ns(geometry, device)(geometry.splits)
    return _image_ns(ImageGeometry.of(problem, config), device)


def _image_ns(geometry: ImageGeometry, device: Device) -> float:
    steps = len(geometry.steps) / len(geometry.lattice.phases) * geometry.filters.blocks
    pixels, filters = geometry.stage_bytes
    begun = sum(step.begins for step in geometry.steps) / max(len(geometry.steps), 1)
    rates = busy_multiprocessor(device)
    step_ns = _step_ns(geometry.arithmetic, geometry.warps, 1, 8 * geometry.chunks, pixels * begun + filters, rates)
    warps = geometry.warps.count
    return _block_ns(geometry.blocks, steps, step_ns, warps, geometry.min_blocks, device)


def _weight_ns(geometry: WeightGeometry, device: Device) -> Callable[[int], float]:
    """The time for each number of parts that sums have."""
    warps, taps, rates = geometry.warps, geometry.taps, busy_multiprocessor(device)
    step_ns = _step_ns(geometry.arithmetic, warps, taps, geometry.terms, geometry.stage_bytes, rates)
    all_steps, tiles, weights = geometry.steps, geometry.tiles, geometry.weights

    def time_ns(splits: int) -> float:
        summed_ns = split_ns(2 * 4 * splits * weights, device)
        steps, blocks = -(-all_steps // splits), tiles * splits
        return _block_ns(blocks, steps, step_ns, warps.count * taps, geometry.min_blocks, device) + summed_ns

    return time_ns


def _step_ns(arithmetic: Arithmetic, warps: Warps, taps: int, depth: int, nbytes: float, rates: Rates) -> float:
    """Nanoseconds of a stage that sums over `depth` terms: the slowest of tensor cores, shared memory and L2."""
    count = warps.count * taps
    products = arithmetic.products * warps.rows * warps.columns * depth * count
    multiplying_ns = products / rates.tensor_multiply_adds_per_ns(MMA)
    sums = depth // (16 * sum_steps(arithmetic, depth)) if arithmetic.promotes else 0
    adding_ns = sums * warps.rows * warps.columns * count / (ADDED_SHARE * rates.multiply_adds_per_ns)
    loaded = arithmetic.parts * 2 * (warps.rows + warps.columns) * depth * count
    return max(
        (multiplying_ns + adding_ns) / TENSOR_SHARE,
        (loaded + nbytes) / rates.shared_bytes_per_ns,
        nbytes / (L2_SHARE * rates.l2_bytes_per_ns),
    )


def _block_ns(blocks: int, steps: float, step_ns: float, warps: int, together: int, device: Device) -> float:
    """Nanoseconds of an SM for its share of the blocks, `together` of which are resident at once."""
    own = -(-blocks // device.multiprocessors)
    rounds = -(-own // together)
    idle = max(1.0, WARPS_NEEDED / (warps * min(own, together)))
    begin_ns = busy_multiprocessor(device).cycles_ns(steps * STEP_CYCLES + TILE_CYCLES)
    return own * steps * step_ns * idle + rounds * begin_ns


def _image_choices(problem: Conv2d, device: Device) -> Iterator[Choice]:
    """The legal config with the most stages for each tile, depth and reach."""
    space = image_space(problem, device)
    for tile in _tiles():
        for channels in CHANNELS:
            for reach in Reach:
                chosen: dict[str, Value] = {**tile, "channels": channels, "reach": reach.value}
                if (found := _most_stages(space, chosen)) is not None:
                    yield Choice(found, multiprocessor_ns(problem, found, device))


def _weight_choices(problem: Conv2d, device: Device) -> Iterator[Choice]:
    """The legal config with the most stages for each tile, taps and terms, with its best split-K factor."""
    space = weight_space(problem, device)
    for tile in _tiles():
        for taps in TAPS:
            for terms in TERMS[1:]:
                whole = _most_stages(space, {**tile, "taps": taps, "terms": terms, "splits": 1})
                if whole is not None:
                    yield best_split(space, whole, SPLITS, _weight_ns(WeightGeometry.of(problem, whole), device))


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
