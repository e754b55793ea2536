"""Float64 references that plain kernels compute on the device, where they stay.

A layer of 1 GB has a reference of 9 GB and 5 TFLOP: on the host that takes minutes and more memory than there is. The
kernels are checked on a sample of results that the host computes by direct sums.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from warpsmith.devices.compiler import Compiler
from warpsmith.devices.module import Allocation, Module
from warpsmith.devices.runtime import Runtime
from warpsmith.errors import DeviceError
from warpsmith.generator.problem import Operand, Problem
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.reference.kernels import EXPECTED, FIRST, SCALE, SLACK, ReferenceKernels
from warpsmith.tuner.operations.judge import Samples

BLOCKS_AT_ONCE = 1 << 15
"""Blocks per launch: other users of the device get their turn between two launches."""
TOLERANCE = 1e-10
"""Largest difference of a sampled result from the host's, divided by its scale: sums of 2^30 float64 products stay
below it.
"""

_MOST_PEAK = 16.0
"""Largest scale, in root mean squares of the sampled results. It is eight times the usual factor, because few samples,
and those of a ReLU, have a different root mean square than all results.
"""


class WrongReference(DeviceError):
    """A reference computed on the device differs from the host's sample."""


@dataclasses.dataclass(frozen=True, slots=True)
class ReferenceBuffers:
    """Device memory of a result's float64 reference: one number for each real number of the result."""

    expected: Allocation
    scale: Allocation


class DeviceReference:
    """Computes the reference of a problem's result from its inputs, entirely on the device.

    Args:
        runtime: the device.
        compiler: compiler for that device.
        problem: a problem with a single result.
        kernels: kernels that compute the reference.
        inputs: device address of each input, in its operand's layout.
        buffers: memory for the reference.
        slack: factor on the scale.

    Raises:
        CompileError: the kernels do not compile.
        LaunchError: the device refuses them.
        OutOfMemory: there is no room for their workspaces.
    """

    def __init__(
        self,
        runtime: Runtime,
        compiler: Compiler,
        problem: Problem,
        kernels: ReferenceKernels[Any],
        inputs: Mapping[str, int],
        buffers: ReferenceBuffers,
        slack: float = 1.0,
    ) -> None:
        self._runtime, self._output, self._buffers, self._slack = runtime, problem.output.components, buffers, slack
        program = kernels.program(problem)
        self._program = program
        with contextlib.ExitStack() as opened:
            self._module: Module = runtime.load(compiler.compile(program.compilation()))
            opened.callback(self._module.close)
            self._written = [buffers.expected, buffers.scale]
            addresses = {**inputs, EXPECTED: buffers.expected.address, SCALE: buffers.scale.address}
            for workspace in program.workspaces:
                self._written.append(runtime.allocate(max(1, workspace.nbytes)))
                opened.callback(runtime.free, self._written[-1])
                addresses[workspace.name] = self._written[-1].address
            self._addresses = addresses
            self._opened = opened.pop_all()

    def compute(self) -> None:
        """Computes the reference of the current inputs and waits for it."""
        for allocation in self._written:
            self._runtime.fill(allocation.address, 0, allocation.nbytes)
        for launch, first in strips(self._program):
            values = {FIRST: np.uint64(first).tobytes(), SLACK: np.float64(self._slack).tobytes()}
            self._module.bind(launch, self._addresses, values)(None)
        self._runtime.synchronize()

    def check(self, samples: Samples) -> None:
        """Compares the sampled results with the host's. Raises WrongReference if they differ."""
        expected, scale = (
            np.array([_number(self._runtime, allocation.address, index) for index in samples.indices])
            for allocation in (self._buffers.expected, self._buffers.scale)
        )
        finite = np.isfinite(samples.expected)
        with np.errstate(invalid="ignore"):  # an image that is not finite has a scale of NaN and is not checked
            relative_to = np.where(np.isnan(scale), samples.least_scale, scale)
            wrong = ~(np.abs(expected - samples.expected) <= TOLERANCE * relative_to)
            # The scale is the sum of |terms|, or a floor of a few root mean squares.
            root_mean_square = np.sqrt(np.mean(np.square(samples.expected[finite]))) if finite.any() else 0.0
            most = np.maximum(samples.least_scale, _MOST_PEAK * root_mean_square)
            is_off = ~(scale >= samples.least_scale * (1 - TOLERANCE)) | ~(scale <= most * (1 + TOLERANCE))
            wrong |= is_off & ~np.isnan(scale)
        wrong &= finite
        if wrong.any():
            at = int(np.argmax(wrong))
            index = tuple(int(i) for i in np.unravel_index(samples.indices[at], self._output.shape))
            raise WrongReference(
                f"{int(wrong.sum())} of {wrong.size} sampled results of the float64 reference made on the device are "
                f"wrong; the first, at {index}, is {expected[at]:.17g} with scale {scale[at]:.6g} and should be "
                f"{samples.expected[at]:.17g} with {samples.least_scale[at]:.6g} or more"
            )

    def close(self) -> None:
        """Frees the kernels and their workspaces; the reference stays."""
        self._opened.close()


def strips(program: Program) -> Iterator[tuple[Launch, int]]:
    """The launches of a reference, split into strips of blocks, each with the number of its first block."""
    for launch in program.launches:
        blocks = launch.grid[0]
        for first in range(0, blocks, BLOCKS_AT_ONCE):
            yield dataclasses.replace(launch, grid=(min(BLOCKS_AT_ONCE, blocks - first), 1, 1)), first


def _number(runtime: Runtime, address: int, index: int) -> float:
    number = np.empty(1)
    runtime.download(number, address + int(index) * number.itemsize)
    return float(number[0])


def sampled_indices(output: Operand, count: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Indices of at most `count` results in C order: the first, the last and random ones between."""
    size = output.components.size
    if size <= count:
        return np.arange(size)
    drawn = np.random.default_rng(seed).integers(0, size, max(0, count - 2))
    return np.unique(np.concatenate([[0, size - 1], drawn]))


def sampled_count(terms: int, most_terms: int = 1 << 25, most: int = 1000) -> int:
    """Number of results, of `terms` terms each, that the host computes by direct sums: 1,000, or fewer if the sums are
    long.
    """
    return max(16, min(most, math.floor(most_terms / max(1, terms))))
