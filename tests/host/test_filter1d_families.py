"""Every filter1d family on the CPU, compared with float64 sums, and run under the sanitizers."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import exhaustive
import sanitized
import verified
from filter1d_cases import DEVICE, FILTERS, cases_of, covering_configs, program_of, solved_by
from filter1d_problems import GROUPED, SPREAD
from joined import plans_of
from warpsmith.devices.elements import numpy_dtype
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.generator.family import Family
from warpsmith.generator.filter1d import Filter1d, Mode, SignalLayout
from warpsmith.generator.problem import DType
from warpsmith.tuner.evaluate.verify import verify
from warpsmith.tuner.operations.registry import random_operands, reference

every_family = pytest.mark.parametrize("family", FILTERS, ids=lambda family: family.name)

PROBLEMS = (*SPREAD, *GROUPED)
LONG = (
    Filter1d(9000, 700, mode="same"),
    Filter1d(3000, 2500, 2, channels=2, filters=2, convolve=True),
    Filter1d(2000, 520, dtype="complex64", taps_dtype="complex64", mode="causal"),
    Filter1d(700, 5000, lags=(-2000, 300), down=7),
)
"""Problems whose sums have several parts."""


class TestResults:
    """Every outcome covers guards around operands and workspaces, gaps between rows, stress data, and equal bits."""

    def test_problems_have_every_kind_of_slice(self) -> None:
        assert {each.mode for each in SPREAD} == {*Mode, None}
        assert any(each.taps > each.signal and each.mode is mode for each in SPREAD for mode in (Mode.FULL, Mode.SAME))
        assert any(each.first_lag > 0 for each in SPREAD)

    @every_family
    def test_defaults_are_right(self, family: Family[Filter1d], host: HostRuntime, quickest: HostCompiler) -> None:
        problems = exhaustive.share(solved_by(family, PROBLEMS), FILTERS.index(family), 2)
        assert problems
        verified.check(host, quickest, [(each, program_of(family, each)) for each in problems])

    @every_family
    def test_random_configs_are_right(
        self, family: Family[Filter1d], host: HostRuntime, quickest: HostCompiler
    ) -> None:
        problems = exhaustive.share(solved_by(family, PROBLEMS), FILTERS.index(family) + 1, 2)
        verified.check(host, quickest, [(each, program_of(family, each, 1)) for each in problems])

    @every_family
    def test_every_value_of_every_parameter_is_right(
        self, family: Family[Filter1d], host: HostRuntime, quickest: HostCompiler
    ) -> None:
        problems = (
            Filter1d(1000, 33, 2, channels=4, filters=4, mode="same"),
            Filter1d(1000, 33, mode="causal", dtype="int16"),
            Filter1d(500, 17, 2, layout="btc", channels=8, dtype="bfloat16", mode="causal"),
            Filter1d(700, 9, dtype="complex64", down=2, weights=range(9)),
            Filter1d(300, 40, layout="btc", channels=32, filters=2, dtype="bfloat16", taps_dtype="bfloat16"),
        )
        configs = [(each, config) for each in solved_by(family, problems) for config in covering_configs(family, each)]
        some = exhaustive.chosen(configs, lambda case: exhaustive.features_of(case[0], family.name, case[1]))
        verified.check(host, quickest, [(each, family.program(each, config)) for each, config in some])

    @every_family
    def test_long_sums_are_right(self, family: Family[Filter1d], host: HostRuntime, quick: HostCompiler) -> None:
        verified.check(host, quick, cases_of(family, LONG))

    @every_family
    @pytest.mark.usefixtures("compile_without_optimisation")
    def test_kernels_are_clean_under_the_sanitizers(self, family: Family[Filter1d], tmp_path: Path) -> None:
        some = exhaustive.share(SPREAD, FILTERS.index(family), 10)
        cases = cases_of(family, some) or cases_of(family, GROUPED[::3]) or cases_of(family, SPREAD)[:1]
        assert cases
        sanitized.check(cases, tmp_path)


Values = NDArray[Any]


def results_of(
    family: Family[Filter1d], host: HostRuntime, compiler: HostCompiler, problem: Filter1d, *given: Mapping[str, Values]
) -> list[Values]:
    """Results for each set of inputs, by the default config."""
    (plan,) = plans_of(host, compiler, [(problem, program_of(family, problem))])
    return [np.array(plan(each["signal"], each["weights"])) for each in given]


def skip_if_bits_vary(family: Family[Filter1d]) -> None:
    if not family.may_win:
        pytest.skip("atomic additions come in any order, so that the bits vary from run to run")


def shapes(family: Family[Filter1d]) -> list[Filter1d]:
    """Problems of tests that choose their own data."""
    return solved_by(
        family,
        (
            Filter1d(200, 9, 2, channels=3, mode="same"),
            Filter1d(200, 9, 2, channels=3, filters=3, layout="btc", mode="causal"),
            Filter1d(150, 40, 2, channels=3, filters=3, convolve=True, down=3),
            Filter1d(200, 4, 2, channels=3, dtype="complex64", mode="causal"),
            Filter1d(200, 9, 2, channels=3, dtype="float16", lags=(-3, 150)),
            Filter1d(200, 7, 2, channels=4, dtype="bfloat16", layout="btc", mode="valid"),
            Filter1d(200, 40, 2, channels=16, dtype="bfloat16", layout="btc", mode="same"),
        ),
    )


@every_family
class TestProperties:
    @pytest.mark.parametrize(
        "problem",
        [
            Filter1d(37, 5, 37),
            Filter1d(37, 6, 37, mode="same", convolve=True, layout="bct"),
            Filter1d(37, 8, 37, mode="causal", channels=2, layout="btc"),
            Filter1d(20, 33, 20, mode="same", dtype="complex64", taps_dtype="complex64"),
            Filter1d(37, 5, 37, lags=(-3, 30), down=4, dtype="int16"),
        ],
        ids=lambda problem: problem.key(),
    )
    def test_an_impulse_at_each_index_gives_the_taps(
        self, family: Family[Filter1d], problem: Filter1d, host: HostRuntime, quickest: HostCompiler
    ) -> None:
        if family.why_not(problem, DEVICE) is not None:
            pytest.skip("the family does not solve it")
        one = np.eye(problem.signal, dtype=numpy_dtype(problem.dtype))  # signal n of the batch has its impulse at n
        is_btc = problem.layout is SignalLayout.BTC
        signal = np.repeat(one[..., None] if is_btc else one, problem.channels, axis=-1).reshape(
            problem.operands[0].shape
        )
        weights = np.array(random_operands(problem, 2)["weights"])
        (result,) = results_of(family, host, quickest, problem, {"signal": signal, "weights": weights})
        taps = weights[::-1] if problem.convolve else weights
        lag = problem.first_lag + np.arange(problem.result_length) * problem.down
        index = np.arange(problem.signal)[:, None] - lag
        expected = np.where((index >= 0) & (index < problem.taps), taps[index.clip(0, problem.taps - 1)], 0)
        found = result.reshape(problem.batch, problem.result_length, -1)
        assert np.abs(found - expected[..., None]).max() <= 2e-6 * np.abs(taps).max()

    def test_twice_the_signal_gives_twice_the_result(
        self, family: Family[Filter1d], host: HostRuntime, quickest: HostCompiler
    ) -> None:
        skip_if_bits_vary(family)
        for problem in shapes(family):
            once = random_operands(problem, 1)
            twice = {**once, "signal": once["signal"] * once["signal"].dtype.type(2)}
            one, two = results_of(family, host, quickest, problem, once, twice)
            assert np.array_equal(one.astype(np.complex128) * 2, two), problem.key()

    def test_a_sum_of_signals_gives_the_sum_of_results(
        self, family: Family[Filter1d], host: HostRuntime, quickest: HostCompiler
    ) -> None:
        for problem in shapes(family):
            if problem.dtype not in (DType.FLOAT32, DType.COMPLEX64):
                continue
            one, other = random_operands(problem, 1), random_operands(problem, 2)
            given = [one, {**other, "weights": one["weights"]}]
            given.append({**one, "signal": given[0]["signal"] + given[1]["signal"]})
            first, second, both = results_of(family, host, quickest, problem, *given)
            scale = sum(reference(problem, each).scale for each in given)
            wide = np.complex128 if problem.dtype is DType.COMPLEX64 else np.float64
            difference = np.abs(both.astype(wide) - first.astype(wide) - second.astype(wide))
            scale = scale[..., 0] if problem.dtype is DType.COMPLEX64 else scale
            assert (difference <= 1e-6 * scale).all(), problem.key()

    def test_long_sums_are_sums_of_parts(
        self, family: Family[Filter1d], host: HostRuntime, quickest: HostCompiler
    ) -> None:
        """Equal terms round the same way again and again: one chain of so many would be off by 2.6e-5."""
        one = Filter1d(2400, 2048, mode=Mode.VALID)
        for problem in (one, dataclasses.replace(one, channels=2, layout=SignalLayout.BTC)):
            if family.why_not(problem, DEVICE) is None:
                given = {name: np.full_like(each, 0.3) for name, each in random_operands(problem, 1).items()}
                (result,) = results_of(family, host, quickest, problem, given)
                exact = problem.taps * float(np.float32(0.3)) ** 2
                assert np.abs(result / exact - 1).max() < 3e-6, problem.key()

    def test_bits_do_not_depend_on_the_number_of_workers(
        self, family: Family[Filter1d], host: HostRuntime, quickest: HostCompiler
    ) -> None:
        skip_if_bits_vary(family)
        with contextlib.closing(HostRuntime(workers=1)) as other:
            for problem in shapes(family):
                given = random_operands(problem, 1)
                (first,) = results_of(family, host, quickest, problem, given)
                (again,) = results_of(family, other, quickest, problem, given)
                assert np.array_equal(first.view(np.uint8), again.view(np.uint8)), problem.key()

    def test_what_is_not_finite_reaches_its_own_windows_alone(
        self, family: Family[Filter1d], host: HostRuntime, quickest: HostCompiler
    ) -> None:
        for problem in shapes(family):
            clean = random_operands(problem, 1)
            clean = {**clean, "weights": np.abs(clean["weights"]).astype(clean["weights"].dtype)}
            spoilt = {**clean, "signal": np.array(clean["signal"])}
            rows = spoilt["signal"].reshape(problem.operands[0].shape)
            rows = rows.swapaxes(1, 2) if problem.layout is SignalLayout.BTC else rows
            rows[1, 1, 0], rows[1, 1, problem.signal // 2] = np.nan, np.inf
            rows[0, 2, 120] = -np.inf
            before, result = results_of(family, host, quickest, problem, clean, spoilt)
            expected = reference(problem, spoilt)
            is_complex = problem.dtype is DType.COMPLEX64
            reached = np.isnan(expected.scale[..., 0] if is_complex else expected.scale)
            assert reached.any()
            assert not np.isfinite(result[reached]).any(), problem.key()
            assert verify(result, expected, problem.output.dtype, 2e-6).right, problem.key()
            by_row = (reached, result, before)
            if problem.layout is SignalLayout.BTC:
                by_row = tuple(each.swapaxes(1, 2) for each in by_row)  # type: ignore[assignment]
            others = ~by_row[0].any(axis=2)
            assert others.sum() == 2 * problem.channels - 2
            if family.may_win:
                assert np.array_equal(by_row[1][others], by_row[2][others]), problem.key()
            else:
                assert np.allclose(by_row[1][others], by_row[2][others], rtol=1e-5, atol=1e-5), problem.key()
