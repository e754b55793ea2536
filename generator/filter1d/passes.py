"""Passes of a filter of signals: its result, and the gradients that training needs."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from warpsmith.errors import BadArgument
from warpsmith.generator.problem import DType

if TYPE_CHECKING:
    from warpsmith.generator.filter1d.problem import Filter1d


class Filter1dPass(enum.StrEnum):
    """Computations of a filter; each is a problem of its own, whose other fields describe the filter."""

    FPROP = "fprop"
    """Result of the filter: (signal, weights[, bias]) -> result."""
    DGRAD = "dgrad"
    """Gradient of the signal: (gradient, weights) -> signal_gradient."""
    WGRAD = "wgrad"
    """Gradients of the weights and of the bias: (signal, gradient) -> weights_gradient[, bias_gradient]."""
    BACKWARD = "backward"
    """All gradients in one call: (signal, weights, gradient) -> signal_gradient, weights_gradient[, bias_gradient]."""

    @property
    def is_gradient(self) -> bool:
        return self is not Filter1dPass.FPROP

    @property
    def gives_signal(self) -> bool:
        """True if the gradient of the signal is a result."""
        return self in (Filter1dPass.DGRAD, Filter1dPass.BACKWARD)

    @property
    def gives_weights(self) -> bool:
        """True if the gradients of the weights and of the bias are results."""
        return self in (Filter1dPass.WGRAD, Filter1dPass.BACKWARD)


_REALS = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)


def check_gradient(problem: Filter1d) -> None:
    """Raises BadArgument for a filter whose gradients are not computed."""
    why = None
    if problem.dtype not in _REALS:
        why = f"are for signals of {', '.join(_REALS)}; this one is {problem.dtype}"
    elif problem.down > 1:
        why = f"are for filters that keep every output (down=1); this one keeps every {problem.down}-th"
    elif problem.weights is not None:
        why = "take the weights at each call; leave out the known ones"
    if why is not None:
        raise BadArgument(f"gradients (pass {problem.pass_}) {why}")


def reaches_all(problem: Filter1d) -> bool:
    """True if each sample lies in the window of an output, and so do the samples beside it that windows reach."""
    return problem.first_lag <= 0 and problem.span[1] >= problem.signal - problem.taps


def filter_of_gradient(problem: Filter1d) -> dict[str, Any] | None:
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
    }
