"""A config of `fft_block`, read: how it packs, reaches memory and splits the work, and the tile that follows."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Iterator
from math import ceil

from warpsmith.generator.fft.block.gaps import fitted_tile
from warpsmith.generator.fft.block.tile import Pool, Tile, TileShape, Touch
from warpsmith.generator.fft.problem import Fft, Layout
from warpsmith.generator.fft.words import Loads, Packing, Stores, Twiddles
from warpsmith.generator.space import Config


class Access(enum.StrEnum):
    """How threads reach an array in memory."""

    DIRECT = "direct"
    """The first pass reads it, or the last one writes it."""
    STAGED = "staged"
    """Through the tile."""
    SEQUENTIAL = "sequential"
    """Through the tile to a half spectrum, one element after the other: the tile is read twice for each. Where it is
    staged otherwise, a thread writes a frequency and the one that mirrors it.
    """
    MIRRORED = "mirrored"
    """The first pass reads the spectra of two real signals, or the last one writes them, of two sets of frequencies
    that mirror each other.
    """


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """A config, read."""

    x_radices: tuple[int, ...]
    y_radices: tuple[int, ...]
    packing: Packing
    y_first: bool
    shares: int
    """Blocks that share a transform: each has every other row of the result, where there are two."""
    transforms: int
    """Complex ones in a tile."""
    threads: int
    """Of a tile."""
    tiles: int
    """Of a block."""
    signal: Access
    spectrum: Access
    twiddles: Twiddles
    loads: Loads
    stores: Stores
    min_blocks: int
    gaps: int
    """Percent of a tile that may be left out between its rows."""
    blocks: int
    """Of the grid, that go on from tile to tile; 0 for one of each tile."""
    ahead: int
    """Tiles from one to the next whose data it fetches into the L2 cache; 0 where it fetches none."""
    rows: int
    """Of a product whose results a tile has; 1 of what is no product."""

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


@functools.lru_cache(maxsize=4096)  # every rule of a space that reads radices asks for them
def radices_of(text: str) -> tuple[int, ...]:
    """`8x16` as numbers."""
    return tuple(int(radix) for radix in text.split("x"))


def tile_of(problem: Fft, choice: Choice) -> Tile:
    """The tile in shared memory."""
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
    """Rows and columns of a tile that a signal has, where it has fewer than there are frequencies; 0 for all."""
    is_whole = problem.start is not None or choice.shares > 1 or problem.layout is not Layout.FREQUENCY
    if is_whole or len(problem.size) == 1:
        return 0, 0
    (rows, columns), (all_rows, all_columns) = problem.bordered_size, problem.size
    together = 2 if choice.packing is Packing.HALF else 1
    return rows if rows < all_rows else 0, ceil(columns / together) if columns < all_columns else 0


def _touches(problem: Fft, choice: Choice, shape: TileShape) -> Iterator[Touch]:
    """The stages that are not passes."""
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
    """Elements of the signal, neighbours in memory first."""
    return Pool.of(x=shape.x, y=shape.y, t=shape.transforms)


def spectrum_pool(problem: Fft, shape: TileShape) -> Pool:
    """Neighbours in memory first; of a half spectrum, one item for a frequency and the one that mirrors it."""
    x = shape.x // 2 + 1 if problem.is_real else shape.x
    return Pool.of(**spectrum_order(problem, {"x": x, "y": shape.y, "t": shape.transforms}))


def seconds_of(problem: Fft, packing: Packing) -> int:
    """Real signals in each transform of a tile: alone, one is its own partner."""
    return packing.transforms if problem.batch > 1 else 1


def sequential_pool(problem: Fft, shape: TileShape, seconds: int = 1) -> Pool:
    """Neighbours in memory first, of the half spectra of so many signals for each transform of the tile."""
    extents = {"x": problem.spectrum_size[-1], "y": shape.y, "second": seconds, "t": shape.transforms}
    return Pool.of(**spectrum_order(problem, extents))


def mirrored_columns(packing: Packing, points: int) -> int:
    """Columns of a half spectrum that another one mirrors."""
    return (points - 1) // 2 if packing.pairs else points // 2


def columns_pool(problem: Fft, shape: TileShape, columns: int) -> Pool:
    """Neighbours in memory first, with a number for the columns of a spectrum that are worked on."""
    ordered = spectrum_order(problem, {"x": columns, "y": shape.y, "t": shape.transforms})
    return Pool.of(**{"column" if name == "x" else name: extent for name, extent in ordered.items()})


def spectrum_order(problem: Fft, extents: dict[str, int]) -> dict[str, int]:
    """Those of x, y, t and what else there is, in the order in which they follow each other in memory."""
    t = ("second", "t")
    orders = {Layout.BATCH: ("x", "y", *t), Layout.TRANSPOSED: ("y", "x", *t), Layout.FREQUENCY: (*t, "x", "y")}
    return {name: extents[name] for name in orders[problem.layout] if name in extents}
