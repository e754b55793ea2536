"""Verifies large layers against float64 at a sample of their results, and against cuDNN's float32 at all of them.

The float64 reference of a whole layer takes seconds, too long for a run over hundreds of layers. So some hundred
results are computed in float64 term by term: all corners, the middles of edges and of the whole, and random ones. If
cuDNN's own result is correct at these places, every other result must be within a thousandth of its root mean square of
cuDNN's, which no wrong tile satisfies. No result may be NaN, the value that results are filled with before a run.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.problem import PEAK
from warpsmith.tuner.evaluate.device_lock import DeviceLock
from warpsmith.tuner.operations.conv2d.judge import Conv2dJudge
from warpsmith.tuner.operations.conv2d.oracle import terms
from warpsmith.tuner.operations.conv2d.peers import torch_peer
from warpsmith.tuner.operations.judge import FLOAT32_BOUND, Operands, Reference, References
from warpsmith.tuner.operations.peer import Peer, PeerMaker, Unavailable, torch_with_cudnn
from warpsmith.tuner.operations.registry import is_quick

Values = NDArray[np.float64]

TERMS = 1 << 25
"""Terms of all sampled results together, approximately: a fifth of a second on one core."""
LEAST, MOST = 160, 640
"""Number of sampled results, at least and at most."""
LOOSE = 1e-3
"""Largest distance of any result from cuDNN's, relative to the root mean square."""
TOLERATED = 20
"""Factor over the error bound that is allowed for another library, as in the comparison of finalists."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """A sample of a layer's results in float64."""

    places: NDArray[np.int64]
    """Index of each sampled result among all results, in memory order."""
    expected: Values
    magnitudes: Values
    """Sum of |terms| of each sampled result."""

    def scale(self, rms: float | Values) -> Values:
        """Scale of the errors, given the root mean square of all results, or of each result's image."""
        return np.maximum(self.magnitudes, PEAK * rms)

    @property
    def rms(self) -> float:
        """Root mean square of the sample, an estimate for all results."""
        return math.sqrt(float(np.mean(self.expected**2)))


def has_sample(problem: Conv2d) -> bool:
    """True if `sample` supports the problem and saves time. Small layers are verified whole, and with hard inputs
    too.
    """
    is_plain = problem.stride == problem.dilation == (1, 1) and problem.groups == 1
    return is_plain and not (problem.bias or problem.relu) and not is_quick(problem)


def sample(problem: Conv2d, operands: Operands, seed: int) -> Sample:
    """Computes results at all corners, at the middles between them, and at random places.

    Args:
        problem: a problem of any pass, with stride and dilation 1 and one group.
        operands: its inputs.
        seed: random seed of the places.
    """
    shape = problem.output.shape
    count = max(LEAST, min(MOST, TERMS // terms(problem)))
    corners = itertools.product(*(sorted({0, size // 2, size - 1}) for size in shape))
    places = {int(np.ravel_multi_index(corner, shape)) for corner in corners}
    drawn = np.random.default_rng((seed, 2)).integers(0, math.prod(shape), max(0, count - len(places)))
    found = np.array(sorted({*places, *map(int, drawn)}), np.int64)
    sums = [_sums(*_factors(problem, operands, *map(int, np.unravel_index(place, shape)))) for place in found]
    expected, magnitudes = np.array(sums).T
    return Sample(found, expected, magnitudes)


def _sums(first: NDArray[Any], second: NDArray[Any]) -> tuple[float, float]:
    """Sum of products, and sum of their magnitudes. A product of two float32 numbers is exact in float64."""
    products = first.astype(np.float64) * second
    return float(products.sum()), float(np.abs(products).sum())


def _factors(problem: Conv2d, given: Operands, *place: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The numbers whose products add up to the result at a place."""
    outer, inner, *where = place
    (first_rows, second_rows), (first_columns, second_columns) = _spans(problem, where)
    first, second = (first_rows, first_columns), (second_rows, second_columns)
    match problem.pass_:
        case Pass.FPROP:
            return given["x"][outer][:, *first], given["w"][inner][:, *second]
        case Pass.DGRAD:
            return given["dy"][outer][:, *first][..., ::-1, ::-1], given["w"][:, inner][:, *second]
        case Pass.WGRAD:
            return given["x"][:, inner][:, *first], given["dy"][:, outer][:, *second]


def _spans(problem: Conv2d, where: list[int]) -> Iterator[tuple[slice, slice]]:
    """Slices of the first and of the second factor that meet at a place of the result, for each axis."""
    axes = zip(where, problem.input[2:], problem.weight[2:], problem.output_size, problem.padding, strict=True)
    for at, size, taps, results, (before, _) in axes:
        if problem.pass_ is Pass.DGRAD:  # tap t meets the gradient at + before - t
            least, past = max(0, at + before - results + 1), min(taps, at + before + 1)
            yield slice(at + before - past + 1, at + before - least + 1), slice(least, past)
        else:  # tap or result t meets the pixel at + t - before
            least, past = max(0, before - at), min(taps if problem.pass_ is Pass.FPROP else results, size + before - at)
            yield slice(at + least - before, at + past - before), slice(least, past)


class SampledJudge(Conv2dJudge):
    """Judges a layer by a sample of its results, or whole if there is none, and times cuDNN in both layouts.

    Args:
        sample: sample of the judged layer, for the inputs that are drawn for it; None to compute all results.
        kind: kind of the device, on which cuDNN's result is computed too.
        lock_file: lock file of a device that other processes use for timing; see `DeviceLock`.
    """

    def __init__(self, sample: Sample | None, kind: DeviceKind, lock_file: Path | None = None) -> None:
        self._sample, self._kind, self._lock_file = sample, kind, lock_file

    def references(self, problem: Conv2d, operands: Operands) -> References:
        if self._sample is None:
            return super().references(problem, operands)
        known, shape = self._sample, problem.output.shape
        whole = self._by_library(problem, operands)
        if whole is None:
            expected, scale = np.zeros(shape), np.full(shape, np.inf)
            rms: float | Values = known.rms
        else:
            expected = whole.astype(np.float64)
            images = expected.reshape(1 if problem.pass_ is Pass.WGRAD else shape[0], -1)
            of_images = np.sqrt(np.square(images).mean(axis=1, keepdims=True))
            scale = np.broadcast_to(LOOSE * of_images / FLOAT32_BOUND, images.shape).reshape(shape).copy()
            rms = of_images.reshape(-1)[known.places // images.shape[1]]
        expected.reshape(-1)[known.places] = known.expected
        scale.reshape(-1)[known.places] = known.scale(rms)
        return {problem.output.name: Reference(expected, scale)}

    def smaller(self, problem: Conv2d) -> Conv2d:
        """One problem for all: loading a library once is enough."""
        return Conv2d(input=(1, 1, 8, 8), weight=(1, 1, 3, 3), pass_=problem.pass_)

    def peers(self, problem: Conv2d, operands: Operands, kind: DeviceKind, sets: int) -> tuple[PeerMaker, ...]:
        if problem == self.smaller(problem) and "torch" in sys.modules:
            return ()  # it is loaded already, and nothing must run outside the lock while others time
        return tuple(
            PeerMaker(
                f"PyTorch, channels {'last' if is_last else 'apart'}",
                ("torch",),
                functools.partial(torch_peer, problem, operands, kind, sets, channels_last=is_last),
            )
            for is_last in (False, True)
        )

    def _by_library(self, problem: Conv2d, operands: Mapping[str, NDArray[Any]]) -> NDArray[Any] | None:
        """The whole result by cuDNN in float32; None if it cannot be computed, or is wrong at a sampled place."""
        assert self._sample is not None
        try:
            if self._kind is DeviceKind.CUDA:
                torch_with_cudnn()  # seconds of imports, done before taking the lock
            with DeviceLock(self._lock_file):  # cuDNN's own search times its kernels
                peer: Peer = torch_peer(problem, operands, self._kind)
                peer.run()
                result = peer.result()
                del peer
                self._give_back()
        except (ImportError, RuntimeError, Unavailable):  # out of memory, or unsupported
            return None
        error = np.abs(result.reshape(-1)[self._sample.places] - self._sample.expected)
        is_right = bool(np.all(error <= TOLERATED * FLOAT32_BOUND * self._sample.scale(self._sample.rms)))
        return np.ascontiguousarray(result) if is_right else None

    def _give_back(self) -> None:
        """Releases memory that PyTorch caches from earlier problems and cuDNN's searches, because other processes need
        it.
        """
        if self._kind is DeviceKind.CUDA:
            torch_with_cudnn().cuda.empty_cache()


class Unjudged(Conv2dJudge):
    """Judge for programs that are timed but not verified, such as a single step of a program."""

    def references(self, problem: Conv2d, operands: Operands) -> References:  # noqa: ARG002 - part of the interface
        return {}
