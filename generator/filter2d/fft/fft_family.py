"""Large filters by transforms of tiles in global memory: overlap-save in three kernels.

Source: Stockham 1966, "High-speed convolution and correlation" (overlap-save); Lavin and Gray 2015 name it for images.
The row-column form of a two-dimensional transform: Cooley and Tukey 1965. The kernels are this repository's own.

Two tiles of a plane are one complex tile. The first kernel transforms its rows and writes them to a workspace. The
second kernel transforms columns there, a few side by side, multiplies by the filter's spectrum, and transforms them
back. The third kernel transforms rows back, and stores the results of both tiles. Chunks of tiles are so small that the
workspace stays in the L2 cache. Each chunk has its own launches, or one launch does all chunks, and its blocks take the
work of the three kernels in turn (`Flow`). No pass reorders elements: decimation in frequency leaves an order that
decimation in time undoes. The same passes make the filter's spectrum, so it has that order too.

An FFT's error is relative to the whole tile, so a problem must allow `accuracy="imagewise"`. A NaN or an infinity
spreads over both tiles, so a problem must allow that with `nonfinite="any"`, or have a pixel type without them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from math import ceil, prod

from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.fft.text import Twiddles
from warpsmith.generator.filter2d.fft.fft_geometry import (
    FLOWING,
    Filter2dFftGeometry,
)
from warpsmith.generator.filter2d.fft.fft_model import (
    MOST_POINTS,
    PAIRS,
    Filter2dFftChoice,
    items,
    likely,
    nanoseconds,
    pairs_in_cache,
)
from warpsmith.generator.filter2d.fft.fft_space import (
    BLOCK_POINTS,
    MIN_BLOCKS,
    ROWS,
    THREADS,
    fft_constraints,
    fft_parameters,
    likely_threads,
    registers_of,
)
from warpsmith.generator.filter2d.fft.fft_text import FftText, Flow
from warpsmith.generator.filter2d.overlap_family import Partners, likely_axes, overlap_save_ns
from warpsmith.generator.filter2d.problem import Filter2d
from warpsmith.generator.filter2d.text import (
    Filter2dText,
    MemoryPath,
    Weights,
    is_strict,
    too_many_weights,
    weights_arguments,
)
from warpsmith.generator.filter2d.window_geometry import StoreHint
from warpsmith.generator.problem import Accuracy
from warpsmith.generator.program import Launch, Pointer, Program, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Space, Value
from warpsmith.generator.steps import PROGRESS, begin_launch
from warpsmith.generator.tiles.lines import points_of, radices_of, text_of, ways
from warpsmith.generator.tiles.space import INSTRUCTIONS, resident


def most_blocks(config: Config, space: Space, device: Device) -> Config:
    """`config` with the most blocks per SM that are legal."""
    flows = config.integer("buffers") == FLOWING
    choices = (
        Config.of({**config.values(), "min_blocks": blocks, "blocks": blocks * device.multiprocessors if flows else 0})
        for blocks in reversed(MIN_BLOCKS)
    )
    return next((each for each in choices if space.contains(each)), config)


def configs(problem: Filter2d, choice: Filter2dFftChoice, space: Space, device: Device) -> Iterator[Config]:
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


def _likely_rows(problem: Filter2d, choice: Filter2dFftChoice, device: Device) -> int:
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
        most_resident = min(max(1, by_registers), max(1, resident(rows * columns_points, device)))
        blocks = ceil(lines / rows / device.multiprocessors)
        return rows * (blocks if blocks <= most_resident else most_resident * ceil(blocks / most_resident)), -rows

    fitting = [each for each in ROWS if each == 1 or each * columns_points <= 2 * BLOCK_POINTS]
    return min(fitting, key=of_full_waves)


def _usual(problem: Filter2d, choice: Filter2dFftChoice, device: Device) -> Iterator[dict[str, Value]]:
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


MIN_TAPS = 49
"""Least taps of a filter: fewer cost less tap by tap than by transforms."""
_SHARED_TILES = 0.7
"""Factor on the modelled time of tiles in shared memory (`overlap_family.py`): 717 us were measured where the model has
982 (H200, 65x65 taps on 9216x9216)."""
START_SIZES = 4
"""Sizes of tiles that a search begins with, including the default's."""
_CHANGES: tuple[dict[str, Value], ...] = (
    {"twiddles": Twiddles.POWERS.value},
    {"twiddles": Twiddles.TABLE.value},
    {"store": StoreHint.STREAMING.value},
    {"store": StoreHint.PLAIN.value},
    {"columns": 4},
    {"columns": 16},
    {"column_threads": 192},
    {"column_threads": 256},
    {"column_threads": 512},
    {"rows": 2},
    {"rows": 8},
    {"buffers": 1},
    {"buffers": 2},
)
"""Changes to the default config that are worth a try."""


class Filter2dFft(Family[Filter2d]):
    """`filter2d` by FFTs of tiles in global memory."""

    name = "filter2d_fft"

    def why_not(self, problem: Filter2d, device: Device) -> str | None:
        if problem.accuracy is not Accuracy.IMAGEWISE:
            return "has errors relative to its whole tile: accuracy imagewise"
        if is_strict(problem):
            return "spreads what is not finite over its tiles: nonfinite any"
        if problem.channels > 1:
            return "transforms images of one channel"
        if prod(problem.filter) < MIN_TAPS:
            return f"a filter of fewer than {MIN_TAPS} taps costs less tap by tap"
        if not likely(problem, device):
            r, s = problem.filter
            return f"no tile for a filter of {r}x{s} has lines of at most {MOST_POINTS} points and fits its workspaces"
        return None

    def is_likely(self, problem: Filter2d, device: Device) -> bool:
        """True on a GPU if tiles in shared memory cannot take the filter, or are expected to take longer."""
        if device.kind is not DeviceKind.CUDA:
            return False
        if too_many_weights(problem, pointers=3) or not (axes := likely_axes(problem, device)):
            return True
        theirs_ns = overlap_save_ns(problem, *axes[0], device)
        return nanoseconds(problem, likely(problem, device)[0], device) < _SHARED_TILES * theirs_ns

    def space(self, problem: Filter2d, device: Device) -> Space:
        return Space(fft_parameters(problem, device), fft_constraints(problem, device))

    def default(self, problem: Filter2d, device: Device) -> Config:
        space = self.space(problem, device)
        choices = (each for choice in likely(problem, device) for each in configs(problem, choice, space, device))
        return next(choices, None) or next(space.configs())

    def starts(self, problem: Filter2d, device: Device) -> tuple[Config, ...]:
        space, default = self.space(problem, device), self.default(problem, device)
        pairs = default.integer("pairs")
        more: tuple[dict[str, Value], ...] = ({"pairs": 2 * pairs}, {"pairs": max(1, pairs // 2)})
        found = [most_blocks(_changed(default, change), space, device) for change in (*_CHANGES, *more)]
        for choice in likely(problem, device)[:START_SIZES]:
            kept = dataclasses.replace(choice, pairs=pairs_in_cache(choice, device), buffers=1)
            found += [config for each in (choice, kept) for config in list(configs(problem, each, space, device))[:2]]
            found += [each for each in (flowing(found[-1], space, device),) if each is not None]
        return tuple(dict.fromkeys(each for each in found if each != default and space.contains(each)))

    def unrolled(self, problem: Filter2d, config: Config) -> int:
        """The text has transforms of rows three times, once in two forms, and of columns three times."""
        x, y = (sum(INSTRUCTIONS[n] + 4 * n for n in radices_of(config.text(f"{axis}_radices"))) for axis in "xy")
        return 4 * x + 3 * y

    def program(self, problem: Filter2d, config: Config) -> Program:
        geometry, weights = Filter2dFftGeometry.of(problem, config), Weights.of(config)
        source = render(
            "filter2d/fft.cu.jinja",
            p=Filter2dText.of(problem),
            g=FftText(geometry),
            at=geometry,
            flow=Flow(geometry),
            config=config.key(),
            weights=weights.value,
        )
        workspaces = (
            Workspace("taps", geometry.tap_bytes, holds=("weights",)),
            Workspace("spectra", geometry.spectrum_bytes, holds=("weights",)),
            Workspace("work", geometry.work_bytes),
            *([Workspace(PROGRESS, Flow(geometry).counter_bytes)] if geometry.flows else []),
        )
        return Program.of_source(
            self.name, config, source, tuple(_launches(self.name, problem, geometry, weights)), workspaces
        )


def _changed(config: Config, change: dict[str, Value]) -> Config:
    """`config` with a change; rows have as many threads as columns where one launch has both."""
    values = {**config.values(), **change}
    if values["buffers"] == FLOWING:
        values["row_threads"] = values["column_threads"]
    return Config.of(values)


def _launches(name: str, problem: Filter2d, geometry: Filter2dFftGeometry, weights: Weights) -> Iterator[Launch]:
    """Yields two launches for the filters' spectra, then those of the tiles.

    One launch does all chunks, after one that resets its counters. Otherwise each chunk takes three launches, or two
    plus one more for all chunks if the workspace has two buffers.
    """
    rows, columns = geometry.rows, geometry.columns

    def by_rows(entry: str, blocks: int, *arguments: Pointer) -> Launch:
        return Launch(f"{name}_{entry}", (blocks, 1, 1), (rows.threads, 1, 1), arguments, rows.shared_bytes)

    def by_columns(entry: str, blocks: int, *arguments: Pointer) -> Launch:
        return Launch(f"{name}_{entry}", (blocks, 1, 1), (columns.threads, 1, 1), arguments, columns.shared_bytes)

    image, result, taps, spectra, work = map(Pointer, ("image", "result", "taps", "spectra", "work"))
    given = weights_arguments(weights, known=problem.weights is not None)
    yield Launch(f"{name}_taps", (geometry.tap_blocks, 1, 1), (rows.threads, 1, 1), (taps, *given), rows.shared_bytes)
    yield by_columns("spectrum", geometry.column_blocks * geometry.filters, spectra, taps)
    if geometry.flows:
        progress, shared_bytes = Pointer(PROGRESS), max(rows.shared_bytes, columns.shared_bytes)
        yield begin_launch(name, rows.threads)
        arguments = (image, result, work, spectra, progress)
        yield Launch(f"{name}_flow", (geometry.blocks, 1, 1), (rows.threads, 1, 1), arguments, shared_bytes)
        return
    chunks, double = geometry.chunks, geometry.is_double
    for number, pairs in enumerate(chunks):
        chunk = Pointer("work", number)
        everything = (image, result, work, chunk)
        if number == 0 or not double:
            yield by_rows("rows", geometry.row_blocks * pairs, *everything)
        which = (chunk,) if geometry.filters > 1 or double else ()
        yield by_columns("columns", geometry.column_blocks * pairs, work, spectra, *which)
        if double and number + 1 < len(chunks):
            blocks = geometry.result_blocks * pairs + geometry.row_blocks * chunks[number + 1]
            yield by_rows("between", blocks, *everything)
        else:
            yield by_rows("results", geometry.result_blocks * pairs, *everything)
