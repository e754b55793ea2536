"""Filters as long as their signals by transforms in float16 on tensor cores.

A row of n samples is the real part of n complex numbers. Samples times exp(i pi m / (2 n)) make the cyclic product of a
transform of n points a negacyclic one of 2 n. So a causal filter as long as its signal needs neither padding nor the
imaginary parts: the first transform takes real numbers, and so does the last one give. The outer transform, of up to
128 samples 256 apart, and two of 16 points are products of matrices by mma.sync. Results of a product have the layout
of operands of the next one, so that the inner transforms, the product with the filter's spectrum and the transforms
back stay in registers. Before and behind them numbers pass through shared memory.

Numbers are float16 between products. Each row is scaled by the power of two of its own largest sample, and each filter
by its Euclidean norm, so that nothing overflows: `precision="f16"`.

Source: FlashFFTConv (Fu et al. 2023), transforms as products of matrices on tensor cores; Bailey 1990, four steps;
Crandall and Fagin 1994, weighted transforms.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from warpsmith.generator.architectures import MAX_GRID
from warpsmith.generator.device import Device
from warpsmith.generator.filter1d.defaults import OrderedFamily
from warpsmith.generator.filter1d.fft_matrix_geometry import (
    TILE,
    Filter1dFftMatrixGeometry,
    least_radix,
    shared_bytes,
)
from warpsmith.generator.filter1d.fft_matrix_model import expected_ns
from warpsmith.generator.filter1d.fields import SignalLayout
from warpsmith.generator.filter1d.gates import why_no_gates
from warpsmith.generator.filter1d.plain_family import CHAIN
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.states import why_no_state
from warpsmith.generator.filter1d.text import DEFAULT_REACH, Filter1dText, Weights, is_strict, why_no_gradient
from warpsmith.generator.filter1d.toeplitz_batch_geometry import filter_rows
from warpsmith.generator.precision import Precision
from warpsmith.generator.program import Argument, Launch, Pointer, Program, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value, words
from warpsmith.generator.tensor_cores import TensorType

MAX_RADIX = 128
"""Largest radix of the outer transform: 32,768 samples."""
LEAST_SAMPLES = 129
"""Fewest samples and taps: shorter filters are sums or products of Toeplitz matrices."""
ROWS = (1, 2, 4)
WARPS = (4, 8, 16)
MIN_BLOCKS = (0, 1, 2, 3, 4, 5, 6)
MOST_SPECTRA = 1 << 32
"""Most bytes of all filters' spectra."""
PEAK_BYTES = 64
"""Bytes of shared memory for the largest samples of four rows."""
REGISTERS = 72
"""Fewest registers of a thread without which it keeps operands in memory."""


class Filter1dFftMatrix(OrderedFamily):
    """`filter1d` by transforms on tensor cores, in float16."""

    name = "filter1d_fft_matrix"
    default_reach = DEFAULT_REACH

    def why_not(self, problem: Filter1d, device: Device) -> str | None:
        if problem.precision is not Precision.F16:
            return "rounds to float16 between transforms: precision f16"
        if (reason := _why_no_filter(problem)) is not None:
            return reason
        if (reason := device.why_no_tensor_instruction(TensorType.F16)) is not None:
            return reason
        if self.first_legal(problem, device) is None:
            return f"shared memory and a grid do not fit {problem.signal} samples and {problem.rows} channels"
        return None

    def expected_ns(self, problem: Filter1d, device: Device) -> float | None:
        config = self.first_legal(problem, device)
        return None if config is None else expected_ns(problem, Filter1dFftMatrixGeometry.of(problem, config), device)

    def candidates(self, problem: Filter1d, device: Device) -> Iterator[Config]:
        """Yields the fastest of 20 to 40 configs that were measured for each of 11 radices (H200), then smaller ones.

        A first matrix that is loaded an outer frequency ahead saves 1 to 3%. Three blocks of four warps take 8% less
        time than two of eight where a multiprocessor holds three.
        """
        radix, multiprocessors = least_radix(problem), device.multiprocessors
        values: dict[str, Value] = {"weights": Weights.GLOBAL.value, "radix": radix, "fetch": 1}
        if radix <= TILE // 2:
            yield Config.of({**values, "rows": 2, "warps": 8, "ahead": 0, "min_blocks": 3})
            yield Config.of({**values, "rows": 1, "warps": 4, "ahead": 0, "min_blocks": 6})
        shapes = ((2, 8, 3),) if radix <= TILE else ()
        for rows, warps, min_blocks in (*shapes, (2, 8, 2), (1, 4, 3), (1, 8, 2), (1, 8, 1)):
            ahead = min_blocks * multiprocessors
            yield Config.of({**values, "rows": rows, "warps": warps, "ahead": ahead, "min_blocks": min_blocks})
        yield Config.of({**values, "rows": 1, "warps": 4, "ahead": 0, "min_blocks": 0})

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
        sizes = {"tables": geometry.table_bytes, "spectra": geometry.spectrum_bytes, "scales": 4 * problem.filters}
        if copied:
            sizes["taps"] = problem.operands[1].nbytes
        workspaces = tuple(Workspace(name, size, holds=("weights",)) for name, size in sizes.items())
        return Program.of_source(self.name, config, source, launches, workspaces)


def _why_no_filter(problem: Filter1d) -> str | None:
    """The reason why the kernels cannot compute a problem's outputs, in one line; None if they can."""
    reason = why_no_gradient(problem) or why_no_state(problem) or why_no_gates(problem)
    if reason is not None:
        return reason
    if problem.output_dtype.itemsize != 2:
        return f"is for results of 16 bits; these are {problem.output_dtype}"
    if problem.layout is not SignalLayout.BCT:
        return "is for signals whose samples lie side by side (layout bct)"
    if problem.down > 1:
        return f"computes every output; this problem keeps every {problem.down}-th"
    if min(problem.taps, problem.signal) < LEAST_SAMPLES:
        return f"is for filters and signals of {LEAST_SAMPLES} samples at the least"
    if least_radix(problem) > MAX_RADIX:
        return f"transforms a row in one block of {256 * MAX_RADIX} points at the most"
    return None


@functools.lru_cache(maxsize=256)
def _space(problem: Filter1d, device: Device) -> Space:
    ahead = tuple(each * device.multiprocessors for each in (0, 1, 2, 3, 4, 6))
    return Space(
        parameters=(
            Parameter("weights", words((Weights.GLOBAL,)), "where the spectrum's kernel finds the taps"),
            Parameter("radix", (least_radix(problem),), "points of the outer transform"),
            Parameter("rows", ROWS, "rows of a thread block, which share a filter"),
            Parameter("warps", WARPS, "warps of a thread block"),
            Parameter(
                "fetch", (0, 1, 2), "operands a warp loads a step ahead: none, the first matrix, the spectrum too"
            ),
            Parameter("ahead", ahead, "blocks from one to the one whose samples it prefetches; 0 for none"),
            Parameter("min_blocks", MIN_BLOCKS, "blocks a multiprocessor must hold; 0 leaves it open"),
        ),
        constraints=(*_shapes(problem), *_resources(device)),
    )


def _shapes(problem: Filter1d) -> tuple[Constraint, ...]:
    count = filter_rows(problem)
    return (
        Constraint(f"blocks have no more rows than a filter, {count}", lambda rows: rows == 1 or rows <= count),
        Constraint(
            "a grid has less than 2^31 blocks",
            lambda radix, rows: problem.filters * max(-(-count // rows), radix // 8) <= MAX_GRID,
        ),
        Constraint(
            f"spectra of {problem.filters} filters take at most {MOST_SPECTRA} bytes",
            lambda radix: 1024 * radix * problem.filters <= MOST_SPECTRA,
        ),
        Constraint(
            "every warp has outer frequencies", lambda radix, rows, warps: warps <= min(radix, rows * radix // 2)
        ),
    )


def _resources(device: Device) -> tuple[Constraint, ...]:
    limit, whole = device.shared_per_block_bytes, device.shared_per_multiprocessor_bytes
    reserved, registers = device.limits.reserved_shared_bytes, device.registers_per_multiprocessor
    return (
        Constraint(
            f"rows of a block fit {limit} bytes of shared memory",
            lambda radix, rows: shared_bytes(radix, rows) + PEAK_BYTES <= limit,
        ),
        Constraint(
            f"blocks that a multiprocessor must hold fit its {whole} bytes of shared memory",
            lambda radix, rows, min_blocks: (
                min_blocks <= 1 or min_blocks * (shared_bytes(radix, rows) + PEAK_BYTES + reserved) <= whole
            ),
        ),
        Constraint(
            f"{REGISTERS} registers of a thread fit {registers} of a multiprocessor",
            lambda warps, min_blocks: REGISTERS * 32 * warps * max(1, min_blocks) <= registers,
        ),
    )
