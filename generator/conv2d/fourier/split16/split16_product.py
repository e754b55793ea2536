"""Products of spectra that are stored as split fp16 numbers: TMA copies them in the layout that wgmma reads.

As in `cgemm_warpgroup`, a product of two numbers is low * high + high * low + high * high, and sums leave the tensor
cores after each stage. Nothing is checked, scaled or split between products. In `cgemm_warpgroup`, 16 terms of 128x128
results take 1.54 us, where the tensor cores need 0.9.

Source: Ootomo and Yokota 2022, "Recovering single precision accuracy from Tensor Cores", sections 3.1 and 3.3; wgmma
and cp.async.bulk.tensor in the PTX manual.
"""

from __future__ import annotations

import dataclasses
import itertools
from math import cbrt, ceil

from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.cgemm.text import CgemmText
from warpsmith.generator.cgemm.tiled_geometry import PAIR, OperandTiles
from warpsmith.generator.cgemm.warpgroup_family import LIKELY_SIZE, fits_result, registers
from warpsmith.generator.cgemm.warpgroup_geometry import GROUP_ROWS, GROUP_THREADS
from warpsmith.generator.conv2d.products.split16.split16_operand import CHUNK
from warpsmith.generator.conv2d.products.wgmma.im2col_window import CHANNELS, LINE_BYTES, MOST_CORNER, why_no_map
from warpsmith.generator.conv2d.products.wgmma.wgmma_tiles import (
    BARRIER_BYTES,
    COPYING_REGISTERS,
    OTHER_REGISTERS,
    REGISTERS,
)
from warpsmith.generator.device import REFERENCE, Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.fft.block.block_places import PARTS, RUN
from warpsmith.generator.problem import Accuracy, DType
from warpsmith.generator.program import Argument, Launch, Pointer, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value
from warpsmith.generator.steps import TensorMap
from warpsmith.generator.tensor_cores import WARPGROUP, TensorType

GROUPS, COLUMNS, STAGES = (1, 2), (32, 64, 96, 128), (2, 3, 4, 6)
POWERS = ("power_a", "power_b")
"""Names of the memory with the powers of two by which the operands are scaled."""
USUAL_STAGES = (4, 3, 2)
"""Numbers of stages that a default tries; it takes the largest that fits."""
STARTS = 3
"""Start configs of a search beside the default."""
TILE_RESULTS = 64 * 128
"""Results of the tile that the times below refer to."""
BEGIN_NS, TILE_NS = 300.0, 600.0
"""Times of a tile, and of its results, which are stored; at the reference's clock."""
STEP_NS, STEP_TILE_NS = 100.0, 900.0
"""Times of a stage, and of what it multiplies. The best of 20 configs of eight kinds of products took within 12% of
what follows (H100, 2026-11-26)."""
L2_SHARE = 3400 / REFERENCE.l2_bytes_per_ns
"""Share of the L2 rate at which operands and results move (measured, H100)."""
TERMS = RUN
"""Complex terms per stage (K), after which sums leave the tensor cores."""


@dataclasses.dataclass(frozen=True, slots=True)
class Split16ProductTiles(OperandTiles):
    """Tiles of one operand. A warpgroup has `own` results along the operand's side, and a block has `threads`
    warpgroups there.
    """

    products: int

    @property
    def is_transposed(self) -> bool:
        """Whether the operand is transposed: results (M or N) are contiguous and terms (K) go from row to row."""
        return not self.terms_inner

    @property
    def boxes(self) -> int:
        """Copies side by side that cover the results of a tile, if the operand is transposed."""
        return ceil(self.block / CHANNELS)

    @property
    def box_bytes(self) -> int:
        """Bytes of one copy: lines of TERMS terms, or of all rows of the tile."""
        return LINE_BYTES * (TERMS if self.is_transposed else self.block)

    @property
    def copies(self) -> int:
        """Copies per stage."""
        return PARTS * self.boxes if self.is_transposed else PARTS // 2

    @property
    def stage_bytes(self) -> int:
        return self.copies * self.box_bytes

    @property
    def low(self) -> int:
        """Bytes of a stage from the high parts to the low ones."""
        return self.boxes * self.box_bytes if self.is_transposed else 2 * RUN

    @property
    def imaginary(self) -> int:
        """Bytes of a stage from the real parts to the imaginary ones."""
        return self.stage_bytes // 2

    @property
    def step(self) -> int:
        """Bytes from 16 terms to the next 16."""
        return 16 * LINE_BYTES if self.is_transposed else 32

    @property
    def group(self) -> int:
        """Bytes from 64 results to the next 64."""
        return self.box_bytes if self.is_transposed else CHANNELS * LINE_BYTES

    @property
    def map(self) -> TensorMap:
        """Tensor map of all fp16 numbers: an image for each part and product, whose pixels are the rows in memory."""
        lines = self.sum_length if self.is_transposed else self.size
        together = TERMS if self.is_transposed else self.block
        return TensorMap(
            self.name,
            DType.FLOAT16,
            shape=(
                (PARTS if self.is_transposed else PARTS // 2) * self.products,
                1,
                lines,
                self.size if self.is_transposed else 2 * self.sum_length,
            ),
            first=(0, 0),
            extent=(1, together * ceil(lines / together)),
            step=(1, 1),
            channels=CHANNELS,
            pixels=together,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Split16ProductGeometry:
    """One config on one problem."""

    a: Split16ProductTiles
    b: Split16ProductTiles
    stages: int
    most_blocks: int
    """Number of persistent blocks, which take tiles in turn; 0 if each tile has its own block."""
    scales_rows: bool
    """Whether each row of a has its own power of two."""

    @classmethod
    def of(cls, problem: Cgemm, config: Config) -> Split16ProductGeometry:
        return cls.of_tile(problem, *map(config.integer, ("groups", "columns", "stages", "blocks")))

    @classmethod
    def of_tile(
        cls, problem: Cgemm, groups: int, columns: int, stages: int = STAGES[0], blocks: int = 0
    ) -> Split16ProductGeometry:
        """Geometry of a tile of 64 rows per group."""
        shared = {"terms": TERMS, "sum_length": problem.k, "products": problem.batch}
        return cls(
            a=Split16ProductTiles("a", problem.m, GROUP_ROWS, groups, terms_inner=not problem.a.transposes, **shared),
            b=Split16ProductTiles("b", problem.n, columns, 1, terms_inner=problem.b.transposes, **shared),
            stages=stages,
            most_blocks=blocks,
            scales_rows=problem.accuracy is Accuracy.ROWWISE,
        )

    @property
    def sides(self) -> tuple[Split16ProductTiles, Split16ProductTiles]:
        return self.a, self.b

    @property
    def products(self) -> int:
        return self.a.products

    @property
    def groups(self) -> int:
        """Consumer warpgroups per block, one below the other."""
        return self.a.threads

    @property
    def columns(self) -> int:
        return self.b.block

    @property
    def blocks(self) -> int:
        return min(self.most_blocks or self.tiles, self.tiles)

    @property
    def tiles(self) -> int:
        return self.a.tiles * self.b.tiles * self.products

    @property
    def steps(self) -> int:
        """Stages of a sum."""
        return ceil(self.a.sum_length / TERMS)

    @property
    def threads(self) -> int:
        """Threads per block: the consumer warpgroups and one producer warpgroup."""
        return GROUP_THREADS * (self.groups + 1)

    @property
    def registers(self) -> int:
        """Registers per consumer thread after setmaxnreg; 0 if the launch gives it enough."""
        return REGISTERS[self.groups] if self.groups > 1 else 0

    @property
    def copying_registers(self) -> int:
        return COPYING_REGISTERS

    @property
    def stage_bytes(self) -> int:
        return self.a.stage_bytes + self.b.stage_bytes

    @property
    def shared_bytes(self) -> int:
        return self.stages * (self.stage_bytes + 2 * BARRIER_BYTES)

    @property
    def stores_pairs(self) -> bool:
        """Whether two columns are stored at once."""
        return self.b.size % PAIR == 0


class Split16Product(Family[Cgemm]):
    """`cgemm` on operands that are stored as split fp16 numbers. It is a stage of a layer and solves no problem of its
    own.
    """

    name = "cgemm_halves"

    def why_not(self, problem: Cgemm, device: Device) -> str | None:
        if (why_not := device.why_no_tensor_instruction(TensorType.F16, WARPGROUP)) is not None:
            return why_not
        if problem.accuracy is Accuracy.ELEMENTWISE:
            return 'splits numbers relative to the largest of all: needs accuracy="normwise" or "rowwise"'
        if problem.accuracy is Accuracy.ROWWISE and problem.a.transposes:
            return "takes a power of two for each row of a as it is"
        inner = _inner_sizes(problem)
        if any(size % CHUNK for size in inner):  # TMA needs rows that begin at multiples of 16 bytes
            return f"takes rows of a multiple of {CHUNK} numbers; these have {', '.join(map(str, inner))}"
        if len(inner) < 2 and problem.k % TERMS:
            return f"takes terms side by side by {TERMS}; there are {problem.k}"
        return None

    def is_likely(self, problem: Cgemm, device: Device) -> bool:
        """Whether tiles are full enough to win."""
        return device.kind is DeviceKind.CUDA and min(problem.m, problem.n) >= LIKELY_SIZE

    def space(self, problem: Cgemm, device: Device) -> Space:
        return Space(
            parameters=(
                Parameter("groups", GROUPS, "warpgroups of a block, 64 rows of a result each"),
                Parameter("columns", COLUMNS, "of a result, a warpgroup"),
                Parameter("stages", STAGES, f"of shared memory, {TERMS} terms each"),
                Parameter("blocks", (0, device.multiprocessors), "that take tiles in turns; 0: one a tile"),
            ),
            constraints=_constraints(problem, device),
        )

    def default(self, problem: Cgemm, device: Device) -> Config:
        return self._ranked(problem, device)[0]

    def starts(self, problem: Cgemm, device: Device) -> tuple[Config, ...]:
        return tuple(self._ranked(problem, device)[1 : 1 + STARTS])

    def program(self, problem: Cgemm, config: Config) -> Program:
        geometry = Split16ProductGeometry.of(problem, config)
        source = render("conv2d/fourier_halves.cu.jinja", p=CgemmText.of(problem), g=geometry, config=config.key())
        arguments: tuple[Argument, ...] = (geometry.a.map, geometry.b.map, *map(Pointer, POWERS), Pointer("c"))
        launch = Launch.of_blocks(self.name, geometry.blocks, geometry.threads, arguments)
        launch = dataclasses.replace(launch, shared_bytes=geometry.shared_bytes)
        return Program.of_source(self.name, config, source, (launch,))

    def _ranked(self, problem: Cgemm, device: Device) -> list[Config]:
        """The config of each tile with the most usual stages that fit, sorted by expected time."""
        space = self.space(problem, device)
        found: list[Config] = []
        for groups, columns in itertools.product(GROUPS, COLUMNS):
            wanted: dict[str, Value] = {"groups": groups, "columns": columns, "blocks": device.multiprocessors}
            configs = (Config.of({**wanted, "stages": stages}) for stages in USUAL_STAGES)
            found += [config for config in configs if space.contains(config)][:1]
        return sorted(found, key=lambda config: expected_ns(problem, config, device))


def expected_ns(problem: Cgemm, config: Config, device: Device) -> float:
    """The time of a product: rounds of tiles, and its bytes, which hide each other in part."""
    geometry = Split16ProductGeometry.of(problem, config)
    tile_size = geometry.a.block * geometry.b.block / TILE_RESULTS
    tile_ns = BEGIN_NS + TILE_NS * tile_size + geometry.steps * (STEP_NS + STEP_TILE_NS * tile_size)
    rounds_ns = tile_ns * device.rates.cycle_ratio * ceil(geometry.tiles / device.multiprocessors)
    return cbrt(rounds_ns**3 + (problem.bytes / (L2_SHARE * device.rates.l2_bytes_per_ns)) ** 3)


def _inner_sizes(problem: Cgemm) -> list[int]:
    """Sizes out of M and N whose numbers are contiguous in their operand."""
    return [problem.m] * problem.a.transposes + [problem.n] * (not problem.b.transposes)


def _constraints(problem: Cgemm, device: Device) -> tuple[Constraint, ...]:
    most_bytes = device.shared_per_block_bytes

    def has_few_rows(groups: int) -> bool:
        return fits_result(problem, groups, COLUMNS[0])

    def has_few_columns(columns: int) -> bool:
        return fits_result(problem, GROUPS[0], columns)

    def has_maps(groups: int, columns: int) -> bool:
        sides = Split16ProductGeometry.of_tile(problem, groups, columns).sides
        return all(why_no_map(side.map, ()) is None for side in sides)

    def has_registers(groups: int, columns: int) -> bool:
        return registers(columns, OTHER_REGISTERS) <= REGISTERS[groups]

    def has_memory(groups: int, columns: int, stages: int) -> bool:
        return Split16ProductGeometry.of_tile(problem, groups, columns, stages).shared_bytes <= most_bytes

    return (
        Constraint(f"a tile has less than twice the {problem.m} rows of a result, or {GROUP_ROWS}", has_few_rows),
        Constraint(f"a tile has less than twice the {problem.n} columns of a result, or {COLUMNS[0]}", has_few_columns),
        Constraint(f"a copy has at most {MOST_CORNER} rows beyond a result", has_maps),
        Constraint(
            f"a thread needs three registers for two columns and {OTHER_REGISTERS} more; with one or two warpgroups "
            f"it has {', '.join(str(REGISTERS[groups]) for groups in GROUPS)}",
            has_registers,
        ),
        Constraint(f"a block has at most {most_bytes} bytes of shared memory", has_memory),
    )
