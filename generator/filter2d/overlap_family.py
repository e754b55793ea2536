"""Large filters by transforms of overlapping image tiles in shared memory (overlap-save).

The cost model says which sizes and radices are worth a try. A pass reads and writes every element of the tile in shared
memory, and executes float32 instructions. Blocks that share an SM overlap one with the other. A larger tile wastes
fewer results at its edge, and leaves room for fewer blocks.

Source: overlap-save (Stockham 1966, "High-speed convolution and correlation"), with two real tiles as one complex tile.
With a real filter the spectrum need not be split, since FFT(a + i b) H is the transform of both results. The forward
transform is by decimation in frequency (Gentleman and Sande 1966, "Fast Fourier transforms: for fun and profit"), the
inverse by decimation in time, so that no element ever moves to another place.

An FFT's error is relative to the whole tile, so a problem must ask for `accuracy="imagewise"`. A NaN or an infinity
spreads over both tiles. Unless the problem allows that, a block checks whether a result is not finite, and then
computes its tiles' results again, tap by tap.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
from math import ceil, prod

from warpsmith.generator.device import REFERENCE, Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.fft.text import Twiddles
from warpsmith.generator.filter2d.problem import Filter2d
from warpsmith.generator.filter2d.text import (
    Filter2dText,
    MemoryPath,
    Weights,
    too_many_weights,
)
from warpsmith.generator.filter2d.window_geometry import StoreHint
from warpsmith.generator.problem import Accuracy
from warpsmith.generator.program import ByValue, Launch, Pointer, Program, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Parameter, Space, Value, words
from warpsmith.generator.tiles.space import (
    TWIDDLE,
    best_axes,
    busiest,
    conflicts,
    idle,
    instructions,
    likely_values,
    products,
    resident,
    tile_constraints,
    tile_parameters,
    unrolled,
)
from warpsmith.generator.tiles.text import Passes, TileText
from warpsmith.generator.tiles.tile import COMPLEX_BYTES, TileAxis


class Partners(enum.StrEnum):
    """Pairing of two tiles into one complex tile."""

    ADJACENT = "adjacent"
    """Consecutive tiles of a plane, mostly side by side."""
    APART = "apart"
    """One tile of the first half of a plane's tiles, and one of the second half."""


class PairedTiles:
    """Tiles of a plane, paired into complex tiles."""

    __slots__ = ()

    partners: Partners
    tiles_down: int
    tiles_across: int

    @property
    def tiles(self) -> int:
        """Tiles of a plane."""
        return self.tiles_down * self.tiles_across

    @property
    def pairs(self) -> int:
        """Pairs of a plane. A tile's errors are relative to its partner's pixels too, so a pair stays in one plane."""
        return ceil(self.tiles / 2)

    def partners_of(self, pair: int) -> tuple[int, int]:
        """Numbers of the two tiles of a pair; the second one is `tiles` if it does not exist."""
        return (pair, self.pairs + pair) if self.partners is Partners.APART else (2 * pair, 2 * pair + 1)


@dataclasses.dataclass(frozen=True, slots=True)
class OverlapGeometry(PairedTiles):
    """Sizes in pixels, tiles and threads."""

    passes: Passes
    partners: Partners
    ahead: bool
    """True if the filter's spectrum is read before the transform that it multiplies."""
    streaming: bool
    valid_rows: int
    """Rows of results that a tile's pixels suffice for."""
    valid_columns: int
    tiles_down: int
    """Tiles of a plane, down."""
    tiles_across: int
    planes: int
    filters: int

    @classmethod
    def of(cls, problem: Filter2d, config: Config) -> OverlapGeometry:
        (r, s), (rows, columns) = problem.filter, problem.output_shape
        y, x = TileAxis.of(config.text("y_radices")), TileAxis.of(config.text("x_radices"))
        valid_rows, valid_columns = y.points - r + 1, x.points - s + 1
        return cls(
            passes=Passes.of(config, valid_columns),
            partners=Partners(config.text("partners")),
            ahead=config.integer("ahead") == 1,
            streaming=config.text("store") == StoreHint.STREAMING,
            valid_rows=valid_rows,
            valid_columns=valid_columns,
            tiles_down=ceil(rows / valid_rows),
            tiles_across=ceil(columns / valid_columns),
            planes=problem.planes,
            filters=problem.filters,
        )

    @property
    def summary(self) -> tuple[str, ...]:
        """Header lines that say what the kernel does."""
        y, x = self.passes.y, self.passes.x
        return (
            f"Overlap-save: tiles of {y.points} x {x.points} pixels, {self.valid_rows} x {self.valid_columns} results.",
            "A block computes two tiles as one complex tile in shared memory: forward FFT, product with the filter's",
            f"spectrum, inverse FFT, in three passes each way and in place. Radices: columns {y.text}, rows {x.text}.",
            "Threads of the block share the first and the last pass; a warp does the others on a group of rows.",
        )

    @property
    def blocks(self) -> int:
        """Blocks of the grid: each has one pair of tiles and one filter."""
        return self.pairs * self.planes * self.filters

    @property
    def spectrum_bytes(self) -> int:
        return COMPLEX_BYTES * self.filters * self.passes.spectrum_elements

    def results(self, tile: int) -> tuple[slice, slice]:
        """Rows and columns of a plane's results that a tile computes; parts past the result do not exist."""
        row, column = divmod(tile, self.tiles_across)
        return (
            slice(row * self.valid_rows, (row + 1) * self.valid_rows),
            slice(column * self.valid_columns, (column + 1) * self.valid_columns),
        )


CLOCK_SHARE = 1.75 / REFERENCE.cycles_per_ns
"""Share of the boost clock that float32 instructions leave (measured, H200)."""
_TRANSFERS = 8
"""Accesses to an element in shared memory: two for each pass, but one for the first and for the last pass."""
_BESIDE = 6.0
"""Accesses besides those, in whose time the rest of a tile is done: pixels, results, the filter's spectrum, twiddles. A
guess.
"""
_OVERHEAD = 1.2
"""Instructions for each computing one: addresses, loads, stores."""
_SINGLE = 1.15
"""Slowdown of a single block on an SM, which waits at barriers and for memory. A guess."""
_LIKELY = 48
"""Tile sizes whose cost is also counted with bank conflicts and idle threads."""


def overlap_save_ns(
    problem: Filter2d, y: TileAxis, x: TileAxis, device: Device, turns: float = 1.0, busy: float = 1.0
) -> float:
    """Nanoseconds that the whole problem takes by the model; infinite if a tile does not fit.

    Args:
        problem: filter problem.
        y: radices of a tile's columns.
        x: radices of a tile's rows.
        device: device that filters.
        turns: wavefronts per access to shared memory, 1 without bank conflicts.
        busy: share of loop iterations in which threads have work.
    """
    points, (r, s) = y.points * x.points, problem.filter
    blocks = resident(points, device)
    if not blocks:
        return float("inf")
    rows, columns = problem.output_shape
    tiles = ceil(rows / (y.points - r + 1)) * ceil(columns / (x.points - s + 1))
    pairs = ceil(tiles / 2) * problem.planes * problem.filters
    # Columns without results save about half of the arithmetic of the inverse, and two accesses.
    valid = (x.points - s + 1) / x.points
    rates = device.rates.of_multiprocessor(CLOCK_SHARE)
    arithmetic = (instructions(y, x) * (1.5 + valid / 2) + TWIDDLE) * _OVERHEAD / rates.multiply_adds_per_ns
    transfers = ((_TRANSFERS - 2 + 2 * valid) * turns + _BESIDE) * COMPLEX_BYTES / rates.shared_bytes_per_ns
    longer, shorter = max(arithmetic, transfers), min(arithmetic, transfers)
    # The last round of few blocks is long. Only one block's part of the shorter time is not hidden.
    waves = max(pairs / (device.multiprocessors * blocks), 1.0)
    rounds = (ceil(waves) + waves) / 2
    alone = _SINGLE if blocks == 1 else 1.0
    return rounds * blocks * points * (longer + shorter / blocks) * alone / busy


def sizes(problem: Filter2d, axis: int) -> tuple[int, ...]:
    """Points of a tile along an axis that are worth a try.

    They exceed the filter's taps by an eighth at least. The largest is the smallest size that holds the whole result.
    """
    taps, results = problem.filter[axis], problem.output_shape[axis]
    every = products(max(16, taps + taps // 8))
    enough = next((size for size in every if size >= results + taps - 1), None)
    return tuple(size for size in every if enough is None or size <= enough)


@functools.lru_cache(maxsize=256)
def likely_axes(problem: Filter2d, device: Device) -> tuple[tuple[TileAxis, TileAxis], ...]:
    """Rows and columns of tiles that fit, each size once, the fastest first by the model."""
    choices = [
        axes
        for rows, columns in itertools.product(sizes(problem, 0), sizes(problem, 1))
        if resident(rows * columns, device) and (axes := best_axes(rows, columns))
    ]
    choices.sort(key=lambda each: (overlap_save_ns(problem, each[0], each[1], device), each[0].points, each[1].points))
    few, others = choices[:_LIKELY], choices[_LIKELY:]
    few.sort(key=lambda each: _closer_ns(problem, each[0], each[1], device))
    return (*few, *others)


def _closer_ns(problem: Filter2d, y: TileAxis, x: TileAxis, device: Device) -> float:
    """Nanoseconds with bank conflicts and idle threads, which take longer to count."""
    return overlap_save_ns(problem, y, x, device, conflicts(y, x, device), 1 - idle(*busiest(y, x)))


MIN_TAPS = 49
"""Least taps: fewer taps cost less one by one than a transform does."""
LIKELY_TAPS = 17 * 17
"""Taps from which on the family is likely, and answers if nothing is stored."""
START_TILES = 4
"""Tile sizes that a search begins with."""
STARTS = 3
"""Starting configs for each tile size."""
_USUAL: dict[str, Value] = {
    "path": MemoryPath.GLOBAL.value,
    "weights": Weights.ARGUMENT.value,
    "ahead": 1,
    "partners": Partners.ADJACENT.value,
    "store": StoreHint.PLAIN.value,
}


_CHANGES: tuple[dict[str, Value], ...] = (
    {"ahead": 0},
    {"twiddles": Twiddles.POWERS.value},
    {"store": StoreHint.STREAMING.value},
)
"""Changes to the default config that are worth a try."""


class Filter2dOverlapSave(Family[Filter2d]):
    """`filter2d` by transforms of tiles."""

    name = "filter2d_overlap_save"

    def why_not(self, problem: Filter2d, device: Device) -> str | None:
        if problem.accuracy is not Accuracy.IMAGEWISE:
            return "has errors relative to its whole tile: accuracy imagewise"
        if problem.channels > 1:
            return "transforms images of one channel"
        if prod(problem.filter) < MIN_TAPS:
            return f"a filter of fewer than {MIN_TAPS} taps costs less tap by tap"
        if reason := too_many_weights(problem, pointers=3):
            return reason
        if not likely_axes(problem, device):
            r, s = problem.filter
            return f"no tile for a filter of {r}x{s} fits {device.shared_per_block_bytes} bytes of shared memory"
        return None

    def is_likely(self, problem: Filter2d, device: Device) -> bool:
        """More taps make a transform save more."""
        return device.kind is DeviceKind.CUDA and prod(problem.filter) >= LIKELY_TAPS

    def space(self, problem: Filter2d, device: Device) -> Space:
        return Space(
            parameters=(
                Parameter("path", words((MemoryPath.GLOBAL,)), "how pixels come from the image to a thread"),
                Parameter("weights", words((Weights.ARGUMENT,)), "where the spectrum's kernel finds the weights"),
                *tile_parameters(sizes(problem, 0), sizes(problem, 1)),
                Parameter("ahead", (0, 1), "1 reads the filter's spectrum before the transform that it multiplies"),
                Parameter("partners", words(Partners), "which two tiles are one complex tile"),
                Parameter("store", words(StoreHint), "streaming marks the result as evicted first from L2"),
            ),
            constraints=tile_constraints(device),
        )

    def default(self, problem: Filter2d, device: Device) -> Config:
        space = self.space(problem, device)
        choices = (each for axes in likely_axes(problem, device) for each in _configs(*axes, device))
        return next((config for config in choices if space.contains(config)), None) or next(space.configs())

    def starts(self, problem: Filter2d, device: Device) -> tuple[Config, ...]:
        space, default = self.space(problem, device), self.default(problem, device)
        found = [Config.of({**default.values(), **change}) for change in _CHANGES]
        for axes in likely_axes(problem, device)[:START_TILES]:
            found += [each for each in _configs(*axes, device) if space.contains(each)][:STARTS]
        return tuple(dict.fromkeys(each for each in found if each != default))

    def unrolled(self, problem: Filter2d, config: Config) -> int:
        """Unrolled work: each pass is written out forward and backward."""
        return unrolled(TileAxis.of(config.text("y_radices")), TileAxis.of(config.text("x_radices")))

    def program(self, problem: Filter2d, config: Config) -> Program:
        geometry = OverlapGeometry.of(problem, config)
        passes = geometry.passes
        source = render(
            "filter2d/overlap.cu.jinja",
            p=Filter2dText.of(problem),
            g=TileText(passes),
            at=geometry,
            config=config.key(),
        )
        weights = ByValue("weights")
        spectrum = Launch(
            entry=f"{self.name}_spectrum",
            grid=(passes.spectrum_blocks * geometry.filters, 1, 1),
            block=(passes.spectrum_threads, 1, 1),
            arguments=(Pointer("spectra"), weights),
        )
        tiles = Launch(
            entry=self.name,
            grid=(geometry.blocks, 1, 1),
            block=(passes.threads, 1, 1),
            arguments=(Pointer("image"), Pointer("result"), Pointer("spectra"), weights),
            shared_bytes=passes.shared_bytes,
        )
        workspace = Workspace("spectra", geometry.spectrum_bytes, holds=("weights",))
        return Program.of_source(self.name, config, source, (spectrum, tiles), (workspace,))


def _configs(y: TileAxis, x: TileAxis, device: Device) -> list[Config]:
    """Configs for tiles of these sizes, the likeliest first; not all are legal."""
    return [Config.of({**_USUAL, **values}) for values in likely_values(y, x, device)]
