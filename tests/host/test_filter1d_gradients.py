"""Every family of gradients of filter1d on the CPU, compared with float64 sums, and run under the sanitizers."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import exhaustive
import sanitized
import verified
from filter1d_gradient_problems import ALL, SPREAD
from joined import plans_of
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.filter1d import Filter1d, Filter1dPass, SignalLayout
from warpsmith.generator.filter1d.operation import FILTER1D
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config
from warpsmith.tuner.operations.registry import random_operands, references

FAMILIES = tuple(each for each in FILTER1D.families if each.name.startswith("filter1d_gradients_"))
DEVICE = DeviceRef(DeviceKind.HOST).device()
every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


def solved_by(family: Family[Filter1d], problems: Sequence[Filter1d]) -> list[Filter1d]:
    return [each for each in problems if family.why_not(each, DEVICE) is None]


def program_of(family: Family[Filter1d], problem: Filter1d, turn: int = 0) -> Program:
    """Program of the default config in every third turn, else of a random one."""
    default = family.default(problem, DEVICE)
    drawn = family.space(problem, DEVICE).drawn(random.Random(problem.key()))
    return family.program(problem, default if turn % 3 == 0 else drawn or default)


def covering_configs(family: Family[Filter1d], problem: Filter1d) -> list[Config]:
    """Random configs that together have each value of each parameter that some legal config has."""
    space, rng = family.space(problem, DEVICE), random.Random(problem.key())
    seen: set[tuple[str, Any]] = set()
    found = []
    for parameter in space.parameters:
        for value in parameter.values:
            config = None
            if (parameter.name, value) not in seen:
                config = space.narrowed({parameter.name: [value]}).drawn(rng)
            if config is not None:
                seen.update(config.items)
                found.append(config)
    return found


def test_the_simplest_family_solves_every_gradient_and_the_others_of_short_filters() -> None:
    plain, *others = sorted(FAMILIES, key=lambda family: family.name != "filter1d_gradients_plain")
    by_passes = [each for each in others if each.name in ("filter1d_gradients_warp", "filter1d_gradients_channels")]
    assert len(by_passes) == 2
    for problem in SPREAD:
        assert plain.why_not(problem, DEVICE) is None
        fast = [each for each in by_passes if each.why_not(problem, DEVICE) is None]
        assert len(fast) == (problem.taps <= 32), problem.key()


def test_no_family_of_filters_takes_a_gradient_and_the_other_way_round() -> None:
    for family in FILTER1D.families:
        problems = [each for each in ALL if each.pass_.is_gradient is not (family in FAMILIES)]
        assert problems
        assert not solved_by(family, problems), family.name


@every_family
class TestResults:
    """Every outcome covers guards around operands and workspaces, gaps between rows, stress data, and equal bits."""

    def test_defaults_are_right(self, family: Family[Filter1d], host: HostRuntime, quick: HostCompiler) -> None:
        problems = exhaustive.share(solved_by(family, SPREAD), FAMILIES.index(family), 2)
        assert problems
        verified.check(host, quick, [(each, program_of(family, each)) for each in problems])

    def test_random_configs_are_right(self, family: Family[Filter1d], host: HostRuntime, quick: HostCompiler) -> None:
        problems = exhaustive.share(solved_by(family, SPREAD), FAMILIES.index(family) + 1, 2)
        verified.check(host, quick, [(each, program_of(family, each, 1)) for each in problems])

    def test_every_value_of_every_parameter_is_right(
        self, family: Family[Filter1d], host: HostRuntime, quickest: HostCompiler
    ) -> None:
        problems = (
            Filter1d(1024, 4, 2, channels=4, filters=4, mode="causal", pass_="backward", bias=True, activation="silu"),
            Filter1d(500, 7, 2, channels=8, filters=8, layout="btc", dtype="bfloat16", mode="causal", pass_="wgrad"),
            Filter1d(150, 40, 2, channels=2, filters=2, dtype="bfloat16", mode="causal", pass_="wgrad"),
            Filter1d(150, 40, 2, channels=2, filters=2, dtype="bfloat16", mode="causal", pass_="wgrad", bias=True),
        )
        cases = [
            (each, family.program(each, config))
            for each in solved_by(family, problems)
            for config in covering_configs(family, each)
        ]
        assert cases
        verified.check(host, quickest, cases)

    def test_sums_of_many_partial_sums_are_right(
        self, family: Family[Filter1d], host: HostRuntime, quick: HostCompiler
    ) -> None:
        """One filter for all channels, and a signal of many blocks, so that many lanes and chains add up an element.
        More than 4096 partial sums take all 256 lanes.
        """
        problems = (
            Filter1d(20_000, 2, mode="causal", pass_="backward", bias=True),
            Filter1d(40, 2, 21, channels=200, layout="btc", mode="causal", pass_="wgrad", bias=True),
            Filter1d(40, 2, 21, channels=200, mode="same", pass_="wgrad", bias=True, activation="silu"),
        )
        verified.check(host, quick, [(each, program_of(family, each)) for each in solved_by(family, problems)])

    @pytest.mark.usefixtures("compile_without_optimisation")
    def test_kernels_are_clean_under_the_sanitizers(self, family: Family[Filter1d], tmp_path: Path) -> None:
        # The simplest family has a block for each tap of a row: the problems with most blocks took 19 of 25 s here.
        few = [each for each in SPREAD if each.taps * each.rows <= 1000]
        some = exhaustive.share(few, FAMILIES.index(family), 6)
        problems = solved_by(family, some) or solved_by(family, few)[:1]
        assert problems
        sanitized.check([(each, program_of(family, each, turn)) for turn, each in enumerate(problems)], tmp_path)


Values = NDArray[Any]


def gradients_of(
    family: Family[Filter1d], host: HostRuntime, compiler: HostCompiler, problem: Filter1d, given: Mapping[str, Values]
) -> dict[str, Values]:
    """Results by their names, by the default config."""
    (plan,) = plans_of(host, compiler, [(problem, program_of(family, problem))])
    made = plan(*(given[each.name] for each in problem.inputs))
    made = made if isinstance(made, tuple) else (made,)
    return {each.name: np.array(one) for each, one in zip(problem.outputs, made, strict=True)}


def shapes(family: Family[Filter1d]) -> list[Filter1d]:
    """Problems of tests that choose their own data."""
    return solved_by(
        family,
        (
            Filter1d(200, 4, 2, channels=3, filters=3, mode="causal", pass_="backward", bias=True, activation="silu"),
            Filter1d(200, 9, 2, channels=6, filters=2, mode="same", convolve=True, pass_="backward", bias=True),
            Filter1d(
                200, 4, 2, channels=6, filters=6, layout="btc", mode="causal", pass_="backward", activation="silu"
            ),
            Filter1d(150, 7, 2, channels=4, layout="btc", lags=(-3, 90), pass_="backward"),
        ),
    )


@every_family
class TestProperties:
    def test_the_inner_product_with_a_change_is_the_change_of_the_result(
        self, family: Family[Filter1d], host: HostRuntime, quickest: HostCompiler
    ) -> None:
        """Numerical derivatives along random directions: what a gradient means, without our reference of it."""
        for problem in shapes(family):
            given = {name: each.astype(np.float64) for name, each in random_operands(problem, 1).items()}
            everything = {"bias": np.zeros(problem.channels), **given}  # not needed without an activation
            found = gradients_of(family, host, quickest, problem, {n: v.astype(np.float32) for n, v in given.items()})
            for name in ("signal", "weights", "bias"):
                if f"{name}_gradient" not in found:
                    continue
                change = np.random.default_rng(2).standard_normal(everything[name].shape)
                step = 1e-5 * change
                up, down = (_result(problem, {**everything, name: everything[name] + s * step}) for s in (1, -1))
                expected = np.vdot((up - down) / 2e-5, given["gradient"])
                got = np.vdot(found[f"{name}_gradient"].astype(np.float64), change)
                assert got == pytest.approx(expected, rel=1e-4, abs=1e-3), (problem.key(), name)

    def test_bits_do_not_depend_on_the_number_of_workers(
        self, family: Family[Filter1d], host: HostRuntime, quickest: HostCompiler
    ) -> None:
        with contextlib.closing(HostRuntime(workers=1)) as other:
            for problem in shapes(family):
                given = random_operands(problem, 1)
                first = gradients_of(family, host, quickest, problem, given)
                again = gradients_of(family, other, quickest, problem, given)
                for name, values in first.items():
                    assert np.array_equal(values.view(np.uint8), again[name].view(np.uint8)), (problem.key(), name)

    def test_what_is_not_finite_stays_in_its_channel(
        self, family: Family[Filter1d], host: HostRuntime, quickest: HostCompiler
    ) -> None:
        for problem in shapes(family):
            clean = random_operands(problem, 1)
            spoilt = {name: np.array(each) for name, each in clean.items()}
            is_btc = problem.layout is SignalLayout.BTC
            for name in ("signal", "gradient"):
                spoilt[name][(1, 40, 0) if is_btc else (1, 0, 40)] = np.nan
            before, after = (gradients_of(family, host, quickest, problem, each) for each in (clean, spoilt))
            samples = [
                each["signal_gradient"].swapaxes(1, 2) if is_btc else each["signal_gradient"]
                for each in (before, after)
            ]
            reached = np.isnan(samples[1])
            assert 0 < reached.sum() <= 2 * problem.taps
            assert not reached[0].any()
            assert not reached[1, 1:].any()
            assert np.array_equal(samples[0][~reached], samples[1][~reached])
            weights = [each["weights_gradient"].reshape(problem.filters, -1) for each in (before, after)]
            assert np.isnan(weights[1][0]).all()
            assert np.array_equal(weights[0][1:], weights[1][1:])

    def test_long_sums_are_sums_of_parts(
        self, family: Family[Filter1d], host: HostRuntime, quickest: HostCompiler
    ) -> None:
        """Equal terms round the same way again and again: one chain of so many would be off by 1e-4."""
        one = Filter1d(100_000, 1, pass_=Filter1dPass.WGRAD, bias=True)
        two = Filter1d(50_000, 1, channels=2, layout=SignalLayout.BTC, pass_=Filter1dPass.WGRAD, bias=True)
        for problem in solved_by(family, (one, two)):
            given = {name: np.full_like(each, 0.3) for name, each in random_operands(problem, 1).items()}
            found = gradients_of(family, host, quickest, problem, given)
            exact = problem.rows * problem.signal * float(np.float32(0.3)) ** 2
            assert np.abs(found["weights_gradient"] / exact - 1).max() < 3e-6, problem.key()


def _result(problem: Filter1d, given: Mapping[str, Values]) -> Values:
    """Result of the filter in float64, by NumPy."""
    is_btc = problem.layout is SignalLayout.BTC
    shape = (problem.batch, *((problem.signal, problem.channels) if is_btc else (problem.channels, problem.signal)))
    signal = given["signal"].reshape(shape)
    signal = signal.swapaxes(1, 2) if is_btc else signal
    taps = given["weights"].reshape(problem.filters, problem.taps).repeat(problem.channels // problem.filters, axis=0)
    taps = taps[:, ::-1] if problem.convolve else taps
    first, outputs = problem.first_lag, problem.result_length
    after = max(0, first + outputs + problem.taps - 1 - problem.signal)
    padded = np.pad(signal, ((0, 0), (0, 0), (max(0, -first), after)))[..., max(0, first) :]
    sums = sum(taps[:, k, None] * padded[..., k : k + outputs] for k in range(problem.taps))
    sums = sums + given["bias"][:, None] if problem.bias else sums
    result = sums / (1 + np.exp(-sums)) if problem.activation is not None else sums
    return np.asarray(result.swapaxes(1, 2) if is_btc else result).reshape(given["gradient"].shape)


def test_references_have_the_shapes_of_the_results() -> None:
    for problem in SPREAD[::7]:
        found = references(problem, random_operands(problem, 0))
        assert {name: each.expected.shape for name, each in found.items()} == {
            each.name: each.shape for each in problem.outputs
        }
