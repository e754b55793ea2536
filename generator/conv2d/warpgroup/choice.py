"""Configs of `conv2d_warpgroup` that are good without any search: by a model of what a multiprocessor does in a tile."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.conv2d.warpgroup.image_geometry import GROUP_POSITIONS, ImageGeometry, Reach
from warpsmith.generator.conv2d.warpgroup.space import (
    CHANNELS,
    COLUMNS,
    SPLITS,
    WARPGROUPS,
    fits_registers,
    image_space,
    summed_and_results,
    weight_space,
)
from warpsmith.generator.conv2d.warpgroup.weight_geometry import GROUP_CHANNELS, WeightGeometry
from warpsmith.generator.conv2d.words import Pass
from warpsmith.generator.device import Device
from warpsmith.generator.space import Config, Space, Value

PRODUCTS_A_CLOCK = 2048 * 0.85
"""Of halves, of a multiprocessor: what tensor cores keep up of 2048."""
STEP_CLOCKS = 60
"""For the barriers of a stage."""
TILE_CLOCKS = 4000
"""To begin a tile and to store its results."""
L2_BYTES_A_CLOCK = 20.0
"""That a multiprocessor reads where all do."""
COPY_CLOCKS = 64
"""Of a bulk copy, however short: 48 copies of 512 or of 1024 bytes took 3100 clocks a stage."""
CLOCKS_A_US = 1700.0
BYTES_A_US = 3.0e6
"""Of memory and of the level-2 cache together, when halves are made."""
LAUNCH_US = 2.5
Values = dict[str, Value]


def image_default(problem: Conv2d, device: Device) -> Config:
    """The tile whose rounds are expected to take least."""
    space = image_space(problem, device)
    return _best(space, _image_candidates(problem, device), lambda config: image_clocks(problem, config, device))


def weight_default(problem: Conv2d, device: Device) -> Config:
    """The tile and the parts of sums that are expected to take least."""
    space = weight_space(problem, device)
    return _best(space, _weight_candidates(problem), lambda config: weight_clocks(problem, config, device))


def image_clocks(problem: Conv2d, config: Config, device: Device) -> float:
    """Clocks of all rounds of tiles, of fprop or dgrad."""
    geometry = ImageGeometry.of(problem, config)
    steps = len(geometry.steps) / len(geometry.lattice.phases) * geometry.filters.blocks
    depth = geometry.chunks * 8
    filters = 2 * geometry.parts * depth * geometry.columns
    stages = sum(step.begins for step in geometry.steps) / max(len(geometry.steps), 1)
    pixels = 2 * geometry.parts * depth * geometry.run * stages
    products = (2 * geometry.parts - 1) * GROUP_POSITIONS * geometry.warpgroups * geometry.columns * depth
    copies = 1 + geometry.parts * geometry.chunks * stages
    step = max(products / PRODUCTS_A_CLOCK + STEP_CLOCKS, (filters + pixels) / L2_BYTES_A_CLOCK, COPY_CLOCKS * copies)
    return -(-geometry.tiles // device.multiprocessors) * (steps * step + TILE_CLOCKS)


def weight_clocks(problem: Conv2d, config: Config, device: Device) -> float:
    """Clocks of all rounds of blocks of wgrad, and of the sum of their parts."""
    geometry = WeightGeometry.of(problem, config)
    products = (2 * geometry.parts - 1) * GROUP_CHANNELS * geometry.warpgroups * geometry.columns * geometry.terms
    copies = 1 + geometry.parts * geometry.x_chunks
    copying = max(geometry.stage_bytes / L2_BYTES_A_CLOCK, COPY_CLOCKS * copies)
    step = max(products / PRODUCTS_A_CLOCK + STEP_CLOCKS, copying)
    rounds = -(-geometry.blocks // device.multiprocessors)
    summed = 2 * geometry.sum_bytes / BYTES_A_US * CLOCKS_A_US
    return rounds * (geometry.split_steps * step + TILE_CLOCKS) + summed


def expected_ns(problem: Conv2d, device: Device) -> float:
    """Of the default, with what makes halves of its operands."""
    if problem.pass_ is Pass.WGRAD:
        config = weight_default(problem, device)
        geometry = WeightGeometry.of(problem, config)
        clocks, halves, launches = weight_clocks(problem, config, device), geometry.x.nbytes + geometry.dy.nbytes, 6
    else:
        config = image_default(problem, device)
        own = ImageGeometry.of(problem, config)
        clocks, halves, launches = image_clocks(problem, config, device), own.images.nbytes + own.filters.nbytes, 5
    moved = sum(operand.nbytes for operand in problem.inputs) * 2 + halves
    return 1000 * (clocks / CLOCKS_A_US + moved / BYTES_A_US + launches * LAUNCH_US)


def _best(space: Space, candidates: Iterable[Values], cost: Callable[[Config], float]) -> Config:
    """The legal one of the least cost, the first of equals."""
    legal = [config for values in candidates if space.contains(config := Config.of(values))]
    if not legal:
        found = next(iter(space.configs()))
        return found
    return min(legal, key=cost)


def _image_candidates(problem: Conv2d, device: Device) -> list[Values]:
    summed, results = summed_and_results(problem)
    blocks = (device.multiprocessors, 0)
    depths = [each for each in reversed(CHANNELS) if each == CHANNELS[0] or -(-summed // each) * each < summed + 16]
    return [
        {
            "warpgroups": warpgroups,
            "columns": columns,
            "channels": channels,
            "reach": reach.value,
            "pixel_stages": pixel_stages,
            "filter_stages": filter_stages,
            "blocks": each,
        }
        for warpgroups, columns in _tiles(problem, results)
        for channels in depths
        for reach, pixel_stages, filter_stages in itertools.product((Reach.ROW, Reach.FILTER), (2, 1), (4, 3, 2))
        for each in blocks[:1]
    ]


def _tiles(problem: Conv2d, results: int) -> list[tuple[int, int]]:
    """Warpgroups and columns that a multiprocessor has registers for, without more columns than the result has."""
    return [
        (warpgroups, columns)
        for warpgroups in WARPGROUPS
        for columns in COLUMNS
        if fits_registers(problem, warpgroups, columns)
        if columns == COLUMNS[0] or columns < 2 * results
    ]


def _weight_candidates(problem: Conv2d) -> list[Values]:
    count = problem.weight[2] * problem.weight[3]
    groups = -(-problem.group_channels // GROUP_CHANNELS)
    return [
        {"taps": taps, "channel_groups": channels, "columns": columns, "terms": 64, "stages": stages, "splits": splits}
        for warpgroups, columns in _tiles(problem, problem.group_filters)
        for taps in (each for each in WARPGROUPS if warpgroups % each == 0 and each <= count)
        for channels in (warpgroups // taps,)
        if channels <= groups
        for stages in (3, 2)
        for splits in SPLITS
    ]

