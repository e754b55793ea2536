"""Fields of a filter of signals: its words, and what the modules beside the problem read of it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Protocol

from warpsmith.generator.filter1d.lags import Lags, Mode
from warpsmith.generator.precision import Precision
from warpsmith.generator.problem import Accuracy, DType, NonFinite, Operand, Role


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


class SignalState(enum.StrEnum):
    """Samples that a causal filter takes from the signal before this one, and leaves for the next."""

    BEFORE = "before"
    """An input `before` holds the taps - 1 samples before the first one, which are zero without a state."""
    AFTER = "after"
    """An output `after` gets the last taps - 1 samples; zeros stand before a signal that is shorter."""
    BOTH = "both"
    """`before` and `after`: of a signal shorter than taps - 1, `after` keeps the end of `before`."""
    CARRIED = "carried"
    """One array `state` is read and written in place: decoding and streams."""

    @property
    def is_read(self) -> bool:
        return self is not SignalState.AFTER

    @property
    def has_after(self) -> bool:
        """True if the last samples are an output of their own."""
        return self in (SignalState.AFTER, SignalState.BOTH)


class Gates(enum.StrEnum):
    """Arrays that multiply what a filter reads and what it writes, element by element."""

    BEFORE = "before"
    """An input `gate_before`, laid out as the signal, multiplies its samples."""
    AFTER = "after"
    """An input `gate_after`, laid out as the result, multiplies the outputs, after bias and activation."""
    BOTH = "both"
    """`gate_before` and `gate_after`."""

    @property
    def has_before(self) -> bool:
        return self is not Gates.AFTER

    @property
    def has_after(self) -> bool:
        return self is not Gates.BEFORE


class Filter1dFields(Protocol):
    """What `Filter1d` has, for the modules that it is made of."""

    @property
    def signal(self) -> int: ...

    @property
    def taps(self) -> int: ...

    @property
    def batch(self) -> int: ...

    @property
    def mode(self) -> Mode | None: ...

    @property
    def channels(self) -> int: ...

    @property
    def filters(self) -> int: ...

    @property
    def layout(self) -> SignalLayout: ...

    @property
    def dtype(self) -> DType: ...

    @property
    def lags(self) -> Lags | None: ...

    @property
    def down(self) -> int: ...

    @property
    def convolve(self) -> bool: ...

    @property
    def taps_dtype(self) -> DType | None: ...

    @property
    def weights(self) -> tuple[float, ...] | None: ...

    @property
    def pitch(self) -> int | None: ...

    @property
    def result_pitch(self) -> int | None: ...

    @property
    def bias(self) -> bool: ...

    @property
    def activation(self) -> Activation | None: ...

    @property
    def accuracy(self) -> Accuracy: ...

    @property
    def nonfinite(self) -> NonFinite: ...

    @property
    def pass_(self) -> Filter1dPass: ...

    @property
    def state(self) -> SignalState | None: ...

    @property
    def state_width(self) -> int | None: ...

    @property
    def state_rows(self) -> int | None: ...

    @property
    def circular(self) -> bool: ...

    @property
    def packed(self) -> int | None: ...

    @property
    def gates(self) -> Gates | None: ...

    @property
    def projection(self) -> int | None: ...

    @property
    def precision(self) -> Precision: ...

    @property
    def span(self) -> Lags: ...

    @property
    def first_lag(self) -> int: ...

    @property
    def rows(self) -> int: ...

    @property
    def result_length(self) -> int: ...

    @property
    def output_dtype(self) -> DType: ...

    @property
    def weights_dtype(self) -> DType: ...

    @property
    def inputs(self) -> tuple[Operand, ...]: ...

    @property
    def output(self) -> Operand: ...

    def features(self) -> Mapping[str, float | str]: ...

    def samples_of(self, name: str, role: Role, rows: int, samples: int) -> Operand: ...
