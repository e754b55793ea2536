"""A config of `fft_block`, read: its split of the work, its tile, the walk of blocks over tiles, and shared memory."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Iterator
from math import ceil, prod

from warpsmith.generator.fft.block.block_tile import BlockTile, Pool, TileShape, Touch
from warpsmith.generator.fft.block.gaps import fitted_tile
from warpsmith.generator.fft.problem import Fft, Layout
from warpsmith.generator.fft.text import Loads, Packing, Stores, Twiddles
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
class BlockChoice:
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
    def of(cls, problem: Fft, config: Config) -> BlockChoice:
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


def tile_of(problem: Fft, choice: BlockChoice) -> BlockTile:
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


def _present(problem: Fft, choice: BlockChoice) -> tuple[int, int]:
    """Rows and columns of a tile that the signal fills, if they are fewer than the frequencies; 0 for all."""
    is_whole = problem.start is not None or choice.shares > 1 or problem.layout is not Layout.FREQUENCY
    if is_whole or len(problem.size) == 1:
        return 0, 0
    (rows, columns), (all_rows, all_columns) = problem.bordered_size, problem.size
    together = 2 if choice.packing is Packing.HALF else 1
    return rows if rows < all_rows else 0, ceil(columns / together) if columns < all_columns else 0


def _touches(problem: Fft, choice: BlockChoice, shape: TileShape) -> Iterator[Touch]:
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


@dataclasses.dataclass(frozen=True, slots=True)
class BlockWalk:
    """Tiles of a problem in the order of its transforms; tiles that share transforms follow each other."""

    problem: Fft
    choice: BlockChoice

    @property
    def step(self) -> int:
        """Transforms of the problem per tile."""
        return self.choice.transforms * self.choice.packing.transforms

    @property
    def tiles(self) -> int:
        """Tiles of the whole problem."""
        return self.choice.shares * ceil(self.problem.batch / self.step)

    @property
    def blocks(self) -> int:
        needed = ceil(self.tiles / self.choice.tiles)
        return min(needed, self.choice.blocks or needed)

    @property
    def is_persistent(self) -> bool:
        """True if a block has several tiles, one after the other."""
        return self.blocks * self.choice.tiles < self.tiles

    @property
    def stride(self) -> int:
        """Tiles from one to the next one of the same threads, in persistent blocks."""
        return self.blocks * self.choice.tiles

    @property
    def ahead(self) -> int:
        """Transforms from a tile to the one whose data it prefetches into the L2 cache; 0 without prefetching."""
        return self.choice.ahead // self.choice.shares * self.step

    @property
    def places_ahead(self) -> int:
        """Places in the spectrum, a batch apart, of the data that is prefetched; 0 if the data is contiguous."""
        is_spread = self.problem.inverse and self.problem.layout is Layout.FREQUENCY
        return prod(self.problem.spectrum_size) if self.ahead and is_spread else 0

    @property
    def last_first(self) -> int:
        """First transform of the last tile."""
        return max(0, self.problem.batch - self.step)

    @property
    def overlaps(self) -> bool:
        """True if the last tile repeats a transform of another tile with another partner, and so must not store it."""
        return self.choice.packing is Packing.PAIR and self.problem.batch > 1 and self.problem.batch % 2 == 1

    @property
    def is_guarded(self) -> bool:
        """True if threads check before each store whether the result belongs to another tile."""
        return self.overlaps and self.choice.stores is not Stores.BULK


UNIT = 16
"""Bytes that a bulk copy's size and addresses are multiples of."""


@dataclasses.dataclass(frozen=True, slots=True)
class BlockMemory:
    """Shared memory of one tile; places are complex numbers from its start, which is a multiple of UNIT bytes.

    The source and the target of bulk copies share one place, at different times, if a tile comes between them.
    """

    problem: Fft
    choice: BlockChoice
    tile_elements: int
    """Complex numbers of the tile itself, gaps included; 0 without a tile."""

    @property
    def is_read_at_once(self) -> bool:
        return self.choice.loads is Loads.BULK

    @property
    def is_written_at_once(self) -> bool:
        return self.choice.stores is Stores.BULK

    @property
    def has_copies(self) -> bool:
        return self.is_read_at_once or self.is_written_at_once

    @property
    def source_place(self) -> int:
        """Place of the source; the barrier that waits for it lies before it."""
        return UNIT // 8 if self.is_read_at_once else 0

    @property
    def target_place(self) -> int:
        return self.source_place if self.tile_elements else self.source_place + self._source

    @property
    def tile_place(self) -> int:
        return max(self.source_place + self._source, self.target_place + self._target)

    @property
    def pitch(self) -> int:
        """Complex numbers from one tile to the next."""
        end = self.tile_place + self.tile_elements
        return end + end % 2 if self.has_copies else end

    @property
    def _source(self) -> int:
        return self._copied(self.problem.inputs[0].nbytes) if self.is_read_at_once else 0

    @property
    def _target(self) -> int:
        return self._copied(self.problem.output.nbytes) if self.is_written_at_once else 0

    def _copied(self, nbytes: int) -> int:
        transforms = self.choice.transforms * self.choice.packing.transforms
        return _copied_bytes(nbytes, self.problem.batch, transforms) // 8


def copied_bytes(problem: Fft, transforms: int, loads: str, stores: str) -> int:
    """Bytes of shared memory that bulk copies of `transforms` transforms take beside a tile, at most."""
    source = _copied_bytes(problem.inputs[0].nbytes, problem.batch, transforms) if loads == Loads.BULK else 0
    target = _copied_bytes(problem.output.nbytes, problem.batch, transforms) if stores == Stores.BULK else 0
    return max(source, target) + UNIT if source or target else 0


def _copied_bytes(nbytes: int, batch: int, transforms: int) -> int:
    """Bytes of `transforms` transforms of a batch, in whole units; they may start at any place within a unit."""
    return UNIT * (ceil(min(transforms, batch) * nbytes / (batch * UNIT)) + 1)
