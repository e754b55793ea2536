"""`cgemm` with several results per thread in registers, and tiles of both operands in shared memory, copied ahead.

Conjugates are signs of multiply-adds, and transposed operands are read as they lie, so a complex product is nothing but
its multiply-adds. Long sums are sums of shorter ones: from time to time a thread adds its accumulators to its results
in memory, which costs no registers.

Source: Volkov and Demmel 2008, "Benchmarking GPUs to Tune Dense Linear Algebra" (tiles in registers), with the
asynchronous copies of compute capability 8.0. The parts of a split sum are added in a fixed order, as in split-K of
CUTLASS.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Protocol

from warpsmith.generator.architectures import ASYNC_COPIES, MAX_GRID, THREAD_REGISTERS
from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.cgemm.text import CgemmText, cgemm_arguments
from warpsmith.generator.cgemm.tiled_geometry import WARP, TiledGeometry, parts_bytes
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family, Work
from warpsmith.generator.program import Argument, Launch, Pointer, Program, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

OWN = (1, 2, 4, 6, 8)
THREADS = (1, 2, 4, 8, 16, 32)
TERMS = (2, 4, 8, 16, 32)
STAGES = (1, 2, 3, 4)
LANES = (1, 2, 4, 8, 16, 32)
NARROW_LANES = (4, 8)
"""Values of `lanes` for warps narrower than their tile: the eight threads that shared memory serves at once then read
few rows of a and few columns of b."""
PRODUCTS = (1, 2, 4, 8, 16, 32, 64)
SPLITS = (1, 2, 4, 8, 16)
MULTIPLIES = (4, 3)
MIN_BLOCKS = (0, 2, 3)

MIN_THREADS, MAX_THREADS = 64, 512
OTHER_REGISTERS = 24
"""Registers of a thread besides accumulators and factors: addresses, counters."""
BLOCKS_ENOUGH = 4
"""Blocks per SM from which on a sum is not split."""
LEAST_TERMS = 4
"""Least terms of a tile: with fewer, its barriers take longer than its sums."""
LEAST_PART = 64
"""Least terms of a part of a split sum: the memory traffic of parts takes longer than fewer terms."""
MOST_OBLONG = 4
"""Largest ratio of a tile's sides: a tile reads the sum of its sides, and computes their product."""
MIN_SUMS = 16
"""Least accumulators of a thread, if there is enough work: a number is used as often as the other side is long."""
MAX_COPIES = 16
"""Most copies of a thread for a tile of both operands: where rows are checked, each has an address in two registers."""
THIN_COPIES = 32
"""Most copies of a thread if a side is so short that a tile has few threads, and few accumulators."""
FULL_THREADS = 256
"""Threads per SM, which hide much of the memory latency."""


@functools.lru_cache(maxsize=64)  # several families of a layer have the same product
def tiled_space(problem: Cgemm, device: Device) -> Space:
    """Search space of `cgemm_tiled` for a problem on a device."""
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
    """True if a thread may have a whole side of the result; a tile may then have the threads of a single warp."""
    return min(problem.m, problem.n) <= OWN[-1]


def split_constraints(problem: Cgemm, device: Device) -> tuple[Constraint, ...]:
    """Constraints of split sums, for tiles with sides `rows` * `block_rows` and `columns` * `block_columns`."""
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
    """Constraint on the terms of each part of a sum, for any tiles."""
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
    """Constraint on the number of tiles in shared memory at once."""
    return Constraint(
        "a sum that goes through several tiles has two stages or more, and no more stages than tiles",
        lambda terms, stages, splits: (
            1 < stages <= part_steps(problem, terms, splits) or stages == part_steps(problem, terms, splits) == 1
        ),
    )


def one_tile_constraint(problem: Cgemm) -> Constraint:
    """Constraint on products that share a block."""
    return Constraint(
        "only products of one tile share a block",
        lambda rows, columns, block_rows, block_columns, products: (
            products == 1 or (rows * block_rows >= problem.m and columns * block_columns >= problem.n)
        ),
    )


def grid_constraint(problem: Cgemm) -> Constraint:
    """Constraint on the number of blocks."""
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
    device: Device, reads: tuple[str, ...], geometry: Callable[..., TiledGeometry], copies: int = MAX_COPIES
) -> tuple[Constraint, ...]:
    """Constraints on a tile's copies: shared memory, and copies per thread.

    Args:
        device: device whose shared memory is the limit.
        reads: parameters that decide the copies, `min_blocks` among them.
        geometry: makes a geometry from values of these parameters, in order.
        copies: most copies that a thread may begin for a tile of both operands.
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

    @functools.lru_cache(maxsize=1)  # two constraints evaluate the same values one after the other
    def geometry(*values: int) -> TiledGeometry:
        chosen = dict(zip(reads, values, strict=True))
        return TiledGeometry.of(problem, Config.of({**chosen, "lanes": 1, "splits": 1, "multiplies": 4}))

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
    """Names of the parameters, in order."""
    return (
        *("rows", "columns", "block_rows", "block_columns"),
        *("terms", "stages", "lanes", "products", "splits", "multiplies", "min_blocks"),
    )


def part_steps(problem: Cgemm, terms: int, splits: int) -> int:
    """Tiles along a part of a sum."""
    tiles = -(-problem.k // terms)
    return -(-tiles // splits)


def _registers(rows: int, columns: int, multiplies: int) -> int:
    """Least registers of a thread; factors are there for one term at a time."""
    each = 2 if multiplies == 4 else 3
    return each * (rows * columns + rows + columns) + OTHER_REGISTERS


DEFAULT_THREADS = 128
"""Threads per block by default. Three such blocks with 32 accumulators per thread share an SM: one copies or stores
while the others multiply."""
DEFAULT_TERMS, DEFAULT_STAGES = 8, 3
FILLING = 2
"""Blocks per SM, below which a sum is split."""
STARTS: tuple[dict[str, Value], ...] = (
    {"multiplies": 3},
    {"rows": 8, "columns": 4, "block_rows": 16, "block_columns": 16},
    {"rows": 4, "columns": 8, "block_rows": 16, "block_columns": 8},
    {"rows": 8, "columns": 8, "block_rows": 16, "block_columns": 16},
    {"rows": 8, "columns": 6, "block_rows": 8, "block_columns": 16, "multiplies": 3},
    {"terms": 16, "stages": 2},
)
"""Changes to the default that a search begins with: fewer products, larger tiles that read less, and longer ones that
wait less."""


@lru_cache(maxsize=256)
def tiled_default(problem: Cgemm, device: Device) -> Config:
    """Eight by four results per thread and 64 by 64 per block, or as much as fits."""
    rows, block_rows = _shape(problem.m, 8, 8)
    columns, block_columns = _shape(problem.n, 4, 16)
    threads = block_rows * block_columns
    terms = next((each for each in TERMS[::-1] if each <= DEFAULT_TERMS and each < 2 * problem.k), TERMS[0])
    products = max(min(DEFAULT_THREADS // threads, PRODUCTS[-1]), 1)
    tiles = -(-problem.m // (rows * block_rows)) * -(-problem.n // (columns * block_columns))
    splits = splits_for(problem, tiles * -(-problem.batch // products), device) if products == 1 else 1
    wanted: dict[str, Value] = {
        "rows": rows,
        "columns": columns,
        "block_rows": block_rows,
        "block_columns": block_columns,
        "terms": terms,
        "stages": min(-(-problem.k // terms), DEFAULT_STAGES),
        "lanes": min(block_columns, 8),
        "products": products,
        "splits": splits,
        "multiplies": 4,
        "min_blocks": 0,
    }
    return tiled_space(problem, device).like(wanted) or Config.of(wanted)


@lru_cache(maxsize=256)
def tiled_starts(problem: Cgemm, device: Device) -> tuple[Config, ...]:
    """The legal configs most like STARTS, each once."""
    return changed(tiled_space(problem, device), tiled_default(problem, device), STARTS)


def changed(space: Space, default: Config, starts: Iterable[Mapping[str, Value]]) -> tuple[Config, ...]:
    """The legal configs most like the default with some values changed, each once."""
    found = (space.like({**default.values(), **changes}) for changes in starts)
    return tuple(dict.fromkeys(config for config in found if config is not None and config != default))


def _shape(size: int, most: int, most_threads: int) -> tuple[int, int]:
    """Results of a thread along one side, and threads along it."""
    own = next(each for each in (most, most // 2, 2, 1) if each * most_threads // 2 <= size or each == 1)
    threads = 1
    while threads < most_threads and own * threads < size:
        threads *= 2
    return own, threads


def splits_for(problem: Cgemm, blocks: int, device: Device) -> int:
    """Parts of a sum, enough for FILLING blocks per SM if possible."""
    enough = FILLING * device.multiprocessors
    able = [each for each in SPLITS if each == 1 or each * LEAST_PART <= problem.k]
    return next((each for each in able if blocks * each >= enough), able[-1])


PARTS = "parts"
"""Name of the workspace for the parts of split sums."""
SUM_THREADS = 256


class CgemmTiled(Family[Cgemm]):
    """`cgemm` with accumulators in registers."""

    name = "cgemm_tiled"

    def why_not(self, problem: Cgemm, device: Device) -> str | None:
        return device.why_no(ASYNC_COPIES)

    def space(self, problem: Cgemm, device: Device) -> Space:
        return tiled_space(problem, device)

    def default(self, problem: Cgemm, device: Device) -> Config:
        return tiled_default(problem, device)

    def starts(self, problem: Cgemm, device: Device) -> tuple[Config, ...]:
        return tiled_starts(problem, device)

    def work(self, problem: Cgemm, config: Config) -> Work:
        geometry = TiledGeometry.of(problem, config)
        return Work(geometry.multiply_adds, geometry.loaded_bytes)

    def unrolled(self, problem: Cgemm, config: Config) -> int:
        return TiledGeometry.of(problem, config).written

    def program(self, problem: Cgemm, config: Config) -> Program:
        geometry = TiledGeometry.of(problem, config)
        source = render("cgemm/tiled.cu.jinja", p=CgemmText.of(problem), g=geometry, config=config.key())
        return tile_program(self.name, problem, config, geometry, source)


class Blocks(Protocol):
    """Grid and block of a kernel that has a block for each tile, as geometries give them."""

    @property
    def threads(self) -> int:
        """Threads of one product in a block."""

    @property
    def products(self) -> int:
        """Products per block."""

    @property
    def splits(self) -> int:
        """Parts of a sum (split-K), each of a block of its own."""

    @property
    def blocks(self) -> int: ...

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory per block."""


def tile_launch(family: str, geometry: Blocks, arguments: tuple[Argument, ...]) -> Launch:
    """Launch of the kernel whose blocks compute the tiles."""
    return Launch(
        entry=family,
        grid=(geometry.blocks, 1, 1),
        block=(geometry.threads * geometry.products, 1, 1),
        arguments=arguments,
        shared_bytes=geometry.shared_bytes,
    )


def tile_program(family: str, problem: Cgemm, config: Config, geometry: Blocks, source: str) -> Program:
    """Kernel with a block for each tile; if sums are split, another kernel adds their parts."""
    a, b, c = cgemm_arguments(problem)
    launch = tile_launch(family, geometry, (a, b, c if geometry.splits == 1 else Pointer(PARTS)))
    if geometry.splits == 1:
        return Program.of_source(family, config, source, (launch,))
    blocks = -(-problem.output.size // SUM_THREADS)
    total = Launch.of_blocks(f"{family}_sum", blocks, SUM_THREADS, (Pointer(PARTS), c))
    parts = Workspace(PARTS, parts_bytes(problem, geometry.splits))
    return Program.of_source(family, config, source, (launch, total), (parts,))
