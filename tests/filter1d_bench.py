"""Runs filters of signals on the host: operands in guarded memory, SciPy's float64 result, and the error allowed."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.signal
from numpy.typing import NDArray

from together import Case, at_once, together
from warpsmith.devices.elements import numpy_dtype
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.module import Module
from warpsmith.generator.filter1d import Filter1d, SignalLayout
from warpsmith.generator.problem import DType, Operand
from warpsmith.generator.program import Program
from warpsmith.generator.registry import may_win

GUARD, FILL = 1 << 12, 0xFF
"""Bytes before and after an array, and the fill byte of guards and gaps between rows: NaN in any float type."""
Numbers = NDArray[Any]


class Spaced:
    """Operand in memory with its strides, between guards."""

    def __init__(self, operand: Operand) -> None:
        self._operand = operand
        self._memory = np.full(operand.span_bytes + 3 * GUARD, FILL, np.uint8)
        self._start = GUARD + -self._memory.ctypes.data % GUARD
        self.address = self._memory.ctypes.data + self._start
        dtype = numpy_dtype(operand.dtype)
        self.elements: Numbers = np.ndarray(operand.shape, dtype, self._memory.data, self._start, operand.strides)

    def is_intact(self) -> bool:
        """Whether guards and gaps between rows are unchanged."""
        rest, operand = self._memory.copy(), self._operand
        shape, strides = (*operand.shape, operand.dtype.itemsize), (*operand.strides, 1)
        np.ndarray(shape, np.uint8, rest.data, self._start, strides)[...] = FILL
        return bool((rest == FILL).all())


def drawn(problem: Filter1d) -> tuple[Numbers, Numbers]:
    """Random signal and filters."""
    rng = np.random.default_rng(7)
    signal, weights, _ = problem.operands
    if signal.dtype in (DType.INT16, DType.UINT8):
        samples = rng.integers(*((0, 256) if signal.dtype is DType.UINT8 else (-(2**15), 2**15)), signal.shape)
    else:
        samples = _normal(rng, signal.shape, signal.dtype)
    if problem.weights is not None:
        return samples.astype(numpy_dtype(signal.dtype)), np.array(problem.weights, np.float32).reshape(weights.shape)
    taps = _normal(rng, weights.shape, weights.dtype) + 0.25
    return samples.astype(numpy_dtype(signal.dtype)), taps.astype(numpy_dtype(weights.dtype))


def _normal(rng: np.random.Generator, shape: Sequence[int], dtype: DType) -> Numbers:
    real = rng.standard_normal(shape)
    return real + 1j * rng.standard_normal(shape) if dtype is DType.COMPLEX64 else real


def by_scipy(problem: Filter1d, signal: Numbers, weights: Numbers) -> Numbers:
    """Result of scipy.signal.convolve in float64 or complex128, row by row, in the shape of the result."""
    wide = np.complex128 if problem.dtype is DType.COMPLEX64 else np.float64
    rows = _rows(problem, signal.astype(wide))
    filters = weights.astype(wide).reshape(problem.filters, problem.taps)
    filters = filters if problem.convolve else filters[:, ::-1]
    start = problem.first_lag + problem.taps - 1  # of the first output in the full convolution
    stop = start + (problem.result_length - 1) * problem.down + 1
    found = np.empty((problem.batch, problem.channels, problem.result_length), wide)
    for batch, channel in np.ndindex(problem.batch, problem.channels):
        filter_ = filters[channel * problem.filters // problem.channels]
        full = scipy.signal.convolve(rows[batch, channel], filter_, "full", "direct")
        found[batch, channel] = full[start : stop : problem.down]
    ordered = found.transpose(0, 2, 1) if problem.layout is SignalLayout.BTC else found
    return ordered.reshape(problem.output.shape)


def _rows(problem: Filter1d, signal: Numbers) -> Numbers:
    if problem.layout is SignalLayout.BTC:
        return signal.reshape(problem.batch, problem.signal, problem.channels).transpose(0, 2, 1)
    return signal.reshape(problem.batch, problem.channels, problem.signal)


@functools.lru_cache(maxsize=64)  # families and configs share it
def right(problem: Filter1d) -> tuple[Numbers, Numbers]:
    """Result for the `drawn` operands, and the largest error allowed per element: 1e-6 of the sum of |terms|, and the
    rounding to the result's type.
    """
    signal, weights = drawn(problem)
    expected = by_scipy(problem, signal, weights)
    magnitudes = (np.abs(each.astype(np.complex128)) for each in (signal, weights))
    allowed = 1e-6 * np.abs(by_scipy(problem, *magnitudes))
    # The spacing of float16 and bfloat16 numbers relative to the number: half of it is the error of rounding.
    relative = {DType.FLOAT16: 2**-11, DType.BFLOAT16: 2**-8}.get(problem.output.dtype, 0.0)
    smallest = 2**-25 if problem.output.dtype is DType.FLOAT16 else 0.0
    return expected, allowed + np.maximum(relative * np.abs(expected), smallest)


@dataclasses.dataclass(frozen=True)
class FilterBench:
    """Compiles kernels, runs them and checks their results."""

    compiler: HostCompiler
    runtime: HostRuntime

    def check_all(self, cases: Iterable[Case]) -> None:
        """Compiles many kernels as one text, and fails with a list of all wrong ones."""
        listed = list(cases)
        programs, wrong = [each.program for each in listed], []
        for numbers in at_once(programs):
            whole, placed = together([programs[number] for number in numbers])
            with contextlib.closing(self.runtime.load(self.compiler.compile(whole.compilation()))) as module:
                for number, program in zip(numbers, placed, strict=True):
                    if told := self._fault(module, listed[number].problem, program):
                        wrong.append(f"{listed[number]}: {told}")
        assert not wrong, "\n".join([f"{len(wrong)} of {len(listed)} kernels are wrong", *wrong])

    def filtered(self, program: Program, problem: Filter1d, signal: Numbers, weights: Numbers) -> Numbers:
        """Result of one program for these operands."""
        with contextlib.closing(self.runtime.load(self.compiler.compile(program.compilation()))) as module:
            return self._run(module, program, problem, signal, weights)[1].elements

    def _fault(self, module: Module, problem: Filter1d, program: Program) -> str | None:
        """What is wrong with the results of two runs; None if nothing is."""
        signal, weights = drawn(problem)
        runs = [self._run(module, program, problem, signal, weights) for _ in range(2)]
        expected, allowed = right(problem)
        for source, target in runs:
            error = np.abs(target.elements.astype(expected.dtype) - expected)
            wrong = ~(error <= allowed)  # NaN is wrong too
            if wrong.any():
                first = np.argwhere(wrong)[0].tolist()
                return f"{wrong.sum()} of {wrong.size} are off, the first at {first}, by up to {np.nanmax(error)}"
            if not target.is_intact() or not source.is_intact():
                return "wrote between the rows or beyond them"
        (_, one), (_, other) = runs
        has_order = may_win(program.family) or problem.taps <= 2  # two products have one sum
        return (
            None
            if not has_order or one.elements.tobytes() == other.elements.tobytes()
            else "two runs have different bits"
        )

    def _run(
        self, module: Module, program: Program, problem: Filter1d, signal: Numbers, weights: Numbers
    ) -> tuple[Spaced, Spaced]:
        source, taps, target = map(Spaced, problem.operands)
        source.elements[...], taps.elements[...] = signal, weights
        addresses = {"signal": source.address, "weights": taps.address, "result": target.address}
        scratch = {each.name: np.full(math.ceil(each.nbytes / 8) + 32, np.nan) for each in program.workspaces}
        addresses |= {name: memory.ctypes.data for name, memory in scratch.items()}
        for launch in program.launches:
            module.bind(launch, addresses, {"weights": taps.elements.tobytes()})(None)
        for memory in scratch.values():
            assert np.isnan(memory[-32:]).all(), "wrote beyond a workspace"
        return source, target
