"""Search space of `fft_block`: its parameters and constraints."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from math import prod

from warpsmith.generator.architectures import BULK_COPIES, STATIC_SHARED_BYTES
from warpsmith.generator.device import Device
from warpsmith.generator.fft.axes import factorizations
from warpsmith.generator.fft.block.block_choice import Access, copied_bytes, radices_of
from warpsmith.generator.fft.block.block_tile import has_pairs, may_mirror, radix_of_sets, room
from warpsmith.generator.fft.problem import Fft, Layout
from warpsmith.generator.fft.product import ROWS_OF_A_TILE, Product
from warpsmith.generator.fft.text import Loads, Packing, Stores, Twiddles, complex_columns
from warpsmith.generator.space import Constraint, Parameter, Space

TOGETHER = 8
"""Registers per thread come in multiples of 8: a warp gets 256 at once (compute capability 3.0 and later)."""
LEAST_REGISTERS = 40
"""Least registers per thread, whatever the radices: ptxas 13.0 miscompiled a config with 32, and no shipped winner has
fewer than 56."""
OTHER_REGISTERS = 16
"""Registers per thread besides a pass's numbers: with fewer, 87% of configs spill; 28 and 32 points do with 72 and
80."""


def register_constraints(problem: Fft, device: Device, radices: tuple[str, ...]) -> tuple[Constraint, ...]:
    """Constraints on registers. The one for a single block lets a walk through the space turn back early."""
    names = (*radices, "spectrum") if Access.MIRRORED in spectrum_accesses(problem) else radices
    have = f"a thread has {LEAST_REGISTERS} registers, and {OTHER_REGISTERS} beside its numbers of a pass"

    def suffice(threads: int, *words: str) -> bool:
        left = device.thread_registers(threads) // TOGETHER * TOGETHER
        return left >= max(LEAST_REGISTERS, _numbers(problem, *words) + OTHER_REGISTERS)

    return (
        Constraint(f"{have}: one block has {device.registers_per_multiprocessor} in all", suffice, ("threads", *names)),
        Constraint(
            f"{have}: the blocks of a multiprocessor share {device.registers_per_multiprocessor}",
            lambda threads, tiles, min_blocks, *words: suffice(threads * tiles * max(1, min_blocks), *words),
            ("threads", "tiles", "min_blocks", *names),
        ),
    )


def _numbers(problem: Fft, x_radices: str, y_radices: str = "1", spectrum: str = "") -> int:
    """Registers for the numbers of the largest pass: two per point, for two sets of points if they are mirrored."""
    x = radices_of(x_radices)
    sets = 2 * radix_of_sets(problem, x) if spectrum == Access.MIRRORED else 1
    return 2 * max(*x, *radices_of(y_radices), sets)


_HALVES_AT_HAND = Constraint(
    "a pass reads the halves of two signals' spectra, each element twice, where they lie in shared memory",
    # Reads from global memory took 3 to 30% longer.
    lambda packing, spectrum, loads: spectrum == Access.STAGED or (packing == Packing.PAIR and loads == Loads.BULK),
)

_RESULTS_TOGETHER = Constraint(
    "results of several rows of a product do not lie together, to be written at once",
    lambda stores, rows: rows == 1 or stores != Stores.BULK,
)


def spectrum_accesses(problem: Fft) -> tuple[Access, ...]:
    """Legal accesses to the spectrum."""
    mirrored = (Access.MIRRORED,) if may_mirror(problem) else ()
    if problem.product is not None:
        return mirrored  # the others would read each number twice
    if problem.is_real and not problem.inverse:
        return (Access.STAGED, Access.SEQUENTIAL, *mirrored)
    if mirrored:
        return (Access.STAGED, *mirrored)
    if problem.layout is not Layout.BATCH:
        return (Access.STAGED,)  # neighbours in memory are no neighbours in a pass
    is_flat = len(problem.size) == 1
    return (Access.DIRECT, Access.STAGED) if is_flat or not problem.is_real else (Access.STAGED,)


def access_constraints(problem: Fft) -> Iterator[Constraint]:
    """Constraints that some accesses to the spectrum need."""
    known = spectrum_accesses(problem)
    if problem.is_real and Access.DIRECT in known:
        yield _HALVES_AT_HAND
    if Access.MIRRORED in known:
        yield _mirrored_constraint(problem)
    if problem.product is not None:
        yield _whole_rows(problem.product)
        yield _RESULTS_TOGETHER


def _whole_rows(product: Product) -> Constraint:
    def holds(packing: str, transforms: int, rows: int) -> bool:
        columns, rest = divmod(transforms * Packing(packing).transforms, rows)
        return rest == 0 and product.has_tiles_of(rows, columns)

    why = f"tiles have as many columns of each row, in pairs, and all tiles of {product.rows} by {product.columns}"
    return Constraint(f"{why} are alike", holds)


def _mirrored_constraint(problem: Fft) -> Constraint:
    side = "x" if problem.inverse else "y"

    def holds(packing: str, x_radices: str, first: str, spectrum: str) -> bool:
        if spectrum != Access.MIRRORED:
            return True
        return packing == Packing.PAIR and first == side and has_pairs(problem, radices_of(x_radices))

    why = f"sets of frequencies that mirror each other are of pairs, {side} first, by even radices with an even rest"
    return Constraint(why, holds)


LEAST_ELEMENTS, MOST_ELEMENTS = 2, 64
"""Complex numbers of a tile per thread: with fewer, threads outnumber the work; with more, registers run out."""
TRANSFORMS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 96, 128, 192, 256)
THREADS = (32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 512)
GAPS = (2, 8, 25)
"""Percent of a tile for gaps: one element in a row of 64, one in sixteen plus one per row, or as much as helps."""
LASTING = (4, 8, 16)
"""Persistent blocks per SM."""
AHEAD = (1, 2, 4)
"""Tiles per SM from the current one to the prefetched one: prefetching further ahead evicts the data of others."""
SHARED_BYTES = STATIC_SHARED_BYTES
"""Bytes of a tile from which on two blocks may share a transform: an SM has room for four such tiles."""
LEAST_BUSY = 0.6
"""Least share of a tile's threads with work in each pass: idle threads would wait for the others."""


@functools.lru_cache(maxsize=64)  # a dozen families of a layer have the same transforms
def space_of(problem: Fft, device: Device) -> Space:
    """Space of all configs of `fft_block` for this problem."""
    return Space(_parameters(problem, device), _constraints(problem, device))


def packings(problem: Fft) -> tuple[Packing, ...]:
    """Ways to make `problem` complex, the usual one first."""
    if not problem.is_real:
        return (Packing.COMPLEX,)
    columns = problem.size[-1]
    if columns % 2 or columns < 4 or problem.start is not None:  # packed columns would start at an odd column
        return (Packing.PAIR if problem.may_pair else Packing.ALONE,)
    return (Packing.HALF, Packing.PAIR) if problem.may_pair else (Packing.HALF,)


def word(radices: tuple[int, ...]) -> str:
    """Radices as a config writes them, such as 8x16."""
    return "x".join(map(str, radices))


def _parameters(problem: Fft, device: Device) -> tuple[Parameter, ...]:
    packed = packings(problem)
    columns = {complex_columns(problem, packing) for packing in packed}
    x_radices = tuple(dict.fromkeys(word(each) for points in sorted(columns) for each in factorizations(points)))
    rows: tuple[Parameter, ...] = ()
    if len(problem.size) == 2:
        shares = shares_of(problem)
        words = tuple(word(each) for share in shares for each in factorizations(problem.size[0] // share))
        rows = (
            Parameter("shares", shares, "blocks that share a transform, each with every such row of the result"),
            Parameter("y_radices", words, "points of a column that a thread transforms, pass by pass"),
            Parameter("first", ("y", "x"), "whether columns (y) or rows (x) are transformed first"),
        )
    whole = _is_whole(problem, device)
    lasting, later = _walks(problem, device, LASTING), _walks(problem, device, AHEAD)
    meaning = "tiles from one to the next whose data it fetches into the L2 cache; 0: none"
    ahead = (Parameter("ahead", (0, *later), meaning),) if _may_fetch_ahead(problem) else ()
    # Compilers give a thread of a single block all registers there are, so all its loads can be in flight.
    is_large, fewest = _has_large_tiles(problem), (2, 3, 4, 6, 8)
    accesses = tuple(each.value for each in (Access.DIRECT, Access.STAGED))
    reached = tuple(each.value for each in spectrum_accesses(problem))
    rows_meaning = "of a product whose results a tile has: as many share a column of b as share a row of a"
    of_product = (Parameter("rows", ROWS_OF_A_TILE, rows_meaning),) if problem.product is not None else ()
    has_choice = len(reached) > 1 or problem.product is not None
    spectrum = (Parameter("spectrum", reached, "the same of the spectrum"),) if has_choice else ()
    return (
        Parameter("packing", tuple(each.value for each in packed), "how real signals become complex ones"),
        Parameter("x_radices", x_radices, "points of a row that a thread transforms, pass by pass"),
        *rows,
        Parameter("transforms", TRANSFORMS, "complex ones in a tile"),
        Parameter("threads", (*THREADS, device.limits.threads_per_block) if is_large else THREADS, "of a tile"),
        Parameter("tiles", (1, 2, 4, 8), "of a block, whose threads do not wait for each other"),
        Parameter("signal", accesses, "whether the signal goes through the tile, or straight to or from a pass"),
        *spectrum,
        Parameter("twiddles", tuple(each.value for each in Twiddles), "where twiddle factors come from"),
        Parameter("loads", _known(Loads, whole[0]), "one by one, or a tile's in bulk"),
        Parameter("stores", _known(Stores, whole[1]), "the same, or one by one and marked as not read soon"),
        Parameter(
            "min_blocks",
            (0, 1, *fewest) if is_large else (0, *fewest),
            "blocks a multiprocessor must hold; 0 leaves it open",
        ),
        Parameter("gaps", GAPS, "percent of a tile that may be left out against bank conflicts"),
        Parameter("blocks", (0, *lasting), "that go on from tile to tile; 0: one of each tile"),
        *ahead,
        *of_product,
    )


def _has_large_tiles(problem: Fft) -> bool:
    """True if a tile may fill an SM, so that transforms side by side fill sectors of memory."""
    return problem.layout is Layout.FREQUENCY and len(problem.size) == 2


def _is_whole(problem: Fft, device: Device) -> tuple[bool, bool]:
    """True if a tile's source, and its target, is contiguous, so that one bulk copy can move it."""
    has_bulk = device.has(BULK_COPIES)
    has_whole_spectra = problem.layout is not Layout.FREQUENCY
    has_whole_signals = problem.tiling is None
    sides = has_whole_signals, has_whole_spectra
    source, target = sides[::-1] if problem.inverse else sides
    return has_bulk and source, has_bulk and target


def _known(words: type[Loads] | type[Stores], has_bulk: bool) -> tuple[str, ...]:
    return tuple(word.value for word in words if has_bulk or word is not words.BULK)


def _constraints(problem: Fft, device: Device) -> tuple[Constraint, ...]:
    radices = ("x_radices", "y_radices") if len(problem.size) == 2 else ("x_radices",)
    columns = {packing.value: complex_columns(problem, packing) for packing in Packing}
    signals = {packing.value: packing.transforms for packing in Packing}
    rules = [
        Constraint(
            "radices are those of the columns that the packing leaves",
            lambda packing, x_radices: _points(x_radices) == columns[packing],
        ),
        Constraint(
            f"there are {problem.batch} transforms in all",
            lambda packing, transforms: transforms == 1 or transforms * signals[packing] <= problem.batch,
        ),
        Constraint(
            f"a thread has {LEAST_ELEMENTS} to {MOST_ELEMENTS} complex numbers of the tile",
            _has_enough,
            ("transforms", "threads", *radices),
        ),
        Constraint(
            f"in every pass {LEAST_BUSY:.0%} of the threads have work", _is_busy, ("transforms", "threads", *radices)
        ),
        *_memory_constraints(problem, device, radices),
        Constraint(
            "only the threads of one warp do without barriers, and so have several tiles in a block",
            lambda threads, tiles: tiles == 1 or threads == 32,
        ),
        Constraint(
            f"a multiprocessor holds {device.threads_per_multiprocessor} threads",
            lambda threads, tiles, min_blocks: min_blocks * threads * tiles <= device.threads_per_multiprocessor,
        ),
        *register_constraints(problem, device, radices),
    ]
    rules += access_constraints(problem)
    rules.append(
        Constraint(
            "blocks that go on from tile to tile read one by one",
            lambda loads, blocks: blocks == 0 or loads != Loads.BULK,
        )
    )
    if len(problem.size) == 2:
        rules += _row_constraints(problem.size[0])
    rules.append(_walk_constraint(problem, "blocks", "blocks that go on have two tiles each"))
    if _may_fetch_ahead(problem):
        rules.append(_walk_constraint(problem, "ahead", "there is something to fetch ahead"))
    return tuple(rules)


def _memory_constraints(problem: Fft, device: Device, radices: tuple[str, ...]) -> tuple[Constraint, ...]:
    """Constraints on shared memory. Those on parts of a config let a walk through the space turn back early."""
    memory = device.shared_per_block_bytes
    return (
        Constraint(
            f"a block has {memory} bytes of shared memory: one transform must fit",
            lambda *words: fits(_elements(1, words), device),
            radices,
        ),
        Constraint(
            f"a block has {memory} bytes of shared memory: one tile must fit",
            lambda transforms, *words: fits(_elements(transforms, words), device),
            ("transforms", *radices),
        ),
        Constraint(
            f"a block has {memory} bytes of shared memory, of which gaps take a few",
            lambda transforms, tiles, gaps, *words: fits(_elements(transforms, words), device, tiles, gaps),
            ("transforms", "tiles", "gaps", *radices),
        ),
        Constraint(
            f"a block has {memory} bytes of shared memory: one transform must fit beside what is read at once",
            lambda packing, loads, *words: fits(
                _elements(1, words),
                device,
                copied=copied_bytes(problem, Packing(packing).transforms, loads, Stores.PLAIN),
            ),
            ("packing", "loads", *radices),
        ),
        Constraint(
            f"a block has {memory} bytes of shared memory: one transform must fit beside what is written at once",
            lambda packing, stores, *words: fits(
                _elements(1, words),
                device,
                copied=copied_bytes(problem, Packing(packing).transforms, Loads.PLAIN, stores),
            ),
            ("packing", "stores", *radices),
        ),
        Constraint(
            f"a block has {memory} bytes of shared memory: what is read or written at once lies there too",
            lambda packing, transforms, tiles, gaps, loads, stores, *words: fits(
                _elements(transforms, words),
                device,
                tiles,
                gaps,
                copied_bytes(problem, transforms * Packing(packing).transforms, loads, stores),
            ),
            ("packing", "transforms", "tiles", "gaps", "loads", "stores", *radices),
        ),
    )


def _row_constraints(rows: int) -> tuple[Constraint, ...]:
    return (
        Constraint(
            "a share has every other row of a result, which is not written at once",
            lambda shares, stores: shares == 1 or stores != Stores.BULK,
        ),
        Constraint(
            f"radices are those of {rows} rows, or of the half that a share has",
            lambda shares, y_radices: shares * _points(y_radices) == rows,
        ),
        Constraint(
            "blocks share transforms where one would be too large for a tile: they do not pair them too",
            lambda shares, packing: shares == 1 or not Packing(packing).pairs,
        ),
    )


def _walks(problem: Fft, device: Device, rounds: tuple[int, ...]) -> tuple[int, ...]:
    """Multiples of the SM count, one for each of `rounds`, that are at most half of the tiles there may be."""
    most = problem.batch // (2 * min(packing.transforms for packing in packings(problem)))
    return tuple(device.multiprocessors * each for each in rounds if device.multiprocessors * each <= most)


def _walk_constraint(problem: Fft, name: str, why: str) -> Constraint:
    def holds(packing: str, transforms: int, tiles: int) -> bool:
        return 2 * tiles * transforms * Packing(packing).transforms <= problem.batch or tiles == 0

    return Constraint(f"{why}, of {problem.batch} transforms in all", holds, ("packing", "transforms", name))


def _elements(transforms: int, words: Iterable[str]) -> int:
    """Complex numbers of a tile with these radices."""
    return transforms * prod(map(_points, words))


@functools.lru_cache(maxsize=4096)
def _points(word: str) -> int:
    return prod(radices_of(word))


def _has_enough(transforms: int, threads: int, *words: str) -> bool:
    elements = _elements(transforms, words)
    least = LEAST_ELEMENTS * threads if threads > 32 else 0  # one warp is the least that there can be
    return least <= elements <= MOST_ELEMENTS * threads


def _is_busy(transforms: int, threads: int, *words: str) -> bool:
    """True if each pass over a tile keeps LEAST_BUSY of the threads busy, or the tile has only one warp."""
    elements = _elements(transforms, words)
    for radix in (radix for word in words for radix in radices_of(word)):
        items = elements // radix
        if items < LEAST_BUSY * threads * -(-items // threads) and threads > 32:
            return False
    return True


def shares_of(problem: Fft) -> tuple[int, ...]:
    """Numbers of blocks that can share a transform; more than one for large two-dimensional transforms."""
    begins_anywhere = problem.start is not None or problem.tiling is not None
    if len(problem.size) == 1 or problem.size[0] % 2 or problem.size[0] < 4 or begins_anywhere:
        return (1,)
    packed = packings(problem)
    nbytes = 8 * problem.size[0] * complex_columns(problem, packed[0])
    return (1, 2) if not packed[0].pairs and nbytes >= SHARED_BYTES else (1,)


def fits(elements: int, device: Device, tiles: int = 1, gaps: int = GAPS[0], copied: int = 0) -> bool:
    """True if `tiles` tiles of `elements` complex numbers, each with gaps and `copied` bytes, fit a block's memory."""
    return tiles * (8 * room(elements, gaps) + copied) <= device.shared_per_block_bytes


def _may_fetch_ahead(problem: Fft) -> bool:
    """True if the source of a tile is contiguous, or lies at places a batch apart."""
    return problem.product is None and (problem.inverse is True or problem.tiling is None)
