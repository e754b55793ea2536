"""Products of spectra that are halves in memory: the copy engine brings them as the tensor cores read them.

As in `cgemm_warpgroup` a product of two numbers is low * high, high * low and high * high, and sums leave the tensor
cores after each stage. Nothing is looked through, scaled or split between products: 16 terms of 128x128 results took
1.54 us there, where the tensor cores need 0.9.

Source: Ootomo and Yokota 2022, "Recovering single precision accuracy from Tensor Cores", sections 3.1 and 3.3; wgmma
and cp.async.bulk.tensor in the PTX manual.
"""

from __future__ import annotations

import dataclasses
from math import ceil

from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.cgemm.text import CgemmText, require_cgemm
from warpsmith.generator.cgemm.warpgroup import CAPABILITY
from warpsmith.generator.conv2d.fourier.halves.geometry import (
    BARRIER_BYTES,
    GROUP_ROWS,
    REGISTERS,
    TERMS,
    HalvesGeometry,
)
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.problem import Accuracy, Problem
from warpsmith.generator.program import Launch, Pointer, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

GROUPS, COLUMNS, STAGES = (1, 2, 3), (32, 64, 96, 128, 192), (2, 3, 4, 6)
OTHER_REGISTERS = 22
"""What a thread needs beside its sums: addresses, counters, barriers."""
MOST_BEYOND = 127
"""Rows of a tile that may lie beyond a result: the copy engine counts a window's end in 8 bits."""
CHANNELS = 8
"""Halves side by side of which a row has a multiple: the copy engine takes rows from multiples of 16 bytes on."""
POWERS = ("power_a", "power_b")
"""The memory of the powers of two by which the operands are scaled."""
USUAL_STAGES = 3
TILE_US, STEP_US, CELLS_A_NS = 2.5, 0.55, 0.0
"""To begin a tile of 128x128 results and to store it, and each step of TERMS terms."""


class HalvesProduct(Family):
    """`cgemm` on operands that are halves: a stage of a layer, and no answer to a problem of its own."""

    name = "cgemm_halves"

    def why_not(self, problem: Problem, device: Device) -> str | None:
        if not isinstance(problem, Cgemm):
            return "solves cgemm only"
        if device.kind is DeviceKind.CUDA and device.compute_capability != CAPABILITY:
            return "needs compute capability 9.0, whose warpgroups multiply matrices"
        if problem.accuracy is not Accuracy.NORMWISE:
            return 'splits numbers relative to the largest of all: needs accuracy="normwise"'
        turned = [each for each, is_turned in _sizes(problem) if is_turned]
        if any(size % CHANNELS for size in turned):
            return f"takes rows of a multiple of {CHANNELS} numbers; these have {', '.join(map(str, turned))}"
        if len(turned) < len(_sizes(problem)) and problem.k % TERMS:
            return f"takes terms side by side by {TERMS}; there are {problem.k}"
        return None

    def space(self, problem: Problem, device: Device) -> Space:
        cgemm = require_cgemm(problem)
        return Space(
            parameters=(
                Parameter("groups", GROUPS, "warpgroups of a block, 64 rows of a result each"),
                Parameter("columns", COLUMNS, "of a result, a warpgroup"),
                Parameter("stages", STAGES, f"of shared memory, {TERMS} terms each"),
                Parameter("blocks", (0, device.multiprocessors), "that take tiles in turns; 0: one a tile"),
            ),
            constraints=_constraints(cgemm, device),
        )

    def default(self, problem: Problem, device: Device) -> Config:
        return self._ranked(require_cgemm(problem), device)[0]

    def starts(self, problem: Problem, device: Device) -> tuple[Config, ...]:
        return self._ranked(require_cgemm(problem), device)[1:4]

    def program(self, problem: Problem, config: Config) -> Program:
        cgemm = require_cgemm(problem)
        geometry = HalvesGeometry.of(cgemm, config)
        source = render("conv2d/fourier_halves.cu.jinja", p=CgemmText.of(cgemm), g=geometry, config=config.key())
        arguments = (geometry.a.map, geometry.b.map, *map(Pointer, POWERS), Pointer("c"))
        launch = Launch.of_blocks(self.name, geometry.blocks, geometry.threads, arguments)
        launch = dataclasses.replace(launch, shared_bytes=geometry.shared_bytes)
        return Program.of_source(self.name, config, source, (launch,))

    def _ranked(self, problem: Cgemm, device: Device) -> list[Config]:
        """The configs of each tile with as many stages as are usual, or fit, the likeliest first."""
        space = self.space(problem, device)
        found: dict[tuple[int, int], Config] = {}
        for groups in GROUPS:
            for columns in COLUMNS:
                wanted: dict[str, Value] = {"groups": groups, "columns": columns, "blocks": device.multiprocessors}
                stages = (each for each in (USUAL_STAGES, *STAGES) if space.contains(Config.of({**wanted, "stages": each})))
                if (some := next(stages, None)) is not None:
                    found[groups, columns] = Config.of({**wanted, "stages": some})
        return sorted(found.values(), key=lambda config: _rounds_us(problem, config, device))


def _rounds_us(problem: Cgemm, config: Config, device: Device) -> float:
    """What all rounds of tiles take, with the largest tile's time a step by what it multiplies."""
    geometry = HalvesGeometry.of(problem, config)
    cells = geometry.a.block * geometry.b.block / (128 * 128)
    rounds = ceil(geometry.tiles / device.multiprocessors)
    edges = (geometry.a.block + geometry.b.block) / 256
    return rounds * (TILE_US * cells + geometry.steps * STEP_US * (0.8 * cells + 0.2 * edges))


def _sizes(problem: Cgemm) -> tuple[tuple[int, bool], ...]:
    """Of each operand the results that it gives, and whether they lie side by side in memory."""
    return (problem.m, problem.a.transposes), (problem.n, not problem.b.transposes)


def _constraints(problem: Cgemm, device: Device) -> tuple[Constraint, ...]:
    def geometry(groups: int, columns: int, stages: int) -> HalvesGeometry:
        chosen: dict[str, Value] = {"groups": groups, "columns": columns, "stages": stages, "blocks": 0}
        return HalvesGeometry.of(problem, Config.of(chosen))

    return (
        Constraint(
            f"a tile has less than twice the {problem.m} rows of a result, or {GROUP_ROWS}",
            lambda groups: groups == GROUPS[0] or GROUP_ROWS * groups < 2 * problem.m,
        ),
        Constraint(
            f"a tile has less than twice the {problem.n} columns of a result, or {COLUMNS[0]}",
            lambda columns: columns == COLUMNS[0] or columns < 2 * problem.n,
        ),
        Constraint(
            f"a copy has at most {MOST_BEYOND} rows beyond a result",
            lambda groups, columns: all(
                side.is_turned or side.tiles * side.block - side.size <= MOST_BEYOND
                for side in (geometry(groups, columns, 2).a, geometry(groups, columns, 2).b)
            ),
        ),
        Constraint(
            f"a thread needs three registers for two columns and {OTHER_REGISTERS} more; with 1, 2 or 3 warpgroups it "
            f"has {', '.join(map(str, REGISTERS.values()))}",
            lambda groups, columns: 3 * columns // 2 + OTHER_REGISTERS <= REGISTERS[groups],
        ),
        Constraint(
            f"a block has at most {device.shared_per_block_bytes} bytes of shared memory",
            lambda groups, columns, stages: geometry(groups, columns, stages).shared_bytes
            <= device.shared_per_block_bytes,
        ),
    )
