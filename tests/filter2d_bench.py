"""Runs image filters on the host: operands in guarded memory, SciPy's float64 result, and the error allowed."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterable

import numpy as np
import scipy.ndimage
from numpy.typing import NDArray

from together import at_once, together
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.module import Module
from warpsmith.generator.family import Family
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import Accuracy, DType, Operand
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config

GUARD, FILL = 1 << 16, 0xFF
"""Bytes before and after an array, and the fill byte of guards and gaps between rows: NaN in any float type."""


class LaidOut:
    """Operand in memory with its strides, between guards."""

    def __init__(self, operand: Operand) -> None:
        self._operand = operand
        self._memory = np.full(operand.span_bytes + 3 * GUARD, FILL, np.uint8)
        self._start = GUARD + -self._memory.ctypes.data % GUARD
        self.address = self._memory.ctypes.data + self._start
        self.elements = np.ndarray(operand.shape, operand.dtype.value, self._memory.data, self._start, operand.strides)

    def is_intact(self) -> bool:
        """Whether guards and gaps between rows are unchanged."""
        rest, operand = self._memory.copy(), self._operand
        shape, strides = (*operand.shape, operand.dtype.itemsize), (*operand.strides, 1)
        np.ndarray(shape, np.uint8, rest.data, self._start, strides)[...] = FILL
        return bool((rest == FILL).all())


def drawn(problem: Filter2d) -> tuple[NDArray[np.generic], NDArray[np.float32]]:
    """Random image and filters. For uint8 problems some sums exceed both ends of the uint8 range."""
    generator = np.random.default_rng(7)
    image, weights, result = problem.operands
    if DType.UINT8 in (image.dtype, result.dtype):
        pixels = generator.integers(0, 256, image.shape).astype(image.dtype.value)
    else:
        pixels = generator.standard_normal(image.shape, np.float32).astype(image.dtype.value)
    if problem.weights is not None:
        return pixels, np.array(problem.weights, np.float32).reshape(weights.shape)
    values = generator.standard_normal(weights.shape, np.float32) + np.float32(0.5)
    return pixels, values * np.float32(2 * problem.filters / np.abs(values).sum())


def by_scipy(
    problem: Filter2d, image: NDArray[np.generic], weights: NDArray[np.float32], cval: float
) -> NDArray[np.float64]:
    """Result of scipy.ndimage in float64, one plane, filter and channel at a time."""
    (r, s), (rows, columns) = problem.filter, problem.output_shape
    images = image.astype(np.float64).reshape(problem.planes, *problem.image, problem.channels)
    filters = weights.astype(np.float64).reshape(problem.filters, r, s)
    row, column = problem.anchor or (r // 2, s // 2)
    function = scipy.ndimage.convolve if problem.convolve else scipy.ndimage.correlate
    valid = problem.border is Border.VALID
    mode = "constant" if valid else problem.border.value
    # Offset of the window's first pixel left of and above the output pixel. The valid part begins there too.
    top, left = (r - 1 - r // 2, s - 1 - s // 2) if problem.convolve else (r // 2, s // 2)
    inner = (slice(top, top + rows), slice(left, left + columns)) if valid else ()
    result = np.empty((problem.planes, problem.filters, rows, columns, problem.channels))
    for p, f, c in np.ndindex(problem.planes, problem.filters, problem.channels):
        origin = (row - r // 2, column - s // 2)
        full = function(images[p, ..., c], filters[f], mode=mode, cval=cval, origin=origin)
        result[p, f, ..., c] = full[inner]
    return result.reshape(problem.output.shape)


def gains(problem: Filter2d, weights: NDArray[np.float32]) -> NDArray[np.float64]:
    """Largest gain of each filter on 256 x 256 frequencies, shaped to broadcast over one plane's results."""
    filters = weights.astype(np.float64).reshape(problem.filters, *problem.filter)
    largest = np.abs(np.fft.fft2(filters, (256, 256))).max(axis=(1, 2))
    return largest.reshape((-1, 1, 1, *[1] * (problem.channels > 1))) if problem.filters > 1 else largest


def tolerance(problem: Filter2d, expected: NDArray[np.float64], terms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Largest error allowed per element: 1e-6 of the sum of |terms|, plus the rounding to the result's dtype."""
    match problem.output.dtype:
        case DType.FLOAT16:
            return 1e-6 * terms + np.spacing(np.abs(expected).astype(np.float16)).astype(np.float64) / 2
        case DType.UINT8:
            return 1e-6 * terms + 0.5
        case _:
            return 1e-6 * terms


@functools.lru_cache(maxsize=64)  # families and configs share it
def right(problem: Filter2d) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Result for the `drawn` operands, and the largest error allowed per element."""
    image, weights = drawn(problem)
    expected = by_scipy(problem, image, weights, problem.cval)
    if problem.output.dtype is DType.UINT8:
        expected = expected.clip(0, 255)
    terms = by_scipy(problem, np.abs(image), np.abs(weights), abs(problem.cval))
    if problem.accuracy is Accuracy.NORMWISE:
        terms[...] = np.abs(weights).sum() * max(np.abs(image.astype(np.float64)).max(), abs(problem.cval))
    if problem.accuracy is Accuracy.IMAGEWISE:
        largest = max(np.abs(image.astype(np.float64)).max(), abs(problem.cval))
        terms = np.maximum(terms, gains(problem, weights) * largest)
    return expected, tolerance(problem, expected, terms)


@dataclasses.dataclass(frozen=True)
class Bench:
    """Compiles kernels, runs them and checks their results."""

    compiler: HostCompiler
    runtime: HostRuntime

    def filtered(
        self,
        problem: Filter2d,
        program: Program,
        image: NDArray[np.generic],
        weights: NDArray[np.float32],
    ) -> tuple[LaidOut, LaidOut]:
        """Image and result after the program has run."""
        with contextlib.closing(self.runtime.load(self.compiler.compile(program.compilation()))) as module:
            return self.run(module, problem, program, image, weights)

    def run(
        self,
        module: Module,
        problem: Filter2d,
        program: Program,
        image: NDArray[np.generic],
        weights: NDArray[np.float32],
    ) -> tuple[LaidOut, LaidOut]:
        """Image and result after a run of a loaded program."""
        source, target = LaidOut(problem.operands[0]), LaidOut(problem.output)
        source.elements[...] = image
        scratch = {each.name: self.runtime.allocate(each.nbytes) for each in program.workspaces}
        filters = LaidOut(problem.operands[1])
        filters.elements[...] = weights.reshape(filters.elements.shape)
        addresses = {"image": source.address, "result": target.address, "weights": filters.address}
        addresses |= {name: allocation.address for name, allocation in scratch.items()}
        for launch in program.launches:
            module.bind(launch, addresses, {"weights": weights.tobytes()})(None)
        for allocation in scratch.values():
            self.runtime.free(allocation)
        return source, target

    def check(self, problem: Filter2d, family: Family, config: Config) -> None:
        self.check_all([(problem, family, config)])

    def check_all(self, cases: Iterable[tuple[Filter2d, Family, Config]]) -> None:
        """Compiles many kernels as one text, and fails with a list of all wrong ones."""
        problems, programs = zip(*((each, family.program(each, config)) for each, family, config in cases), strict=True)
        wrong: list[str] = []
        for numbers in at_once(programs):
            whole, placed = together([programs[number] for number in numbers])
            with contextlib.closing(self.runtime.load(self.compiler.compile(whole.compilation()))) as module:
                for number, program in zip(numbers, placed, strict=True):
                    try:
                        self.check_loaded(module, problems[number], program)
                    except AssertionError as error:
                        wrong.append(str(error))
        assert not wrong, "\n".join([f"{len(wrong)} kernels are wrong", *wrong])

    def check_loaded(self, module: Module, problem: Filter2d, program: Program) -> None:
        image, weights = drawn(problem)
        source, target = self.run(module, problem, program, image, weights)
        expected, allowed = right(problem)
        error = np.abs(target.elements.astype(np.float64) - expected)
        told = f"{problem.key()} {program.family} {program.config}"
        wrong = ~(error <= allowed)  # NaN is wrong too
        assert not wrong.any(), f"{told}: {wrong.sum()} of {wrong.size} are off, by up to {error.max()}"
        assert target.is_intact(), f"{told}: wrote between the rows of the result or beyond them"
        assert source.is_intact(), f"{told}: wrote to the image"
