"""Filters as long as their signals by transforms in float16 on tensor cores.

A row of n samples is the real part of n complex numbers. Samples times exp(i pi m / (2 n)) make the cyclic product of a
transform of n points a negacyclic one of 2 n, so that a causal filter as long as its signal needs neither padding nor
the other half: the first transform has real numbers alone, and so has the last. The outer transform, of up to 128
samples 256 apart, and two of 16 points are products of matrices by mma.sync. Results of a product have the layout of
operands of the next one, so that the inner transforms, the product with the filter's spectrum and the transforms back
stay in registers; before and behind them numbers pass through shared memory.

Numbers are float16 between products. Each row is scaled by the power of two of its own largest sample, and the filter by
its norm, so that nothing overflows: `precision="f16"`.

Source: FlashFFTConv (Fu et al. 2023), transforms as products of matrices on tensor cores; Bailey 1990, four steps;
Crandall and Fagin 1994, weighted transforms.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

from warpsmith.generator.architectures import MAX_GRID
from warpsmith.generator.device import Device
from warpsmith.generator.filter1d.defaults import RankedFamily, ranked_by
from warpsmith.generator.filter1d.fft_matrix_geometry import (
    Filter1dFftMatrixGeometry,
    filter_rows,
    least_radix,
    shared_bytes,
)
from warpsmith.generator.filter1d.fields import SignalLayout
from warpsmith.generator.filter1d.gates import why_no_gates
from warpsmith.generator.filter1d.plain_family import CHAIN
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.states import why_no_state
from warpsmith.generator.filter1d.text import DEFAULT_REACH, Filter1dText, Weights, is_strict, why_no_gradient
from warpsmith.generator.precision import Precision
from warpsmith.generator.program import Argument, Launch, Pointer, Program, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, words
from warpsmith.generator.tensor_cores import TensorType

MAX_RADIX = 128
"""Largest radix of the outer transform: 32,768 samples."""
LEAST_SAMPLES = 129
"""Fewest samples and taps: shorter filters are sums or products of Toeplitz matrices."""
AHEAD = (0, 132, 264, 396, 528, 660, 792)
ROWS = (1, 2, 4)
WARPS = (4, 8, 16)
MIN_BLOCKS = (0, 1, 2, 3, 4, 5, 6)


class Filter1dFftMatrix(RankedFamily):
    """`filter1d` by transforms on tensor cores, in float16."""

    name = "filter1d_fft_matrix"
    default_reach = DEFAULT_REACH

    def why_not(self, problem: Filter1d, device: Device) -> str | None:
        reason = why_no_gradient(problem) or why_no_state(problem) or why_no_gates(problem)
        if reason is not None:
            return reason
        if problem.precision is not Precision.F16:
            return "rounds to float16 between transforms: precision f16"
        if problem.output_dtype.itemsize != 2:
            return "is for results of 16 bits"
        if problem.layout is not SignalLayout.BCT:
            return "is for signals whose samples lie side by side (layout bct)"
        if problem.down > 1:
            return f"computes every output; this problem keeps every {problem.down}-th"
        if min(problem.taps, problem.signal) < LEAST_SAMPLES:
            return f"is for filters and signals of {LEAST_SAMPLES} samples at the least"
        if least_radix(problem) > MAX_RADIX:
            return f"a row is one transform of {256 * MAX_RADIX} points at the most"
        if (reason := device.why_no_tensor_instruction(TensorType.F16)) is not None:
            return reason
        if not _ranked(problem, device):
            return f"shared memory and a grid do not fit {problem.signal} samples and {problem.rows} channels"
        return None

    def ranked(self, problem: Filter1d, device: Device) -> tuple[tuple[float, Config], ...]:
        return _ranked(problem, device)

    def space(self, problem: Filter1d, device: Device) -> Space:
        return _space(problem, device)

    def program(self, problem: Filter1d, config: Config) -> Program:
        geometry = Filter1dFftMatrixGeometry.of(problem, config)
        strict = is_strict(problem)
        source = render(
            "filter1d/fft_matrix.cu.jinja",
            p=Filter1dText.of(problem),
            g=geometry,
            config=config.key(),
            strict=strict,
            chained=CHAIN if problem.taps > CHAIN else 0,
        )
        taps: tuple[Argument, ...] = () if problem.weights is not None else (Pointer("weights"),)
        copied = (Pointer("taps"),) if taps and strict else ()
        bias: tuple[Argument, ...] = (Pointer("bias"),) if problem.bias else ()
        made = (Pointer("tables"), Pointer("spectra"), Pointer("scales"))
        launches = (
            Launch(f"{self.name}_spectrum", (geometry.spectrum_blocks, 1, 1), (256, 1, 1), (*made, *taps, *copied)),
            Launch(
                self.name,
                (geometry.blocks, 1, 1),
                (geometry.threads, 1, 1),
                (Pointer("signal"), Pointer("result"), *made, *copied, *bias),
                geometry.shared_bytes,
            ),
        )
        sizes = (("tables", geometry.table_bytes), ("spectra", geometry.spectrum_bytes), ("scales", 4 * problem.filters))
        copies = (Workspace("taps", problem.operands[1].nbytes, holds=("weights",)),) if copied else ()
        workspaces = (*(Workspace(name, size, holds=("weights",)) for name, size in sizes), *copies)
        return Program.of_source(self.name, config, source, launches, workspaces)


@functools.lru_cache(maxsize=256)
def _space(problem: Filter1d, device: Device) -> Space:
    least = least_radix(problem)
    return Space(
        parameters=(
            Parameter("weights", words((Weights.GLOBAL,)), "where the spectrum's kernel finds the taps"),
            Parameter("radix", (least,), "points of the outer transform"),
            Parameter("rows", ROWS, "rows of a thread block, which share a filter"),
            Parameter("warps", WARPS, "warps of a thread block"),
            Parameter("together", (1, 2), "tiles of outputs that a warp computes at once"),
            Parameter("kept_tiles", (1, 2), "most tiles of samples that wait in registers"),
            Parameter("ahead", AHEAD, "blocks from one to the one whose samples it prefetches; 0 for none"),
            Parameter("min_blocks", MIN_BLOCKS, "blocks a multiprocessor must hold; 0 leaves it open"),
        ),
        constraints=_constraints(problem, device),
    )


def _constraints(problem: Filter1d, device: Device) -> tuple[Constraint, ...]:
    limit, whole = device.shared_per_block_bytes, device.shared_per_multiprocessor_bytes
    reserved, registers = device.limits.reserved_shared_bytes, device.registers_per_multiprocessor
    shared_rows = filter_rows(problem)
    return (
        Constraint(f"rows of a block fit {limit} bytes of shared memory", lambda radix, rows: shared_bytes(radix, rows) + 128 <= limit),
        Constraint(f"blocks have no more rows than a filter, {shared_rows}", lambda rows: rows == 1 or rows <= shared_rows),
        Constraint("a grid has less than 2^31 blocks", lambda rows: problem.filters * -(-shared_rows // rows) <= MAX_GRID),
        Constraint(
            f"blocks that a multiprocessor must hold fit its {whole} bytes of shared memory",
            lambda radix, rows, min_blocks: min_blocks <= 1 or min_blocks * (shared_bytes(radix, rows) + 128 + reserved) <= whole,
        ),
        Constraint(
            f"threads with 64 registers fit {registers} of a multiprocessor",
            lambda warps, min_blocks: 64 * 32 * warps * max(1, min_blocks) <= registers,
        ),
        Constraint("warps have work in the outer transform", lambda radix, rows, warps: warps <= 4 * rows * (radix // 8)),
    )


@functools.lru_cache(maxsize=64)
def _ranked(problem: Filter1d, device: Device) -> tuple[tuple[float, Config], ...]:
    """Legal configs with their expected times in ns, the fastest first."""
    return ranked_by(_space(problem, device), _configs(problem), lambda _: 1.0)


def _configs(problem: Filter1d) -> Iterator[Config]:
    for rows, warps, min_blocks in itertools.product((2, 1), (8, 4), (2, 0)):
        yield Config.of(
            {"weights": Weights.GLOBAL.value, "radix": least_radix(problem), "rows": rows, "warps": warps, "together": 1, "kept_tiles": 1, "ahead": 0, "min_blocks": min_blocks}
        )
