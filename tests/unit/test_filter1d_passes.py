"""Gradients of filters of signals as problems: operands, keys, filters that compute a gradient, and refusals."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from filter1d_gradient_problems import ALL, SPREAD
from warpsmith.errors import BadArgument
from warpsmith.generator.filter1d import Filter1d, Filter1dPass, SignalLayout
from warpsmith.generator.first_use.registry import references_of
from warpsmith.generator.problem import DType, Problem, Role
from warpsmith.tuner.operations.filter1d import oracle
from warpsmith.tuner.operations.filter1d.gradients import gradient_references
from warpsmith.tuner.operations.registry import random_operands, reference

BOTH: dict[str, Any] = {"bias": True, "activation": "silu"}


def gradient(pass_: str, **fields: Any) -> Filter1d:
    """A causal filter's gradient."""
    return Filter1d(40, 4, 2, **{"mode": "causal", "channels": 6, "filters": 3, "pass_": pass_, **fields})


def names(problem: Filter1d, role: Role) -> list[str]:
    return [each.name for each in problem.operands if each.role is role]


class TestOperands:
    @pytest.mark.parametrize(
        ("pass_", "fields", "inputs", "outputs"),
        [
            ("wgrad", {}, "signal gradient", "weights_gradient"),
            ("wgrad", {"bias": True}, "signal gradient", "weights_gradient bias_gradient"),
            ("wgrad", BOTH, "signal weights bias gradient", "weights_gradient bias_gradient"),
            ("wgrad", {"activation": "silu"}, "signal weights gradient", "weights_gradient"),
            ("backward", {}, "signal weights gradient", "signal_gradient weights_gradient"),
            ("backward", {"bias": True}, "signal weights gradient", "signal_gradient weights_gradient bias_gradient"),
            ("backward", BOTH, "signal weights bias gradient", "signal_gradient weights_gradient bias_gradient"),
            ("dgrad", BOTH, "signal weights bias gradient", "signal_gradient"),
            ("dgrad", {"mode": None, "lags": (0, 9), "bias": True}, "gradient weights", "signal_gradient"),
        ],
    )
    def test_only_those_that_a_gradient_depends_on(
        self, pass_: str, fields: dict[str, Any], inputs: str, outputs: str
    ) -> None:
        problem = gradient(pass_, **fields)
        assert names(problem, Role.INPUT) == inputs.split()
        assert names(problem, Role.OUTPUT) == outputs.split()
        assert problem.from_host <= set(inputs.split())

    @pytest.mark.parametrize("layout", list(SignalLayout))
    def test_each_is_like_what_it_is_the_gradient_of(self, layout: SignalLayout) -> None:
        fields = {"dtype": "bfloat16", "taps_dtype": "bfloat16", "result_dtype": "float32", "layout": layout, **BOTH}
        problem = gradient("backward", pitch=96, result_pitch=240, **fields)
        forward = dataclasses.replace(problem, pass_=Filter1dPass.FPROP)
        found = {each.name: each for each in problem.operands}
        like = {each.name: each for each in forward.operands}
        pairs = [("gradient", "result"), *((f"{name}_gradient", name) for name in ("signal", "weights", "bias"))]
        for name, other in pairs:
            one, two = found[name], like[other]
            assert (one.shape, one.dtype, one.strides) == (two.shape, two.dtype, two.strides)

    def test_flops_count_each_sum(self) -> None:
        once = gradient("fprop").flops
        assert [gradient("wgrad").flops, gradient("backward").flops] == [once, 2 * once]
        assert [gradient(each, **BOTH).flops for each in ("dgrad", "wgrad", "backward")] == [
            2 * once,
            2 * once,
            3 * once,
        ]


class TestKeys:
    def test_the_pass_is_part_of_the_key_of_gradients_alone(self) -> None:
        assert "pass=wgrad" in gradient("wgrad").key()
        assert "pass" not in gradient("fprop").key()

    def test_specs_give_equal_problems(self) -> None:
        for problem in ALL:
            assert Problem.from_spec("filter1d", problem.spec()) == problem

    def test_different_problems_have_different_keys(self) -> None:
        assert len({each.key() for each in ALL}) == len(set(ALL))

    def test_passes_say_nothing_of_each_other(self) -> None:
        one, other = gradient("wgrad", **BOTH), gradient("backward", **BOTH)
        assert one.distance(other) is None
        assert not one.is_resized(other)
        assert one.distance(gradient("wgrad", channels=12, **BOTH)) is not None
        assert one.features()["types"] != other.features()["types"]


class TestFilterOfGradient:
    def test_equal_problems_are_one(self) -> None:
        """The gradient of a causal filter's signal looks ahead: SciPy's other order of taps, from lag 0 on."""
        assert gradient("dgrad") == Filter1d(40, 4, 2, channels=6, filters=3, lags=(0, 39), convolve=True)
        assert gradient("dgrad", convolve=True) == Filter1d(40, 4, 2, channels=6, filters=3, lags=(0, 39))
        valid = gradient("dgrad", mode="valid")
        assert valid == Filter1d(37, 4, 2, channels=6, filters=3, mode="full", convolve=True)
        assert gradient("dgrad", bias=True) == gradient("dgrad")

    def test_types_and_pitches_change_places(self) -> None:
        problem = gradient("dgrad", dtype="float16", result_dtype="bfloat16", pitch=96, result_pitch=128)
        assert (problem.dtype, problem.output_dtype) == (DType.BFLOAT16, DType.FLOAT16)
        assert (problem.pitch, problem.result_pitch) == (128, 96)

    @pytest.mark.parametrize(
        "fields",
        [
            {"mode": None, "lags": (1, 30)},  # samples that no window reaches
            {"mode": None, "lags": (-3, 20)},
            {"dtype": "float16", "taps_dtype": "float16", "result_dtype": "float32"},  # float16 taps of float32
            BOTH,
        ],
    )
    def test_others_are_problems_of_their_own(self, fields: dict[str, Any]) -> None:
        assert gradient("dgrad", **fields).pass_ is Filter1dPass.DGRAD

    def test_the_filter_computes_the_gradient(self) -> None:
        """The references of filters and of gradients share only the order of the taps."""
        for mode in ("full", "same", "valid", "causal"):
            for layout in SignalLayout:
                for convolve in (False, True):
                    fields = {"mode": mode, "layout": layout, "convolve": convolve, "accuracy": "elementwise"}
                    problem = gradient("dgrad", **fields)
                    assert problem.pass_ is Filter1dPass.FPROP
                    given = random_operands(problem, 1)
                    backward = gradient("backward", **fields)
                    signal = np.ones(backward.operands[0].shape, np.float32)
                    operands = {"signal": signal, "weights": given["weights"], "gradient": given["signal"]}
                    found = gradient_references(backward, operands)["signal_gradient"]
                    expected = reference(problem, given)
                    assert np.allclose(found.expected, expected.expected, rtol=1e-12, atol=1e-12)
                    assert np.allclose(found.scale, expected.scale, rtol=1e-12)

    @pytest.mark.parametrize("pass_", ["wgrad", "backward"])
    def test_long_sums_are_transforms(self, pass_: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """They have the values and the scales of direct sums, and NaN where a window has a NaN."""
        problem = Filter1d(900, 520, 3, lags=(-300, 250), channels=4, filters=2, convolve=True, pass_=pass_)  # type: ignore[arg-type]
        operands = dict(random_operands(problem, 2))
        signal, gradient = (operands[name].copy() for name in ("signal", "gradient"))
        for _ in range(2):
            direct = gradient_references(problem, {**operands, "signal": signal, "gradient": gradient})
            with monkeypatch.context() as patched:
                patched.setattr(oracle, "_LARGE", 0)
                found = gradient_references(problem, {**operands, "signal": signal, "gradient": gradient})
            for name, (one, other) in {each: (found[each], direct[each]) for each in direct}.items():
                assert np.allclose(one.expected, other.expected, rtol=0, atol=1e-11, equal_nan=True), name
                assert np.allclose(one.scale, other.scale, rtol=1e-12, equal_nan=True), name
            signal[1, 0, 760] = np.nan  # the last taps meet it
            gradient[0, 3, 9] = np.nan  # all taps of the second filter meet it
        weights = direct["weights_gradient"].expected
        assert np.isnan(weights[1]).all()
        assert 0 < np.isnan(weights[0]).sum() < 520

    def test_the_floor_of_weights_is_no_less_than_their_terms(self) -> None:
        fields: dict[str, Any] = {"taps": 40, "batch": 2, "channels": 4, "filters": 2, "mode": "same", "pass_": "wgrad"}
        problem, strict = (Filter1d(90, **fields, accuracy=each) for each in ("signalwise", "elementwise"))
        operands = random_operands(problem, 4)
        found, terms = (gradient_references(each, operands)["weights_gradient"] for each in (problem, strict))
        assert np.allclose(found.expected, terms.expected, rtol=1e-12, atol=1e-12)
        norms = [np.linalg.norm(operands[name].astype(float), axis=2) for name in ("signal", "gradient")]
        floors = (norms[0] * norms[1]).sum(axis=0).reshape(2, 2).sum(axis=1)
        assert np.allclose(found.scale, floors[:, None], rtol=1e-12)
        assert (found.scale > terms.scale).all()

    def test_both_kinds_are_among_the_problems(self) -> None:
        assert len(SPREAD) < len(ALL)
        assert {each.pass_ for each in SPREAD} == {*Filter1dPass} - {Filter1dPass.FPROP}


class TestRefusals:
    @pytest.mark.parametrize("pass_", ["dgrad", "wgrad", "backward"])
    @pytest.mark.parametrize(
        ("fields", "why"),
        [
            ({"dtype": "complex64"}, "are for signals of float32, float16, bfloat16; this one is complex64"),
            ({"dtype": "int16"}, "are for signals of float32, float16, bfloat16; this one is int16"),
            ({"down": 2}, r"are for filters that keep every output \(down=1\); this one keeps every 2-th"),
            ({"weights": range(12)}, "take the weights at each call; leave out the known ones"),
        ],
    )
    def test_what_has_no_gradient_here(self, pass_: str, fields: dict[str, Any], why: str) -> None:
        with pytest.raises(BadArgument, match=rf"^gradients \(pass {pass_}\) {why}$"):
            gradient(pass_, **fields)

    def test_an_unknown_pass(self) -> None:
        with pytest.raises(BadArgument, match="unknown pass 'forward'; choose one of fprop, dgrad, wgrad, backward"):
            gradient("forward")


class TestFirstUse:
    def test_each_result_has_a_reference_of_its_own(self) -> None:
        for problem in SPREAD:
            assert [each.output for each in references_of(problem, 128)] == [each.name for each in problem.outputs]

    def test_sums_that_take_long_are_left_out(self) -> None:
        """The weights' gradient of a filter that all channels share adds up all outputs."""
        shared = Filter1d(8192, 4, 8, channels=2048, mode="causal", pass_="backward", **BOTH)  # type: ignore[arg-type]
        assert [each.output for each in references_of(shared, 128)] == ["signal_gradient", "bias_gradient"]
