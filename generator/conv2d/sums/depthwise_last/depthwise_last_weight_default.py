"""Default config of `conv2d_depthwise_last` for the weights: the one expected to be fastest among some hundred."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import lru_cache

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.sums.depthwise.depthwise_model import resident_blocks
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_image_default import (
    USUAL_COLUMNS,
    USUAL_THREADS,
    usual_lanes,
)
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_image_space import OTHER_REGISTERS
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_model import weight_ns
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_weight_geometry import WeightGeometry
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_weight_space import weight_space
from warpsmith.generator.device import Device
from warpsmith.generator.space import Config


@lru_cache(maxsize=256)
def weight_ranked(problem: Conv2d, device: Device) -> tuple[Config, ...]:
    """The legal config expected to be fastest for each thread shape, sorted by expected time."""
    best: dict[tuple[int, ...], tuple[float, Config]] = {}
    for geometry, config in _legal(problem, device):
        shape = (geometry.vector, geometry.columns, geometry.rows, geometry.tap_rows)
        mine = (weight_ns(problem, geometry, device), config)
        best[shape] = min(best.get(shape, mine), mine, key=lambda each: each[0])
    return tuple(config for _, config in sorted(best.values(), key=lambda each: each[0]))


def _legal(problem: Conv2d, device: Device) -> Iterator[tuple[WeightGeometry, Config]]:
    """Legal configs worth a look, with as many splits as keep all blocks resident, or the next fewer ones."""
    space = weight_space(problem, device)
    values = {each.name: [value for value in each.values if isinstance(value, int)] for each in space.parameters}
    columns_of = [each for each in values["columns"] if each in USUAL_COLUMNS]
    strips = itertools.product(values["vector"], columns_of, values["rows"], values["tap_rows"][::-1], USUAL_THREADS)
    for vector, columns, rows, tap_rows, threads in strips:
        most_taps = -(-problem.weight[2] // tap_rows)
        block_taps = [each for each in values["block_taps"] if each in (1, 8) and each < 2 * most_taps]
        for lanes, taps in itertools.product(usual_lanes(problem, vector, values["lanes"]), block_taps):
            wanted = {
                "vector": vector,
                "columns": columns,
                "rows": rows,
                "tap_rows": tap_rows,
                "lanes": lanes,
                "block_taps": taps,
                "members": max(threads // (lanes * taps), 1),
                "min_blocks": 1,
            }
            whole = WeightGeometry.of(problem, Config.of({**wanted, "splits": 1}))
            resident = resident_blocks(threads, whole.registers + OTHER_REGISTERS, whole.shared_bytes, device)
            busy = (2 * whole.all_strips - 1) // whole.members
            most = max(min(resident * device.multiprocessors // whole.blocks, busy), 1)
            few = [each for each in values["splits"] if each <= most][-2:]
            more = [each for each in values["splits"] if each > most]
            legal = (config for splits in few if space.contains(config := Config.of({**wanted, "splits": splits})))
            if (found := tuple(legal)) == ():  # the constraints demand more splits than that
                legal = (config for splits in more if space.contains(config := Config.of({**wanted, "splits": splits})))
                found = tuple(itertools.islice(legal, 1))
            yield from ((WeightGeometry.of(problem, config), config) for config in found)
