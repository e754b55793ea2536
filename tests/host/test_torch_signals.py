"""Filters of signals as operators of PyTorch on CPU tensors: results, gradients and refusals."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from scipy import signal as signal_processing
from torch.nn import functional

import exhaustive
import warpsmith.torch as wt
from torch_signals import assert_close, causal, seeded, signals
from warpsmith.errors import BadArgument
from warpsmith.generator.filter1d import Filter1d
from warpsmith.torch import signal_layer

pytestmark = pytest.mark.usefixtures("compile_quickest")


class TestCausal:
    @pytest.mark.parametrize("layout", ["bct", "btc"])
    @pytest.mark.parametrize("activation", [None, "silu"])
    def test_results_and_gradients_are_those_of_its_definition(self, layout: str, activation: str | None) -> None:
        x = signals(layout, 2, 6, 70).requires_grad_()
        w, b = seeded(6, 4).requires_grad_(), seeded(6).requires_grad_()
        y, expected = wt.causal_conv1d_fn(x, w, b, activation=activation), causal(x, w, b, activation)
        assert y.stride() == x.stride()
        assert_close(y, expected)
        dy = signals(layout, 2, 6, 70)
        exact = torch.autograd.grad(expected, (x, w, b), dy)
        for found, gradient in zip(torch.autograd.grad(y, (x, w, b), dy), exact, strict=True):
            assert_close(found, gradient)

    def test_results_may_be_changed_in_place(self) -> None:
        """A result that were a view of another tensor could not."""
        x, w = signals("btc", 2, 3, 20).requires_grad_(), seeded(3, 4).requires_grad_()
        y = wt.causal_conv1d_fn(x, w).add_(1.0)
        y.square().sum().backward()
        other, taps = x.detach().requires_grad_(), w.detach().requires_grad_()
        (causal(other, taps, None, None) + 1.0).square().sum().backward()
        assert_close(x.grad, other.grad)
        assert_close(w.grad, taps.grad)

    @pytest.mark.parametrize("has_bias", [False, True])
    def test_gradients_of_long_filters_come_apart(self, has_bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        """A plan filters the gradient, while PyTorch computes that of weights which no fast family does here, and sums
        that of a bias.
        """
        parts = []
        usual = signal_layer.composed_gradients

        def recorded(*args: Any) -> Any:
            parts.append(tuple(args[-1]))
            return usual(*args)

        monkeypatch.setattr(signal_layer, "composed_gradients", recorded)
        given = [signals("bct", 2, 3, 90), seeded(3, 40), *([seeded(3)] if has_bias else [])]
        given = [each.requires_grad_() for each in given]
        dy, bias = signals("bct", 2, 3, 90), given[2] if has_bias else None
        found = torch.autograd.grad(wt.causal_conv1d_fn(*given), given, dy)
        expected = torch.autograd.grad(causal(given[0], given[1], bias, None), given, dy)
        for gradient, other in zip(found, expected, strict=True):
            assert_close(gradient, other)
        assert parts == [(False, True, False), (False, False, True)][: 1 + has_bias]

    @exhaustive.one_in(2)
    @pytest.mark.parametrize("needed", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (0, 1, 1)])
    @pytest.mark.parametrize("activation", [None, "silu"])
    def test_only_gradients_that_are_needed_are_computed(
        self, needed: tuple[int, int, int], activation: str | None
    ) -> None:
        given = [each.requires_grad_(bool(is_needed)) for each, is_needed in zip(self.operands(), needed, strict=True)]
        wanted = [each for each in given if each.requires_grad]
        found = torch.autograd.grad(wt.causal_conv1d_fn(*given, activation=activation).sum(), wanted)
        exact = torch.autograd.grad(causal(*given, activation).sum(), wanted)
        for one, other in zip(found, exact, strict=True):
            assert_close(one, other)

    def operands(self) -> tuple[Any, Any, Any]:
        return seeded(2, 3, 40), seeded(3, 4), seeded(3)

    @pytest.mark.parametrize("activation", [None, "silu"])
    def test_gradients_have_gradients(self, activation: str | None) -> None:
        def second(function: Any) -> Any:
            given = [each.requires_grad_() for each in self.operands()]
            first = torch.autograd.grad(function(*given).square().sum(), given, create_graph=True)
            return torch.autograd.grad(sum(each.square().sum() for each in first), given)

        found = second(lambda *given: wt.causal_conv1d_fn(*given, activation=activation))
        exact = second(lambda *given: causal(*given, activation))
        for one, other in zip(found, exact, strict=True):
            assert_close(one, other)

    def test_channels_of_a_larger_tensor_are_read_in_place(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Half of a projection, as Mamba splits it, has rows with gaps behind them."""
        x, w = seeded(2, 70, 12)[..., :6].mT, seeded(6, 4)
        copied: list[Any] = []
        dense = signal_layer.dense
        monkeypatch.setattr(signal_layer, "dense", lambda *given: copied.append(given) or dense(*given))
        assert_close(wt.causal_conv1d_fn(x, w), causal(x, w, None, None))
        assert copied == []

    def test_operators_are_traced(self) -> None:
        given = [each.requires_grad_() for each in self.operands()]

        def function(x: Any, w: Any, b: Any) -> Any:
            return wt.causal_conv1d_fn(x, w, b, activation="silu") * 2

        compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
        y, expected = compiled(*given), causal(*given, "silu") * 2
        assert_close(y, expected)
        exact = torch.autograd.grad(expected.sum(), given)
        for one, other in zip(torch.autograd.grad(y.sum(), given), exact, strict=True):
            assert_close(one, other)

    def test_operators_keep_their_promises(self) -> None:
        words = (-3, 40, 1, False, "silu", "ieee", "default", None)
        x, w, b = (each.requires_grad_() for each in self.operands())
        torch.library.opcheck(torch.ops.warpsmith.filter1d.default, (x, w, b, *words))
        dy = seeded(2, 3, 40).requires_grad_()
        needed = [True, True, True]
        torch.library.opcheck(torch.ops.warpsmith.filter1d_gradients.default, (dy, x, w, b, needed, *words))
        x, w, b = (each.detach() for each in (x, w, b))
        update = torch.ops.warpsmith.filter1d_update.default
        torch.library.opcheck(update, (x, seeded(2, 3, 5), w, b, None, None, "silu", "default", None))

    def test_function_transforms_take_pytorch(self) -> None:
        x, w, b = self.operands()
        found = torch.func.grad(lambda x: wt.causal_conv1d_fn(x, w, b, activation="silu").sum())(x)
        exact = torch.func.grad(lambda x: causal(x, w, b, "silu").sum())(x)
        assert_close(found, exact)

    def test_pytorch_computes_what_is_not_stored_on_request(self) -> None:
        x, w, b = self.operands()
        with pytest.warns(wt.LeftToTorch, match="nothing is stored for it"):
            assert_close(wt.causal_conv1d_fn(x, w, b, fallback="torch"), causal(x, w, b, None))

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"weight": seeded(4, 4)}, "x has 3 channels; got 4 filters"),
            ({"bias": seeded(4)}, "x has 3 channels; got 3 filters, bias 4"),
            ({"weight": seeded(3)}, r"takes signals \(batch, channels, samples\), weights"),
            ({"x": seeded(2, 3, 40, dtype=torch.float64)}, "x: takes float32, .*, got float64"),
            ({"weight": seeded(3, 4).half()}, "weight: takes float32, or x's float32; got float16"),
            ({"activation": "relu"}, "unknown activation 'relu'"),
            ({"fallback": "x"}, "unknown fallback 'x'"),
            ({"initial_states": seeded(2, 3, 4)}, r"initial_states: takes \(2, 3, 3\), got \(2, 3, 4\)"),
            ({"seq_idx": torch.zeros(2, 41)}, r"seq_idx: takes \(batch, length\), \(2, 40\)"),
            ({"cu_seqlens": torch.tensor([0, 40])}, r"cu_seqlens: takes \(sequences \+ 1,\) for a batch of 1"),
            ({"seq_idx": torch.arange(80).view(2, 40) % 3, "return_final_states": True}, "must not come again"),
        ],
    )
    def test_bad_operands_are_refused_in_one_line(self, change: dict[str, Any], message: str) -> None:
        x, w, b = self.operands()
        with pytest.raises(BadArgument, match=message):
            wt.causal_conv1d_fn(**{"x": x, "weight": w, "bias": b, **change})


class TestLongFilters:
    """No fast family has so many taps: PyTorch's transforms are faster than sums term by term."""

    @pytest.mark.parametrize("down", [1, 3])
    def test_gradients_are_those_of_sums(self, down: int) -> None:
        given = [each.requires_grad_() for each in (seeded(2, 3, 700), seeded(3, 1, 300))]
        y = wt.conv1d(*given, padding=299, stride=down, groups=3)
        expected = functional.conv1d(*given, padding=299, stride=down, groups=3)
        assert_close(y, expected)
        exact = torch.autograd.grad(expected.square().sum(), given)
        for one, other in zip(torch.autograd.grad(y.square().sum(), given), exact, strict=True):
            assert_close(one, other, 1e-4)

    def test_sums_term_by_term_are_left_to_transforms(self, monkeypatch: pytest.MonkeyPatch) -> None:
        x, w = seeded(1, 60_000), seeded(50_000)
        called: list[Any] = []
        composed = signal_layer.composed
        monkeypatch.setattr(signal_layer, "composed", lambda *given: called.append(given) or composed(*given))
        expected = signal_processing.fftconvolve(x[0].double().numpy(), w.double().numpy())
        assert_close(wt.convolve(x, w)[0].double(), torch.from_numpy(expected))
        assert len(called) == 1


class TestConv1d:
    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"padding": 2},
            {"padding": "same"},
            {"stride": 2, "padding": (1,)},
            {"stride": 3},
            {"dilation": 2, "padding": 3},
            {"padding": 9},
        ],
        ids=str,
    )
    @pytest.mark.parametrize("groups", [1, 2, 6])
    def test_is_pytorch_s(self, options: dict[str, Any], groups: int) -> None:
        given = [each.requires_grad_() for each in (seeded(2, 6, 40), seeded(6, 6 // groups, 5), seeded(6))]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", wt.LeftToTorch)
            y = wt.conv1d(*given, groups=groups, **options)
        expected = functional.conv1d(*given, groups=groups, **options)
        assert_close(y, expected)
        exact = torch.autograd.grad(expected.square().sum(), given)
        for one, other in zip(torch.autograd.grad(y.square().sum(), given), exact, strict=True):
            assert_close(one, other, 1e-4)

    def test_one_signal_needs_no_batch(self) -> None:
        x, w = seeded(6, 40), seeded(6, 1, 5)
        assert_close(wt.conv1d(x, w, groups=6), functional.conv1d(x, w, groups=6))

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_halves_are_summed_in_float32(self, dtype: Any) -> None:
        x, w = seeded(2, 6, 40).to(dtype), seeded(6, 1, 5).to(dtype)
        exact = functional.conv1d(x.double(), w.double(), groups=6)
        assert_close(wt.conv1d(x, w, groups=6).double(), exact, 2.0**-8 if dtype is torch.bfloat16 else 2.0**-11)

    def test_precision_is_that_of_filters_of_halves(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The filter and the gradient of its signal have it; the gradient of the weights is as accurate as float32."""
        asked: list[Filter1d] = []
        usual = signal_layer.CachedAnswer

        def recorded(problem: Filter1d, source: Any) -> Any:
            asked.append(problem)
            return usual(problem, source)

        monkeypatch.setattr(signal_layer, "CachedAnswer", recorded)
        x, w = seeded(2, 6, 300).bfloat16().requires_grad_(), seeded(6, 1, 211).bfloat16().requires_grad_()
        y = wt.conv1d(x, w, padding=210, groups=6, precision="f16")
        exact = functional.conv1d(x.double(), w.double(), padding=210, groups=6)
        assert_close(y.double(), exact, 2.0**-7)
        dx, _ = torch.autograd.grad(y, (x, w), torch.ones_like(y))
        assert_close(dx.double(), torch.autograd.grad(exact, x, torch.ones_like(exact))[0].double(), 2.0**-7)
        found = {(str(each.pass_), str(each.precision)) for each in asked}
        assert found == {("fprop", "f16"), ("wgrad", "ieee")}
        asked.clear()
        wt.conv1d(x.float(), w.float(), padding=210, groups=6, precision="f16")
        assert {str(each.precision) for each in asked} == {"ieee"}
        with pytest.raises(BadArgument, match="unknown precision 'f17'"):
            wt.conv1d(x, w, groups=6, precision="f17")


class TestSciPy:
    @pytest.mark.parametrize("mode", ["full", "same", "valid"])
    def test_convolution_and_correlation_have_scipy_s_modes(self, mode: str) -> None:
        x, w = seeded(3, 100), seeded(7)
        for ours, theirs in (
            (wt.convolve, signal_processing.convolve),
            (wt.fftconvolve, signal_processing.fftconvolve),
            (wt.oaconvolve, signal_processing.oaconvolve),
            (wt.correlate, signal_processing.correlate),
        ):
            expected = np.stack([theirs(row, w.numpy(), mode) for row in x.numpy()])
            assert_close(ours(x, w, mode), torch.from_numpy(expected.astype(np.float32)))

    def test_complex_templates_are_conjugated(self) -> None:
        x, w = seeded(50, dtype=torch.complex64), seeded(5, dtype=torch.complex64)
        expected = torch.from_numpy(signal_processing.correlate(x.numpy(), w.numpy()))
        assert_close(wt.correlate(x, w), expected)

    def test_lags_are_scipy_s(self) -> None:
        x, w = seeded(50), seeded(5)
        lags = signal_processing.correlation_lags(50, 5).tolist()
        whole = signal_processing.correlate(x.numpy(), w.numpy())
        expected = whole[lags.index(-2) : lags.index(10) + 1]
        assert_close(wt.correlate(x, w, lags=(-2, 10)), torch.from_numpy(expected))

    def test_each_channel_may_have_a_filter(self) -> None:
        x, w = seeded(2, 3, 50).requires_grad_(), seeded(3, 5).requires_grad_()
        y = wt.convolve(x, w)
        expected = functional.conv1d(x, w.flip(-1)[:, None], groups=3, padding=4)
        assert_close(y, expected)
        exact = torch.autograd.grad(expected.square().sum(), (x, w))
        for one, other in zip(torch.autograd.grad(y.square().sum(), (x, w)), exact, strict=True):
            assert_close(one, other)

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ((seeded(50), seeded(2, 2, 3)), "signals .* take one filter"),
            ((seeded(3), seeded(5), "valid"), r"the filter \(5 taps\) is longer than the signal"),
            ((seeded(30), seeded(5), "most"), "unknown mode 'most'"),
        ],
    )
    def test_bad_operands_are_refused_in_one_line(self, given: tuple[Any, ...], message: str) -> None:
        with pytest.raises(BadArgument, match=message):
            wt.convolve(*given)
