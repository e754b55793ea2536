"""Default configs of `conv2d_warpgroup`, ranked by a model of the clocks that an SM takes."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.words import Pass
from warpsmith.generator.conv2d.products.split16.split16_choice import Choice, best_split
from warpsmith.generator.conv2d.products.split16.split16_folding import folded
from warpsmith.generator.conv2d.products.split16.split16_image_tiles import Reach, summed_and_results
from warpsmith.generator.conv2d.products.split16.split16_model import Sustained, busy_multiprocessor, other_ns, split_ns
from warpsmith.generator.conv2d.products.wgmma.wgmma_image_geometry import COPY_CYCLES, GROUP_POSITIONS, ImageGeometry
from warpsmith.generator.conv2d.products.wgmma.wgmma_space import (
    CHANNELS,
    COLUMNS,
    LEAST_WEIGHT,
    SPLITS,
    TERMS,
    WARPGROUPS,
    fits_registers,
    image_space,
    least_image,
    weight_space,
)
from warpsmith.generator.conv2d.products.wgmma.wgmma_weight_geometry import GROUP_CHANNELS, WeightGeometry
from warpsmith.generator.device import Device, Rates
from warpsmith.generator.space import Config, Space, Value
from warpsmith.generator.tensor_cores import WARPGROUP, TensorType, instruction_of

STAGES = ((2, 4), (2, 3), (2, 2), (1, 3), (1, 2))
"""Pairs of pixel stages and weight stages, in order of preference."""
WEIGHT_STAGES = (3, 2)
"""Stages of wgrad, in order of preference."""
WGMMA = instruction_of(TensorType.F16, WARPGROUP)
"""The instruction; that of bf16 is as fast."""
Values = dict[str, Value]


def image_choice(problem: Conv2d, device: Device) -> Choice:
    """The tile of fprop or dgrad whose rounds are expected to take least time."""
    space, reaches = image_space(problem, device), [{"reach": reach.value} for reach in Reach]
    least = Config.of({**least_image(problem).values(), "blocks": device.multiprocessors})
    return image_choices(problem, device, space, reaches, ImageGeometry, least)[0]


def image_choices(
    problem: Conv2d,
    device: Device,
    space: Space,
    choices: Sequence[Mapping[str, Value]],
    kind: type[ImageGeometry],
    least: Config,
    stages: Sequence[tuple[int, int]] = STAGES,
) -> list[Choice]:
    """Tiles of fprop or dgrad, sorted by expected time; at least one.

    Args:
        problem, device: layer and GPU.
        space: legal configs.
        choices: values of the parameters beside tile, stages and blocks, tried with each tile; they may fix the
            channels.
        kind: geometry class of a config.
        least: config to return if none of those tried is legal.
        stages: pairs of pixel stages and weight stages, in order of preference.
    """
    configs = dict.fromkeys(_image_candidates(problem, device, space, choices, stages))
    found = (Choice(config, image_ns(kind.of(problem, config), device)) for config in configs)
    return _ranked(found) or [Choice(least, image_ns(kind.of(problem, least), device))]


def weight_choice(problem: Conv2d, device: Device) -> Choice:
    """The tile of wgrad, with its split-K factor, that is expected to take least time."""
    return weight_choices(problem, device, weight_space(problem, device), WeightGeometry, Config.of(LEAST_WEIGHT))[0]


def weight_choices(
    problem: Conv2d,
    device: Device,
    space: Space,
    kind: type[WeightGeometry],
    least: Config,
    stages: Sequence[int] = WEIGHT_STAGES,
) -> list[Choice]:
    """Tiles of wgrad with their split-K factors; arguments and order are those of `image_choices`."""
    found = _weight_choices(problem, device, kind, stages, space)
    return _ranked(found) or [Choice(least, weight_ns(kind.of(problem, least), device))]


def _ranked(found: Iterable[Choice]) -> list[Choice]:
    return sorted(found, key=lambda each: each.ns)


def expected_ns(problem: Conv2d, device: Device) -> float:
    """Expected nanoseconds of the default config, including the launches that make its 16-bit operands."""
    is_weight = problem.pass_ is Pass.WGRAD
    choice = weight_choice(problem, device) if is_weight else image_choice(problem, device)
    halves = (WeightGeometry if is_weight else ImageGeometry).of(problem, choice.config).halves_bytes
    return choice.ns + other_ns(problem, halves, device)


def image_ns(geometry: ImageGeometry, device: Device) -> float:
    """Nanoseconds of all rounds of tiles of fprop or dgrad."""
    steps, stages = len(geometry.steps), sum(step.begins for step in geometry.steps)
    depth, share = geometry.chunks * 8, stages / max(steps, 1)
    nbytes = 2 * geometry.arithmetic.parts * depth * (geometry.columns + geometry.run * share)
    copying = COPY_CYCLES + geometry.copy_cycles * share
    positions = GROUP_POSITIONS * geometry.warpgroups
    products = positions * geometry.columns * depth * geometry.filled
    halves = geometry.arithmetic.products * products
    rates, sustained = busy_multiprocessor(device), geometry.sustained
    step_ns = _step_ns(rates, sustained, geometry.filter_stages, halves, nbytes, copying)
    tile_ns = steps / len(geometry.lattice.phases) * geometry.filters.blocks * step_ns
    tile_ns += rates.cycles_ns(sustained.tile_cycles)
    return -(-geometry.tiles // device.multiprocessors) * tile_ns


def weight_ns(geometry: WeightGeometry, device: Device) -> float:
    """Nanoseconds of all rounds of blocks of wgrad, and of adding up its partial sums."""
    return _weight_ns(geometry, device, geometry.splits)


def _weight_ns(geometry: WeightGeometry, device: Device, splits: int) -> float:
    """Nanoseconds of `weight_ns` with another split-K factor than the config's."""
    products = GROUP_CHANNELS * geometry.warpgroups * geometry.columns * geometry.terms
    halves = geometry.arithmetic.products * products
    rates, sustained = busy_multiprocessor(device), geometry.sustained
    step_ns = _step_ns(rates, sustained, geometry.stages, halves, geometry.stage_bytes, geometry.copy_cycles)
    rounds = -(-geometry.tiles * splits // device.multiprocessors)
    tile_ns = -(-geometry.steps // splits) * step_ns + rates.cycles_ns(sustained.tile_cycles)
    return rounds * tile_ns + split_ns(2 * 4 * splits * geometry.weights, device)


def _step_ns(
    rates: Rates, sustained: Sustained, stages: int, products: float, nbytes: float, copy_cycles: float
) -> float:
    """The time of one of so many stages on a multiprocessor of these rates: the longest of what its products take, the
    bytes that are read, the copies, and the wait for the next stage."""
    multiplying_ns = products / (sustained.tensor_share * rates.tensor_multiply_adds_per_ns(WGMMA))
    return max(
        multiplying_ns + rates.cycles_ns(sustained.step_cycles),
        nbytes / (sustained.l2_share * rates.l2_bytes_per_ns),
        rates.cycles_ns(copy_cycles),
        rates.cycles_ns(sustained.latency_cycles / max(stages - 1, 1)),
    )


def _image_candidates(
    problem: Conv2d,
    device: Device,
    space: Space,
    choices: Sequence[Mapping[str, Value]],
    stages: Sequence[tuple[int, int]],
) -> Iterator[Config]:
    """The legal config with the most stages for each tile, depth and choice."""
    summed, results = summed_and_results(folded(problem))
    least = CHANNELS[0]
    depths = [each for each in CHANNELS if each == least or -(-summed // each) * each < summed + least]
    for warpgroups, columns in _tiles(problem, results, device):
        for channels in depths[-2:]:
            for choice in choices:
                tile = {"warpgroups": warpgroups, "columns": columns, "channels": channels, **choice}
                configs = (
                    Config.of({**tile, "pixel_stages": ps, "filter_stages": fs, "blocks": device.multiprocessors})
                    for ps, fs in stages
                )
                if (found := next(filter(space.contains, configs), None)) is not None:
                    yield found


def _weight_choices(
    problem: Conv2d, device: Device, kind: type[WeightGeometry], stages: Sequence[int], space: Space
) -> Iterator[Choice]:
    """The best split-K factor of each tile."""
    layer = folded(problem)
    count, groups = layer.weight[2] * layer.weight[3], -(-layer.group_channels // GROUP_CHANNELS)
    for warpgroups, columns in _tiles(problem, problem.group_filters, device):
        for taps in (each for each in WARPGROUPS if warpgroups % each == 0 and each <= count):
            if warpgroups // taps > groups:
                continue
            tile: Values = {"taps": taps, "channel_groups": warpgroups // taps, "columns": columns, "splits": 1}
            for terms in TERMS[1:]:
                wholes = (Config.of({**tile, "terms": terms, "stages": each}) for each in stages)
                if (whole := next(filter(space.contains, wholes), None)) is not None:
                    time_ns = functools.partial(_weight_ns, kind.of(problem, whole), device)
                    yield best_split(space, whole, SPLITS, time_ns)


def _tiles(problem: Conv2d, results: int, device: Device) -> list[tuple[int, int]]:
    """Pairs of warpgroups and columns that fit the registers of an SM, without more columns than the result needs."""
    return [
        (warpgroups, columns)
        for warpgroups in WARPGROUPS
        for columns in COLUMNS
        if fits_registers(problem, warpgroups, columns, device)
        if columns <= GROUP_CHANNELS or columns < 2 * results
    ]
