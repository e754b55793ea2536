"""Random inputs and float64 references: NumPy alone, nothing shared with the generator."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.host.machine import cores
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import Problem

Operands = Mapping[str, NDArray[Any]]
"""The input arrays of a problem by name."""

_STRIP_BYTES = 1 << 20
"""Work is cut into strips of about this size, so that one stays in a core's cache through all taps."""

_PAD_MODES: dict[Border, Literal["constant", "edge", "symmetric", "reflect", "wrap"]] = {
    Border.CONSTANT: "constant",
    Border.NEAREST: "edge",
    Border.REFLECT: "symmetric",
    Border.MIRROR: "reflect",
    Border.WRAP: "wrap",
}


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """What a result must be: float64 values, and for each the sum of |terms| that its error is measured against."""

    expected: NDArray[np.float64]
    scale: NDArray[np.float64]


def for_each_strip(rows: int, row_bytes: int, work: Callable[[slice], None]) -> None:
    """Calls `work` on slices that cover `rows` rows, on all cores: NumPy lets go of the interpreter in its loops."""
    step = max(1, _STRIP_BYTES // max(1, row_bytes))
    slices = [slice(start, min(start + step, rows)) for start in range(0, rows, step)]
    with ThreadPoolExecutor(cores()) as pool:
        for _ in pool.map(work, slices):
            pass


def random_operands(problem: Problem, seed: int) -> Operands:
    """Inputs for `problem`: normal deviates, never zeros, the values that the problem knows where it does."""
    generator = np.random.default_rng(seed)
    return {
        operand.name: np.array(problem.known[operand.name], dtype=str(operand.dtype))
        if operand.name in problem.known
        else generator.standard_normal(operand.shape, dtype=np.float32).astype(str(operand.dtype))
        for operand in problem.inputs
    }


def reference(problem: Problem, operands: Operands) -> Reference:
    """The float64 answer. Raises TypeError for an operation without an oracle."""
    if isinstance(problem, Filter2d):
        return _filter2d(problem, operands["image"], operands["weights"])
    raise TypeError(f"no oracle for {problem.operation}")


def _filter2d(problem: Filter2d, image: NDArray[Any], weights: NDArray[Any]) -> Reference:
    planes = image.reshape(problem.planes, *problem.image)
    shape = (problem.planes, *problem.output_shape)
    expected, scale = np.zeros(shape), np.zeros(shape)
    for index, plane in enumerate(planes):
        _correlate(_padded(problem, plane), weights.astype(np.float64), expected[index], scale[index])
    result_shape = problem.output.shape
    return Reference(expected.reshape(result_shape), scale.reshape(result_shape))


def _padded(problem: Filter2d, plane: NDArray[Any]) -> NDArray[np.float64]:
    """The plane in float64 with every pixel that a window can touch."""
    plane = plane.astype(np.float64)
    if problem.border is Border.VALID:
        return plane
    width = [(anchor, size - 1 - anchor) for anchor, size in zip(problem.anchor, problem.filter, strict=True)]
    if problem.border is Border.CONSTANT:
        return np.pad(plane, width, mode="constant", constant_values=problem.cval)
    return np.pad(plane, width, mode=_PAD_MODES[problem.border])


def _correlate(
    padded: NDArray[np.float64],
    weights: NDArray[np.float64],
    expected: NDArray[np.float64],
    scale: NDArray[np.float64],
) -> None:
    rows, columns = expected.shape

    def strip(part: slice) -> None:
        for (r, s), weight in np.ndenumerate(weights):
            term = weight * padded[part.start + r : part.stop + r, s : s + columns]
            expected[part] += term
            scale[part] += np.abs(term)

    for_each_strip(rows, columns * 8, strip)
