"""Likely configs of `filter2d_fft` for tiles of one size."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from math import ceil, prod

from warpsmith.generator.device import Device
from warpsmith.generator.fft.words import Twiddles
from warpsmith.generator.filter2d.fft.fft_geometry import FLOWING
from warpsmith.generator.filter2d.fft.fft_model import PAIRS, Choice, items
from warpsmith.generator.filter2d.fft.fft_space import (
    BLOCK_POINTS,
    MIN_BLOCKS,
    ROWS,
    THREADS,
    fft_parameters,
    likely_threads,
    registers_of,
)
from warpsmith.generator.filter2d.fft.lines import points_of, text_of, ways
from warpsmith.generator.filter2d.overlap.overlap_geometry import Partners
from warpsmith.generator.filter2d.problem import Filter2d
from warpsmith.generator.filter2d.text import MemoryPath
from warpsmith.generator.filter2d.window.window_geometry import StoreHint
from warpsmith.generator.space import Config, Space, Value
from warpsmith.generator.tiles.radices import resident


def most_blocks(config: Config, space: Space, device: Device) -> Config:
    """`config` with the most blocks per SM that are legal."""
    flows = config.integer("buffers") == FLOWING
    choices = (
        Config.of({**config.values(), "min_blocks": blocks, "blocks": blocks * device.multiprocessors if flows else 0})
        for blocks in reversed(MIN_BLOCKS)
    )
    return next((each for each in choices if space.contains(each)), config)


def configs(problem: Filter2d, choice: Choice, space: Space, device: Device) -> Iterator[Config]:
    """Yields legal configs with the tiles of `choice`, likeliest first."""
    for values in _usual(problem, choice, device):
        config = Config.of(values)
        made = flowing(config, space, device) if choice.buffers == FLOWING else most_blocks(config, space, device)
        if made is not None and space.contains(made):
            yield made


def flowing(config: Config, space: Space, device: Device) -> Config | None:
    """`config` with the same tiles in one launch; None if no such config is legal.

    A block has as many rows as fill the threads of its columns. If `config` has several launches, chunks become so
    large that at least as many jobs as there are blocks lie between a job and the jobs that depend on it.
    """
    values = config.values()
    x_points, y_points = points_of(config.text("x_radices")), points_of(config.text("y_radices"))
    side, threads = config.integer("columns"), config.integer("column_threads")
    same: dict[str, Value] = {"buffers": FLOWING, "twiddles": Twiddles.POWERS.value, "store": StoreHint.STREAMING.value}
    fitting = [each for each in ROWS if each * x_points <= max(side * y_points, BLOCK_POINTS)] or [1]
    nearest = sorted(THREADS, key=lambda each: abs(each - threads))
    for rows, count in itertools.product(reversed(fitting), nearest):
        wanted: dict[str, Value] = {"rows": rows, "row_threads": count, "column_threads": count}
        found = most_blocks(Config.of({**values, **same, **wanted}), space, device)
        if not space.contains(found):
            continue
        if config.integer("buffers") == FLOWING:
            return found
        parts = (ceil(y_points / rows), x_points // side, ceil(y_points / rows))
        jobs = sum(parts) - max(parts)  # per item, between a job and the jobs that depend on it
        pairs = next((each for each in PAIRS if each * jobs >= found.integer("blocks")), PAIRS[-1])
        enough = Config.of({**found.values(), "pairs": pairs})
        return enough if space.contains(enough) else found
    return None


def _likely_rows(problem: Filter2d, choice: Choice, device: Device) -> int:
    """Rows per block with which an SM computes the fewest rows if all its waves of blocks are full; the most on a tie.

    With 2 rows, 576 blocks of 1152 rows were 1.09 times the blocks that an H200 held at once. They took two waves and
    16 us.
    """
    rows_points, columns_points = prod(choice.y), prod(choice.x)
    height, taps = problem.output_shape[0], problem.filter[0]
    lines = min(rows_points, height + taps - 1) * min(choice.pairs, items(problem, rows_points, columns_points))

    def of_full_waves(rows: int) -> tuple[int, int]:
        threads = likely_threads(choice.x, rows, 256)[0]
        by_registers = device.registers_per_multiprocessor // (registers_of(text_of(choice.x)) * threads)
        held = min(max(1, by_registers), max(1, resident(rows * columns_points, device)))
        blocks = ceil(lines / rows / device.multiprocessors)
        return rows * (blocks if blocks <= held else held * ceil(blocks / held)), -rows

    fitting = [each for each in ROWS if each == 1 or each * columns_points <= 2 * BLOCK_POINTS]
    return min(fitting, key=of_full_waves)


def _usual(problem: Filter2d, choice: Choice, device: Device) -> Iterator[dict[str, Value]]:
    """Yields the usual values for the tiles of `choice`, which are not all legal; the blocks are set later."""
    y, x = text_of(choice.y), text_of(choice.x)
    rows = _likely_rows(problem, choice, device)
    column_threads = likely_threads(choice.y, choice.side, 512 if choice.side * prod(choice.y) > 8192 else 256)
    usual: dict[str, Value] = {
        "path": MemoryPath.GLOBAL.value,
        "weights": fft_parameters(problem, device)[1].values[0],
        "y_radices": y,
        "x_radices": x,
        "pairs": choice.pairs,
        "buffers": choice.buffers,
        "blocks": 0,
        "columns": choice.side,
        "min_blocks": 1,
        "column_threads": column_threads[0],
        "rows": rows,
        "row_threads": likely_threads(choice.x, rows, 256)[0],
        "twiddles": Twiddles.TABLE.value,
        "partners": Partners.ADJACENT.value,
        "store": StoreHint.PLAIN.value,
    }
    yield usual
    for radices in ways(prod(choice.y))[1:2]:
        yield {**usual, "y_radices": text_of(radices)}
    for radices in ways(prod(choice.x))[1:2]:
        yield {**usual, "x_radices": text_of(radices)}
    yield {**usual, "column_threads": 32, "row_threads": 32}
