"""The config of `conv2d_depthwise_last` on an image that is expected to be the fastest, of some hundred."""

from __future__ import annotations

import itertools
from functools import lru_cache

from warpsmith.generator.conv2d.depthwise_last.image_geometry import ImageGeometry
from warpsmith.generator.conv2d.depthwise_last.image_space import image_space
from warpsmith.generator.conv2d.depthwise_last.model import image_ns
from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.device import Device
from warpsmith.generator.space import Config

USUAL_THREADS = (128, 256)
USUAL_COLUMNS = (1, 2, 4, 7, 8)
USUAL_ROWS = (1, 2, 4, 7)
LINE_BYTES = 128
"""Of neighbouring channels, that a block reads of a pixel."""


@lru_cache(maxsize=256)
def ranked(problem: Conv2d, device: Device) -> tuple[Config, ...]:
    """Legal configs, those that are expected to be the fastest first; empty where none of the usual ones is."""
    space, itemsize = image_space(problem, device), problem.dtype.itemsize
    values = {each.name: [value for value in each.values if isinstance(value, int)] for each in space.parameters}
    found = []
    for vector, columns, rows, tap_rows, threads in itertools.product(
        values["vector"],
        (each for each in values["columns"] if each in USUAL_COLUMNS),
        (each for each in values["rows"] if each in USUAL_ROWS),
        values["tap_rows"],
        USUAL_THREADS,
    ):
        fitting = [each for each in values["lanes"] if each * vector * itemsize <= LINE_BYTES]
        for lanes in fitting[-2:]:
            config = Config.of(
                {
                    "vector": vector,
                    "columns": columns,
                    "rows": rows,
                    "tap_rows": tap_rows,
                    "lanes": lanes,
                    "strips": threads // lanes,
                    "min_blocks": 1,
                }
            )
            if space.contains(config):
                found.append((image_ns(problem, ImageGeometry.of(problem, config), device), config))
    return tuple(config for _, config in sorted(found, key=lambda each: each[0]))
