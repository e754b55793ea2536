"""Verification of filter1d: the references against SciPy, NumPy and PyTorch in float64, and the inputs."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import exhaustive
from filter1d_problems import SPREAD
from warpsmith.devices.elements import numpy_dtype
from warpsmith.generator.filter1d import Activation, Filter1d, Mode, SignalLayout
from warpsmith.generator.filter1d.problem import ACCURACIES
from warpsmith.generator.problem import Accuracy, DType, NonFinite
from warpsmith.tuner.operations.filter1d import oracle
from warpsmith.tuner.operations.filter1d.floors import gains_of
from warpsmith.tuner.operations.filter1d.judge import Filter1dJudge
from warpsmith.tuner.operations.filter1d.oracle import reference, samples, terms
from warpsmith.tuner.operations.filter1d.stress import stress_inputs, stress_slack
from warpsmith.tuner.operations.judge import Reference
from warpsmith.tuner.operations.registry import random_operands

signal_processing = pytest.importorskip("scipy.signal")
special = pytest.importorskip("scipy.special")

JUDGE = Filter1dJudge()
TYPES: tuple[dict[str, str], ...] = (
    {"dtype": "float32"},
    {"dtype": "float32", "result_dtype": "float16"},
    {"dtype": "float16", "taps_dtype": "float16"},
    {"dtype": "bfloat16", "result_dtype": "float32"},
    {"dtype": "complex64"},
    {"dtype": "complex64", "taps_dtype": "complex64"},
    {"dtype": "int16"},
    {"dtype": "uint8", "result_dtype": "bfloat16"},
)


def rows_of(problem: Filter1d, operands: Mapping[str, NDArray[Any]]) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Signal and weights of each channel of each signal, in double precision."""
    wide = np.complex128 if problem.dtype is DType.COMPLEX64 else np.float64
    signals, filters = operands["signal"].astype(wide), operands["weights"].reshape(problem.filters, -1)
    if problem.layout is SignalLayout.BTC:
        signals = signals.reshape(problem.batch, problem.signal, problem.channels).swapaxes(1, 2)
    signals = signals.reshape(problem.batch, problem.channels, problem.signal)
    filters = filters.astype(np.complex128 if problem.weights_dtype is DType.COMPLEX64 else np.float64)
    each = problem.channels // problem.filters
    return [
        (signals[batch, channel], filters[channel // each])
        for batch, channel in itertools.product(range(problem.batch), range(problem.channels))
    ]


def gathered(problem: Filter1d, rows: list[NDArray[Any]]) -> NDArray[Any]:
    """Results of all channels in the problem's shape, as real numbers."""
    whole = np.array(rows).reshape(problem.batch, problem.channels, -1)
    if problem.layout is SignalLayout.BTC:
        whole = whole.swapaxes(1, 2)
    whole = np.ascontiguousarray(whole)
    return (whole.view(np.float64) if np.iscomplexobj(whole) else whole).reshape(problem.output.components.shape)


def by_scipy(problem: Filter1d, x: NDArray[Any], w: NDArray[Any], mode: str) -> NDArray[Any]:
    if problem.convolve:
        return np.asarray(signal_processing.convolve(x, w, mode, "direct"))
    return np.asarray(signal_processing.correlate(x, w.conj(), mode, "direct"))


def expected_row(problem: Filter1d, x: NDArray[Any], w: NDArray[Any]) -> NDArray[Any]:
    """A channel's result, by SciPy's own mode if it has one, and as a slice of its full result otherwise."""
    mode = problem.mode
    if mode is not None and mode is not Mode.CAUSAL:
        return by_scipy(problem, x, w, mode.value)[:: problem.down]
    first, last = (0, len(x) - 1) if mode is Mode.CAUSAL else (lag + len(w) - 1 for lag in problem.lags or ())
    return by_scipy(problem, x, w, "full")[first : last + 1 : problem.down]


def floor_of(x: NDArray[Any], w: NDArray[Any]) -> float:
    """Least scale of a channel: its largest sample times the largest gain at a power of two of frequencies, two for
    each tap at least.
    """
    return float(np.abs(x).max() * np.abs(np.fft.fft(w, 1 << (2 * len(w) - 1).bit_length())).max())


def finished(problem: Filter1d, sums: NDArray[Any], operands: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Results of sums, with their bias and activation, by SciPy's logistic function."""
    if problem.bias:
        bias = operands["bias"].astype(np.float64)
        sums = sums + (bias if problem.layout is SignalLayout.BTC or problem.channels == 1 else bias[:, None])
    return sums * special.expit(sums) if problem.activation is not None else sums


def assert_equal(problem: Filter1d, found: Reference, expected: NDArray[Any]) -> None:
    assert found.expected.shape == found.scale.shape == problem.output.components.shape
    worst = np.abs(found.expected - expected) - 1e-12 * found.scale
    assert worst.max() <= 0, problem.key()


class TestReference:
    @pytest.mark.parametrize("problem", SPREAD, ids=lambda problem: problem.key())
    def test_is_what_scipy_computes(self, problem: Filter1d) -> None:
        operands = random_operands(problem, 1)
        found = reference(problem, operands)
        rows = rows_of(problem, operands)
        sums = gathered(problem, [expected_row(problem, x, w) for x, w in rows])
        assert_equal(problem, found, finished(problem, sums, operands))
        both = 1 + 1j if problem.output.dtype is DType.COMPLEX64 else 1  # parts of a number have one scale
        magnitudes = gathered(problem, [both * expected_row(problem, abs(x), abs(w)) for x, w in rows])
        if problem.bias:
            sums = dataclasses.replace(problem, activation=None)
            magnitudes = finished(sums, magnitudes, {"bias": abs(operands["bias"])})
        if problem.accuracy is Accuracy.SIGNALWISE:
            wide = np.ones(problem.result_length) * both
            magnitudes = np.maximum(magnitudes, gathered(problem, [floor_of(x, w) * wide for x, w in rows]))
        np.testing.assert_allclose(found.scale, magnitudes * (1.1 if problem.activation else 1), 1e-12)

    @pytest.mark.parametrize("accuracy", ACCURACIES)
    @pytest.mark.parametrize("nonfinite", NonFinite)
    def test_a_nan_reaches_its_window_or_its_channel(self, accuracy: Accuracy, nonfinite: NonFinite) -> None:
        problem = Filter1d(50, 7, 2, mode="same", channels=3, accuracy=accuracy, nonfinite=nonfinite)
        operands = random_operands(problem, 1)
        operands["signal"][1, 2, 20] = np.inf
        reached = np.isnan(reference(problem, operands).scale)
        expected = np.zeros(problem.output.shape, bool)
        expected[1, 2, slice(None) if nonfinite is NonFinite.ANY else slice(17, 24)] = True
        np.testing.assert_array_equal(reached, expected)

    @pytest.mark.parametrize("layout", SignalLayout)
    @pytest.mark.parametrize("dtype", ["float32", "complex64"])
    def test_is_the_same_by_transforms(self, monkeypatch: pytest.MonkeyPatch, layout: SignalLayout, dtype: str) -> None:
        problem = Filter1d(4000, 700, 2, channels=4, filters=2, layout=layout, dtype=dtype, down=3)
        operands = stress_inputs(problem, np.random.default_rng(1))
        direct = reference(problem, operands)
        monkeypatch.setattr(oracle, "_LARGE", 0)
        found = reference(problem, operands)
        assert np.nanmax(np.abs(found.expected - direct.expected) / direct.scale) < 1e-14
        np.testing.assert_allclose(found.scale, direct.scale, 1e-12)
        assert np.isnan(found.scale).any()

    @pytest.mark.parametrize("state", ["before", "carried", "ring"])
    def test_a_floor_counts_the_samples_of_a_state_and_no_others(self, state: str) -> None:
        """The sample of 1000 is among the taps - 1 before the signal; that of 9999 is older."""
        ring = {"circular": True, "state_width": 8}
        more: dict[str, Any] = {"state": "carried", **ring} if state == "ring" else {"state": state}
        problem = Filter1d(5, 4, 1, "causal", 2, **more)  # type: ignore[arg-type]
        operands = dict(random_operands(problem, 1))
        name = "before" if state == "before" else "state"
        held = operands[name] = np.array(operands[name])
        if state == "ring":
            operands["positions"] = np.array([1], np.int32)
            held[1, [0, 6, 5]] = 1.0, 1000.0, 9999.0
        else:
            held[1, 0] = 1000.0
        gain = float(gains_of(problem, operands["weights"].reshape(1, 4))[0])
        scale = reference(problem, operands).scale
        assert scale[1].min() == pytest.approx(1000 * gain)
        assert scale[0].max() < 100 * gain
        places = np.arange(problem.output.size)
        np.testing.assert_allclose(samples(problem, operands, places).least_scale, scale.ravel())

    def test_gain_of_a_long_filter_is_that_of_its_folded_taps(self) -> None:
        taps = np.random.default_rng(1).standard_normal((2, 9001))
        waves = np.exp(-2j * np.pi * np.outer(np.arange(0, 8192, 512), np.arange(9001)) / 8192)
        gains = gains_of(Filter1d(10, 9001, channels=2, filters=2), taps)
        assert (gains >= np.abs(taps @ waves.T).max(axis=1) * (1 - 1e-12)).all()
        smooth = np.ones((1, 9001))
        np.testing.assert_allclose(gains_of(Filter1d(10, 9001), smooth), 9001)

    def test_problems_combine_all_values(self) -> None:
        assert any(each.taps > each.signal and each.mode is Mode.SAME for each in SPREAD)
        assert {each.mode for each in SPREAD} == {*Mode, None}

    @pytest.mark.parametrize("mode", ["full", "same", "valid"])
    @pytest.mark.parametrize(("samples", "taps"), [(50, 7), (50, 8), (9, 9)])
    def test_is_what_numpy_computes(self, mode: str, samples: int, taps: int) -> None:
        """NumPy's `same` is as long as the longer operand; `correlate` conjugates its second one."""
        problem = Filter1d(samples, taps, mode=mode, dtype="complex64", taps_dtype="complex64")
        operands = random_operands(problem, 1)
        x, w = (operands[name].astype(np.complex128) for name in ("signal", "weights"))
        assert_equal(problem, reference(problem, operands), gathered(problem, [np.correlate(x, w.conj(), mode)]))
        convolution = dataclasses.replace(problem, convolve=True)
        assert_equal(convolution, reference(convolution, operands), gathered(convolution, [np.convolve(x, w, mode)]))

    @pytest.mark.parametrize("layout", SignalLayout)
    @pytest.mark.parametrize(("mode", "down", "padding"), [("valid", 1, 0), ("valid", 3, 0), ("full", 2, 6)])
    def test_is_what_pytorch_computes(self, layout: SignalLayout, mode: str, down: int, padding: int) -> None:
        torch = pytest.importorskip("torch")
        problem = Filter1d(61, 7, 2, mode=mode, channels=6, filters=6, layout=layout, down=down)
        operands = random_operands(problem, 1)
        x, w = (torch.from_numpy(operands[name]).double() for name in ("signal", "weights"))
        x = x.mT if layout is SignalLayout.BTC else x
        y = torch.nn.functional.conv1d(x, w[:, None], stride=down, padding=padding, groups=6)
        expected = (y.mT if layout is SignalLayout.BTC else y).numpy()
        assert_equal(problem, reference(problem, operands), expected)

    def test_causal_outputs_are_those_of_causal_conv1d(self) -> None:
        """The definition of Dao-AILab's package: the last tap meets the newest sample."""
        torch = pytest.importorskip("torch")
        problem = Filter1d(40, 4, 2, mode="causal", channels=3, filters=3)
        operands = random_operands(problem, 1)
        x, w = (torch.from_numpy(operands[name]).double() for name in ("signal", "weights"))
        y = torch.nn.functional.conv1d(x, w[:, None], padding=3, groups=3)[..., :40]
        assert_equal(problem, reference(problem, operands), y.numpy())

    @pytest.mark.parametrize("layout", SignalLayout)
    @pytest.mark.parametrize("filters", [1, 3, 6])
    @pytest.mark.parametrize(("bias", "activation"), [(True, None), (False, "silu"), (True, "swish")])
    def test_bias_and_activation_are_those_of_pytorch(
        self, layout: SignalLayout, filters: int, bias: bool, activation: str | None
    ) -> None:
        torch = pytest.importorskip("torch")
        problem = Filter1d(
            40, 4, 2, mode="causal", channels=6, filters=filters, layout=layout, bias=bias, activation=activation
        )
        operands = random_operands(problem, 1)
        x, w, *b = (torch.from_numpy(operands[each.name]).double() for each in problem.inputs)
        x = x.mT if layout is SignalLayout.BTC else x
        w = w.reshape(filters, 4).repeat_interleave(6 // filters, 0)[:, None]
        y = torch.nn.functional.conv1d(x, w, *b, padding=3, groups=6)[..., :40]
        y = torch.nn.functional.silu(y) if activation else y
        expected = (y.mT if layout is SignalLayout.BTC else y).numpy()
        found = reference(problem, operands)
        assert_equal(problem, found, expected)
        indices = np.arange(0, expected.size, 7)
        some = samples(problem, operands, indices)
        np.testing.assert_allclose(some.expected, expected.reshape(-1)[indices], rtol=0, atol=1e-13)
        np.testing.assert_allclose(some.least_scale, found.scale.reshape(-1)[indices], rtol=1e-12)

    @pytest.mark.filterwarnings("error")
    def test_silu_of_large_sums_is_zero_or_the_sum(self) -> None:
        problem = Filter1d(3, 1, bias=True, activation="silu")
        operands = {
            "signal": np.array([-1e30, 1e30, np.nan], np.float32),
            "weights": np.ones(1, np.float32),
            "bias": np.array([-800], np.float32),
        }
        found, some = reference(problem, operands), samples(problem, operands, np.arange(2))
        large = float(np.float32(1e30))
        assert np.allclose(found.expected, [0, large, np.nan], 1e-12, 1e-200, equal_nan=True)
        assert np.allclose(found.scale, [1.1 * large, 1.1 * large, np.nan], 1e-12, 0, equal_nan=True)
        assert np.allclose(some.expected, [0, large], 1e-12, 1e-200)

    def test_the_slope_of_silu_is_at_most_what_errors_are_multiplied_by(self) -> None:
        x = np.linspace(-20, 20, 400_001)
        steepest = np.abs(np.diff(x * special.expit(x)) / np.diff(x)).max()
        assert steepest == pytest.approx(1.0998, abs=1e-4)
        assert steepest < Activation.SILU.slope

    def test_is_the_same_in_small_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        problem = Filter1d(300, 70, 3, channels=4, filters=2, down=2, layout="btc", bias=True)
        operands = random_operands(problem, 1)
        whole = reference(problem, operands)
        for name, size in {"_RESULTS": 50, "_TAPS": 16, "_TILE": 5, "_PRODUCT_SIZE": 300}.items():
            monkeypatch.setattr(oracle, name, size)
        parts = reference(problem, operands)
        np.testing.assert_allclose(parts.expected, whole.expected, rtol=0, atol=1e-13 * whole.scale.max())
        np.testing.assert_allclose(parts.scale, whole.scale, rtol=1e-13)

    @pytest.mark.parametrize("problem", SPREAD[::5], ids=lambda problem: problem.key())
    def test_samples_are_results_by_direct_sums(self, problem: Filter1d) -> None:
        operands = random_operands(problem, 1)
        whole = reference(problem, operands)
        indices = np.unique(np.linspace(0, whole.expected.size - 1, 50).astype(np.int64))
        found = samples(problem, operands, indices)
        scale = whole.scale.reshape(-1)[indices]
        assert (np.abs(found.expected - whole.expected.reshape(-1)[indices]) <= 1e-13 * scale).all()
        np.testing.assert_allclose(found.least_scale, scale, rtol=1e-12)

    def test_what_is_not_finite_reaches_its_own_windows_alone(self) -> None:
        problem = Filter1d(1000, 9, 2, mode="causal", channels=2)
        operands = dict(random_operands(problem, 1))
        clean = reference(problem, operands)
        operands["signal"][1, 0, 500] = np.nan
        operands["signal"][0, 1, 999] = -np.inf
        found = reference(problem, operands)
        reached = np.zeros(problem.output.shape, bool)
        reached[1, 0, 500:509] = reached[0, 1, 999] = True
        assert np.isnan(found.scale[reached]).all()
        assert np.array_equal(found.expected[~reached], clean.expected[~reached])
        assert np.array_equal(found.scale[~reached], clean.scale[~reached])

    def test_magnitudes_far_apart_keep_their_own_errors(self) -> None:
        problem = Filter1d(4000, 33, 2)
        operands = dict(random_operands(problem, 1))
        whole = reference(problem, operands)
        operands["signal"][:, 2000:] *= np.float32(2.0**40)
        found = reference(problem, operands)
        assert np.array_equal(found.expected[:, :1900], whole.expected[:, :1900])

    def test_terms_are_real_products(self) -> None:
        assert JUDGE.terms(Filter1d(100, 7)) == 7
        assert JUDGE.terms(Filter1d(5, 7, dtype="complex64")) == 10
        assert JUDGE.terms(Filter1d(100, 7, dtype="complex64", taps_dtype="complex64")) == 28


OF_EACH_TYPE = [
    Filter1d(500, 30, 2, channels=4, filters=4, layout=layout, bias=has_bias and types["dtype"] != "complex64", **types)
    for types in TYPES
    for layout, has_bias in zip(SignalLayout, (False, True), strict=True)
]


class TestInputs:
    @pytest.mark.parametrize("make", [JUDGE.inputs, stress_inputs], ids=["drawn", "stress"])
    @pytest.mark.parametrize("problem", OF_EACH_TYPE, ids=lambda problem: problem.key())
    @exhaustive.meeting()
    def test_are_dense_and_the_same_in_every_run(self, problem: Filter1d, make: Any) -> None:
        first, again, other = (make(problem, np.random.default_rng(seed)) for seed in (1, 1, 2))
        assert list(first) == [each.name for each in problem.inputs]
        for each in problem.inputs:
            values = first[each.name]
            assert (values.shape, values.dtype) == (each.shape, numpy_dtype(each.dtype))
            assert values.flags.c_contiguous
            assert values.view(np.uint8).any()
            assert np.array_equal(values.view(np.uint8), again[each.name].view(np.uint8))
            assert not np.array_equal(values.view(np.uint8), other[each.name].view(np.uint8))

    @pytest.mark.parametrize("make", [JUDGE.inputs, stress_inputs], ids=["drawn", "stress"])
    @pytest.mark.parametrize("dtype", ["float32", "float16", "int16", "uint8"])
    @pytest.mark.parametrize("taps", [1, 33, 3000])
    @pytest.mark.parametrize("bias", [False, True])
    def test_results_fit_into_float16(self, make: Any, dtype: str, taps: int, bias: bool) -> None:
        problem = Filter1d(5000, taps, 2, channels=5, dtype=dtype, result_dtype="float16", bias=bias)
        expected = reference(problem, make(problem, np.random.default_rng(1))).expected
        assert np.nanmax(np.abs(expected)) < 65504

    @pytest.mark.parametrize("dtype", ["float32", "float16", "int16"])
    def test_a_bias_is_as_large_as_the_sums(self, dtype: str) -> None:
        problem = Filter1d(4000, 30, channels=400, layout="btc", dtype=dtype, mode="valid", bias=True)
        operands = random_operands(problem, 1)
        sums = reference(dataclasses.replace(problem, bias=False), operands).expected
        assert operands["bias"].astype(np.float64).std() == pytest.approx(sums.std(), rel=0.2)

    @pytest.mark.parametrize("dtype", ["float32", "int16", "uint8"])
    def test_an_activation_bends_most_results(self, dtype: str) -> None:
        problem = Filter1d(4000, 300, dtype=dtype, mode="valid", activation="silu")
        sums = dataclasses.replace(problem, activation=None)
        expected = reference(sums, random_operands(problem, 1)).expected
        assert np.square(expected).mean() < 1000

    def test_integers_use_a_range_of_13_bits(self) -> None:
        values = JUDGE.inputs(Filter1d(100_000, 3, dtype="int16"), np.random.default_rng(1))["signal"]
        assert (values.min(), values.max()) == (-4096, 4095)

    def test_stress_has_magnitudes_far_apart_and_a_channel_that_is_spoilt(self) -> None:
        problem = Filter1d(3000, 9, 3, channels=2)
        signal = stress_inputs(problem, np.random.default_rng(1))["signal"].reshape(6, -1)
        is_spoilt = ~np.isfinite(signal).all(axis=1)
        assert is_spoilt.sum() == 1
        sizes = np.abs(signal[~is_spoilt])
        assert sizes[sizes > 0].min() < 2.0**-19
        assert np.sort(sizes.max(axis=1))[-1] > 2.0**38
        found = reference(problem, stress_inputs(problem, np.random.default_rng(1)))
        assert 0.9 < np.isfinite(found.scale).mean() < 1
        assert np.nanmax(found.scale) < 1e30

    def test_stress_of_one_channel_is_finite(self) -> None:
        for types in TYPES:
            signal = stress_inputs(Filter1d(3000, 9, **types), np.random.default_rng(1))["signal"]
            assert np.isfinite(signal.astype(np.complex128)).all()

    def test_slack_grows_with_the_root_of_the_terms_of_a_chain(self) -> None:
        assert stress_slack(terms(Filter1d(100, 5))) == 1
        assert stress_slack(terms(Filter1d(1000, 400))) == pytest.approx(6)
        assert stress_slack(terms(Filter1d(10**6, 10**5))) == pytest.approx(9.6)

    def test_a_smaller_problem_is_of_the_same_kind(self) -> None:
        problem = Filter1d(10**6, 5000, 64, mode="causal", channels=8, filters=8, dtype="bfloat16", pitch=2_000_064)
        small = JUDGE.smaller(problem)
        assert (small.signal, small.taps, small.batch, small.pitch) == (1056, 1024, 2, None)
        assert (small.mode, small.channels, small.filters, small.dtype) == ("causal", 8, 8, "bfloat16")
        known = Filter1d(5000, 2000, weights=range(2000), lags=(5, 9))
        assert (JUDGE.smaller(known).taps, JUDGE.smaller(known).mode) == (2000, Mode.FULL)
        assert JUDGE.smaller(Filter1d(3, 7, mode="same")).signal == 3
