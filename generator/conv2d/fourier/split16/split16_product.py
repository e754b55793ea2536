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
from warpsmith.generator.cgemm.warpgroup_family import LIKELY_SIZE, fits_result, registers
from warpsmith.generator.cgemm.warpgroup_geometry import GROUP_ROWS
from warpsmith.generator.conv2d.fourier.split16.split16_geometry import TERMS, HalvesGeometry
from warpsmith.generator.conv2d.products.split16.split16_operand import CHUNK
from warpsmith.generator.conv2d.products.wgmma.im2col_geometry import MOST_CORNER, why_no_map
from warpsmith.generator.conv2d.products.wgmma.wgmma_image_geometry import REGISTERS
from warpsmith.generator.conv2d.products.wgmma.wgmma_space import OTHER_REGISTERS
from warpsmith.generator.device import REFERENCE, Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.problem import Accuracy
from warpsmith.generator.program import Argument, Launch, Pointer, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value
from warpsmith.generator.tensor_cores import WARPGROUP, TensorType

GROUPS, COLUMNS, STAGES = (1, 2), (32, 64, 96, 128), (2, 3, 4, 6)
POWERS = ("power_a", "power_b")
"""Names of the memory with the powers of two by which the operands are scaled."""
USUAL_STAGES = (4, 3, 2)
"""Numbers of stages that a default tries; it takes the largest that fits."""
STARTS = 3
"""Start configs of a search beside the default."""
CELLS = 64 * 128
"""Results of the tile that the times below refer to."""
BEGIN_NS, TILE_NS = 300.0, 600.0
"""Times of a tile, and of its results, which are stored; at the reference's clock."""
STEP_NS, STEP_TILE_NS = 100.0, 900.0
"""Times of a stage, and of what it multiplies. The best of 20 configs of eight kinds of products took within 12% of
what follows (H100, 2026-11-26)."""
L2_SHARE = 3400 / REFERENCE.l2_bytes_per_ns
"""Share of the L2 rate at which operands and results move (measured, H100)."""


class HalvesProduct(Family[Cgemm]):
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
        turned = [each for each, is_turned in _sizes(problem) if is_turned]
        if any(size % CHUNK for size in turned):  # TMA needs rows that begin at multiples of 16 bytes
            return f"takes rows of a multiple of {CHUNK} numbers; these have {', '.join(map(str, turned))}"
        if len(turned) < len(_sizes(problem)) and problem.k % TERMS:
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
        geometry = HalvesGeometry.of(problem, config)
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
    geometry = HalvesGeometry.of(problem, config)
    cells = geometry.a.block * geometry.b.block / CELLS
    tile_ns = BEGIN_NS + TILE_NS * cells + geometry.steps * (STEP_NS + STEP_TILE_NS * cells)
    rounds_ns = tile_ns * device.rates.cycle_ratio * ceil(geometry.tiles / device.multiprocessors)
    return cbrt(rounds_ns**3 + (problem.bytes / (L2_SHARE * device.rates.l2_bytes_per_ns)) ** 3)


def _sizes(problem: Cgemm) -> tuple[tuple[int, bool], ...]:
    """Sizes m and n of the result, and whether they are contiguous in their operand."""
    return (problem.m, problem.a.transposes), (problem.n, not problem.b.transposes)


def _constraints(problem: Cgemm, device: Device) -> tuple[Constraint, ...]:
    def geometry(groups: int, columns: int, stages: int) -> HalvesGeometry:
        chosen: dict[str, Value] = {"groups": groups, "columns": columns, "stages": stages, "blocks": 0}
        return HalvesGeometry.of(problem, Config.of(chosen))

    return (
        Constraint(
            f"a tile has less than twice the {problem.m} rows of a result, or {GROUP_ROWS}",
            lambda groups: fits_result(problem, groups, COLUMNS[0]),
        ),
        Constraint(
            f"a tile has less than twice the {problem.n} columns of a result, or {COLUMNS[0]}",
            lambda columns: fits_result(problem, GROUPS[0], columns),
        ),
        Constraint(
            f"a copy has at most {MOST_CORNER} rows beyond a result",
            lambda groups, columns: all(
                why_no_map(side.map, ()) is None for side in geometry(groups, columns, 2).sides
            ),
        ),
        Constraint(
            f"a thread needs three registers for two columns and {OTHER_REGISTERS} more; with one or two warpgroups "
            f"it has {', '.join(str(REGISTERS[groups]) for groups in GROUPS)}",
            lambda groups, columns: registers(columns, OTHER_REGISTERS) <= REGISTERS[groups],
        ),
        Constraint(
            f"a block has at most {device.shared_per_block_bytes} bytes of shared memory",
            lambda groups, columns, stages: (
                geometry(groups, columns, stages).shared_bytes <= device.shared_per_block_bytes
            ),
        ),
    )
