"""Interface of an operation's judge, which says whether a result is right and what it is timed against."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.device import DeviceKind
from warpsmith.generator.problem import FLOAT32_BOUND as FLOAT32_BOUND
from warpsmith.generator.problem import Operand, Problem
from warpsmith.generator.reference.kernels import ReferenceKernels
from warpsmith.tuner.operations.peer import PeerMaker

Operands = Mapping[str, NDArray[Any]]
"""Input arrays of a problem by name."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """Expected float64 values of one result, and the scale that divides each element's error.

    The scale is the sum of the element's |terms| by default. A filter that is only accurate in norm takes the sum of
    its absolute weights times the window's largest absolute pixel, and a Fourier transform takes twice the root mean
    square of its result. Complex results are stored as real and imaginary parts, side by side in an additional
    dimension.
    """

    expected: NDArray[np.float64]
    scale: NDArray[np.float64]


References = Mapping[str, Reference]
"""References of a problem's results by operand name."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Single results of a problem, each by a direct float64 sum."""

    indices: NDArray[np.int64]
    """Indices in C order; for complex results, indices of real and imaginary parts."""
    expected: NDArray[np.float64]
    least_scale: NDArray[np.float64]
    """Lower bound of each result's scale: the sum of its |terms| for most operations, 0 for Fourier transforms."""


P = TypeVar("P", bound=Problem)


class Judge(abc.ABC, Generic[P]):
    """Inputs, float64 references, error bounds and peer libraries of one operation. It shares no code with the
    generator.

    To add one, write a subclass in the operation's folder and name it in `registry.py`.
    """

    @abc.abstractmethod
    def inputs(self, problem: P, generator: np.random.Generator) -> Operands:
        """Random inputs, dense and never all zeros, in their operands' shapes and types."""

    @abc.abstractmethod
    def stress_inputs(self, problem: P, generator: np.random.Generator) -> Operands:
        """Inputs that are hard on rounding errors: very different magnitudes side by side, cancellation, alternating
        signs.

        Normal deviates make all terms of a sum alike, so an error that is small against the whole sum looks small
        against each term. A problem's error bound applies to each result's own scale, also on these inputs.
        """

    def stress_slack(self, problem: P) -> float:  # noqa: ARG002 - part of the interface
        """Factor on the error bound that right kernels may need on `stress_inputs`."""
        return 1.0

    @abc.abstractmethod
    def terms(self, problem: P) -> int:
        """Number of terms of one result that the reference adds up, which decides how long it takes."""

    @abc.abstractmethod
    def references(self, problem: P, operands: Operands) -> References:
        """Reference of each result."""

    def kernels(self, problem: P) -> ReferenceKernels[P] | None:  # noqa: ARG002 - part of the interface
        """Kernels that compute the reference on a device; None if only the host can. `samples` checks them."""
        return None

    def copied(self, problem: P, operands: Operands) -> References:  # noqa: ARG002 - part of the interface
        """References of the results besides `problem.output`, which no kernels compute: copies of inputs."""
        return {}

    def samples(self, problem: P, operands: Operands, indices: NDArray[np.int64]) -> Samples:
        """Results with these indices, in C order of the output's real numbers, by direct sums on the host."""
        raise NotImplementedError(f"{problem.operation} has no kernels for its reference, and so no samples")

    def error_bound(self, problem: P, output: Operand) -> float:  # noqa: ARG002 - part of the interface
        """Largest error of a right result, divided by its scale (`Reference.scale`)."""
        return problem.error_bound

    @abc.abstractmethod
    def smaller(self, problem: P) -> P:
        """The problem with only a few elements, on which libraries load and compile what they need."""

    @abc.abstractmethod
    def peers(self, problem: P, operands: Operands, kind: DeviceKind, sets: int) -> tuple[PeerMaker, ...]:
        """Peer libraries that solve the problem on this kind of device, each with `sets` sets of buffers."""
