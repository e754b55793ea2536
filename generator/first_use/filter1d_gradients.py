"""Reference kernels of the gradients of `filter1d`, one for each result of a problem."""

from __future__ import annotations

import dataclasses
import math

from warpsmith.generator.filter1d.fields import SignalLayout
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.text import pitches
from warpsmith.generator.first_use.filter1d import channel_planes, deviations_of
from warpsmith.generator.first_use.reference import ChannelPlanes, Reference, Scale, packed, reference_program
from warpsmith.generator.problem import Accuracy, DType

_KINDS = {DType.FLOAT32: 0, DType.FLOAT16: 1, DType.BFLOAT16: 2}
"""Numbers of element types in the template."""
_MOST_TERMS = 1 << 25
"""Most multiply-adds of one sum: 16 of them take a fraction of a second. Results with longer sums are not checked."""
_INPUTS = ("signal", "weights", "bias", "gradient")
"""Inputs of the template, in order."""
_GRADIENT = _INPUTS.index("gradient")
_WANTED = ("signal_gradient", "weights_gradient", "bias_gradient")
"""Results by their numbers in the template."""


def filter1d_gradient_references(problem: Filter1d, threads: int) -> tuple[Reference, ...]:
    """References of the results whose sums are not too long; they compute the filter's outputs again."""
    found = (_reference(problem, threads, each.name) for each in problem.outputs)
    return tuple(each for each in found if each.terms * each.term_cost <= _MOST_TERMS)


def _reference(problem: Filter1d, threads: int, wanted: str) -> Reference:
    names = [each.name for each in problem.inputs]
    is_btc, group = problem.layout is SignalLayout.BTC, problem.channels // problem.filters
    is_signalwise = problem.accuracy is Accuracy.SIGNALWISE
    pitch, gradient_pitch = pitches(problem)
    (output,) = (each for each in problem.outputs if each.name == wanted)
    integers = {
        "wanted": _WANTED.index(wanted),
        "is_btc": int(is_btc),
        "convolves": int(problem.convolve),
        "has_bias": int("bias" in names),
        "is_activated": int(problem.activation is not None),
        "sample_kind": _KINDS[problem.dtype],
        "gradient_kind": _KINDS[problem.output_dtype],
        "tap_kind": _KINDS[problem.weights_dtype],
        "signal": problem.signal,
        "taps": problem.taps,
        "batch": problem.batch,
        "channels": problem.channels,
        "group": group,
        "outputs": problem.result_length,
        "first_lag": problem.first_lag,
        "pitch": pitch,
        "gradient_pitch": gradient_pitch,
        "is_signalwise": int(is_signalwise),
    }
    reals = {"balance": math.sqrt(problem.result_length / problem.signal)}
    lengths = problem.result_length + (problem.signal + problem.result_length if is_signalwise else 0)
    terms = {
        "signal_gradient": problem.taps,
        "weights_gradient": problem.batch * group * lengths,
        "bias_gradient": problem.batch * problem.result_length,
    }[wanted]
    planes = _planes(problem, gradient_pitch) if wanted == "signal_gradient" else None
    source = problem.dtype if planes is None else problem.output_dtype
    # Random numbers have the type of `source` if a kernel draws them.
    drawn = {name for name, dtype in (("signal", problem.dtype), ("gradient", problem.output_dtype)) if dtype is source}
    return Reference(
        program=reference_program("filter1d_gradients", threads, integers, reals, source, output.dtype, inputs=4),
        values=packed(integers, reals),
        inputs=tuple(name if name in names else names[0] for name in _INPUTS),
        terms=terms,
        term_cost=1 if problem.activation is None else 1 + problem.taps,
        scale=Scale.TERMS if planes is None else Scale.PLANE,
        from_host=frozenset(set(names) - drawn),
        deviations=deviations_of(problem),
        planes=planes,
        output=wanted,
    )


def _planes(problem: Filter1d, pitch: int) -> ChannelPlanes | None:
    """Channels of the result's gradient, whose errors the signal's gradient may have; None if it may not.

    An activation's slope multiplies the gradient first, so that its largest element says nothing.
    """
    if problem.accuracy is not Accuracy.SIGNALWISE or problem.activation is not None:
        return None
    made = channel_planes(problem, problem.output_dtype, problem.result_length, pitch, problem.signal)
    return dataclasses.replace(made, source=_GRADIENT)
