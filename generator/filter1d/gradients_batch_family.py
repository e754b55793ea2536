"""Gradients of long filters that the signals of a batch share, on tensor cores.

The gradient of tap k is the sum over rows and outputs t of gradient[t] times signal[t + first lag + k]. A warpgroup
multiplies 64 outputs by the samples beside them, summing over rows and over tiles of 64 outputs: element (m, n) of the
product is the sum over all t = m modulo 64, and each tap's sum is a diagonal of it. The diagonals are added up once, at
the end, in a fixed order. Both matrices lie in shared memory as they lie in global memory, samples side by side.

Source: the gradient of a convolution with Toeplitz matrices (`filter1d_toeplitz_batch`); wgmma with matrices whose rows
run along M and N, PTX manual.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator

from warpsmith.generator.architectures import MAX_GRID
from warpsmith.generator.device import Device
from warpsmith.generator.family import Work
from warpsmith.generator.filter1d.defaults import RankedFamily, ranked_by
from warpsmith.generator.filter1d.fields import Filter1dPass, SignalLayout
from warpsmith.generator.filter1d.gradients_batch_geometry import (
    TILE,
    Filter1dGradientsBatchGeometry,
    lags_of,
    widest_copy,
)
from warpsmith.generator.filter1d.gradients_text import (
    Fold,
    GradientsText,
    pass_arguments,
    pass_program,
    why_no_gradients_of,
)
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.toeplitz_batch_geometry import WARPGROUP_THREADS, filter_rows
from warpsmith.generator.filter1d.toeplitz_model import BATCH_REGISTERS, gradients_batch_ns
from warpsmith.generator.filter1d.toeplitz_rules import splits_of
from warpsmith.generator.problem import DType, NonFinite
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value
from warpsmith.generator.tensor_cores import WARPGROUP

COLUMNS = (64, 96, 128, 160, 192, 224, 256)
GROUPS = (1, 2, 3, 4)
TILES = (2, 4, 8, 16)
"""Tiles of a block. Tensor cores truncate each addition to a sum, of which 16 tiles of 64 rows make 64."""
STAGE_TILES = (1, 2, 4)
STAGES = (3, 4, 6)
FEW_ROWS = 32
LEAST_TAPS = 33
"""Least taps of a default: fewer take one pass over memory for all gradients."""


class Filter1dGradientsBatch(RankedFamily):
    """Gradients of weights as products of outputs and samples of the rows that share a filter, by wgmma."""

    name = "filter1d_gradients_batch"

    def why_not(self, problem: Filter1d, device: Device) -> str | None:
        if (reason := why_no_gradients_of(problem)) is not None:
            return reason
        if problem.pass_ is not Filter1dPass.WGRAD:
            return f"computes gradients of weights (pass wgrad); this is {problem.pass_}"
        if problem.bias or problem.activation is not None:
            return "is for filters without bias and activation"
        if problem.dtype not in (DType.FLOAT16, DType.BFLOAT16) or problem.output_dtype is not problem.dtype:
            return "is for signals and results that are both float16 or both bfloat16"
        if problem.layout is not SignalLayout.BCT:
            return "is for signals whose samples lie side by side (layout bct)"
        if (reason := device.why_no_tensor_instruction(splits_of(problem)[0].tensor_type, WARPGROUP)) is not None:
            return reason
        if not _ranked(problem, device):
            return f"shared memory and a grid do not fit {problem.taps} taps and {problem.rows} channels"
        return None

    def is_likely(self, problem: Filter1d, device: Device) -> bool:
        return problem.taps >= LEAST_TAPS and super().is_likely(problem, device)

    def ranked(self, problem: Filter1d, device: Device) -> tuple[tuple[float, Config], ...]:
        return _ranked(problem, device)

    def space(self, problem: Filter1d, device: Device) -> Space:
        return _space(problem, device)

    def work(self, problem: Filter1d, config: Config) -> Work | None:
        return None  # windows that reach beyond the signal have fewer multiply-adds than the problem counts

    def program(self, problem: Filter1d, config: Config) -> Program:
        geometry = Filter1dGradientsBatchGeometry.of(problem, config)
        fold = dataclasses.replace(Fold.of(problem, geometry.parts), channels=problem.filters, group=1)
        source = render(
            "filter1d/gradients_batch.cu.jinja",
            p=GradientsText.of(problem),
            g=geometry,
            fold=fold,
            config=config.key(),
            split=splits_of(problem)[0],
            strict=problem.nonfinite is NonFinite.WINDOW,
        )
        grid, block = (geometry.blocks, 1, 1), (geometry.threads, 1, 1)
        launch = Launch(self.name, grid, block, pass_arguments(problem), geometry.shared_bytes)
        return pass_program(problem, config, source, launch, fold)


@functools.lru_cache(maxsize=256)
def _space(problem: Filter1d, device: Device) -> Space:
    widest = widest_copy(problem)
    return Space(
        parameters=(
            Parameter("columns", COLUMNS, "samples of a warpgroup: N of wgmma"),
            Parameter("groups", GROUPS, "warpgroups of a block, which share its outputs"),
            Parameter("tiles", TILES, f"tiles of {TILE} outputs of a block"),
            Parameter("stage", STAGE_TILES, "tiles of outputs that come at once"),
            Parameter("stages", STAGES, "so many times these are in shared memory"),
            Parameter("vector", tuple(each for each in (1, 2, 4, 8) if each <= widest), "samples in one copy"),
        ),
        constraints=(*_shapes(problem), *_resources(problem, device)),
    )


def _shapes(problem: Filter1d) -> tuple[Constraint, ...]:
    outputs = problem.result_length
    return (
        Constraint(
            f"a block has taps beside the {TILE - 1} samples that its diagonals need",
            lambda columns, groups: lags_of(problem, columns, groups) > 0,
        ),
        Constraint(
            f"fewer warpgroups have columns for all {problem.taps} taps",
            lambda columns, groups: groups == 1 or lags_of(problem, columns, groups - 1) < problem.taps,
        ),
        Constraint(
            f"half of the tiles of a block would hold the {outputs} outputs of a row",
            lambda tiles: tiles == TILES[0] or tiles // 2 * TILE < outputs,
        ),
        Constraint("tiles come in groups of equal size", lambda tiles, stage: tiles % stage == 0),
    )


def _resources(problem: Filter1d, device: Device) -> tuple[Constraint, ...]:
    limit, registers = device.shared_per_block_bytes, device.registers_per_multiprocessor

    def geometry(columns: int, groups: int, tiles: int, stage: int, stages: int) -> Filter1dGradientsBatchGeometry:
        values = {"columns": columns, "groups": groups, "tiles": tiles, "stage": stage, "stages": stages, "vector": 1}
        return Filter1dGradientsBatchGeometry.of(problem, Config.of(values))

    return (
        Constraint(
            f"samples, outputs and sums of a block fit {limit} bytes of shared memory",
            lambda columns, groups, tiles, stage, stages: (
                lags_of(problem, columns, groups) <= 0
                or geometry(columns, groups, tiles, stage, stages).shared_bytes <= limit
            ),
        ),
        Constraint(
            f"sums and {BATCH_REGISTERS} registers of a thread fit {registers} of a multiprocessor",
            lambda columns, groups: (columns // 2 + BATCH_REGISTERS) * WARPGROUP_THREADS * groups <= registers,
        ),
        Constraint(
            "a grid has less than 2^31 blocks",
            lambda columns, groups, tiles, stage, stages: (
                lags_of(problem, columns, groups) <= 0
                or geometry(columns, groups, tiles, stage, stages).blocks <= MAX_GRID
            ),
        ),
    )


@functools.lru_cache(maxsize=64)
def _ranked(problem: Filter1d, device: Device) -> tuple[tuple[float, Config], ...]:
    """Legal configs with their expected times in ns, the fastest first."""

    def expected_ns(config: Config) -> float | None:
        return gradients_batch_ns(problem, Filter1dGradientsBatchGeometry.of(problem, config), device)

    return ranked_by(_space(problem, device), _configs(problem), expected_ns)


def _configs(problem: Filter1d) -> Iterator[Config]:
    chosen: dict[str, Value] = {"vector": widest_copy(problem)}
    chosen["stage"] = 1 if filter_rows(problem) > FEW_ROWS else 2  # few rows are few products between two barriers
    for columns, groups, tiles, stages in itertools.product(COLUMNS, GROUPS, TILES, (4, 3)):
        yield Config.of({**chosen, "columns": columns, "groups": groups, "tiles": tiles, "stages": stages})
