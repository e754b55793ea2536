"""A config of `fft_block`, read: its packing, its accesses to memory, its split of the work, and its tile."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Iterator
from math import ceil

from warpsmith.generator.fft.block.block_tile import Pool, Tile, TileShape, Touch
from warpsmith.generator.fft.block.gaps import fitted_tile
from warpsmith.generator.fft.problem import Fft, Layout
from warpsmith.generator.fft.words import Loads, Packing, Stores, Twiddles
from warpsmith.generator.space import Config


class Access(enum.StrEnum):
    """Way in which threads access an array in global memory."""

    DIRECT = "direct"
    """The first pass reads the array, or the last one writes it."""
    STAGED = "staged"
    """A stage of its own copies the array to or from the tile."""
    SEQUENTIAL = "sequential"
    """A half spectrum is written through the tile, one element after the other; each reads the tile twice. Under
    STAGED, in contrast, a thread writes a frequency and its mirror image."""
    MIRRORED = "mirrored"
    """The first pass reads the spectra of two real signals, or the last one writes them; each thread has two sets of
    frequencies that are mirror images."""


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """A config of `fft_block`, read."""

    x_radices: tuple[int, ...]
    y_radices: tuple[int, ...]
    packing: Packing
    y_first: bool
    shares: int
    """Blocks that share a transform. With two, each computes every other row of the result."""
    transforms: int
    """Complex transforms per tile."""
    threads: int
    """Threads per tile."""
    tiles: int
    """Tiles that a block has at a time."""
    signal: Access
    spectrum: Access
    twiddles: Twiddles
    loads: Loads
    stores: Stores
    min_blocks: int
    gaps: int
    """Percent of a tile that may be left out between its rows."""
    blocks: int
    """Persistent blocks of the grid; 0 for one block per group of `tiles` tiles."""
    ahead: int
    """Tiles from the current one to the one whose data is prefetched into the L2 cache; 0 without prefetching."""
    rows: int
    """Rows of a product whose results one tile has; 1 without a product."""

    @classmethod
    def of(cls, problem: Fft, config: Config) -> Choice:
        is_flat = len(problem.size) == 1
        return cls(
            x_radices=radices_of(config.text("x_radices")),
            y_radices=() if is_flat else radices_of(config.text("y_radices")),
            packing=Packing(config.text("packing")),
            y_first=not is_flat and config.text("first") == "y",
            shares=int(config.values().get("shares", 1)),
            transforms=config.integer("transforms"),
            threads=config.integer("threads"),
            tiles=config.integer("tiles"),
            signal=Access(config.text("signal")),
            spectrum=Access(str(config.values().get("spectrum", Access.STAGED))),
            twiddles=Twiddles(config.text("twiddles")),
            loads=Loads(config.text("loads")),
            stores=Stores(config.text("stores")),
            min_blocks=config.integer("min_blocks"),
            gaps=config.integer("gaps"),
            blocks=config.integer("blocks"),
            ahead=int(config.values().get("ahead", 0)),
            rows=int(config.values().get("rows", 1)),
        )


@functools.lru_cache(maxsize=4096)  # every constraint that reads radices calls it
def radices_of(text: str) -> tuple[int, ...]:
    """Radices of a config's word: `8x16`."""
    return tuple(int(radix) for radix in text.split("x"))


def tile_of(problem: Fft, choice: Choice) -> Tile:
    """Tile in shared memory for a config."""
    first, last = choice.spectrum, choice.signal
    if not problem.inverse:
        first, last = last, first
    shape = TileShape(
        transforms=choice.transforms,
        y_radices=choice.y_radices,
        x_radices=choice.x_radices,
        y_first=choice.y_first,
        is_global=(first is Access.DIRECT, last is Access.DIRECT),
        gaps=choice.gaps,
        present=_present(problem, choice),
        is_signal_first=not problem.inverse,
        is_mirrored=(first is Access.MIRRORED, last is Access.MIRRORED),
    )
    return fitted_tile(shape, tuple(_touches(problem, choice, shape)))


def _present(problem: Fft, choice: Choice) -> tuple[int, int]:
    """Rows and columns of a tile that the signal fills, if they are fewer than the frequencies; 0 for all."""
    is_whole = problem.start is not None or choice.shares > 1 or problem.layout is not Layout.FREQUENCY
    if is_whole or len(problem.size) == 1:
        return 0, 0
    (rows, columns), (all_rows, all_columns) = problem.bordered_size, problem.size
    together = 2 if choice.packing is Packing.HALF else 1
    return rows if rows < all_rows else 0, ceil(columns / together) if columns < all_columns else 0


def _touches(problem: Fft, choice: Choice, shape: TileShape) -> Iterator[Touch]:
    """Accesses to the tile by the stages that are not passes."""
    inverse = problem.inverse is True
    if choice.signal is Access.STAGED:
        yield Touch(signal_pool(shape), is_after=inverse)
    if choice.spectrum in (Access.DIRECT, Access.MIRRORED):
        return
    pool = spectrum_pool(problem, shape) if choice.spectrum is Access.STAGED else sequential_pool(problem, shape)
    if problem.is_real and inverse and len(problem.size) == 2:
        pool = columns_pool(problem, shape, mirrored_columns(choice.packing, shape.x))
    if pool.variables:
        yield Touch(pool, is_after=not inverse)
    if pool.variables and problem.is_real:
        yield Touch(pool, is_after=not inverse, is_mirrored=True)


def signal_pool(shape: TileShape) -> Pool:
    """Pool over the elements of the signal, neighbours in memory first."""
    return Pool.of(x=shape.x, y=shape.y, t=shape.transforms)


def spectrum_pool(problem: Fft, shape: TileShape) -> Pool:
    """Pool over the spectrum, neighbours in memory first; an item of a half spectrum is a frequency and its mirror
    image.
    """
    x = shape.x // 2 + 1 if problem.is_real else shape.x
    return Pool.of(**spectrum_order(problem, {"x": x, "y": shape.y, "t": shape.transforms}))


def seconds_of(problem: Fft, packing: Packing) -> int:
    """Real signals in each transform of a tile; a single signal is its own partner."""
    return packing.transforms if problem.batch > 1 else 1


def sequential_pool(problem: Fft, shape: TileShape, seconds: int = 1) -> Pool:
    """Pool over `seconds` half spectra for each transform of the tile, neighbours in memory first."""
    extents = {"x": problem.spectrum_size[-1], "y": shape.y, "second": seconds, "t": shape.transforms}
    return Pool.of(**spectrum_order(problem, extents))


def mirrored_columns(packing: Packing, points: int) -> int:
    """Columns of a half spectrum that mirror another column than themselves."""
    return (points - 1) // 2 if packing.pairs else points // 2


def columns_pool(problem: Fft, shape: TileShape, columns: int) -> Pool:
    """Pool over `columns` columns of the spectrum, counted by `column`, neighbours in memory first."""
    ordered = spectrum_order(problem, {"x": columns, "y": shape.y, "t": shape.transforms})
    return Pool.of(**{"column" if name == "x" else name: extent for name, extent in ordered.items()})


def spectrum_order(problem: Fft, extents: dict[str, int]) -> dict[str, int]:
    """`extents` of x, y, t and `second`, in the order in which these follow each other in memory."""
    t = ("second", "t")
    orders = {Layout.BATCH: ("x", "y", *t), Layout.TRANSPOSED: ("y", "x", *t), Layout.FREQUENCY: (*t, "x", "y")}
    return {name: extents[name] for name in orders[problem.layout] if name in extents}
