"""Gradients of long filters in one program, a stage each: those of the signal, of the weights and of the bias.

The gradient of a signal is a filter of the result's gradient, and the families of filters have ways for long ones:
transforms and tensor cores. The gradient of the weights has families of its own. One pass over memory for both, as for
short filters, would need windows of all taps in registers. The gradient of the bias is that of a filter of one tap.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import ClassVar

from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.filter1d.fft_family import Filter1dFft
from warpsmith.generator.filter1d.fft_long_family import Filter1dFftLong
from warpsmith.generator.filter1d.fields import Filter1dPass
from warpsmith.generator.filter1d.gradients_batch_family import LEAST_TAPS, Filter1dGradientsBatch
from warpsmith.generator.filter1d.gradients_fft_family import Filter1dGradientsFft
from warpsmith.generator.filter1d.gradients_text import why_no_gradients_of
from warpsmith.generator.filter1d.gradients_warp_family import Filter1dGradientsWarp
from warpsmith.generator.filter1d.lags import Mode
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.toeplitz_batch_family import Filter1dToeplitzBatch
from warpsmith.generator.filter1d.toeplitz_family import Filter1dToeplitz
from warpsmith.generator.filter1d.toeplitz_rules import MAX_TAPS
from warpsmith.generator.pipeline import Pipeline, Stage
from warpsmith.generator.problem import DType
from warpsmith.generator.steps import Workspace

MOST_SPLIT_TAPS, MOST_LINE_TAPS = 160, 20_000
"""Most taps, in several parts each, that products with a Toeplitz matrix filter faster than transforms of blocks in
shared memory, and most taps that these filter faster than transforms beyond it (H200)."""
UNUSED = "unused"
"""Workspace for the gradient of the one tap whose bias is asked for."""
_OF_FILTER = {"signal": "gradient", "weights": "weights", "result": "signal_gradient"}
"""Operands of the whole for those of a filter that computes the gradient of a signal."""
_OF_BIAS = {"signal": "gradient", "gradient": "gradient", "weights_gradient": UNUSED, "bias_gradient": "bias_gradient"}
"""The same for a filter of one tap that computes the gradient of a bias: the result's gradient is its signal too."""


class Filter1dGradientsApart(Pipeline[Filter1d]):
    """The pass `backward` as the passes `dgrad` and `wgrad`, and `wgrad` with a bias as one without and the bias.

    Stages are the same on every device, so there is a family for each way of the weights' gradient.
    """

    of_weights: ClassVar[Family[Filter1d]]
    """Family of the stage for the weights' gradient."""

    @abc.abstractmethod
    def of_signal(self, problem: Filter1d) -> Family[Filter1d]:
        """Family of the stage for the gradient of the signal, of which `problem` is the filter."""

    def why_not(self, problem: Filter1d, device: Device) -> str | None:
        if (reason := why_no_gradients_of(problem)) is not None:
            return reason
        is_several = problem.pass_ is Filter1dPass.BACKWARD or (problem.bias and problem.pass_.gives_weights)
        if not is_several:
            return f"computes several gradients at once (pass backward, or wgrad with a bias); this is {problem.pass_}"
        if problem.activation is not None:
            return f"would compute the slope of {problem.activation} for each gradient again"
        if problem.bias and problem.weights_dtype not in (DType.FLOAT32, problem.output_dtype):
            return f"adds up gradients of a {problem.weights_dtype} bias in that type; they are {problem.output_dtype}"
        return self.unsolved_stage(problem, device)

    def is_likely(self, problem: Filter1d, device: Device) -> bool:
        is_long = device.kind is DeviceKind.CUDA and problem.taps >= LEAST_TAPS
        return is_long and self.why_not(problem, device) is None

    def expected_ns(self, problem: Filter1d, device: Device) -> float | None:
        times = [stage.family.expected_ns(stage.problem, device) for stage in self.stages(problem)]
        return sum(each for each in times if each is not None)  # that of the bias, without a model, is one pass more

    def stages(self, problem: Filter1d) -> tuple[Stage, ...]:
        names = {each.name: each.name for each in problem.operands}
        weights = dataclasses.replace(problem, pass_=Filter1dPass.WGRAD, bias=False)
        found = [Stage("wgrad", weights, self.of_weights, names)]
        if problem.pass_.gives_signal:
            signal = dataclasses.replace(problem, pass_=Filter1dPass.DGRAD, bias=False)
            memory = names if signal.pass_.is_gradient else _OF_FILTER
            found.insert(0, Stage("dgrad", signal, self.of_signal(signal), memory))
        if problem.bias:
            found.append(Stage("bias", _of_bias(problem), Filter1dGradientsWarp(), _OF_BIAS))
        return tuple(found)

    def workspaces(self, problem: Filter1d) -> tuple[Workspace, ...]:
        return (Workspace(UNUSED, problem.filters * problem.weights_dtype.itemsize),) if problem.bias else ()


class Filter1dGradientsApartFft(Filter1dGradientsApart):
    """The gradient of the weights by transforms, and that of the signal by these or by `mma.sync`."""

    name = "filter1d_gradients_apart"
    of_weights = Filter1dGradientsFft()

    def of_signal(self, problem: Filter1d) -> Family[Filter1d]:
        if problem.taps <= _most_products(problem):
            return Filter1dToeplitz()
        return Filter1dFft() if problem.taps <= MOST_LINE_TAPS else Filter1dFftLong()


class Filter1dGradientsApartBatch(Filter1dGradientsApart):
    """The gradient of the weights by warpgroups, and that of the signal by these or by `mma.sync`."""

    name = "filter1d_gradients_apart_batch"
    of_weights = Filter1dGradientsBatch()

    def of_signal(self, problem: Filter1d) -> Family[Filter1d]:
        return Filter1dToeplitz() if problem.taps <= _most_products(problem) else Filter1dToeplitzBatch()


def _most_products(problem: Filter1d) -> int:
    """Most taps of a filter by products with a Toeplitz matrix: float32 taps are split into parts, 16-bit ones not."""
    return MOST_SPLIT_TAPS if problem.weights_dtype is DType.FLOAT32 else MAX_TAPS


def _of_bias(problem: Filter1d) -> Filter1d:
    """A filter of one tap whose bias has the gradient of the problem's."""
    return Filter1d(
        problem.result_length,
        1,
        problem.batch,
        Mode.FULL,
        problem.channels,
        problem.filters,
        problem.layout,
        problem.output_dtype,
        taps_dtype=problem.taps_dtype,
        pitch=problem.result_pitch,
        result_pitch=problem.result_pitch,
        bias=True,
        accuracy=problem.accuracy,
        nonfinite=problem.nonfinite,
        pass_=Filter1dPass.WGRAD,
    )
