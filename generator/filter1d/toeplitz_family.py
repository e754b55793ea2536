"""Filters on tensor cores: a banded Toeplitz matrix of the taps times eight segments of a signal.

Source: convolution as products with banded Toeplitz matrices. Each tile of float32 samples and the filter are scaled by
powers of two and split: into two float16 parts that keep 22 bits of the largest numbers, or into three bfloat16 parts
that keep 24 bits of all (Ootomo and Yokota 2022, "Recovering single precision accuracy from Tensor Cores", section 3;
Henry, Tang and Heinecke 2019, "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision
Computations"). float16 and bfloat16 samples are exact. A product also sums over samples outside of a window, with taps
of zero, so that a sample that is not finite spoils sums beside its windows: a warp computes those again, tap by tap.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

from warpsmith.generator.architectures import MAX_GRID, STATIC_SHARED_BYTES, THREAD_REGISTERS
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.filter1d.constraints import aligned_rows
from warpsmith.generator.filter1d.defaults import OrderedFamily
from warpsmith.generator.filter1d.fields import SignalLayout
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.registers_geometry import PAIRED, vectors_of
from warpsmith.generator.filter1d.text import (
    DEFAULT_REACH,
    Filter1dText,
    Weights,
    filter1d_arguments,
    older_samples,
    pitches,
)
from warpsmith.generator.filter1d.toeplitz_geometry import (
    SEGMENTS,
    STRIP,
    WARP,
    Filter1dToeplitzGeometry,
    Split,
    places_of,
    products_of,
    sample_parts,
    steps_of,
    tap_parts,
    tile_of,
)
from warpsmith.generator.filter1d.toeplitz_model import expected_ns
from warpsmith.generator.filter1d.toeplitz_rules import splits_of, why_no_products
from warpsmith.generator.pair_stores import pair_stores
from warpsmith.generator.problem import DType
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value, words

MAX_PRODUCTS = 640
"""Most mma instructions of a warp's tile, which are all unrolled: ptxas takes seconds for more."""
LIKELY_TAPS, LIKELY_SPLIT_TAPS, LIKELY_HALF_TAPS = 29, 25, 2
"""Least taps with which the default is as fast as that of `filter1d_registers` (H200): of float32 samples, of 16-bit
samples with float32 taps, and of samples and taps of 16 bits."""
LIKELY_BAND = 20
"""Most steps of all parts of the taps with which eight strips of float32 samples are better than four."""
SHORT_BAND = 7
"""Most steps of 16-bit taps with which blocks of gated filters have four warps, and least ones with which sixteen
strips of a warp are better than eight. Blocks of one signal have one tile up to twice as many: 97 float32 taps, in two
parts."""
WASTED_BAND, LONG_BAND = 4, 12
"""Least steps of 16-bit taps with which half an empty tile costs more than a band, and most ones with which each tile
is a block."""
MOST_GROWTH = 1.15
"""Most times as many outputs, behind the last one too, as tiles of eight strips have that sixteen strips may."""
MOST_TILES, FEWEST_WAVES = 64, 16
"""Most tiles of a block, and blocks of a multiprocessor from which the last ones to end do not matter."""
MAX_PROJECTION = 9
"""Most taps of the filters before the gates: a thread loads as many samples before each of its vectors."""
OTHER_REGISTERS = 40
"""Registers besides the band, sums, samples and loads, for addresses and the compiler."""


class Filter1dToeplitz(OrderedFamily):
    """`filter1d` as products with a banded Toeplitz matrix, by mma.sync."""

    name = "filter1d_toeplitz"
    default_reach = DEFAULT_REACH

    def why_not(self, problem: Filter1d, device: Device) -> str | None:
        if (reason := why_no_products(problem, device)) is not None:
            return reason
        if problem.layout is not SignalLayout.BCT:
            return "is for signals whose samples lie side by side (layout bct)"
        if problem.dtype not in (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16):
            return f"is for float32, float16 and bfloat16 samples; these are {problem.dtype}"
        if (problem.projection or 0) > MAX_PROJECTION:
            return f"keeps {MAX_PROJECTION - 1} samples before each load for the projections at the most"
        if self.first_legal(problem, device) is None:
            return f"registers, shared memory and a grid do not fit {problem.taps} taps and {problem.rows} channels"
        return None

    def is_likely(self, problem: Filter1d, device: Device) -> bool:
        is_split = tap_parts(problem, splits_of(problem)[0]) > 1
        least = LIKELY_SPLIT_TAPS if is_split else LIKELY_HALF_TAPS
        if problem.dtype is DType.FLOAT32:
            least = LIKELY_TAPS
        if problem.projection is not None:
            least = 1  # no other fast family solves it
        return device.kind is DeviceKind.CUDA and problem.taps >= least and self.why_not(problem, device) is None

    def expected_ns(self, problem: Filter1d, device: Device) -> float | None:
        config = self.first_legal(problem, device)
        return None if config is None else expected_ns(problem, config, device)

    def space(self, problem: Filter1d, device: Device) -> Space:
        return _space(problem, device)

    def candidates(self, problem: Filter1d, device: Device) -> Iterator[Config]:
        return _likely(problem, device)

    def unrolled(self, problem: Filter1d, config: Config) -> int:
        geometry = Filter1dToeplitzGeometry.of(problem, config)
        return 4 * geometry.strips * geometry.steps * len(geometry.products)

    def program(self, problem: Filter1d, config: Config) -> Program:
        geometry = Filter1dToeplitzGeometry.of(problem, config)
        source = render(
            "filter1d/toeplitz.cu.jinja",
            p=Filter1dText.of(problem),
            g=geometry,
            config=config.key(),
            store=config.text("store"),
        )
        arguments = filter1d_arguments(problem, Weights.GLOBAL)
        launch = Launch.of_blocks(self.name, geometry.blocks, WARP * geometry.warps, arguments)
        return Program.of_source(self.name, config, source, (launch,))


@functools.lru_cache(maxsize=256)
def _space(problem: Filter1d, device: Device) -> Space:
    signal = problem.inputs[0]
    return Space(
        parameters=(
            Parameter("weights", (Weights.GLOBAL.value,), "each block reads its filter from global memory"),
            Parameter("split", words(splits_of(problem)), "type of the parts of float32 numbers"),
            Parameter("load_vector", vectors_of(signal), "samples in one load from global memory"),
            Parameter("store_vector", (1, 2), "outputs in one store"),
            Parameter(
                "strips", (1, 2, 4, 8, 16), f"strips of a warp, of {STRIP} outputs in each of {SEGMENTS} segments"
            ),
            Parameter("warps", (1, 2, 4, 8), "warps of a block"),
            Parameter(
                "row_blocks",
                tuple(sorted({0, 1, 2, 4, 8, 16, *(each * device.multiprocessors for each in range(1, 9))})),
                "blocks of a channel, which share its tiles evenly; 0: a tile each",
            ),
            Parameter("min_blocks", (0, 2, 3, 4, 5, 6, 8), "blocks a multiprocessor must hold; 0 leaves it open"),
            Parameter("store", ("plain", "streaming"), "streaming marks the result as evicted first from L2"),
        ),
        constraints=(*_accesses(problem, device), *_resources(problem, device), *_blocks(problem)),
    )


def _accesses(problem: Filter1d, device: Device) -> tuple[Constraint, ...]:
    return (
        *aligned_rows(problem),
        *pair_stores(problem.output_dtype, device, "store_vector", PAIRED),
    )


def _loaded_words(problem: Filter1d, load_vector: int) -> int:
    """Registers of a load: its samples and the ones before them, and as many of their gates."""
    words = max(1, load_vector * problem.dtype.itemsize // 4)
    words += older_samples(problem.projection or 0, problem.dtype) * problem.dtype.itemsize // 4
    return words * (2 if problem.gates is not None and problem.gates.has_before else 1)


def _resources(problem: Filter1d, device: Device) -> tuple[Constraint, ...]:
    def registers(split: str, load_vector: int, strips: int, warps: int) -> int:
        """Registers of a thread: its part of the band, sums in progress, samples of two products, and loads."""
        steps, kind = steps_of(problem, load_vector), Split(split)
        products = products_of(problem, kind)
        sums = 4 * (1 + products[-1].accumulator) * min(strips, steps)
        loads = _loaded_words(problem, load_vector) * -(-tile_of(warps, strips, steps) // (load_vector * WARP * warps))
        band = 4 * steps * tap_parts(problem, kind)
        return band + sums + 4 * sample_parts(problem, kind) + loads + OTHER_REGISTERS

    def shared(split: str, load_vector: int, strips: int, warps: int, row_blocks: int) -> int:
        steps = steps_of(problem, load_vector)
        parts = sample_parts(problem, Split(split))
        tiles = 2 * (2 if row_blocks else 1) * parts * places_of(warps, strips, steps)
        return tiles + 4 * (16 * steps + 7) + 8 * warps

    return (
        Constraint(
            f"band, sums and loads of a thread must fit {THREAD_REGISTERS} registers, for {problem.taps} taps",
            lambda split, load_vector, strips, warps: registers(split, load_vector, strips, warps) <= THREAD_REGISTERS,
        ),
        Constraint(
            f"tiles and taps of a block must fit {STATIC_SHARED_BYTES >> 10} KiB of shared memory",
            lambda split, load_vector, strips, warps, row_blocks: (
                shared(split, load_vector, strips, warps, row_blocks) <= STATIC_SHARED_BYTES
            ),
        ),
        Constraint(
            f"at most {MAX_PRODUCTS} products are unrolled",
            lambda split, load_vector, strips: (
                strips == 1
                or strips * steps_of(problem, load_vector) * len(products_of(problem, Split(split))) <= MAX_PRODUCTS
            ),
        ),
        Constraint(
            f"the blocks asked for must fit the multiprocessor's {device.registers_per_multiprocessor} registers",
            lambda split, load_vector, strips, warps, min_blocks: (
                min_blocks * warps * WARP * registers(split, load_vector, strips, warps)
                <= device.registers_per_multiprocessor
            ),
        ),
        Constraint(
            f"a multiprocessor has {device.shared_per_multiprocessor_bytes >> 10} KiB of shared memory for its blocks",
            lambda split, load_vector, strips, warps, row_blocks, min_blocks: (
                min_blocks * shared(split, load_vector, strips, warps, row_blocks)
                <= device.shared_per_multiprocessor_bytes
            ),
        ),
    )


def _blocks(problem: Filter1d) -> tuple[Constraint, ...]:
    return (
        Constraint(
            f"a tile larger than twice the {problem.result_length} outputs of a channel is a smaller one",
            lambda strips, warps: strips * warps == 1 or SEGMENTS * STRIP * strips * warps < 2 * problem.result_length,
        ),
        Constraint(
            "blocks that share the tiles of a channel have more than one each",
            lambda strips, warps, row_blocks: (
                row_blocks < max(1, -(-problem.result_length // (SEGMENTS * STRIP * strips * warps)))
            ),
        ),
        Constraint(
            "a grid has less than 2^31 blocks",
            lambda strips, warps, row_blocks: (
                problem.rows * (row_blocks or -(-problem.result_length // (SEGMENTS * STRIP * strips * warps)))
                <= MAX_GRID
            ),
        ),
    )


def _likely(problem: Filter1d, device: Device) -> Iterator[Config]:
    """Yields configs for the default, the likeliest first, legal or not.

    On an H200, 30 to 60 configs were timed for 33, 65, 129 and 257 taps on 2^24 float32 samples, where blocks of two
    warps are best, and 7 to 24 for each of 20 problems of 300 to 100,000 samples of 16 bits. More strips share more of
    what a warp reads, until band and sums leave too few registers for several blocks. One tile a block is best as long
    as memory is the bound; with more taps a block prepares its band for several tiles.
    """
    signal = problem.inputs[0]
    pitch, result_pitch = pitches(problem) if problem.rows > 1 else (0, 0)
    widest = max(each for each in vectors_of(signal) if pitch % each == 0)
    store_vector = 2 if result_pitch % 2 == 0 else 1
    for split in splits_of(problem):
        band = tap_parts(problem, split) * steps_of(problem, widest)
        for strips, warps in _shapes(problem, device, split, band):
            for row_blocks in _row_blocks(problem, device, SEGMENTS * STRIP * strips * warps, split, band):
                for load_vector, store in itertools.product(dict.fromkeys((widest, 1)), (store_vector, 1)):
                    chosen: dict[str, Value] = {
                        "weights": Weights.GLOBAL.value,
                        "split": split.value,
                        "load_vector": load_vector,
                        "store_vector": store,
                        "strips": strips,
                        "warps": warps,
                        "row_blocks": row_blocks,
                        "min_blocks": 0,
                        "store": "streaming",
                    }
                    yield Config.of(chosen)


def _shapes(problem: Filter1d, device: Device, split: Split, band: int) -> Iterator[tuple[int, int]]:
    """Yields strips of a warp and warps of a block, the likeliest first: at first those that make a block for each
    multiprocessor.
    """
    best = _best_shape(problem, split, band)
    others = ((8, 1), (4, 1), (2, 1), (1, 1)) if best[1] == 1 else ((8, 2), (4, 2), (2, 2), (2, 1), (1, 1))
    shapes = dict.fromkeys((best, *others))
    smaller = [each for each in shapes if each[0] * each[1] <= best[0] * best[1]]
    tiles = {each: -(-problem.result_length // (SEGMENTS * STRIP * each[0] * each[1])) for each in smaller}
    yield from (each for each in smaller if problem.rows * tiles[each] >= device.multiprocessors)
    yield from smaller[::-1]


def _best_shape(problem: Filter1d, split: Split, band: int) -> tuple[int, int]:
    """Strips of a warp and warps of a block that are best for channels of any length.

    On an H200, 16-bit rows of 900 to 20,000 samples take 2 to 35% less time with blocks of one warp than with two or
    four, which wait for each other. Sixteen strips prepare a band half as often as eight: with filters of 100 to 190
    taps they take 12% less time, and also with shorter ones where eight strips would leave most of the last tile empty.
    """
    if problem.dtype is DType.FLOAT32:
        return (4 if band > LIKELY_BAND else 8), 2
    is_split = tap_parts(problem, split) > 1
    if problem.gates is not None and not is_split and (band <= SHORT_BAND or problem.projection is not None):
        return 4, (4 if band <= SHORT_BAND else 2)
    if problem.gates is not None:
        return 8, 2
    if is_split:
        return 8, 1
    if band > LONG_BAND:
        return 8, 2
    tile = SEGMENTS * STRIP * 8
    tiles, last = -(-problem.result_length // tile), problem.result_length % tile
    least = WASTED_BAND if 0 < last < tile // 2 else SHORT_BAND
    # An odd number of tiles of eight strips are more outputs, of larger tiles.
    return (16 if band >= least and tiles + tiles % 2 <= MOST_GROWTH * tiles else 8), 1


def _row_blocks(problem: Filter1d, device: Device, tile: int, split: Split, band: int) -> Iterator[int]:
    """Yields numbers of blocks of a channel, the likeliest first: one for each tile, or fewer if each block prepares a
    long band.

    Blocks of several tiles are as many as run at once, or so many that the last ones to end do not matter.
    """
    tiles, multiprocessors = -(-problem.result_length // tile), device.multiprocessors
    long_band = LIKELY_BAND if tap_parts(problem, split) > 1 else SHORT_BAND if problem.gates is not None else LONG_BAND
    if problem.gates is not None and problem.projection is None:
        yield 0  # memory is the bound: 128 taps take 1.01 copies, and 1.39 if a channel is one block
    if problem.rows == 1:
        if tiles >= 8 * multiprocessors and band > 2 * SHORT_BAND:
            yield 4 * multiprocessors
    elif band > long_band or problem.projection is not None:
        for each in (1, 2, 4, 8, 16):
            blocks = problem.rows * each / multiprocessors
            if MOST_TILES * each >= tiles and (3 <= blocks <= 4 or blocks >= FEWEST_WAVES):
                yield each
    yield 0
