"""Transforms in a tile of shared memory, a few points of them in the registers of a thread at a time.

Where fbfft exchanges data between the lanes of a warp at each radix 2, a thread here transforms up to 32 points by
itself, and shared memory carries them to the next digit: one exchange where fbfft has five. A 2-D transform is one
kernel, and passes over memory once.

The first guesses of a search rest on long searches for 70 real transforms of 8 to 256 points, whose winners were alike.
They took the fewest passes, with radices near each other, over tiles of 1000 to 4000 complex numbers, with one thread
per transform of the largest radix. They copied rows of an odd number of points in bulk, since neighbours in memory are
then not in one sector.

Source: Vasilache et al. 2014, "Fast Convolutional Nets With fbfft", section 5 (one kernel, zero padding by clipped
loads and stores, transposed results); Cooley and Tukey 1965 for the passes.
"""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import ceil, prod
from typing import NamedTuple

from warpsmith.generator.device import Device
from warpsmith.generator.family import Family, Subject
from warpsmith.generator.fft.axes import LARGEST_PRIME, factorizations
from warpsmith.generator.fft.block.block_choice import Access
from warpsmith.generator.fft.block.block_space import (
    GAPS,
    THREADS,
    TRANSFORMS,
    fits,
    packings,
    shares_of,
    space_of,
    word,
)
from warpsmith.generator.fft.block.block_text import FftBlockText, border_of
from warpsmith.generator.fft.block.block_tile import has_pairs, may_mirror
from warpsmith.generator.fft.problem import Fft, Layout
from warpsmith.generator.fft.product import ROWS_OF_A_TILE
from warpsmith.generator.fft.text import Loads, Packing, Stores, Twiddles, complex_columns
from warpsmith.generator.program import Argument, Launch, Pointer, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Space, Value

FEW, USUAL, MANY = 1280, 2048, 4096
"""Approximate complex numbers of a tile."""
LARGE = 8192
"""Complex numbers of a tile beyond which it has an SM to itself, and more threads."""
LARGEST_RADIX = 28
"""Largest radix of a guess: beyond it, registers run out."""
SMALL = 1024
"""Most complex numbers of a 2-D transform that shares a tile with others."""
MOST_COPIED = 4096
"""Most complex numbers of a 2-D transform whose bulk copies leave room for other tiles."""
FLAT_PLANS, WARP_PLANS, SQUARE_PLANS = 3, 2, 3
"""Factorizations to try: of a row, of a single warp's transform or of small sides, and of large sides."""
WARPS = 4
"""Warps of a block in which each warp has its own tile."""
MOST = 28
"""Guesses: less than half of a short search."""
NEIGHBOURS = 4
"""Least transforms of a tile whose spectra lie frequency by frequency: four complex numbers make a sector of memory.
64x64 points took 161 us with one transform a tile and 110 with four. 32x32 points took 77 us with two and 37 with eight
(H200, 2026-11-24)."""
BESIDE = 8
"""Transforms of a tile whose spectra lie frequency by frequency, as 64 contiguous bytes; twice as many in pairs. The
tile has at most MANY complex numbers. 24,576 inverse transforms of 14x14 points to 13x13 took 32.9 us with 20 half
transforms a tile and 17.1 with 16 pairs. 73,728 filters took 37.7 us with 10 a tile and 27.4 with 16. At 30x30 points,
filters took 48.1 us with 2 and 33.0 with 4, images 70.8 with 4 and 67.0 with 8 (H100, 2026-11-25)."""
SHORT = 256
"""Most points of a plane whose rows a thread transforms in one pass. It is copied in bulk, and pairs are in tiles of
which an SM holds three."""
PAIRS_BY_SETS = (8, 4, 2)
"""Pairs of a tile whose pass accesses spectra 16 bytes at a time: 128 contiguous bytes, 64, or one sector. At 24x24
points eight pairs took 27.1 us for inverse transforms to 5x5 and 51.9 forward; four took 38.8 and 56.7 (H100,
2026-11-25). Three forward tiles fit an SM: at 64x64 points two pairs took 89 us, and four more than 98. A thread of an
inverse transform has all numbers of a step in flight: four pairs took 97 us, and two more than 120; for filters four
took 29 us and two 31 (H200). A forward tile also fills a sector if it fits: at 72x72 points one pair took 310 us, where
a layer with tiles twice as large takes 136 us as a whole (H200, 2026-11-25)."""
EIGHT_PAIRS = 5000
"""Most complex numbers of eight pairs: beyond, fewer tiles fit an SM."""
LONGEST_COLUMN = 32
"""Most points of a column that a thread transforms in one pass if half of it or more is zeros."""
RADIX_OF_SETS = 8
"""Preferred radix of a pass with two sets of frequencies, which keeps twice as many numbers in registers."""
OF_A_MULTIPROCESSOR = 28000
"""Complex numbers that fit the shared memory of an SM, gaps not counted."""
MOST_TOGETHER = 16384
"""Most complex numbers of a tile with several transforms: 128 KB."""


class Way(NamedTuple):
    """How a tile accesses signals and spectra in memory."""

    spectrum: Access = Access.STAGED
    loads: Loads = Loads.PLAIN
    stores: Stores = Stores.PLAIN


ONE_BY_ONE, AT_ONCE = Way(), Way(loads=Loads.BULK, stores=Stores.BULK)
BY_SETS = Way(spectrum=Access.MIRRORED)


@dataclasses.dataclass(frozen=True, slots=True)
class Guess:
    """The choices in which good configs differ; the other parameters follow from them."""

    packing: Packing
    x_radices: tuple[int, ...]
    y_radices: tuple[int, ...] = ()
    shares: int = 1
    elements: int = USUAL
    """Approximate complex numbers of a tile; 0 for a tile that keeps a single warp busy, without barriers."""
    first: str = "x"
    way: Way = ONE_BY_ONE
    min_blocks: int = 0
    rows: int = 1

    def values(self, batch: int, device: Device) -> dict[str, Value]:
        """Values of all parameters of the space, for `batch` transforms."""
        points, largest = prod((*self.x_radices, *self.y_radices)), max((*self.x_radices, *self.y_radices))
        number = ceil(batch / self.packing.transforms)
        # A small batch is spread over all multiprocessors, and each tile over many threads.
        is_small = number * self.shares <= device.multiprocessors
        most = min((self.elements or 32 * largest) // points, ceil(number / device.multiprocessors))
        transforms = max(each for each in TRANSFORMS if each <= max(1, most))
        items = transforms * points // largest if self.elements else 32
        threads = min(items, 512 if transforms * points > LARGE or is_small else 256)
        passes = len(self.x_radices) + len(self.y_radices)
        return {
            "packing": self.packing.value,
            "x_radices": word(self.x_radices),
            "y_radices": word(self.y_radices),
            "shares": self.shares,
            "first": self.first,
            "transforms": transforms,
            "threads": next(each for each in THREADS if threads <= each),
            "tiles": 1 if self.elements else WARPS,
            # A thread that has a whole transform would read far from its neighbours.
            "signal": (Access.DIRECT if passes > 1 else Access.STAGED).value,
            "spectrum": self.way.spectrum.value,
            "twiddles": Twiddles.POWERS.value,
            "loads": self.way.loads.value,
            "stores": self.way.stores.value,
            "min_blocks": self.min_blocks,
            "gaps": GAPS[-1],
            "blocks": 0,
            "ahead": 0,
            "rows": self.rows,
        }


def together(problem: Fft, packing: Packing, points: int) -> int:
    """Approximate complex numbers of a tile of 2-D transforms with `points` complex numbers each."""
    if problem.layout is not Layout.FREQUENCY:
        return USUAL
    return max(
        USUAL,
        min(BESIDE * packing.transforms * points, MANY),
        min(NEIGHBOURS // packing.transforms * points, MOST_TOGETHER),
    )


def way_of_planes(problem: Fft, packing: Packing) -> tuple[Way, int]:
    """The likeliest access to memory of tiles of 2-D transforms, and the least blocks per SM (0: any number)."""
    is_short = prod(problem.size) <= SHORT
    match packing, problem.layout, problem.inverse:
        case Packing.PAIR, Layout.FREQUENCY, True if is_short:
            return ONE_BY_ONE._replace(stores=Stores.BULK), 3
        case Packing.PAIR, Layout.FREQUENCY, False:
            return ONE_BY_ONE._replace(spectrum=Access.SEQUENTIAL if is_short else Access.STAGED, loads=Loads.BULK), 0
    return ONE_BY_ONE, 0


def packings_of_planes(problem: Fft) -> tuple[Packing, ...]:
    """Packings of 2-D transforms, likeliest first: pairs for short inverse transforms in frequency layout."""
    found = packings(problem)
    has_pairs_first = problem.inverse and problem.layout is Layout.FREQUENCY and prod(problem.size) <= SHORT
    return found[::-1] if has_pairs_first and problem.batch > 1 else found


def guesses(problem: Fft, device: Device) -> tuple[Guess, ...]:
    """The likeliest guesses, at most MOST, likeliest first."""
    return tuple(itertools.islice(_guesses(problem, device), MOST))


def _guesses(problem: Fft, device: Device) -> Iterator[Guess]:
    if len(problem.size) == 2:
        yield from _square_guesses(problem, device)
        return
    for elements in (FEW, 0, USUAL, MANY):
        for packing in packings(problem):
            plans = even_plans(complex_columns(problem, packing), FLAT_PLANS if elements else WARP_PLANS)
            for x_radices, way in itertools.product(plans, _ways(problem, packing)):
                yield Guess(packing, x_radices, elements=elements, way=way)


def _ways(problem: Fft, packing: Packing) -> tuple[Way, ...]:
    """Likely accesses to memory of 1-D transforms, likeliest first."""
    match packing, problem.inverse:
        case Packing.PAIR, True:
            return (AT_ONCE._replace(spectrum=Access.DIRECT), AT_ONCE, ONE_BY_ONE)
        case Packing.PAIR, False:
            return (AT_ONCE, ONE_BY_ONE)
        case Packing.HALF, False:
            return (ONE_BY_ONE._replace(spectrum=Access.SEQUENTIAL), AT_ONCE)
    return (ONE_BY_ONE, AT_ONCE)


def guesses_by_sets(problem: Fft) -> Iterator[Guess]:
    """Guesses that access spectra by sets of mirrored frequencies; none if the problem has no such sets."""
    if not may_mirror(problem):
        return
    (rows, columns), first = problem.size, "x" if problem.inverse else "y"
    rank = operator.itemgetter(0 if problem.inverse else -1)
    plans = [each for each in factorizations(columns) if has_pairs(problem, each) and max(each) <= LARGEST_RADIX]
    plans.sort(key=lambda radices: (len(radices), abs(rank(radices) - RADIX_OF_SETS)))
    points, is_sparse = rows * columns, problem.start is None and 2 * problem.bordered_size[0] <= rows
    has_room = problem.inverse or is_sparse
    most = MOST_TOGETHER if has_room or PAIRS_BY_SETS[-1] * points > LARGE else LARGE
    able = (pairs for pairs in PAIRS_BY_SETS if pairs * points <= (EIGHT_PAIRS if pairs == PAIRS_BY_SETS[0] else most))
    usual = max(USUAL, points * next(able, 1))
    if problem.product is not None:
        usual = points * prod(problem.product.tile(points, LARGE)) // 2
    sizes = dict.fromkeys((usual, min(2 * usual, MOST_TOGETHER), usual // 2))
    y_plans = even_plans(rows, FLAT_PLANS)[:2]
    if is_sparse and rows <= LONGEST_COLUMN:
        y_plans = ((rows,), *y_plans)  # few of its points are read: one pass less
    for x_radices, elements, y_radices in itertools.product(plans[:1], sizes, y_plans):
        tile = max(1, elements // points) * points
        is_wide = max(*x_radices, *y_radices) > RADIX_OF_SETS
        # Compilers with these bounds give a thread the registers to load the numbers of several steps at once.
        rows = _rows_of_tile(problem, tile // points)
        of_large = 1 if is_wide and has_room else 2
        for min_blocks in (min(of_large if tile > LARGE else 4, OF_A_MULTIPROCESSOR // tile), 0):
            yield Guess(Packing.PAIR, x_radices, y_radices, 1, elements, first, BY_SETS, min_blocks, rows)


def _rows_of_tile(problem: Fft, pairs: int) -> int:
    """Rows of a fused product in a tile of `pairs` pairs of results: the number that reads the fewest sectors of both
    factors; 1 without a product.
    """
    product = problem.product
    if product is None:
        return 1
    able = [rows for rows in ROWS_OF_A_TILE if pairs % rows == 0 and product.has_tiles_of(rows, 2 * pairs // rows)]
    return min(able or [1], key=lambda rows: product.sectors(rows, 2 * pairs // rows))


def _square_guesses(problem: Fft, device: Device) -> Iterator[Guess]:
    yield from guesses_by_sets(problem)
    rows, sides = problem.size[0], ("x", "y") if problem.inverse else ("y", "x")
    first_elements = rows * complex_columns(problem, packings(problem)[0])
    is_small = first_elements <= SMALL
    most = WARP_PLANS if is_small else SQUARE_PLANS
    for packing, first in itertools.product(packings_of_planes(problem), sides[:1] if is_small else sides):
        columns = complex_columns(problem, packing)
        # A tile has several small transforms, of various numbers. It has one large one, whose passes matter more.
        usual = together(problem, packing, rows * columns)
        tiles: tuple[int, ...] = (usual, 0, FEW) if is_small else (usual,)
        if problem.layout is Layout.FREQUENCY:
            tiles = tuple(dict.fromkeys((usual, min(2 * usual, MOST_TOGETHER), usual // 2)))
        way, min_blocks = way_of_planes(problem, packing)
        others = (ONE_BY_ONE, AT_ONCE) if first_elements <= MOST_COPIED else (ONE_BY_ONE,)
        ways = dict.fromkeys(((way, min_blocks), *((each, 0) for each in others)))
        is_shared = problem.batch <= device.multiprocessors or not fits(rows * columns, device)
        shares = max(shares_of(problem)) if is_shared else 1
        for elements in tiles:
            if packing is Packing.PAIR and rows * columns > (elements or SMALL):
                continue  # half the tile suffices, in twice as many blocks
            plans = itertools.product(even_plans(columns, most), even_plans(rows // shares, most), ways)
            for x_radices, y_radices, (way, min_blocks) in plans:
                yield Guess(packing, x_radices, y_radices, shares, elements, first, way, min_blocks)


def even_plans(points: int, most: int) -> tuple[tuple[int, ...], ...]:
    """Factorizations with the fewest passes, at most `most`, the most even ones first."""
    found = factorizations(points)
    found = tuple(radices for radices in found if max(radices, default=1) <= LARGEST_RADIX) or found
    return tuple(radices for radices in found if len(radices) == len(found[0]))[:most]


PAIRED = 1024
"""Most points of a real two-dimensional transform for which shipped winners pack two transforms as a complex one."""
USUAL_RADIX = 16
"""Largest radix of a default config: a radix of 32 takes 80 registers."""


class FftBlock(Family[Fft]):
    """`fft` of any size whose primes are small and whose transform fits into shared memory."""

    name = "fft_block"

    def why_not(self, problem: Fft, device: Device) -> str | None:
        if not all(factorizations(points) for points in problem.size):
            return f"has no radix for a prime above {LARGEST_PRIME}"
        if problem.product is not None and not may_mirror(problem):
            return "multiplies spectra for pairs of columns, on even rows and columns that are a multiple of 4"
        rows = prod(problem.size[:-1]) // max(shares_of(problem))
        elements = min(rows * complex_columns(problem, packing) for packing in packings(problem))
        if not fits(elements, device):
            nbytes, memory = 8 * elements, device.shared_per_block_bytes
            part = "one transform" if max(shares_of(problem)) == 1 else "half of one transform"
            return f"{part} takes {nbytes} bytes of shared memory; a block has {memory}"
        # Gaps, copies and products may leave no legal config for a tile that fills a block's memory. Others have
        # thousands.
        if problem.product is not None or not fits(2 * elements, device):
            return _why_empty(problem, device)
        return None

    def space(self, problem: Fft, device: Device) -> Space:
        return space_of(problem, device)

    def default(self, problem: Fft, device: Device) -> Config:
        return _default(problem, device)

    def starts(self, problem: Fft, device: Device) -> tuple[Config, ...]:
        return _starts(problem, device)

    def carried(self, config: Config, home: Subject[Fft], problem: Fft, device: Device) -> Config | None:
        """The most similar config; of a transform in the other direction, with its flow reversed."""
        if home.problem.inverse is not problem.inverse:
            config = _reversed(config)
        return super().carried(config, home, problem, device)

    def program(self, problem: Fft, config: Config) -> Program:
        text = FftBlockText.of(problem, config)
        launch = block_launch(text, tuple(Pointer(operand.name) for operand in problem.operands))
        return Program.of_source(self.name, config, block_source(text, config), (launch,))


def _reversed(config: Config) -> Config:
    """The config with its flow reversed: the axis that came last comes first, and loads are done as stores were.

    The configs of forward 16x16 transforms took 3.7 times the default's time for inverse ones, since threads that have
    a row each then store it 128 bytes apart (H200).
    """
    values = config.values()
    other = {"x": "y", "y": "x"}
    if "first" in values:
        values["first"] = other[str(values["first"])]
    if "loads" in values:
        values["loads"], values["stores"] = values["stores"], values["loads"]
    return Config.of(values)


@lru_cache(maxsize=256)
def _why_empty(problem: Fft, device: Device) -> str | None:
    """Reason why the space is empty, cached: it takes 2 ms, and each family of a layer asks for the same transform."""
    if (why := space_of(problem, device).why_empty) is None:
        return None
    return f"has no tile for {device.shared_per_block_bytes} bytes of shared memory in a block: {why}"


@lru_cache(maxsize=256)
def _default(problem: Fft, device: Device) -> Config:
    guess = _first_guess(problem, device) if len(problem.size) == 1 else _square_guess(problem, device)
    config = nearest_config(space_of(problem, device), guess.values(problem.batch, device))
    if config is None:
        raise ValueError(f"the space of {problem.key()} is empty")
    return config


@lru_cache(maxsize=256)
def _starts(problem: Fft, device: Device) -> tuple[Config, ...]:
    space = space_of(problem, device)
    configs = (nearest_config(space, guess.values(problem.batch, device)) for guess in guesses(problem, device))
    return tuple(dict.fromkeys(config for config in configs if config is not None))


def block_source(text: FftBlockText, config: Config) -> str:
    """CUDA source of the transforms' kernel."""
    return render("fft/block.cu.jinja", g=text, border=border_of(text), config=config.key())


def block_launch(text: FftBlockText, arguments: tuple[Argument, ...]) -> Launch:
    """Launch of the transforms' kernel."""
    return Launch(
        entry=FftBlock.name,
        grid=(text.walk.blocks, 1, 1),
        block=(text.choice.threads * text.choice.tiles, 1, 1),
        arguments=arguments,
        shared_bytes=text.shared_bytes,
    )


def nearest_config(space: Space, wanted: Mapping[str, Value]) -> Config | None:
    """Legal config nearest to the values `wanted`, some of which may name no parameter of the space."""
    return space.like({parameter.name: wanted[parameter.name] for parameter in space.parameters})


def _first_guess(problem: Fft, device: Device) -> Guess:
    """First guess of the search's starts with radices up to USUAL_RADIX, or else the first one."""
    found = guesses(problem, device)
    return next((guess for guess in found if max(guess.x_radices) <= USUAL_RADIX), found[0])


def _square_guess(problem: Fft, device: Device) -> Guess:
    """Guess for a 2-D transform.

    It uses mirrored sets of frequencies if possible, else two small real signals as a complex one. A tile has one
    transform, or a few small ones.
    """
    if (by_sets := next(guesses_by_sets(problem), None)) is not None:
        return by_sets
    is_small = problem.is_real and prod(problem.size) <= PAIRED and Packing.PAIR in packings(problem)
    may_pair = is_small and problem.batch > 1 and problem.layout is not Layout.FREQUENCY
    packing = Packing.PAIR if may_pair else packings_of_planes(problem)[0]
    x, y = complex_columns(problem, packing), prod(problem.size[:-1])
    shares = 1 if fits(x * y, device) else max(shares_of(problem))
    first, elements = "x" if problem.inverse else "y", together(problem, packing, x * y)
    return Guess(packing, _usual(x), _usual(y // shares), shares, elements, first, *way_of_planes(problem, packing))


def _usual(points: int) -> tuple[int, ...]:
    """First radices up to USUAL_RADIX, which leave registers for enough threads; without such, the first radices."""
    found = factorizations(points)
    return next((radices for radices in found if max(radices, default=1) <= USUAL_RADIX), found[0])
