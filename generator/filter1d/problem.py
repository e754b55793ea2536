"""The filter of one-dimensional signals as a problem: shapes, slices of the result, types, operation counts."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, ClassVar

from warpsmith.errors import BadArgument
from warpsmith.generator.canonical import as_float32, count, digest, flag, flattened, row_pitch
from warpsmith.generator.filter1d.distance import between_filters
from warpsmith.generator.filter1d.fields import Activation, Filter1dPass, Gates, SignalLayout, SignalState
from warpsmith.generator.filter1d.gates import gate_flops, inputs_of_gates, set_gates
from warpsmith.generator.filter1d.lags import Lags, Mode, canonical_lags, kept, lags_of, mode_of
from warpsmith.generator.filter1d.passes import check_gradient, filter_of_gradient, operands_of_gradient
from warpsmith.generator.filter1d.precisions import SIGNAL_BOUNDS, set_precision
from warpsmith.generator.filter1d.states import chunks_of, inputs_of_state, moved_bytes, outputs_of_state, set_states
from warpsmith.generator.precision import Precision
from warpsmith.generator.problem import Accuracy, Chunks, DType, NonFinite, Operand, Problem, Role, dtype_of, member

SIGNALS = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16, DType.COMPLEX64, DType.INT16, DType.UINT8)
"""Element types of signals."""
REALS = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
"""Element types of real results, and of real taps."""
MAX_SIGNAL = 2**36
"""Most samples, and most elements of an operand: half a terabyte of complex numbers. One thread per output then makes
no more blocks than a grid may have."""
MAX_TAPS = 2**30 - 1
"""Most taps, channels, signals of a batch and lags from output to output: kernels count these in int."""
MAX_KNOWN = 4096
"""Most known weights: each is a literal in the kernel's text."""
ACCURACIES = (Accuracy.SIGNALWISE, Accuracy.ELEMENTWISE)


@dataclasses.dataclass(frozen=True)
class Filter1d(Problem):
    """Correlation of long signals with short filters, as `torch.conv1d` computes it, one filter for each channel.

    result[b, c, i] = sum over k from 0 to taps - 1 of weights[f, k] * signal[b, c, t + k], where t = first lag +
    i * down and f = c * filters // channels. Samples outside of the signal are zero. Tap 0 meets the oldest sample of a
    window. With `convolve` the order of the taps is reversed, as SciPy and NumPy convolve: tap 0 meets the newest
    sample. Complex taps are not conjugated. Sums are in float32. With `bias` the channel's bias is added to each
    of its sums; the activation comes next. Gates multiply the samples before all this, and the outputs after it.

    Shapes, without the dimensions that are 1: signal (batch, channels, signal), weights (filters, taps), result (batch,
    channels, outputs); with layout `btc` signal (batch, signal, channels) and result (batch, outputs, channels). A bias
    is (channels,), of the weights' element type. A plan takes (signal, weights), or (signal, weights, bias), and then
    those of `before` or `state`, `indices`, `positions`, `starts`, `gate_before`, `gate_after` and `projections`
    that the problem has; it returns the result, or (result, after).

    Args:
        signal: samples of each channel.
        taps: taps of each filter.
        batch: number of independent signals.
        mode: slice of the result: `full`, `same`, `valid`, or `causal`, which gives an output for each sample, the
            newest of its window: under the last tap, with `convolve` under tap 0. None for `full`, or if `lags` says
            which.
        channels: channels of each signal.
        filters: number of filters: 1, or one for each group of channels / filters channels.
        layout: order of the dimensions: `bct` or `btc`.
        dtype: element type of the signal: float32, float16, bfloat16, complex64, int16 or uint8; a name, a NumPy dtype
            or scalar type, or a dtype of PyTorch.
        lags: first and last lag of any other slice, instead of a mode. The window of lag l begins at sample l, which
            tap 0 meets, with `convolve` the last tap. Element n of SciPy's full result has lag n - taps + 1.
        down: keep every down-th output, the first one included.
        convolve: reverse the order of the taps: tap 0 meets the newest sample of a window, and not the oldest.
        taps_dtype: element type of the weights: float32, the default; the signal's if that is float16 or bfloat16; or
            complex64 for a complex signal.
        result_dtype: element type of the result; None for the signal's, or float32 if that is an integer.
        weights: values of the filters, flat or in rows, if they are known at tune time: real, at most 4096, tap 0 of
            each first, as in a call; None to pass them at each call.
        pitch: bytes from one row of the signal to the next; None if there is no gap. A row is a channel, or a sample
            of all channels with layout `btc`.
        result_pitch: bytes from one row of the result to the next.
        bias: a number for each channel is added to its outputs; real signals only.
        activation: function of each output after that: `silu`, or `swish`, which is the same; real signals only.
        accuracy: quantity that the error bound is relative to: `signalwise`, the default, admits transforms and split
            products; with `elementwise` an output is accurate however large the rest of its channel is.
        nonfinite: outputs that a NaN or an infinite sample may reach: with `window` those whose window contains it,
            with `any` others of its channel too, which saves some methods a check. It reaches no other channel.
        pass_: `fprop`, the filter; or gradients: `dgrad` of the signal, `wgrad` of the weights and the bias, or
            `backward`, all of them.
        state: samples before and after the signal, of a causal slice: `before`, (batch, channels, taps - 1), stands
            before the first sample; `after` gets the last ones; `both`; or `carried`, one array that is read and
            written in place. Dimensions are in the layout's order, the element type is the signal's.
        state_width: samples of a row of a carried state, taps - 1 by default. More keep older samples too.
        state_rows: rows of a carried state of which `indices`, int32 (batch,), name one for each signal; a signal with
            a negative index is skipped, and its results are zero. No two signals may name one row.
        circular: a carried state is a ring: `positions`, int32 (batch,), say how many samples came before, and sample
            n lies at place n modulo the width.
        packed: number of sequences that lie one after the other in one signal, of batch 1; `starts`, int32
            (packed + 1,), rise from 0 to the number of samples, and sequence i is starts[i] to starts[i + 1] - 1. No
            sample reaches another sequence. States have a row for each sequence.
        gates: arrays that multiply element by element: `before`, an input `gate_before` with the signal's shape, type
            and row gaps, whose products with the samples are rounded to that type; `after`, an input `gate_after` with
            those of the result, which multiplies the float32 outputs; or `both`. Real signals of 16 or 32 bits only,
            without state, packed sequences and gradients. A NaN in a gate is a NaN of that product alone.
        projection: taps of causal filters that the signal and both gates go through first, one for each of the three
            and each channel: an input `projections`, (3, channels, projection), of the weights' type and order of taps.
            Their sums are in float32, from the oldest sample on, rounded to the type of what they filter.
        precision: `ieee`, the default: each output is as accurate as in float32; or `f16`: factors of transforms may be
            rounded to float16, scaled by powers of two, for an error bound of 4e-3. Signals of float16 and bfloat16
            with accuracy `signalwise`, and of gradients `dgrad` without an activation only.

    The other fields describe the filter in every pass. A gradient of the result has the result's shape and type, and
    each gradient of an operand has that operand's; sums are in float32. Plans take these of signal, weights, bias and
    gradient, in this order: `wgrad` (signal, gradient), `backward` (signal, weights, gradient), `dgrad` (gradient,
    weights). With an activation each of the three takes (signal, weights[, bias], gradient), and computes the filter
    again. Without one `dgrad` is a filter of the gradient, and becomes that problem (`filter_of_gradient`).

    Raises:
        BadArgument: a size of 0, a filter longer than the signal with mode `valid`, lags outside of the full result,
            filters that do not divide the channels, or an unknown mode, layout or dtype.

    Source: "Parallel filters", section 4.1, the filter of a long sequence.
    """

    operation: ClassVar[str] = "filter1d"
    near_reach: ClassVar[float] = 3.0
    """The best number of outputs per thread depends on the number of blocks. On an H200 defaults took at most 1.1 times
    the best time of 38 problems; for 10^5 samples the best config of 2^24 samples took 1.34 times the best time."""

    signal: int
    taps: int
    batch: int = 1
    mode: Mode | None = None
    channels: int = 1
    filters: int = 1
    layout: SignalLayout = SignalLayout.BCT
    dtype: DType = DType.FLOAT32
    lags: Lags | None = None
    down: int = 1
    convolve: bool = False
    taps_dtype: DType | None = None
    result_dtype: DType | None = None
    weights: tuple[float, ...] | None = None
    pitch: int | None = None
    result_pitch: int | None = None
    bias: bool = False
    activation: Activation | None = None
    accuracy: Accuracy = Accuracy.SIGNALWISE
    nonfinite: NonFinite = NonFinite.WINDOW
    pass_: Filter1dPass = Filter1dPass.FPROP
    state: SignalState | None = None
    state_width: int | None = None
    state_rows: int | None = None
    circular: bool = False
    packed: int | None = None
    gates: Gates | None = None
    projection: int | None = None
    precision: Precision = Precision.IEEE

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # the documented way to canonicalise a frozen dataclass
        set_field(self, "pass_", member(Filter1dPass, self.pass_, "pass"))
        set_field(self, "signal", count(self.signal, "signal", MAX_SIGNAL))
        set_field(self, "taps", count(self.taps, "taps", MAX_TAPS))
        for name in ("batch", "channels", "filters", "down"):
            set_field(self, name, count(getattr(self, name), name, MAX_TAPS))
        if self.channels % self.filters:
            raise BadArgument(f"filters must divide the number of channels, {self.channels}; got {self.filters}")
        layout = member(SignalLayout, self.layout, "layout")
        set_field(self, "layout", SignalLayout.BCT if self.channels == 1 else layout)
        self._set_slice()
        self._set_types()
        self._set_epilogue()
        set_field(self, "accuracy", member(Accuracy, self.accuracy, "accuracy", ACCURACIES))
        nonfinite = member(NonFinite, self.nonfinite, "nonfinite")
        is_finite = self.dtype in (DType.INT16, DType.UINT8)
        set_field(self, "nonfinite", NonFinite.WINDOW if is_finite else nonfinite)
        set_precision(self)
        set_states(self)
        set_gates(self)
        convolve = flag(self.convolve, "convolve")
        set_field(self, "convolve", convolve and self.taps > 1)  # one tap has one order
        set_field(self, "pitch", self._canonical_pitch("pitch", self.signal, self.dtype))
        result_pitch = self._canonical_pitch("result_pitch", self.result_length, self.output_dtype)
        set_field(self, "result_pitch", result_pitch)
        if self.pass_.is_gradient:
            check_gradient(self)
            if (forward := filter_of_gradient(self)) is not None:
                Filter1d.__init__(self, **forward)
                return
            if not self.pass_.gives_weights and self.activation is None:
                set_field(self, "bias", False)  # it changes no gradient of a signal
        for operand in self.operands:
            if operand.span_bytes // operand.dtype.itemsize > MAX_SIGNAL:
                raise BadArgument(f"the array {operand.name} spans more than 2^36 elements; filter in parts")
        if self.weights is not None:
            set_field(self, "weights", self._canonical_weights(self.weights))

    def _set_slice(self) -> None:
        set_field = object.__setattr__
        if self.mode is not None and self.lags is not None:
            raise BadArgument("mode and lags both say which outputs to compute; give one of them")
        if self.lags is None:
            mode = Mode.FULL if self.mode is None else member(Mode, self.mode, "mode")
            lags = lags_of(mode, self.signal, self.taps)
            if lags[1] < lags[0]:
                raise BadArgument(
                    f"the filter ({self.taps} taps) is longer than the signal ({self.signal} samples); choose a mode "
                    "other than valid"
                )
        else:
            lags = canonical_lags(self.lags, self.signal, self.taps)
        # One slice has one name, so that equal problems have equal keys: with one tap, all modes are `full`.
        lags = kept(lags, self.down)
        if lags[0] == lags[1]:
            set_field(self, "down", 1)  # one output is kept, whatever comes after it
        found = mode_of(lags, self.signal, self.taps, self.down)
        set_field(self, "mode", found)
        set_field(self, "lags", lags if found is None else None)

    def _set_types(self) -> None:
        set_field = object.__setattr__
        set_field(self, "dtype", dtype_of(self.dtype, "dtype", SIGNALS))
        is_complex, is_integer = self.dtype is DType.COMPLEX64, self.dtype in (DType.INT16, DType.UINT8)
        usual = DType.FLOAT32 if is_integer else self.dtype
        wanted = usual if self.result_dtype is None else self.result_dtype
        result = dtype_of(wanted, "result dtype", (DType.COMPLEX64,) if is_complex else REALS)
        set_field(self, "result_dtype", None if result is usual else result)
        allowed = (DType.FLOAT32, *({self.dtype} & {DType.FLOAT16, DType.BFLOAT16, DType.COMPLEX64}))
        wanted = DType.FLOAT32 if self.taps_dtype is None else self.taps_dtype
        taps = dtype_of(wanted, f"dtype of the taps of a {self.dtype} signal", allowed)
        set_field(self, "taps_dtype", None if taps is DType.FLOAT32 else taps)

    def _canonical_pitch(self, name: str, samples: int, dtype: DType) -> int | None:
        is_btc = self.layout is SignalLayout.BTC
        elements, rows = (self.channels, samples) if is_btc else (samples, self.channels)
        pitch = row_pitch(getattr(self, name), elements, dtype, name.replace("_", " "), MAX_SIGNAL)
        return None if self.batch * rows == 1 else pitch  # nothing lies behind the only row

    def _set_epilogue(self) -> None:
        object.__setattr__(self, "bias", flag(self.bias, "bias"))
        if self.activation is not None:
            object.__setattr__(self, "activation", member(Activation, self.activation, "activation"))
        if self.dtype is DType.COMPLEX64 and (self.bias or self.activation is not None):
            raise BadArgument(f"a bias and an activation are for real signals; this one is {self.dtype}")

    def _canonical_weights(self, weights: Any) -> tuple[float, ...]:
        if self.weights_dtype is not DType.FLOAT32:
            raise BadArgument(f"known weights are float32; pass {self.weights_dtype} weights at each call")
        flat, shape = flattened(weights)
        values = self.filters * self.taps
        if values > MAX_KNOWN:
            raise BadArgument(f"at most {MAX_KNOWN} weights can be known; pass these {values} at each call")
        if len(flat) != values:
            several = self.filters > 1
            needed = f"{self.filters} filters of {self.taps} taps need" if several else f"{self.taps} taps need"
            raise BadArgument(f"weights hold {len(flat)} values; {needed} {values}")
        if shape not in ((values,), (self.filters, self.taps)):
            raise BadArgument(f"weights must be flat, or a row of {self.taps} values for each filter")
        return tuple(as_float32(value, "weights") for value in flat)

    @property
    def span(self) -> Lags:
        """First and last lag of the slice, both included, before every down-th output is kept."""
        return self.lags or lags_of(self.mode or Mode.FULL, self.signal, self.taps)

    @property
    def first_lag(self) -> int:
        """Lag of the first output: the sample under tap 0 of its window, negative before the signal."""
        return self.span[0]

    @property
    def result_length(self) -> int:
        """Outputs of each channel."""
        first, last = self.span
        return (last - first) // self.down + 1

    @property
    def rows(self) -> int:
        """Channels of all signals."""
        return self.batch * self.channels

    @property
    def output_dtype(self) -> DType:
        usual = DType.FLOAT32 if self.dtype in (DType.INT16, DType.UINT8) else self.dtype
        return self.result_dtype or usual

    @property
    def weights_dtype(self) -> DType:
        return self.taps_dtype or DType.FLOAT32

    @property
    def known_taps(self) -> tuple[tuple[float, ...], ...]:
        """Known weights, filter by filter, in the order of a correlation; empty if each call brings them."""
        flat = self.weights or ()
        filters = [flat[start : start + self.taps] for start in range(0, len(flat), self.taps)]
        return tuple(each[::-1] if self.convolve else each for each in filters)

    @property
    def known(self) -> Mapping[str, tuple[float, ...]]:
        return {} if self.weights is None else {"weights": self.weights}

    @property
    def from_host(self) -> frozenset[str]:
        return frozenset({"weights", "bias"} & {each.name for each in self.inputs})

    @functools.cached_property
    def operands(self) -> tuple[Operand, ...]:
        signal = self._rows_of("signal", Role.INPUT, self.signal, self.dtype, self.pitch)
        filters = (self.filters,) if self.filters > 1 else ()
        weights = Operand("weights", Role.INPUT, (*filters, self.taps), self.weights_dtype)
        bias = (Operand("bias", Role.INPUT, (self.channels,), self.weights_dtype),) if self.bias else ()
        result = self._rows_of("result", Role.OUTPUT, self.result_length, self.output_dtype, self.result_pitch)
        if not self.pass_.is_gradient:
            gates = inputs_of_gates(self, signal, result)
            return (signal, weights, *bias, *inputs_of_state(self), *gates, result, *outputs_of_state(self))
        return operands_of_gradient(self, signal, (weights, *bias), result)

    @property
    def output(self) -> Operand:
        """The result, of gradients the last; a state that is written is no result."""
        return next((each for each in self.operands if each.name == "result"), self.operands[-1])

    @property
    def bytes(self) -> int:
        return super().bytes + moved_bytes(self)

    @property
    def chunks(self) -> Chunks:
        return chunks_of(self)

    def of_samples(self, samples: int) -> Filter1d:
        if samples == self.signal:
            return self
        return dataclasses.replace(self, signal=samples, mode=Mode.CAUSAL, lags=None)

    def samples_of(self, name: str, role: Role, rows: int, samples: int) -> Operand:
        """Dense operand of the signal's type with samples of all channels, in `rows` rows."""
        return self._rows_of(name, role, samples, self.dtype, None, rows)

    def _rows_of(
        self, name: str, role: Role, samples: int, dtype: DType, pitch: int | None, rows: int | None = None
    ) -> Operand:
        is_btc, size, batch = self.layout is SignalLayout.BTC, dtype.itemsize, self.batch if rows is None else rows
        extents = (batch, *((samples, self.channels) if is_btc else (self.channels, samples)))
        row = pitch or extents[2] * size
        strides = (extents[1] * row, row, size)
        kept = [place for place in range(3) if place == (1 if is_btc else 2) or extents[place] > 1]
        return Operand(name, role, tuple(extents[i] for i in kept), dtype, tuple(strides[i] for i in kept))

    @property
    def tap_multiply_adds(self) -> int:
        """Real multiply-adds of one tap and one output: 1, or 2 for complex samples, or 4 with complex taps too."""
        return 4 if self.weights_dtype is DType.COMPLEX64 else 2 if self.dtype is DType.COMPLEX64 else 1

    @property
    def multiply_adds(self) -> int:
        """Real multiply-adds of all windows, K taps for each output; of a gradient for each of its sums."""
        once = self.tap_multiply_adds * self.taps * self.rows * self.result_length
        if not self.pass_.is_gradient:
            return once
        return once * (self.pass_.gives_signal + self.pass_.gives_weights + (self.activation is not None))

    @property
    def flops(self) -> int:
        return 2 * self.multiply_adds + gate_flops(self)

    @property
    def error_bound(self) -> float:
        return SIGNAL_BOUNDS[self.precision]

    def features(self) -> Mapping[str, float | str]:
        """Outputs, taps and samples per output as numbers; types, layout and place of the weights as words."""
        kind = f" {self.pass_}" if self.pass_.is_gradient else ""
        return {
            "results": self.rows * self.result_length,
            "taps": self.taps,
            "down": self.down,
            "types": f"{self.dtype} by {self.weights_dtype} to {self.output_dtype}{kind}",
            "layout": str(self.layout),
            "weights": "known" if self.weights is not None else "one" if self.filters == 1 else "several",
        }

    def distance(self, other: Problem) -> float | None:
        """Octaves of samples and outputs (their mean), of rows and of row gaps; other differences count as fixed
        octaves, up to a limit.
        """
        return between_filters(self, other) if isinstance(other, Filter1d) else None

    def is_resized(self, other: Problem) -> bool:
        """True if the problems differ only in samples, slice, batch, channels, row gaps and `nonfinite`.

        A winner under another `nonfinite` is right wherever its config is legal.
        """
        sizes = {
            *("signal", "batch", "channels", "filters", "mode", "lags", "pitch", "result_pitch"),
            *("nonfinite", "state_rows", "packed"),
        }
        names = [name for name in self._field_names() if name not in sizes]
        return (
            isinstance(other, Filter1d)
            and all(getattr(self, name) == getattr(other, name) for name in names)
            and (self.filters == 1) == (other.filters == 1)
            and (self.packed is None) == (other.packed is None)
            and (self.state_rows is None) == (other.state_rows is None)
        )

    def spec(self) -> dict[str, Any]:
        words = ("mode", "layout", "dtype", "taps_dtype", "result_dtype", "activation")
        rules = ("accuracy", "nonfinite", "pass_", "state", "gates", "precision")
        return {
            **{field.name: getattr(self, field.name) for field in dataclasses.fields(self)},
            **{name: str(value) for name in (*words, *rules) if (value := getattr(self, name))},
            "lags": None if self.lags is None else list(self.lags),
            "weights": None if self.weights is None else list(self.weights),
        }

    @classmethod
    def of(cls, spec: dict[str, Any]) -> Filter1d:
        return cls(**spec)

    def key(self) -> str:
        parts = {
            "signal": self.signal,
            "taps": self.taps,
            "batch": self.batch,
            "mode": self.mode,
            "dtype": self.dtype,
            # Other fields only if they differ from the default, so that a key says what is special about its problem.
            "lags": None if self.lags is None else f"{self.lags[0]},{self.lags[1]}",
            "channels": None if self.channels == 1 else self.channels,
            "filters": None if self.filters == 1 else self.filters,
            "layout": None if self.layout is SignalLayout.BCT else self.layout,
            "down": None if self.down == 1 else self.down,
            "convolve": "yes" if self.convolve else None,
            "taps_dtype": self.taps_dtype,
            "result_dtype": self.result_dtype,
            "bias": "yes" if self.bias else None,
            "activation": self.activation,
            "accuracy": None if self.accuracy is Accuracy.SIGNALWISE else self.accuracy,
            "nonfinite": None if self.nonfinite is NonFinite.WINDOW else self.nonfinite,
            "pass": self.pass_ if self.pass_.is_gradient else None,
            "state": self.state,
            "state_width": self.state_width,
            "state_rows": self.state_rows,
            "circular": "yes" if self.circular else None,
            "packed": self.packed,
            "gates": self.gates,
            "projection": self.projection,
            "precision": None if self.precision is Precision.IEEE else self.precision,
            "pitch": self.pitch,
            "result_pitch": self.result_pitch,
            "weights": f"sha256:{digest(self.weights)}" if self.weights is not None else None,
        }
        return " ".join([self.operation, *(f"{name}={value}" for name, value in parts.items() if value is not None)])
