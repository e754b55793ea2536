"""`cgemm` by tensor-core warps (mma.sync) with each float32 split into two tf32 numbers: as accurate as float32 sums.

A float32 is the sum of two tf32 numbers except for its last bit, with the same range of exponents. The product of two
such sums has four products, and the one of both small parts is left out. Tensor cores truncate sums where float32
rounds, so long sums in them shrink. Here each of their sums has 8 terms, small products first, and a float32 addition
joins it to the others. Operands have the same layout in shared as in global memory and are split in registers.

Source: Markidis et al. 2018, "NVIDIA Tensor Core Programmability, Performance and Precision", section V (numbers in two
parts); Ootomo and Yokota 2022, "Recovering single precision accuracy from Tensor Cores", sections 3.1 (sums outside the
tensor cores) and 3.3 (the product of both small parts is left out); m16n8k8 in the PTX manual.
"""

from __future__ import annotations

import dataclasses
import functools
from functools import lru_cache

from warpsmith.generator.architectures import ASYNC_COPIES, THREAD_REGISTERS
from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.cgemm.text import CgemmText
from warpsmith.generator.cgemm.tiled_family import (
    SPLITS,
    changed,
    copy_constraints,
    grid_constraint,
    one_tile_constraint,
    split_constraints,
    splits_for,
    stages_constraint,
    tile_program,
)
from warpsmith.generator.cgemm.tiled_geometry import PAIR, WARP, TiledGeometry, TiledSide
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.program import Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value
from warpsmith.generator.tensor_cores import TensorType

SLICE = 8
"""Terms of one tensor-core product; its sums are rounded as float32 before they join the others."""
FRAGMENT_ROWS, FRAGMENT_COLUMNS = 16, 8
"""Rows and columns of one such product."""
CHAIN = 256 * SLICE
"""Terms that are added one after the other, in 256 sums of a slice each; longer sums are sums of such sums."""


@dataclasses.dataclass(frozen=True, slots=True)
class TensorSide(TiledSide):
    """Tiles of one operand: `own` rows or columns belong to a warp, `threads` counts a block's warps on the side."""

    @property
    def pitch(self) -> int:
        """Complex numbers from one row of a slice to the next in shared memory.

        Eight threads are served at once. If terms lie side by side, they read 64 bytes of each of two consecutive rows.
        Else they read two times 16 bytes, 64 bytes apart, of four rows. A row pitch of 16 bytes more than a multiple of
        128 puts those into different banks.
        """
        return SLICE if self.terms_inner else self.block + PAIR

    @property
    def slice(self) -> int:
        """Complex numbers from slice to slice; if terms lie side by side, padded so that copies hit different banks."""
        return SLICE * (self.block + 1) if self.terms_inner else SLICE * self.pitch

    @property
    def tile(self) -> int:
        return self.slice * (self.terms // SLICE)

    @property
    def in_pairs(self) -> bool:
        """True if a thread's columns lie in pairs, so that one store takes two."""
        return self.name == "b"


@dataclasses.dataclass(frozen=True, slots=True)
class TensorGeometry(TiledGeometry):
    """Geometry of one config. It has no lanes: the tensor cores prescribe which thread of a warp holds which result."""

    slices: int
    """Slices that are unrolled."""

    @classmethod
    def of(cls, problem: Cgemm, config: Config) -> TensorGeometry:
        return cls(
            a=TensorSide.of(problem, config, "a"),
            b=TensorSide.of(problem, config, "b"),
            batch=problem.batch,
            terms=config.integer("terms"),
            stages=config.integer("stages"),
            lanes=WARP,
            products=config.integer("products"),
            splits=config.integer("splits"),
            multiplies=config.integer("multiplies"),
            min_blocks=config.integer("min_blocks"),
            slices=config.integer("slices"),
        )

    @property
    def threads(self) -> int:
        return WARP * self.a.threads * self.b.threads

    @property
    def chain_steps(self) -> int:
        steps = CHAIN // self.terms
        return steps if self.split_steps > steps else 0

    @property
    def slice_instructions(self) -> int:
        """Instructions of a warp per slice: products, additions of their sums, and splits of numbers."""
        a, b = self.a.own, self.b.own
        parts, sums = (3, 3) if self.multiplies == 3 else (2, 2)
        fragments = (a // FRAGMENT_ROWS) * (b // FRAGMENT_COLUMNS)
        numbers = (a + b) * SLICE // WARP
        return fragments * (3 * self.multiplies + 4 * sums) + 3 * parts * numbers

    @property
    def written(self) -> int:
        """Unrolled instructions."""
        return self.slice_instructions * self.slices


OWN = (16, 32, 64)
"""Rows or columns of a warp's results. At least two products lie across, since one read may serve two."""
WARPS = (1, 2, 4)
TERMS = (8, 16, 32)
STAGES = (1, 2, 3, 4)
SLICES = (1, 2)
MULTIPLIES = (4, 3)
PRODUCTS = (1, 2, 4, 8)
MIN_BLOCKS = (0, 2, 3, 4)
MOST_WARPS = 8
"""Most warps per block."""
OTHER_REGISTERS = 24
"""Registers of a thread besides accumulators and factors: two products in flight, addresses, counters."""
MIN_RESULTS = 32 * 16
"""Least results of a warp, if the result has as many: each warp splits the numbers that it reads."""
MOST_OBLONG = 2
"""Largest ratio of a tile's sides, unless the result is longer: a tile reads the sum of its sides."""


@functools.lru_cache(maxsize=64)  # several families of a layer have the same product
def tensor_space(problem: Cgemm, device: Device) -> Space:
    """Search space of `cgemm_tensor` for a problem on a device."""
    return Space(
        parameters=(
            Parameter("rows", OWN, "rows of a result a warp"),
            Parameter("columns", OWN, "and columns"),
            Parameter("block_rows", WARPS, "warps down a tile"),
            Parameter("block_columns", WARPS, "warps across a tile"),
            Parameter("terms", TERMS, "terms of a sum that a tile has"),
            Parameter("stages", STAGES, "tiles in shared memory at once, of each operand"),
            Parameter("slices", SLICES, "products of 8 terms that are written out, one behind the other"),
            Parameter("products", PRODUCTS, "of a block"),
            Parameter("splits", SPLITS, "parts of a sum, each of a block of its own"),
            Parameter("multiplies", MULTIPLIES, "real products for each complex one: four, or three and sums (Gauss)"),
            Parameter("min_blocks", MIN_BLOCKS, "blocks a multiprocessor must hold; 0 leaves it open"),
        ),
        constraints=(
            *_tile_constraints(problem),
            *_warp_constraints(problem),
            one_tile_constraint(problem),
            *split_constraints(problem, device),
            *_device_constraints(problem, device),
            grid_constraint(problem),
        ),
    )


def _tile_constraints(problem: Cgemm) -> tuple[Constraint, ...]:
    return (
        Constraint(
            f"a tile twice as large as a result of {problem.m}x{problem.n} and larger than {OWN[0]} has warps to spare",
            lambda rows, columns, block_rows, block_columns: (
                (rows * block_rows < 2 * problem.m or rows * block_rows == OWN[0])
                and (columns * block_columns < 2 * problem.n or columns * block_columns == OWN[0])
            ),
        ),
        Constraint(
            f"a tile has less than twice the {problem.k} terms of a sum, or {SLICE}",
            lambda terms: terms < 2 * problem.k or terms == SLICE,
        ),
        Constraint(
            f"a tile is at most {MOST_OBLONG} times as long as wide, or as wide as the result: a longer one reads more",
            lambda rows, columns, block_rows, block_columns: (
                (rows * block_rows <= MOST_OBLONG * columns * block_columns or columns * block_columns >= problem.n)
                and (columns * block_columns <= MOST_OBLONG * rows * block_rows or rows * block_rows >= problem.m)
            ),
        ),
        stages_constraint(problem),
        Constraint(
            f"a tile of so many times {SLICE} terms has the slices that are written out",
            lambda terms, slices: slices * SLICE <= terms,
        ),
    )


def _warp_constraints(problem: Cgemm) -> tuple[Constraint, ...]:
    least = MIN_RESULTS
    while least > OWN[0] ** 2 and problem.m * problem.n < least:
        least //= 2
    return (
        Constraint(
            f"a warp has {least} results at the least: the parts of a number are made for fewer too often",
            lambda rows, columns: rows * columns >= least,
        ),
        Constraint(
            f"a thread has {THREAD_REGISTERS} registers: for its sums, both parts of all factors across and of 16 "
            f"down, and {OTHER_REGISTERS} more",
            lambda rows, columns, multiplies: registers(rows, columns, multiplies) <= THREAD_REGISTERS,
        ),
        Constraint(
            f"a block has at most {MOST_WARPS} warps",
            lambda block_rows, block_columns, products: block_rows * block_columns * products <= MOST_WARPS,
        ),
    )


def _device_constraints(problem: Cgemm, device: Device) -> tuple[Constraint, ...]:
    reads = tuple(each for each in tensor_names() if each not in ("splits", "multiplies", "slices"))

    @functools.lru_cache(maxsize=1)  # two constraints evaluate the same values one after the other
    def geometry(*values: int) -> TensorGeometry:
        chosen = dict(zip(reads, values, strict=True))
        return TensorGeometry.of(problem, Config.of({**chosen, "splits": 1, "multiplies": 4, "slices": 1}))

    return (
        Constraint(
            f"a multiprocessor has {device.registers_per_multiprocessor} registers",
            lambda rows, columns, block_rows, block_columns, products, multiplies, min_blocks: (
                registers(rows, columns, multiplies) * WARP * block_rows * block_columns * products * max(min_blocks, 1)
                <= device.registers_per_multiprocessor
            ),
        ),
        *copy_constraints(device, reads, geometry),
    )


def tensor_names() -> tuple[str, ...]:
    """Names of the parameters, in order."""
    return (
        *("rows", "columns", "block_rows", "block_columns"),
        *("terms", "stages", "slices", "products", "splits", "multiplies", "min_blocks"),
    )


def registers(rows: int, columns: int, multiplies: int) -> int:
    """Least registers of a thread: its accumulators, and two parts of each number that is multiplied."""
    parts = 3 if multiplies == 3 else 2  # parts of a number, and accumulators per result
    down, across = rows // FRAGMENT_ROWS, columns // FRAGMENT_COLUMNS
    return 4 * parts * (down * across + 2 + across) + OTHER_REGISTERS


DEFAULT_ROWS, DEFAULT_COLUMNS = 16, 32
"""Rows and columns of a warp's results by default: with so few, 128 registers per thread suffice."""
DEFAULT_WARPS = 8
"""Warps per block by default, four by two: a block's tile is 64 by 64."""
DEFAULT_TERMS, DEFAULT_STAGES, DEFAULT_BLOCKS = 16, 3, 2
"""Terms, stages and blocks per SM by default. Two blocks share an SM, four warps for each of its tensor cores: a
product waits for the one before it, and one block multiplies during the prologue or the epilogue of the other."""
STARTS: tuple[dict[str, Value], ...] = (
    {"multiplies": 3},
    {"rows": 32, "columns": 16, "block_rows": 2, "block_columns": 2, "min_blocks": 3},
    {"rows": 32, "columns": 16, "block_rows": 2, "block_columns": 4},
    {"rows": 32, "block_rows": 2, "min_blocks": 0},
    {"rows": 32, "block_rows": 2, "multiplies": 3, "min_blocks": 0},
    {"rows": 64, "columns": 16, "block_rows": 1, "block_columns": 4},
    {"rows": 32, "min_blocks": 0},
    {"terms": 32, "stages": 2},
)
"""Changes to the default that a search begins with: fewer products, smaller blocks with more registers, other warp
tiles, larger tiles, which split fewer numbers, and fewer barriers."""


@lru_cache(maxsize=256)
def tensor_default(problem: Cgemm, device: Device) -> Config:
    """16 by 32 results per warp and 64 by 64 per block, or as much as fits."""
    rows, block_rows = _shape(problem.m, DEFAULT_ROWS, 4)
    columns, block_columns = _shape(problem.n, DEFAULT_COLUMNS, 2)
    terms = next((each for each in TERMS[::-1] if each <= DEFAULT_TERMS and each < 2 * problem.k), SLICE)
    tiles = -(-problem.m // (rows * block_rows)) * -(-problem.n // (columns * block_columns))
    products = min(DEFAULT_WARPS // (block_rows * block_columns), PRODUCTS[-1]) if tiles == 1 else 1
    wanted: dict[str, Value] = {
        "rows": rows,
        "columns": columns,
        "block_rows": block_rows,
        "block_columns": block_columns,
        "terms": terms,
        "stages": min(-(-problem.k // terms), DEFAULT_STAGES),
        "slices": 1,
        "products": products,
        "splits": splits_for(problem, tiles * problem.batch, device) if products == 1 else 1,
        "multiplies": 4,
        "min_blocks": DEFAULT_BLOCKS,
    }
    return tensor_space(problem, device).like(wanted) or Config.of(wanted)


@lru_cache(maxsize=256)
def tensor_starts(problem: Cgemm, device: Device) -> tuple[Config, ...]:
    """The legal configs most like STARTS, each once."""
    return changed(tensor_space(problem, device), tensor_default(problem, device), STARTS)


def _shape(size: int, most: int, most_warps: int) -> tuple[int, int]:
    """Results of a warp along one side, and warps along it."""
    own = most if size > OWN[0] else OWN[0]
    warps = 1
    while warps < most_warps and own * warps < size:
        warps *= 2
    return own, warps


LIKELY_SIZE = 32
"""Rows, columns and terms from which on tensor-core products are expected to win."""


class CgemmTensor(Family[Cgemm]):
    """`cgemm` on tensor cores, with three tf32 products for each float32 product (3xTF32)."""

    name = "cgemm_tensor"

    def why_not(self, problem: Cgemm, device: Device) -> str | None:
        return device.why_no_tensor_instruction(TensorType.TF32) or device.why_no(ASYNC_COPIES)

    def is_likely(self, problem: Cgemm, device: Device) -> bool:
        return device.kind is DeviceKind.CUDA and min(problem.m, problem.n, problem.k) >= LIKELY_SIZE

    def space(self, problem: Cgemm, device: Device) -> Space:
        return tensor_space(problem, device)

    def default(self, problem: Cgemm, device: Device) -> Config:
        return tensor_default(problem, device)

    def starts(self, problem: Cgemm, device: Device) -> tuple[Config, ...]:
        return tensor_starts(problem, device)

    def unrolled(self, problem: Cgemm, config: Config) -> int:
        return TensorGeometry.of(problem, config).written

    def program(self, problem: Cgemm, config: Config) -> Program:
        geometry = TensorGeometry.of(problem, config)
        source = render("cgemm/tensor.cu.jinja", p=CgemmText.of(problem), g=geometry, config=config.key())
        return tile_program(self.name, problem, config, geometry, source)
