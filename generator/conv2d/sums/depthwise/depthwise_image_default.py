"""Default config of `conv2d_depthwise` for an image: the one expected to be fastest among a few hundred legal ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import lru_cache

from warpsmith.generator.conv2d.layer.axes import axes_of
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.sums.depthwise.depthwise_image_geometry import ImageGeometry, Stores
from warpsmith.generator.conv2d.sums.depthwise.depthwise_image_space import image_space, smallest_image
from warpsmith.generator.conv2d.sums.depthwise.depthwise_model import image_ns
from warpsmith.generator.conv2d.sums.direct_image_geometry import channels_of
from warpsmith.generator.device import Device
from warpsmith.generator.space import Config, Space, Value

DEFAULT_WRITTEN = 1500
"""Most unrolled multiply-adds of a default config, which nobody searched for; they compile in about a second."""
USUAL_THREADS = (64, 128, 256)
BEST = 6
"""Thread shapes that are tried with every block shape."""


@lru_cache(maxsize=256)
def ranked(problem: Conv2d, device: Device) -> tuple[Config, ...]:
    """The legal config expected to be fastest for each thread shape, sorted by expected time."""
    space = image_space(problem, device)
    best: dict[tuple[Value, ...], tuple[float, Config]] = {}
    for values in _threads(problem, space):
        found = [
            (image_ns(problem, ImageGeometry.of(problem, config), device), config)
            for config in map(Config.of, _blocks(problem, space, values))
            if space.contains(config)
        ]
        if found:
            key = tuple(values[name] for name in ("columns", "rows", "filters"))
            mine = min(found, key=lambda each: each[0])
            best[key] = min(best.get(key, mine), mine, key=lambda each: each[0])
    if not best:
        return tuple(filter(None, [smallest_image(problem, space)]))
    return tuple(config for _, config in sorted(best.values(), key=lambda each: each[0]))


def variants(config: Config, space: Space) -> list[Config]:
    """Legal configs near this one that differ in portions only: the model cannot tell them apart, but timing can."""
    units = config.integer("units")
    changes: tuple[dict[str, Value], ...] = (
        {"units": 4 * units},
        {"rounds": 2, "stages": 2},
        {"rounds": 4, "stages": 2},
        {"units": 2 * units, "rounds": 4, "stages": 2},
        {"min_blocks": 3},
    )
    found = (Config.of({**config.values(), **change}) for change in changes)
    return [each for each in found if space.contains(each)]


def _threads(problem: Conv2d, space: Space) -> Iterator[dict[str, Value]]:
    """The thread shapes that are worth a look: some 30."""
    values = {each.name: each.values for each in space.parameters}
    (down, across), (_, results) = axes_of(problem), channels_of(problem)
    taps_of_row = sum(each.count for each in across.phases)
    for columns, rows, filters in itertools.product(values["columns"], values["rows"], values["filters"]):
        assert isinstance(columns, int) and isinstance(rows, int) and isinstance(filters, int)  # noqa: PT018
        if columns * rows * filters > 64 or (filters < min(results, 4) and rows * columns > 8):
            continue
        if columns * rows * filters < min(4, across.steps * down.steps) or filters > results:
            continue
        fitting = [
            each
            for each in values["tap_rows"]
            if isinstance(each, int)
            and filters * rows * columns * taps_of_row * each * len(down.phases) <= DEFAULT_WRITTEN
            and filters * taps_of_row * each <= 64
        ]
        yield {"columns": columns, "rows": rows, "filters": filters, "tap_rows": max(fitting, default=1)}


def _blocks(problem: Conv2d, space: Space, thread: dict[str, Value]) -> Iterator[dict[str, Value]]:
    """Block shapes for this thread shape: whole planes if several fit, otherwise bands."""
    values = {each.name: each.values for each in space.parameters}
    (down, across), (sources, results) = axes_of(problem), channels_of(problem)
    rows, columns, filters = (int(thread[name]) for name in ("rows", "columns", "filters"))
    per_plane = -(-down.steps // rows) * -(-across.steps // columns)
    block_filters = min((each for each in values["block_filters"] if int(each) * filters >= results), default=1)
    channels = max(each for each in values["channels"] if int(each) <= 4 or int(each) == sources)
    rest: dict[str, Value] = {**thread, "block_filters": block_filters, "rounds": 1, "stages": 1, "min_blocks": 1}
    rest["channels"] = sources if len(down.phases) * len(across.phases) > 1 or sources <= 8 else channels
    for threads, stores in itertools.product(USUAL_THREADS, Stores):
        wanted = max(threads // (per_plane * int(block_filters)), 1)
        units = max((each for each in values["units"] if int(each) <= wanted), default=1)
        bands = max(-(-per_plane * int(block_filters) // threads), 1)
        row_bands = min((each for each in values["row_bands"] if int(each) >= bands), default=values["row_bands"][-1])
        left = max(-(-bands // int(row_bands)), 1)
        column_bands = min((each for each in values["column_bands"] if int(each) >= left), default=1)
        yield {**rest, "units": units, "row_bands": row_bands, "column_bands": column_bands, "stores": stores.value}
