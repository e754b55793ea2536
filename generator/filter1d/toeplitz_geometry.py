"""Geometry of `filter1d_toeplitz`: tiles of a signal, their segments and strips, and the parts of split numbers."""

from __future__ import annotations

import dataclasses
import enum
from typing import NamedTuple

from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.problem import DType
from warpsmith.generator.space import Config
from warpsmith.generator.tensor_cores import TensorType

SEGMENTS = 8
"""Segments of a warp, whose outputs follow each other: N of mma.m16n8k16."""
STEP = 16
"""Samples that a product sums over: K of mma.m16n8k16."""
STRIP = 16
"""Outputs of each segment of a strip: M of mma.m16n8k16."""
PADDING = 8
"""Samples between the segments in shared memory, which then lie an odd number of 16-byte vectors apart: ldmatrix has no
bank conflicts."""
WARP = 32


class Split(enum.StrEnum):
    """Type of the parts that float32 samples and taps are split into."""

    HALVES = "halves"
    """Two float16 parts: 22 bits of the largest number of a tile, and of those down to 2^-28 of it."""
    BFLOATS = "bfloats"
    """Three bfloat16 parts: 24 bits of every number."""

    @property
    def parts(self) -> int:
        return 2 if self is Split.HALVES else 3

    @property
    def tensor_type(self) -> TensorType:
        return TensorType.F16 if self is Split.HALVES else TensorType.BF16

    @property
    def dtype(self) -> DType:
        return DType.FLOAT16 if self is Split.HALVES else DType.BFLOAT16


class Product(NamedTuple):
    """Parts of the samples and of the taps that are multiplied, and the accumulator of their products."""

    samples: int
    taps: int
    accumulator: int


def top_of(split: Split) -> int:
    """Exponent of the largest number after scaling: products of two such numbers are far from the largest float32, and
    parts of numbers 2^170 times smaller are still normal bfloat16 numbers.
    """
    return 14 if split is Split.HALVES else 59


def products_of(problem: Filter1d, split: Split) -> tuple[Product, ...]:
    """Products of the parts that matter. Products of low parts have an accumulator of their own: tensor cores truncate
    a sum to the bits of its largest term.
    """
    samples, taps = sample_parts(problem, split), tap_parts(problem, split)
    most = max(samples, taps)
    pairs = [(i, k) for i in range(samples) for k in range(taps) if i + k < most]
    return tuple(Product(i, k, 0 if i + k == 0 else 1) for i, k in pairs)


def sample_parts(problem: Filter1d, split: Split) -> int:
    return split.parts if problem.dtype is DType.FLOAT32 else 1


def tap_parts(problem: Filter1d, split: Split) -> int:
    return split.parts if problem.weights_dtype is DType.FLOAT32 else 1


def steps_of(problem: Filter1d, load_vector: int) -> int:
    """Products along the windows of a strip, if loads have so many samples."""
    return -(-(problem.first_lag % load_vector + problem.taps + STRIP - 1) // STEP)


def tile_of(warps: int, strips: int, steps: int) -> int:
    """Samples of a block's tile."""
    return STRIP * strips * SEGMENTS * warps + STEP * (steps - 1)


def places_of(warps: int, strips: int, steps: int) -> int:
    """Samples of shared memory for a part of a tile, padding included. ldmatrix reads two steps at a time, so that the
    last one may reach beyond the tile.
    """
    segment = STRIP * strips
    read = segment * (SEGMENTS * warps - 1) + STEP * (-(-(strips + steps - 1) // 2) * 2)
    return read + PADDING * (-(-read // segment))


@dataclasses.dataclass(frozen=True, slots=True)
class Filter1dToeplitzGeometry:
    """Geometry of one config on one problem. Lengths are in samples or outputs of one channel."""

    split: Split
    products: tuple[Product, ...]
    sample_parts: int
    tap_parts: int
    sums: int
    """Accumulators of a strip."""
    steps: int
    """Products along the windows of a strip."""
    lead: int
    """Samples that a tile begins before its first window, so that its loads are aligned."""
    strips: int
    """Strips of a warp; a segment has so many times 16 outputs."""
    warps: int
    tile: int
    """Samples of a tile."""
    places: int
    """Samples of shared memory for a part of a tile."""
    tile_outputs: int
    row_tiles: int
    """Tiles of a channel."""
    row_blocks: int
    """Blocks of a channel, which share its tiles evenly."""
    blocks: int
    load_vector: int
    store_vector: int
    loads: int
    """Loads of a thread for a tile."""
    min_blocks: int

    @classmethod
    def of(cls, problem: Filter1d, config: Config) -> Filter1dToeplitzGeometry:
        split = Split(config.text("split"))
        names = ("load_vector", "store_vector", "strips", "warps", "row_blocks")
        load_vector, store_vector, strips, warps, row_blocks = (config.integer(name) for name in names)
        products, steps = products_of(problem, split), steps_of(problem, load_vector)
        outputs, tile = SEGMENTS * STRIP * strips * warps, tile_of(warps, strips, steps)
        row_tiles = -(-problem.result_length // outputs)
        row_blocks = min(row_blocks, row_tiles) or row_tiles
        return cls(
            split=split,
            products=products,
            sample_parts=sample_parts(problem, split),
            tap_parts=tap_parts(problem, split),
            sums=1 + max(each.accumulator for each in products),
            steps=steps,
            lead=problem.first_lag % load_vector,
            strips=strips,
            warps=warps,
            tile=tile,
            places=places_of(warps, strips, steps),
            tile_outputs=outputs,
            row_tiles=row_tiles,
            row_blocks=row_blocks,
            blocks=row_blocks * problem.rows,
            load_vector=load_vector,
            store_vector=store_vector,
            loads=-(-tile // (load_vector * warps * WARP)),
            min_blocks=config.integer("min_blocks"),
        )

    @property
    def is_scaled(self) -> bool:
        """True if the samples of a tile are scaled before they are split."""
        return self.sample_parts > 1

    @property
    def are_taps_scaled(self) -> bool:
        """True if the taps are scaled before they are split."""
        return self.tap_parts > 1

    @property
    def sample_top(self) -> int:
        """Exponent of the largest sample of a tile after scaling."""
        return top_of(self.split)

    @property
    def tap_top(self) -> int:
        """Exponent of the largest tap after scaling. bfloat16 samples may be as large as float32, and the
        scale of the largest tap must be a normal float.
        """
        return 1 if self.split is Split.BFLOATS and not self.is_scaled else top_of(self.split)

    @property
    def is_looped(self) -> bool:
        """True if a block filters several tiles, one after the other."""
        return self.row_blocks < self.row_tiles

    @property
    def buffers(self) -> int:
        """Tiles in shared memory: a block fills one while slow warps still read the other."""
        return 2 if self.is_looped else 1
