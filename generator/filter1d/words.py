"""Enumerations of `filter1d`: layouts, activations, and passes with what they compute."""

from __future__ import annotations

import enum

from warpsmith.generator.problem import DType


class SignalLayout(enum.StrEnum):
    """Order of a signal's dimensions in memory."""

    BCT = "bct"
    """(batch, channels, time): the samples of a channel lie side by side, as torch.conv1d takes them."""
    BTC = "btc"
    """(batch, time, channels): the channels of a sample lie side by side, as transformers have them."""


class Activation(enum.StrEnum):
    """Function of each output, after the bias."""

    SILU = "silu"
    """x / (1 + exp(-x)), as PyTorch's `silu`; `swish` is another name of it."""

    @classmethod
    def _missing_(cls, value: object) -> Activation | None:
        return cls.SILU if value == "swish" else None

    @property
    def slope(self) -> float:
        """Upper bound of its slope, which multiplies the errors of sums: SiLU's largest is 1.0998, at 2.4."""
        return 1.1


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


REALS = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
"""Element types of real results, and of real taps."""


def why_no_gradient_of(dtype: DType, down: int, *, is_known: bool) -> str | None:
    """The reason why gradients of a filter are not computed, in one line; None if they are."""
    if dtype not in REALS:
        return f"are for signals of {', '.join(REALS)}; this one is {dtype}"
    if down > 1:
        return f"are for filters that keep every output (down=1); this one keeps every {down}-th"
    return "take the weights at each call; leave out the known ones" if is_known else None
