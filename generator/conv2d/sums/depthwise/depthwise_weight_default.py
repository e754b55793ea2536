"""Default config of `conv2d_depthwise` for the gradient of the weights, chosen by a model that counts operations."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import lru_cache

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.sums.depthwise.depthwise_image_default import DEFAULT_WRITTEN, USUAL_THREADS
from warpsmith.generator.conv2d.sums.depthwise.depthwise_image_geometry import WARP
from warpsmith.generator.conv2d.sums.depthwise.depthwise_image_space import OTHER_REGISTERS
from warpsmith.generator.conv2d.sums.depthwise.depthwise_model import (
    COPY_INSTRUCTIONS,
    memory_ns,
    resident_blocks,
    total_ns,
)
from warpsmith.generator.conv2d.sums.depthwise.depthwise_weight_geometry import SERIAL_MEMBERS, WeightGeometry
from warpsmith.generator.conv2d.sums.depthwise.depthwise_weight_space import STAGES, smallest_weight, weight_space
from warpsmith.generator.device import Device
from warpsmith.generator.space import Config, Space, Value

MOST_SUMS = 64
"""Most sums per thread."""
SPLITS_NS = 1800.0
"""Time of the kernel that adds up what blocks found, from the end of the first one on."""
WAITS = {1: 1.0, 2: 0.4, 3: 0.2, 4: 0.15}
"""Share of a step's latency that a block waits for its copies, by number of stages; from three stages on a guess."""
BLOCKS_WANTED = (1, 2, 6)
"""Blocks per SM to aim at."""


def weight_ns(problem: Conv2d, g: WeightGeometry, device: Device) -> float:
    """Expected nanoseconds of one config of wgrad."""
    x, dy = g.tile, g.gradients
    loops = -(-g.strips // g.down)
    steps = -(-g.steps // g.splits)
    rows = g.stride[0] * (g.rows - 1) + g.tap_rows
    reads = rows * -(-g.window_columns // x.read)
    own = g.filters * g.rows * -(-g.columns // dy.read)
    planes = g.images * g.block_groups
    x_copies = planes * g.block_channels * x.plane_copies / g.threads
    dy_copies = planes * g.block_filters * g.filters * dy.plane_copies / g.threads
    summed = g.keys * g.sums / g.threads * (g.members if g.members <= SERIAL_MEMBERS else g.members + 6 * WARP)
    issue = steps * (loops * (g.written + reads + own + 20) + COPY_INSTRUCTIONS * (x_copies + dy_copies) + 60)
    issue += 3 * g.sums + 2 * summed + 100
    turns = steps * (loops * (reads * x.read + own * dy.read) + x_copies * x.vector + dy_copies * dy.vector)
    turns += g.sums + summed
    resident = resident_blocks(g.threads, g.registers + OTHER_REGISTERS, g.shared_bytes, device)
    if g.min_blocks > resident:
        return float("inf")
    again = (g.tap_blocks * g.channel_blocks * g.filter_blocks) ** 0.5
    nbytes = 4.0 * again * (problem.inputs[0].size + problem.inputs[1].size) + 8.0 * g.splits * problem.output.size
    waits = WAITS[g.stages]
    total = total_ns(
        issue, turns, steps * waits, g.threads // WARP, resident, g.blocks, memory_ns(nbytes, device), device
    )
    return total + (SPLITS_NS + 25.0 * g.splits if g.splits > 1 else 0.0)


@lru_cache(maxsize=256)
def weight_ranked(problem: Conv2d, device: Device) -> tuple[Config, ...]:
    """The legal config expected to be fastest for each thread shape, sorted by expected time."""
    space = weight_space(problem, device)
    best: dict[tuple[Value, ...], tuple[float, Config]] = {}
    for thread in _threads(problem, space):
        key = tuple(thread.values())
        for config in dict.fromkeys(map(Config.of, _blocks(problem, space, thread, device))):
            if space.contains(config):
                mine = weight_ns(problem, WeightGeometry.of(problem, config), device), config
                best[key] = min(best.get(key, mine), mine, key=lambda each: each[0])
    if not best:
        return tuple(filter(None, [smallest_weight(space)]))
    return tuple(config for _, config in sorted(best.values(), key=lambda each: each[0]))


def weight_variants(config: Config, space: Space) -> list[Config]:
    """Legal configs near this one that differ in portions only: the model cannot tell them apart, but timing can."""
    splits, images = config.integer("splits"), config.integer("images")
    changes: list[dict[str, Value]] = [{"stages": each} for each in STAGES[1:]]
    changes += {"splits": 2 * splits}, {"splits": splits // 2}
    changes += ({"images": images // 2, "stages": each} for each in STAGES[1:])
    changes += ({"min_blocks": 3},)
    found = (Config.of({**config.values(), **change}) for change in changes)
    return [each for each in found if space.contains(each)]


def _numbers(space: Space) -> dict[str, tuple[int, ...]]:
    """The values of each parameter, all of which are numbers."""
    return {each.name: tuple(int(value) for value in each.values) for each in space.parameters}


def _threads(problem: Conv2d, space: Space) -> Iterator[dict[str, int]]:
    """The thread shapes that are worth a look: some 20."""
    values = _numbers(space)
    tap_columns = problem.weight[3]
    for columns, rows in itertools.product(values["columns"], values["rows"]):
        if columns * rows > 64 or columns * rows < min(4, problem.output_size[0] * problem.output_size[1]):
            continue
        for filters in values["filters"]:
            fitting = [
                each
                for each in values["tap_rows"]
                if filters * each * tap_columns <= MOST_SUMS
                and filters * each * tap_columns * columns * rows <= DEFAULT_WRITTEN
            ]
            if fitting or filters == 1:
                yield {"columns": columns, "rows": rows, "filters": filters, "tap_rows": max(fitting, default=1)}


def _blocks(problem: Conv2d, space: Space, thread: dict[str, int], device: Device) -> Iterator[dict[str, Value]]:
    """Block shapes for this thread shape: all filters, channels and taps of a group side by side if they fit."""
    values = _numbers(space)
    across = -(-problem.output_size[1] // thread["columns"])
    strips = -(-problem.output_size[0] // thread["rows"])
    block_filters = problem.group_filters // thread["filters"]
    for threads, downs, bands in itertools.product(USUAL_THREADS, (1, 4, strips), (1, 2, 8)):
        left = max(threads // across, 1)
        down = max(each for each in values["down"] if each <= min(left, downs, max(strips // bands, 1)))
        left //= down
        filters = max(each for each in values["block_filters"] if each <= left and block_filters % each == 0)
        channels = max(each for each in values["block_channels"] if each <= max(left // filters, 1))
        rest = max(left // (filters * channels), 1)
        taps_left = problem.weight[2] // thread["tap_rows"]
        taps = max(each for each in values["block_taps"] if each <= max(rest, 1) and taps_left % each == 0)
        images = max(each for each in values["images"] if each <= max(rest // taps, 1))
        if bands not in values["bands"]:
            continue
        weights_blocks = (
            (taps_left // taps) * (block_filters // filters) * (problem.group_channels // channels) * problem.groups
        )
        for wanted in BLOCKS_WANTED:
            splits = wanted * device.multiprocessors / weights_blocks
            yield {
                **thread,
                "block_taps": taps,
                "block_filters": filters,
                "block_channels": channels,
                "block_groups": 1,
                "images": images,
                "down": down,
                "bands": bands,
                "splits": max(each for each in values["splits"] if each <= max(splits, 1)),
                "stages": 1,
                "min_blocks": 1,
            }
