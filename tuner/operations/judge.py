"""What the tuner must know of an operation, to tell whether a result is right and whether it is fast."""

from __future__ import annotations

import abc
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.bounds import FLOAT32_BOUND as FLOAT32_BOUND
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.problem import Operand, Problem
from warpsmith.generator.reference.kernels import ReferenceKernels
from warpsmith.tuner.operations.peer import PeerMaker
from warpsmith.tuner.operations.reference import Operands, References, Samples

P = TypeVar("P", bound=Problem)


class Judge(abc.ABC, Generic[P]):
    """Inputs, float64 references, error bounds and other libraries of one operation. Shares nothing with the generator.

    To add one, write a subclass in the operation's room and name it in `registry.py`.
    """

    @abc.abstractmethod
    def inputs(self, problem: P, generator: np.random.Generator) -> Operands:
        """Random inputs, dense and never all zeros, in their operands' shapes and types."""

    @abc.abstractmethod
    def stress_inputs(self, problem: P, generator: np.random.Generator) -> Operands:
        """Inputs that are hard on rounding errors: magnitudes far apart side by side, cancellation, alternating signs.

        Normal deviates leave the terms of a sum alike, so that an error that is small against all of them looks small
        against each. What a problem promises is measured against each result's own scale: these inputs meet it too.
        """

    def stress_slack(self, problem: P) -> float:  # noqa: ARG002 - part of the interface
        """How many times the error bound right kernels may be off on `stress_inputs`."""
        return 1.0

    @abc.abstractmethod
    def terms(self, problem: P) -> int:
        """Terms of one result that the reference adds up; how long it takes follows from that."""

    @abc.abstractmethod
    def references(self, problem: P, operands: Operands) -> References:
        """What each result must be."""

    def kernels(self, problem: P) -> ReferenceKernels[P] | None:  # noqa: ARG002 - part of the interface
        """What computes the reference on a device; None where only the host can. `samples` checks it."""
        return None

    def samples(self, problem: P, operands: Operands, indices: NDArray[np.int64]) -> Samples:
        """The results of these numbers, in C order of the output's real numbers, by direct sums on the host."""
        raise NotImplementedError(f"{problem.operation} has no kernels for its reference, and so no samples")

    def error_bound(self, problem: P, output: Operand) -> float:  # noqa: ARG002 - part of the interface
        """Largest error of a result over its scale (`Reference.scale`) that is still right."""
        return problem.error_bound

    @abc.abstractmethod
    def smaller(self, problem: P) -> P:
        """The problem with a few elements, on which libraries load and compile what they will need."""

    @abc.abstractmethod
    def peers(self, problem: P, operands: Operands, kind: DeviceKind, sets: int) -> tuple[PeerMaker, ...]:
        """The other libraries that solve it on this kind of device, each with `sets` sets of buffers."""
