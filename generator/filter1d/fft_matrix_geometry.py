"""Geometry of `filter1d_fft_matrix`: radix of the outer transform, rows of a thread block, and the tables of roots."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.toeplitz_batch_geometry import filter_rows, vectors
from warpsmith.generator.space import Config

INNER = 256
"""Points of the transforms along each frequency of the outer one: two of 16, in the registers of a warp."""
LINE_BYTES = 4 * INNER + 16
"""Bytes of shared memory for 256 complex numbers of two float16, and 16 so that eight lines meet no bank twice."""
FRAGMENT_BYTES = 512
"""Bytes of a 16x16 matrix of float16: 16 bytes a lane of a warp."""
TILE = 16
"""Rows, and columns, of a product."""


def shift_of(problem: Filter1d) -> int:
    """Place of the first output in the full convolution: 0 for a causal filter."""
    return problem.first_lag + problem.taps - 1


def least_radix(problem: Filter1d) -> int:
    """Smallest radix, a multiple of 8, of which no output meets a wrapped product.

    `256 * radix` complex numbers hold that many samples, and as many outputs, in their real parts. Places of a
    negacyclic product are equal at a distance of twice as many.
    """
    shift, outputs = shift_of(problem), problem.result_length
    full = problem.signal + problem.taps - 1
    points = max(problem.signal, outputs, -(-(shift + outputs) // 2), -(-(full - shift) // 2))
    return -(-points // (8 * INNER)) * 8


@dataclasses.dataclass(frozen=True, slots=True)
class Filter1dFftMatrixGeometry:
    """Geometry of one config on one problem."""

    radix: int
    """Points of the outer transform, along samples that are 256 apart."""
    rows: int
    """Rows of a thread block."""
    warps: int
    fetch: int
    """Operands that a warp loads an outer frequency ahead: none, the first matrix, or the spectrum too."""
    ahead: int
    """Thread blocks from one to the one whose samples it prefetches to L2; 0 for none."""
    min_blocks: int
    filters: int
    filter_rows: int
    """Rows that share a filter."""
    shift: int
    signal: int
    outputs: int
    load_vector: int
    store_vector: int
    loads_pairs: bool = False
    """The text of single samples, which sums of windows read, has no pairs."""

    @classmethod
    def of(cls, problem: Filter1d, config: Config) -> Filter1dFftMatrixGeometry:
        load, store = vectors(problem)
        return cls(
            radix=config.integer("radix"),
            rows=config.integer("rows"),
            warps=config.integer("warps"),
            fetch=config.integer("fetch"),
            ahead=config.integer("ahead"),
            min_blocks=config.integer("min_blocks"),
            filters=problem.filters,
            filter_rows=filter_rows(problem),
            shift=shift_of(problem),
            signal=problem.signal,
            outputs=problem.result_length,
            load_vector=load,
            store_vector=store,
        )

    @property
    def threads(self) -> int:
        return 32 * self.warps

    @property
    def groups(self) -> int:
        """Thread blocks of a filter."""
        return -(-self.filter_rows // self.rows)

    @property
    def blocks(self) -> int:
        return self.filters * self.groups

    @property
    def shared_bytes(self) -> int:
        return shared_bytes(self.radix, self.rows)

    @property
    def spectrum_blocks(self) -> int:
        """Thread blocks of the first launch: each has 8 outer frequencies of a filter."""
        return self.filters * self.radix // 8

    @property
    def spectrum_bytes(self) -> int:
        return 4 * INNER * self.filters * self.radix

    @property
    def outer_scale(self) -> int:
        """Power of two that divides the outer transform, so that no number exceeds the largest sample."""
        return 1 << (self.radix - 1).bit_length()

    @property
    def signal_tiles(self) -> int:
        """Tiles of 16 samples 256 apart that the signal has."""
        return -(-self.signal // (TILE * INNER))

    @property
    def output_tiles(self) -> int:
        return -(-self.outputs // (TILE * INNER))

    @property
    def table_bytes(self) -> int:
        outer = self.radix // 8 * -(-self.radix // TILE)
        return FRAGMENT_BYTES * (2 * outer + 2 + 8 * self.radix)

    @property
    def summary(self) -> tuple[str, ...]:
        """Header lines that say what the kernels do."""
        points = INNER * self.radix
        return (
            f"Negacyclic transforms of {points} complex numbers on tensor cores, in float16: samples are real parts.",
            f"An outer transform of {self.radix} samples {INNER} apart goes through shared memory; along each of its",
            "frequencies a warp has two transforms of 16, the product with the filter's spectrum and the two back in",
            "registers. Factors between the outer transform and the next one are part of that one's matrices.",
        )


def shared_bytes(radix: int, rows: int) -> int:
    return rows * radix * LINE_BYTES
