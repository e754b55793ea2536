"""Gradients of long filters in one program, a stage each: those of the signal, of the weights and of the bias.

The gradient of a signal is a filter of the result's gradient, and the families of filters have ways for long ones:
transforms and tensor cores. The gradient of the weights has families of its own. One pass over memory for both, as for
short filters, would need windows of all taps in registers. The gradient of the bias is that of a filter of one tap.
"""

from __future__ import annotations

import dataclasses
import functools

from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.filter1d.channels_family import Filter1dChannels
from warpsmith.generator.filter1d.fft_family import Filter1dFft
from warpsmith.generator.filter1d.fft_long_family import Filter1dFftLong
from warpsmith.generator.filter1d.fields import Filter1dPass
from warpsmith.generator.filter1d.gradients_batch_family import Filter1dGradientsBatch
from warpsmith.generator.filter1d.gradients_channels_family import Filter1dGradientsChannels
from warpsmith.generator.filter1d.gradients_fft_family import Filter1dGradientsFft
from warpsmith.generator.filter1d.gradients_plain_family import Filter1dGradientsPlain
from warpsmith.generator.filter1d.gradients_text import why_no_gradients_of
from warpsmith.generator.filter1d.gradients_warp_family import Filter1dGradientsWarp
from warpsmith.generator.filter1d.lags import Mode
from warpsmith.generator.filter1d.plain_family import Filter1dPlain
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.registers_family import Filter1dRegisters
from warpsmith.generator.filter1d.toeplitz_batch_family import Filter1dToeplitzBatch
from warpsmith.generator.filter1d.toeplitz_channels_family import Filter1dToeplitzChannels
from warpsmith.generator.filter1d.toeplitz_family import Filter1dToeplitz
from warpsmith.generator.pipeline import Pipeline, Stage
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import DType
from warpsmith.generator.steps import Workspace

LEAST_TAPS = 33
"""Least taps of a default: fewer take one pass over memory for all gradients."""
UNUSED = "unused"
"""Workspace for the gradient of the one tap whose bias is asked for."""
_OF_FILTER = {"signal": "gradient", "weights": "weights", "result": "signal_gradient"}
"""Operands of the whole for those of a filter that computes the gradient of a signal."""
_OF_BIAS = {"signal": "gradient", "gradient": "gradient", "weights_gradient": UNUSED, "bias_gradient": "bias_gradient"}
"""The same for a filter of one tap that computes the gradient of a bias: the result's gradient is its signal too."""
_GRADIENTS: tuple[Family, ...] = (
    Filter1dGradientsWarp(),
    Filter1dGradientsChannels(),
    Filter1dGradientsBatch(),
    Filter1dGradientsFft(),
    Filter1dGradientsPlain(),
)
"""Families of the stages that compute gradients, the one for every problem last."""
_FILTERS: tuple[Family, ...] = (
    Filter1dRegisters(),
    Filter1dChannels(),
    Filter1dToeplitz(),
    Filter1dToeplitzChannels(),
    Filter1dToeplitzBatch(),
    Filter1dFft(),
    Filter1dFftLong(),
    Filter1dPlain(),
)
"""Families of the stages that are filters, the one for every problem last."""


class Filter1dGradientsApart(Pipeline[Filter1d]):
    """The pass `backward` as the passes `dgrad` and `wgrad`, and `wgrad` with a bias as one without and the bias, by
    the families that answer these on a Hopper GPU.
    """

    name = "filter1d_gradients_apart"

    def why_not(self, problem: Filter1d, device: Device) -> str | None:
        if (reason := why_no_gradients_of(problem)) is not None:
            return reason
        if problem.pass_ is not Filter1dPass.BACKWARD and not (problem.bias and problem.pass_.gives_weights):
            return (
                f"computes several gradients in one call (pass backward, or wgrad with a bias); this is {problem.pass_}"
            )
        if problem.activation is not None:
            return f"would compute the slope of {problem.activation} for each gradient again"
        if problem.bias and problem.weights_dtype not in (DType.FLOAT32, problem.output_dtype):
            return f"adds up gradients of a {problem.weights_dtype} bias in that type; they are {problem.output_dtype}"
        slow = (stage for stage in self.stages(problem) if stage.family in (_GRADIENTS[-1], _FILTERS[-1]))
        if (stage := next(slow, None)) is not None:
            return f"is no faster than one sum after the other for the stage {stage.name}, {stage.problem.key()}"
        return self.unsolved_stage(problem, device)

    def is_likely(self, problem: Filter1d, device: Device) -> bool:
        is_long = device.kind is DeviceKind.CUDA and problem.taps >= LEAST_TAPS
        return is_long and self.why_not(problem, device) is None

    def expected_ns(self, problem: Filter1d, device: Device) -> float | None:
        times = [stage.family.expected_ns(stage.problem, device) for stage in self.stages(problem)]
        known = [each for each in times if each is not None]
        return sum(known) if len(known) == len(times) else None

    def stages(self, problem: Filter1d) -> tuple[Stage, ...]:
        names = {each.name: each.name for each in problem.operands}
        of_weights = dataclasses.replace(problem, pass_=Filter1dPass.WGRAD, bias=False)
        found = [Stage("wgrad", of_weights, _family_of(of_weights), names)]
        if problem.pass_.gives_signal:
            of_signal = dataclasses.replace(problem, pass_=Filter1dPass.DGRAD, bias=False)
            memory = names if of_signal.pass_.is_gradient else _OF_FILTER
            found.insert(0, Stage("dgrad", of_signal, _family_of(of_signal), memory))
        if problem.bias:
            of_bias = _of_bias(problem)
            found.append(Stage("bias", of_bias, _family_of(of_bias), _OF_BIAS))
        return tuple(found)

    def workspaces(self, problem: Filter1d) -> tuple[Workspace, ...]:
        return (Workspace(UNUSED, problem.filters * problem.weights_dtype.itemsize),) if problem.bias else ()


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


@functools.lru_cache(maxsize=256)
def _family_of(problem: Filter1d) -> Family:
    """The family that is expected to be fastest on a Hopper GPU: stages do not depend on the device."""
    *fast, plain = _GRADIENTS if problem.pass_.is_gradient else _FILTERS
    likely = [each for each in fast if each.is_likely(problem, H200)]
    return min(likely, key=lambda each: each.expected_ns(problem, H200) or 0.0, default=plain)
