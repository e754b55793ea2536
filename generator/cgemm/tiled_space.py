"""What may be chosen of `cgemm_tiled`."""

from __future__ import annotations

import functools
from collections.abc import Callable

from warpsmith.generator.architectures import THREAD_REGISTERS
from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.cgemm.tiled_geometry import WARP, Geometry
from warpsmith.generator.device import Device
from warpsmith.generator.space import Config, Constraint, Parameter, Space

OWN = (1, 2, 4, 6, 8)
THREADS = (1, 2, 4, 8, 16, 32)
TERMS = (2, 4, 8, 16, 32)
STAGES = (1, 2, 3, 4)
LANES = (1, 2, 4, 8, 16, 32)
NARROW_LANES = (4, 8)
"""Of warps that are narrower than their tile: the eight threads that shared memory serves at once read few rows of a
and few columns of b."""
PRODUCTS = (1, 2, 4, 8, 16, 32, 64)
SPLITS = (1, 2, 4, 8, 16)
MULTIPLIES = (4, 3)
MIN_BLOCKS = (0, 2, 3)

MIN_THREADS, MAX_THREADS = 64, 512
OTHER_REGISTERS = 24
"""What a thread needs beside its sums and what they are made of: addresses, counters."""
BLOCKS_ENOUGH = 4
"""For each multiprocessor; where there are so many without it, a sum is not split."""
MAX_GRID = 2**31 - 1
LEAST_TERMS = 4
"""Of a tile: its barriers take longer than its sums with fewer."""
LEAST_PART = 64
"""Terms of a part of a sum: the memory that parts go through takes longer than fewer terms."""
MOST_OBLONG = 4
"""How many times as long as wide a tile may be: it reads what its sides have added up, and makes what they have
multiplied."""
MIN_SUMS = 16
"""Of a thread, where there is enough to do: a number that is read is used as often as a side is long."""
MAX_COPIES = 16
"""Of a thread for a tile of both operands: where rows are checked, each has an address of its own in two registers."""
THIN_COPIES = 32
"""Where a side is so short that a tile's threads are few, and so are its sums."""
FULL_THREADS = 256
"""For each multiprocessor, which hide much of what memory takes."""


@functools.lru_cache(maxsize=64)  # the product of a layer is that of several families
def tiled_space(problem: Cgemm, device: Device) -> Space:
    """The space of `cgemm_tiled` for a problem on a device."""
    return Space(
        parameters=(
            Parameter("rows", OWN, "rows of a result a thread"),
            Parameter("columns", OWN, "and columns"),
            Parameter("block_rows", THREADS, "threads down a tile"),
            Parameter("block_columns", THREADS, "threads across a tile"),
            Parameter("terms", TERMS, "terms of a sum that a tile has"),
            Parameter("stages", STAGES, "tiles in shared memory at once, of each operand"),
            Parameter("lanes", LANES, "threads of a warp side by side"),
            Parameter("products", PRODUCTS, "of a block"),
            Parameter("splits", SPLITS, "parts of a sum, each of a block of its own"),
            Parameter("multiplies", MULTIPLIES, "real products for each complex one: four, or three and sums (Gauss)"),
            Parameter("min_blocks", MIN_BLOCKS, "blocks a multiprocessor must hold; 0 leaves it open"),
        ),
        constraints=(
            *_tile_constraints(problem),
            *_thread_constraints(problem, device),
            *split_constraints(problem, device),
            *_device_constraints(problem, device),
        ),
    )


def _tile_constraints(problem: Cgemm) -> tuple[Constraint, ...]:
    return (
        Constraint(
            f"a tile more than twice as large as a result of {problem.m}x{problem.n} has threads to spare",
            lambda rows, columns, block_rows, block_columns: (
                rows * block_rows < 2 * problem.m and columns * block_columns < 2 * problem.n
            ),
        ),
        Constraint(
            f"a tile has {LEAST_TERMS} terms or more, and less than twice the {problem.k} of a sum, or {TERMS[0]}",
            lambda terms: LEAST_TERMS <= terms < 2 * problem.k or (terms == TERMS[0] and problem.k < LEAST_TERMS),
        ),
        Constraint(
            f"a tile is at most {MOST_OBLONG} times as long as wide, or as wide as the result: a longer one reads more",
            lambda rows, columns, block_rows, block_columns: (
                (
                    rows * block_rows <= MOST_OBLONG * max(columns * block_columns, 1)
                    or columns * block_columns >= problem.n
                )
                and (columns * block_columns <= MOST_OBLONG * rows * block_rows or rows * block_rows >= problem.m)
            ),
        ),
        stages_constraint(problem),
    )


def _thread_constraints(problem: Cgemm, device: Device) -> tuple[Constraint, ...]:
    threads, inside = FULL_THREADS * device.multiprocessors, problem.m * problem.n
    sums = problem.output.size * min(max(problem.k // LEAST_PART, 1), SPLITS[-1])
    least = MIN_SUMS
    thinner = min(problem.m, problem.n)
    while least > 1 and (sums < least * threads or inside < least * WARP // 2 or OWN[-1] * thinner < 2 * least):
        least //= 4
    fewest = WARP if _is_thin(problem) else MIN_THREADS
    return (
        Constraint(
            f"a thread has {least} sums at the least: what is read for fewer is used too seldom",
            lambda rows, columns: rows * columns >= least,
        ),
        Constraint(
            f"a thread has {THREAD_REGISTERS} registers: two for each sum and for each number that sums are made of, "
            f"or three where there are three products, and {OTHER_REGISTERS} more",
            lambda rows, columns, multiplies: _registers(rows, columns, multiplies) <= THREAD_REGISTERS,
        ),
        Constraint(
            f"a block has {fewest} to {MAX_THREADS} threads",
            lambda block_rows, block_columns, products: fewest <= block_rows * block_columns * products <= MAX_THREADS,
        ),
        Constraint(
            "a warp lies in a tile: whole rows of threads, or so many lanes that the tile's threads make whole warps",
            lambda block_rows, block_columns, lanes: (
                lanes == min(block_columns, WARP)
                or (lanes in NARROW_LANES and lanes < block_columns and lanes * block_rows >= WARP)
            ),
        ),
        one_tile_constraint(problem),
    )


def _is_thin(problem: Cgemm) -> bool:
    """Whether a thread may have a whole side of the result: tiles of a warp's width have a warp's threads then."""
    return min(problem.m, problem.n) <= OWN[-1]


def split_constraints(problem: Cgemm, device: Device) -> tuple[Constraint, ...]:
    """What a split of sums needs, of tiles whose sides are the products of `rows` and `block_rows`, and of columns."""
    enough = BLOCKS_ENOUGH * device.multiprocessors

    def few(rows: int, columns: int, block_rows: int, block_columns: int) -> bool:
        down, across = -(-problem.m // (rows * block_rows)), -(-problem.n // (columns * block_columns))
        return problem.batch * down * across < enough

    return (
        Constraint(
            f"a sum is split only where there are fewer than {enough} blocks without it, of one product each",
            lambda rows, columns, block_rows, block_columns, products, splits: (
                splits == 1 or (products == 1 and few(rows, columns, block_rows, block_columns))
            ),
        ),
        part_constraint(problem),
    )


def part_constraint(problem: Cgemm) -> Constraint:
    """What a part of a sum has, whatever the tiles."""
    return Constraint(
        f"each part of a sum has terms, {LEAST_PART} or more but for the last",
        lambda terms, splits: (
            splits == 1
            or (
                (splits - 1) * part_steps(problem, terms, splits) < -(-problem.k // terms)
                and terms * part_steps(problem, terms, splits) >= LEAST_PART
            )
        ),
    )


def stages_constraint(problem: Cgemm) -> Constraint:
    """How many tiles may lie in shared memory at once."""
    return Constraint(
        "a sum that goes through several tiles has two stages or more, and no more stages than tiles",
        lambda terms, stages, splits: (
            1 < stages <= part_steps(problem, terms, splits) or stages == part_steps(problem, terms, splits) == 1
        ),
    )


def one_tile_constraint(problem: Cgemm) -> Constraint:
    """Which products may share a block."""
    return Constraint(
        "only products of one tile share a block",
        lambda rows, columns, block_rows, block_columns, products: (
            products == 1 or (rows * block_rows >= problem.m and columns * block_columns >= problem.n)
        ),
    )


def grid_constraint(problem: Cgemm) -> Constraint:
    """How many blocks there may be."""
    return Constraint(
        f"a grid has at most {MAX_GRID} blocks",
        lambda rows, columns, block_rows, block_columns, products, splits: (
            -(-problem.m // (rows * block_rows))
            * -(-problem.n // (columns * block_columns))
            * -(-problem.batch // products)
            * splits
            <= MAX_GRID
        ),
    )


def copy_constraints(
    device: Device, reads: tuple[str, ...], geometry: Callable[..., Geometry], copies: int = MAX_COPIES
) -> tuple[Constraint, ...]:
    """What a tile's copies take: room in shared memory, and threads' time.

    Args:
        device: with so much shared memory.
        reads: the parameters that decide it, `min_blocks` among them.
        geometry: of values of these parameters, in order.
        copies: that a thread may begin for a tile of both operands.
    """

    def fits(*values: int) -> bool:
        nbytes, blocks = geometry(*values).shared_bytes, max(values[reads.index("min_blocks")], 1)
        return nbytes <= device.shared_per_block_bytes and blocks * nbytes <= device.shared_per_multiprocessor_bytes

    return (
        Constraint(
            f"a block has at most {device.shared_per_block_bytes} bytes of shared memory, a multiprocessor "
            f"{device.shared_per_multiprocessor_bytes}",
            fits,
            reads,
        ),
        Constraint(
            f"a thread begins {copies} copies at the most for a tile of both operands",
            lambda *values: geometry(*values).thread_copies <= copies,
            reads,
        ),
    )


def _device_constraints(problem: Cgemm, device: Device) -> tuple[Constraint, ...]:
    reads = tuple(each for each in tiled_names() if each not in ("lanes", "splits", "multiplies"))

    @functools.lru_cache(maxsize=1)  # two rules ask for the same one after the other
    def geometry(*values: int) -> Geometry:
        chosen = dict(zip(reads, values, strict=True))
        return Geometry.of(problem, Config.of({**chosen, "lanes": 1, "splits": 1, "multiplies": 4}))

    return (
        Constraint(
            f"a multiprocessor has {device.registers_per_multiprocessor} registers",
            lambda rows, columns, block_rows, block_columns, products, multiplies, min_blocks: (
                _registers(rows, columns, multiplies) * block_rows * block_columns * products * max(min_blocks, 1)
                <= device.registers_per_multiprocessor
            ),
        ),
        *copy_constraints(device, reads, geometry, THIN_COPIES if _is_thin(problem) else MAX_COPIES),
        grid_constraint(problem),
    )


def tiled_names() -> tuple[str, ...]:
    """The parameters in order."""
    return (
        *("rows", "columns", "block_rows", "block_columns"),
        *("terms", "stages", "lanes", "products", "splits", "multiplies", "min_blocks"),
    )


def part_steps(problem: Cgemm, terms: int, splits: int) -> int:
    """Tiles that a part of a sum goes through."""
    tiles = -(-problem.k // terms)
    return -(-tiles // splits)


def _registers(rows: int, columns: int, multiplies: int) -> int:
    """Of a thread at the least: what sums are made of is there for one term at a time."""
    each = 2 if multiplies == 4 else 3
    return each * (rows * columns + rows + columns) + OTHER_REGISTERS
