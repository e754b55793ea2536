"""Search space of `cgemm_tensor`."""

from __future__ import annotations

import functools

from warpsmith.generator.architectures import THREAD_REGISTERS
from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.cgemm.tensor_geometry import FRAGMENT_COLUMNS, FRAGMENT_ROWS, SLICE, TensorGeometry
from warpsmith.generator.cgemm.tiled_geometry import WARP
from warpsmith.generator.cgemm.tiled_space import (
    SPLITS,
    copy_constraints,
    grid_constraint,
    one_tile_constraint,
    split_constraints,
    stages_constraint,
)
from warpsmith.generator.device import Device
from warpsmith.generator.space import Config, Constraint, Parameter, Space

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
