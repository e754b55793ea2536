"""Signals of a batch on tensor cores: 64 rows of samples times a Toeplitz matrix of the taps that they share.

Rows are the channels of all signals that have one filter. A warpgroup multiplies 64 of them by the Toeplitz matrix of a
chunk of outputs, by wgmma with both matrices in shared memory. A core matrix of taps depends only on the distance of
its samples from its outputs, if the outputs of a chunk are numbered backwards: the matrix is then a table with 128
bytes for each distance, and descriptors with equal offsets in both directions read it as the whole matrix. Products
with samples before the first one and behind the last one are left out, which halves a causal filter as long as its
signal. Samples pass through a ring of pieces, so that a multiprocessor holds several blocks: one stores while another
multiplies.

Source: convolution as products with Toeplitz matrices; FlashFFTConv (Fu et al. 2023) has the problem, filters as long
as the signal, and solves it by transforms.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

from warpsmith.generator.architectures import MAX_GRID
from warpsmith.generator.device import Device
from warpsmith.generator.filter1d.defaults import RankedFamily, ranked_by
from warpsmith.generator.filter1d.fields import SignalLayout
from warpsmith.generator.filter1d.gates import why_no_gates
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.text import DEFAULT_REACH, Filter1dText, Weights, filter1d_arguments
from warpsmith.generator.filter1d.toeplitz_batch_geometry import (
    CORE,
    EIGHT_SAMPLES,
    ROWS,
    WARPGROUP_THREADS,
    Filter1dToeplitzBatchGeometry,
    filter_rows,
    steps_of,
    table_bytes,
    vectors,
)
from warpsmith.generator.filter1d.toeplitz_model import BATCH_REGISTERS, batch_ns
from warpsmith.generator.filter1d.toeplitz_rules import splits_of, why_no_products
from warpsmith.generator.problem import DType
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space
from warpsmith.generator.tensor_cores import WARPGROUP

MAX_TAPS = 4096
"""Most taps: tensor cores truncate each of the taps / 16 additions to a sum, which 16-bit results do not show."""
COLUMNS = (64, 96, 128, 160, 192, 256)
GROUPS = (1, 2, 3, 4)
PIECES = (32, 64, 128)
STAGES = (3, 4, 5, 6, 8)
LIKELY_ROWS = 33
"""Fewest rows of a filter with which most rows of a product are used."""
SHORT_SIGNAL = 512
"""Most samples of a row with which small pieces are best."""


class Filter1dToeplitzBatch(RankedFamily):
    """`filter1d` as products of rows with one filter and its Toeplitz matrix, by wgmma."""

    name = "filter1d_toeplitz_batch"
    default_reach = DEFAULT_REACH

    def why_not(self, problem: Filter1d, device: Device) -> str | None:
        if problem.dtype not in (DType.FLOAT16, DType.BFLOAT16):
            return f"is for float16 and bfloat16 samples; these are {problem.dtype}"
        if (reason := why_no_products(problem, device, MAX_TAPS, WARPGROUP) or why_no_gates(problem)) is not None:
            return reason
        if problem.weights_dtype is not problem.dtype or problem.output_dtype.itemsize != 2:
            return "is for taps and results of 16 bits"
        if problem.layout is not SignalLayout.BCT:
            return "is for signals whose samples lie side by side (layout bct)"
        if not _ranked(problem, device):
            return f"shared memory and a grid do not fit {problem.taps} taps and {problem.rows} channels"
        return None

    def is_likely(self, problem: Filter1d, device: Device) -> bool:
        return filter_rows(problem) >= LIKELY_ROWS and super().is_likely(problem, device)

    def ranked(self, problem: Filter1d, device: Device) -> tuple[tuple[float, Config], ...]:
        return _ranked(problem, device)

    def space(self, problem: Filter1d, device: Device) -> Space:
        return _space(problem, device)

    def program(self, problem: Filter1d, config: Config) -> Program:
        geometry = Filter1dToeplitzBatchGeometry.of(problem, config)
        source = render(
            "filter1d/toeplitz_batch.cu.jinja",
            p=Filter1dText.of(problem),
            g=geometry,
            config=config.key(),
            store=config.text("store"),
            split=splits_of(problem)[0],
        )
        arguments = filter1d_arguments(problem, Weights.GLOBAL)
        grid, block = (geometry.blocks, 1, 1), (geometry.threads, 1, 1)
        launch = Launch(self.name, grid, block, arguments, geometry.shared_bytes)
        return Program.of_source(self.name, config, source, (launch,))


@functools.lru_cache(maxsize=256)
def _space(problem: Filter1d, device: Device) -> Space:
    load, store = vectors(problem)
    return Space(
        parameters=(
            Parameter("weights", (Weights.GLOBAL.value,), "each block reads its filter from global memory"),
            Parameter("columns", COLUMNS, "outputs of a warpgroup: N of wgmma"),
            Parameter("groups", GROUPS, "warpgroups of a block, which share its samples and taps"),
            Parameter("piece", PIECES, "samples of each row that come at once"),
            Parameter("stages", STAGES, "pieces in shared memory"),
            Parameter("load_vector", tuple(each for each in (1, 2, 4, 8) if each <= load), "samples in one copy"),
            Parameter("store_vector", tuple(each for each in (1, 2, 8) if each <= store), "outputs in one store"),
            Parameter("min_blocks", (0, 2, 3, 4), "blocks a multiprocessor must hold; 0 leaves it open"),
            Parameter("store", ("plain", "streaming"), "streaming marks the result as evicted first from L2"),
        ),
        constraints=(*_shapes(problem), *_resources(problem, device)),
    )


def _shapes(problem: Filter1d) -> tuple[Constraint, ...]:
    outputs, tiles = problem.result_length, problem.filters * -(-filter_rows(problem) // ROWS)
    return (
        Constraint(
            f"a block with one more warpgroup than the {outputs} outputs of a row need is a smaller one",
            lambda columns, groups: (groups - 1) * columns < outputs,
        ),
        Constraint(
            "a grid has less than 2^31 blocks",
            lambda columns, groups: tiles * -(-outputs // (columns * groups)) <= MAX_GRID,
        ),
    )


def _resources(problem: Filter1d, device: Device) -> tuple[Constraint, ...]:
    limit, whole = device.shared_per_block_bytes, device.shared_per_multiprocessor_bytes
    reserved, registers = device.limits.reserved_shared_bytes, device.registers_per_multiprocessor

    def shared(columns: int, piece: int, stages: int) -> int:
        cores = 2 * steps_of(problem, columns) + columns // CORE - 1
        table = table_bytes(steps_of(problem, columns), columns)
        return stages * (piece // CORE) * EIGHT_SAMPLES + table + 4 * CORE * (cores + 2)

    return (
        Constraint(
            f"pieces and taps of a block fit {limit} bytes of shared memory, for {problem.taps} taps",
            lambda columns, piece, stages: shared(columns, piece, stages) <= limit,
        ),
        Constraint(
            f"blocks that a multiprocessor must hold fit its {whole} bytes of shared memory",
            lambda columns, piece, stages, min_blocks: (
                min_blocks <= 1 or min_blocks * (shared(columns, piece, stages) + reserved) <= whole
            ),
        ),
        Constraint(
            f"sums and {BATCH_REGISTERS} registers of a thread fit {registers} of a multiprocessor",
            lambda columns, groups, min_blocks: (
                (columns // 2 + BATCH_REGISTERS) * WARPGROUP_THREADS * groups * max(1, min_blocks) <= registers
            ),
        ),
    )


@functools.lru_cache(maxsize=64)
def _ranked(problem: Filter1d, device: Device) -> tuple[tuple[float, Config], ...]:
    """Legal configs with their expected times in ns, the fastest first."""

    def expected_ns(config: Config) -> float | None:
        return batch_ns(problem, Filter1dToeplitzBatchGeometry.of(problem, config), device)

    return ranked_by(_space(problem, device), _configs(problem), expected_ns)


def _configs(problem: Filter1d) -> Iterator[Config]:
    load, store = vectors(problem)
    for columns, groups, stages in itertools.product(COLUMNS, GROUPS, (4, 3)):
        yield Config.of(
            {
                "weights": Weights.GLOBAL.value,
                "columns": columns,
                "groups": groups,
                "piece": 64 if problem.signal <= SHORT_SIGNAL else 128,
                "stages": stages,
                "load_vector": load,
                "store_vector": store,
                "min_blocks": 0,
                "store": "streaming",
            }
        )
