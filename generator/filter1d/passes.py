"""Passes of a filter of signals: its result, and the gradients that training needs."""

from __future__ import annotations

import dataclasses
from typing import Any

from warpsmith.errors import BadArgument
from warpsmith.generator.filter1d.fields import Filter1dFields, Filter1dPass
from warpsmith.generator.precision import Precision
from warpsmith.generator.problem import DType, Operand, Role

_REALS = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)


def check_gradient(problem: Filter1dFields) -> None:
    """Raises BadArgument for a filter whose gradients are not computed."""
    why = None
    if problem.dtype not in _REALS:
        why = f"are for signals of {', '.join(_REALS)}; this one is {problem.dtype}"
    elif problem.down > 1:
        why = f"are for filters that keep every output (down=1); this one keeps every {problem.down}-th"
    elif problem.weights is not None:
        why = "take the weights at each call; leave out the known ones"
    elif problem.state is not None or problem.packed is not None:
        why = "are for filters without a state, of signals that are not packed"
    elif problem.precision is not Precision.IEEE and filter_of_gradient(problem) is None:
        why = f"are of precision ieee where no filter computes them; this one is {problem.precision}"
    if why is not None:
        raise BadArgument(f"gradients (pass {problem.pass_}) {why}")


def reaches_all(problem: Filter1dFields) -> bool:
    """True if each sample lies in the window of an output, and so do the samples beside it that windows reach."""
    return problem.first_lag <= 0 and problem.span[1] >= problem.signal - problem.taps


def filter_of_gradient(problem: Filter1dFields) -> dict[str, Any] | None:
    """Fields of the filter that computes a gradient of a signal; None if no filter does.

    The gradient of sample s is the sum over k of weights[k] * gradient[s - first lag - k]: a filter of the gradient in
    the other order of taps, whose first lag is -(first lag) - (taps - 1). With an activation the gradient of the
    result must be multiplied by the activation's slope first. A sample that no window reaches, or taps of a type that
    this filter does not take, leave it a problem of its own.
    """
    if problem.pass_ is not Filter1dPass.DGRAD or problem.activation is not None:
        return None
    if not reaches_all(problem) or problem.weights_dtype not in (DType.FLOAT32, problem.output_dtype):
        return None
    first = -problem.first_lag - (problem.taps - 1)
    return {
        "signal": problem.result_length,
        "taps": problem.taps,
        "batch": problem.batch,
        "channels": problem.channels,
        "filters": problem.filters,
        "layout": problem.layout,
        "dtype": problem.output_dtype,
        "lags": (first, first + problem.signal - 1),
        "convolve": not problem.convolve,
        "taps_dtype": problem.taps_dtype,
        "result_dtype": problem.dtype,
        "pitch": problem.result_pitch,
        "result_pitch": problem.pitch,
        "accuracy": problem.accuracy,
        "nonfinite": problem.nonfinite,
        "precision": problem.precision,
    }


def operands_of_gradient(
    problem: Filter1dFields, signal: Operand, learned: tuple[Operand, ...], result: Operand
) -> tuple[Operand, ...]:
    """Operands of a gradient from those of its filter, of which the learned ones are weights and bias.

    The filter's own are inputs too if its outputs are computed again, for the slope of the activation.
    """
    gradient, pass_ = dataclasses.replace(result, name="gradient", role=Role.INPUT), problem.pass_
    if problem.activation is not None:
        given = (signal, *learned, gradient)
    elif not pass_.gives_weights:
        given = (gradient, learned[0])
    else:
        given = (signal, *learned[: pass_.gives_signal], gradient)
    wanted = (signal,) * pass_.gives_signal + learned * pass_.gives_weights
    return (*given, *(dataclasses.replace(each, name=f"{each.name}_gradient", role=Role.OUTPUT) for each in wanted))
