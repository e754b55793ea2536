"""Transforms in a tile of shared memory, a few points of them in the registers of a thread at a time.

Where fbfft exchanges data between the lanes of a warp at each radix 2, a thread here transforms up to 32 points by
itself, and shared memory carries them to the next digit: one exchange where fbfft has five. A 2-D transform is one
kernel, and passes over memory once.

Source: Vasilache et al. 2014, "Fast Convolutional Nets With fbfft", section 5 (one kernel, zero padding by clipped
loads and stores, transposed results); Cooley and Tukey 1965 for the passes.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from warpsmith.generator.device import Device
from warpsmith.generator.families.fft_block_choice import Access, Packing, Stores, Twiddles, radices_of
from warpsmith.generator.families.fft_block_text import FftBlockText
from warpsmith.generator.families.fft_block_tile import room
from warpsmith.generator.family import Family
from warpsmith.generator.fft import Fft, Layout
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Launch, Pointer, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space
from warpsmith.generator.transforms.factors import LARGEST_PRIME, factorizations

LEAST_ELEMENTS, MOST_ELEMENTS = 2, 64
"""Complex numbers of a tile for each thread: fewer and threads outnumber the work, more and their registers run out."""
TRANSFORMS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 96, 128, 192, 256)
SHARED_BYTES = 48 * 1024
"""Of a tile, from which on two blocks may share a transform: a multiprocessor has room for four such tiles."""
USUAL_RADIX = 16
"""Largest one of a config that nobody has searched for: 32 points take 80 registers."""
LEAST_BUSY = 0.6
"""Of the threads of a tile, in each pass: a radix that leaves more of them without work has them wait for the rest."""


def require_fft(problem: Problem) -> Fft:
    """`problem` as what it is. Raises TypeError for another operation."""
    if not isinstance(problem, Fft):
        raise TypeError(f"no fft: {problem.operation}")
    return problem


class FftBlock(Family):
    """`fft` of any size whose primes are small and whose transform fits into shared memory."""

    name = "fft_block"

    def why_not(self, problem: Problem, device: Device) -> str | None:
        if not isinstance(problem, Fft):
            return "solves fft only"
        if not all(factorizations(points) for points in problem.size):
            return f"has no radix for a prime above {LARGEST_PRIME}"
        rows = prod(problem.size[:-1]) // max(_shares(problem))
        elements = min(rows * _tile_columns(problem, packing) for packing in _packings(problem))
        if not _fits(elements, device):
            nbytes, memory = 8 * room(elements), device.shared_per_block_bytes
            return f"one transform takes {nbytes} bytes of shared memory; a block has {memory}"
        return None

    def space(self, problem: Problem, device: Device) -> Space:
        fft = require_fft(problem)
        return Space(_parameters(fft), _constraints(fft, device))

    def default(self, problem: Problem, device: Device) -> Config:
        fft = require_fft(problem)
        packing = _packings(fft)[0]
        x, y = _tile_columns(fft, packing), prod(fft.size[:-1])
        shares = 1 if _fits(x * y, device) else max(_shares(fft))
        y //= shares
        transforms = max(1, min(2048 // (x * y), 256, fft.batch // packing.transforms))
        x_radices, y_radices = _usual(x), _usual(y)
        items = transforms * x * y // max((*x_radices, *y_radices))
        wanted = {
            "packing": packing.value,
            "x_radices": _word(x_radices),
            "y_radices": _word(y_radices),
            "shares": shares,
            "first": "x" if fft.inverse else "y",
            "transforms": max(each for each in TRANSFORMS if each <= transforms),
            "threads": max(32, min(256, items // 32 * 32)),
            "tiles": 1,
            "signal": Access.DIRECT.value,
            "spectrum": Access.STAGED.value,
            "twiddles": Twiddles.POWERS.value,
            "stores": Stores.PLAIN.value,
            "min_blocks": 0,
        }
        space = self.space(problem, device)
        names = {parameter.name for parameter in space.parameters}
        config = space.like({name: value for name, value in wanted.items() if name in names})
        if config is None:
            raise ValueError(f"the space of {fft.key()} is empty")
        return config

    def program(self, problem: Problem, config: Config) -> Program:
        fft = require_fft(problem)
        text = FftBlockText.of(fft, config)
        source = render("fft_block.cu.jinja", g=text, config=config.key())
        operands = fft.operands
        launch = Launch(
            entry=self.name,
            grid=(text.blocks, 1, 1),
            block=(text.choice.threads * text.choice.tiles, 1, 1),
            arguments=tuple(Pointer(operand.name) for operand in operands),
            shared_bytes=text.shared_bytes,
        )
        return Program(self.name, config, source, (launch,))


def _packings(problem: Fft) -> tuple[Packing, ...]:
    """The ways to make `problem` complex, the usual one first."""
    if not problem.is_real:
        return (Packing.COMPLEX,)
    columns = problem.size[-1]
    return (Packing.HALF, Packing.PAIR) if columns % 2 == 0 and columns >= 4 else (Packing.PAIR,)


def _tile_columns(problem: Fft, packing: Packing) -> int:
    return problem.size[-1] // 2 if packing is Packing.HALF else problem.size[-1]


def _word(radices: tuple[int, ...]) -> str:
    return "x".join(map(str, radices))


def _usual(points: int) -> tuple[int, ...]:
    """Radices that leave registers for enough threads, where there are such."""
    found = factorizations(points)
    return next((radices for radices in found if max(radices, default=1) <= USUAL_RADIX), found[0])


def _parameters(problem: Fft) -> tuple[Parameter, ...]:
    packings = _packings(problem)
    columns = {_tile_columns(problem, packing) for packing in packings}
    x_radices = tuple(dict.fromkeys(_word(each) for points in sorted(columns) for each in factorizations(points)))
    rows: tuple[Parameter, ...] = ()
    if len(problem.size) == 2:
        shares = _shares(problem)
        words = tuple(_word(each) for share in shares for each in factorizations(problem.size[0] // share))
        rows = (
            Parameter("shares", shares, "blocks that share a transform, each with every such row of the result"),
            Parameter("y_radices", words, "points of a column that a thread transforms, pass by pass"),
            Parameter("first", ("y", "x"), "whether columns (y) or rows (x) are transformed first"),
        )
    accesses = tuple(each.value for each in Access)
    spectrum = () if problem.is_real else (Parameter("spectrum", accesses, "the same of the spectrum"),)
    return (
        Parameter("packing", tuple(each.value for each in packings), "how real signals become complex ones"),
        Parameter("x_radices", x_radices, "points of a row that a thread transforms, pass by pass"),
        *rows,
        Parameter("transforms", TRANSFORMS, "complex ones in a tile"),
        Parameter("threads", (32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 512), "of a tile"),
        Parameter("tiles", (1, 2, 4, 8), "of a block, whose threads do not wait for each other"),
        Parameter("signal", accesses, "whether the signal goes through the tile, or straight to or from a pass"),
        *spectrum,
        Parameter("twiddles", tuple(each.value for each in Twiddles), "where twiddle factors come from"),
        Parameter("stores", tuple(each.value for each in Stores), "whether results are marked as not read soon"),
        Parameter("min_blocks", (0, 2, 3, 4, 6, 8), "blocks a multiprocessor must hold; 0 leaves it open"),
    )


def _constraints(problem: Fft, device: Device) -> tuple[Constraint, ...]:
    radices = ("x_radices", "y_radices") if len(problem.size) == 2 else ("x_radices",)
    memory = device.shared_per_block_bytes
    rules = [
        Constraint(
            "radices are those of the columns that the packing leaves",
            lambda packing, x_radices: prod(radices_of(x_radices)) == _tile_columns(problem, Packing(packing)),
        ),
        Constraint(
            f"there are {problem.batch} transforms in all",
            lambda packing, transforms: transforms == 1 or transforms * Packing(packing).transforms <= problem.batch,
        ),
        Constraint(
            f"a thread has {LEAST_ELEMENTS} to {MOST_ELEMENTS} complex numbers of the tile",
            _has_enough,
            ("transforms", "threads", *radices),
        ),
        Constraint(
            f"in every pass {LEAST_BUSY:.0%} of the threads have work", _is_busy, ("transforms", "threads", *radices)
        ),
        Constraint(
            f"a block has {memory} bytes of shared memory: one transform must fit",
            lambda *words: _fits(_elements(1, words), device),
            radices,
        ),
        Constraint(
            f"a block has {memory} bytes of shared memory: one tile must fit",
            lambda transforms, *words: _fits(_elements(transforms, words), device),
            ("transforms", *radices),
        ),
        Constraint(
            f"a block has {memory} bytes of shared memory, of which gaps take a few",
            lambda transforms, tiles, *words: _fits(_elements(transforms, words), device, tiles),
            ("transforms", "tiles", *radices),
        ),
        Constraint(
            "only the threads of one warp do without barriers, and so have several tiles in a block",
            lambda threads, tiles: tiles == 1 or threads == 32,
        ),
        Constraint(
            f"a multiprocessor holds {device.threads_per_multiprocessor} threads",
            lambda threads, tiles, min_blocks: min_blocks * threads * tiles <= device.threads_per_multiprocessor,
        ),
    ]
    if len(problem.size) == 2:
        rules += _row_constraints(problem.size[0])
    if problem.layout is not Layout.BATCH and not problem.is_real:
        rules.append(_staged_spectrum(problem))
    return tuple(rules)


def _row_constraints(rows: int) -> tuple[Constraint, ...]:
    return (
        Constraint(
            f"radices are those of {rows} rows, or of the half that a share has",
            lambda shares, y_radices: shares * prod(radices_of(y_radices)) == rows,
        ),
        Constraint(
            "blocks share transforms where one would be too large for a tile: they do not pair them too",
            lambda shares, packing: shares == 1 or packing != Packing.PAIR,
        ),
    )


def _elements(transforms: int, words: Iterable[str]) -> int:
    """Complex numbers of a tile with these radices."""
    return transforms * prod(prod(radices_of(word)) for word in words)


def _has_enough(transforms: int, threads: int, *words: str) -> bool:
    elements = _elements(transforms, words)
    least = LEAST_ELEMENTS * threads if threads > 32 else 0  # a warp is as small as threads come
    return least <= elements <= MOST_ELEMENTS * threads


def _is_busy(transforms: int, threads: int, *words: str) -> bool:
    """Whether no pass over a tile leaves many threads without work; a warp is as small as threads come."""
    elements = _elements(transforms, words)
    for radix in (radix for word in words for radix in radices_of(word)):
        items = elements // radix
        if items < LEAST_BUSY * threads * -(-items // threads) and threads > 32:
            return False
    return True


def _shares(problem: Fft) -> tuple[int, ...]:
    """Into how many blocks a transform can be split: large ones of two dimensions."""
    if len(problem.size) == 1 or problem.size[0] % 2 or problem.size[0] < 4:
        return (1,)
    packings = _packings(problem)
    nbytes = 8 * problem.size[0] * _tile_columns(problem, packings[0])
    return (1, 2) if packings[0] is not Packing.PAIR and nbytes >= SHARED_BYTES else (1,)


def _fits(elements: int, device: Device, tiles: int = 1) -> bool:
    """Whether tiles of so many complex numbers, with gaps, lie in the shared memory of a block."""
    return 8 * tiles * room(elements) <= device.shared_per_block_bytes


def _staged_spectrum(problem: Fft) -> Constraint:
    return Constraint(
        f"neighbours in a spectrum in {problem.layout} layout are not a thread's: it goes through the tile",
        lambda spectrum: spectrum == Access.STAGED,
    )
