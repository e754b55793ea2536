"""Default config of `conv2d_depthwise_last` for an image: the one expected to be fastest among some hundred."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import lru_cache

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_image_geometry import NAMES, ImageGeometry
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_image_space import image_space
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_model import image_ns
from warpsmith.generator.device import Device
from warpsmith.generator.space import Config

USUAL_THREADS = (64, 128, 256)
USUAL_COLUMNS = (1, 2, 4, 7, 8)
USUAL_ROWS = (1, 2, 4, 7)
PIXEL_BYTES = (32, 128)
"""Fewest and most bytes of neighbouring channels that a block reads per pixel: a sector of memory to a cache line. A
block with few channels has few weights.
"""


SMALLEST = dict.fromkeys(NAMES, 1) | {"strips": 64}
"""The config that takes least memory: 8 KiB for 31x31 taps."""


@lru_cache(maxsize=256)
def ranked(problem: Conv2d, device: Device) -> tuple[Config, ...]:
    """The legal config expected to be fastest for each thread shape, sorted by expected time."""
    best: dict[tuple[int, ...], tuple[float, Config]] = {}
    for config in _legal(problem, device):
        geometry = ImageGeometry.of(problem, config)
        shape = (geometry.vector, geometry.columns, geometry.rows, geometry.tap_rows)
        mine = (image_ns(problem, geometry, device), config)
        best[shape] = min(best.get(shape, mine), mine, key=lambda each: each[0])
    if not best:
        return (Config.of(SMALLEST),)
    return tuple(config for _, config in sorted(best.values(), key=lambda each: each[0]))


def usual_lanes(problem: Conv2d, vector: int, lanes: Sequence[int]) -> Sequence[int]:
    """The values of `lanes` that read whole sectors and at most a cache line; the largest value if there are none."""
    (least, most), nbytes = PIXEL_BYTES, vector * problem.dtype.itemsize
    return [each for each in lanes if least <= each * nbytes <= most] or lanes[-1:]


def _legal(problem: Conv2d, device: Device) -> Iterator[Config]:
    """Legal configs that are worth a look."""
    space = image_space(problem, device)
    values = {each.name: [value for value in each.values if isinstance(value, int)] for each in space.parameters}
    columns_of = [each for each in values["columns"] if each in USUAL_COLUMNS]
    rows_of = [each for each in values["rows"] if each in USUAL_ROWS]
    strips = itertools.product(values["vector"], columns_of, rows_of, values["tap_rows"][::-1], USUAL_THREADS)
    for vector, columns, rows, tap_rows, threads in strips:
        for lanes in usual_lanes(problem, vector, values["lanes"]):
            wanted = {
                "vector": vector,
                "columns": columns,
                "rows": rows,
                "tap_rows": tap_rows,
                "lanes": lanes,
                "strips": threads // lanes,
                "min_blocks": 1,
            }
            config = Config.of(wanted)
            if space.contains(config):
                yield config
