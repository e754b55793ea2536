"""Products of few rows or columns on the CPU, compared with the float64 reference, and run under the sanitizers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import exhaustive
import sanitized
from builders import rewritten
from host.test_cgemm_families import (
    Bench,
    Values,
    bench_of_small_ones,
    covering,
    defaults,
    drawn,
    every_pair_of_ops,
    positive_inputs,
    random_inputs,
)
from warpsmith.generator.cgemm import Cgemm, Op
from warpsmith.generator.cgemm.plain_family import CHAIN
from warpsmith.generator.cgemm.thin_family import CgemmThin
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.ranking import default_answer
from warpsmith.tuner.operations.cgemm.stress import stress_inputs

__all__ = ["bench_of_small_ones"]  # a fixture

FAMILY = CgemmThin()
ONLY = (FAMILY,)
SIZES = (
    (1, 1, 1, 1),
    (3, 5, 2, 11),
    (9, 4, 3, 8),
    (2, 40, 4, 16),
    (5, 33, 1, 9),
    (7, 3, 70, 18),
    (2, 1, 66, 6),
    (13, 2, 7, 3),
)
"""Odd and even values of all sizes. Either M or N is the long one."""


@every_pair_of_ops
def test_results_of_every_op_and_size(a: Op, b: Op, bench_of_small_ones: Bench) -> None:
    some = exhaustive.share(SIZES, 3 * list(Op).index(a) + list(Op).index(b), 3)
    problems = [Cgemm(*sizes, a, b) for sizes in some]
    bench_of_small_ones.check_all([*defaults(problems, ONLY), *drawn(problems[1:], 2, ONLY)])


@pytest.mark.parametrize("ops", ["nn", "cn", "nc", "tt"])
def test_results_of_every_value_of_every_parameter(ops: str, bench_of_small_ones: Bench) -> None:
    sizes = ((3, 22, 3, 2 * CHAIN + 84), (2, 3, 50, 9))
    problems = [Cgemm(*each, *ops) for each in sizes]  # type: ignore[arg-type]
    bench_of_small_ones.check_all(itertools.chain(*(covering(problem, FAMILY) for problem in problems)))


@pytest.mark.parametrize("ops", ["nn", "cn"])
def test_results_of_hard_inputs(ops: str, bench_of_small_ones: Bench) -> None:
    problem = Cgemm(7, 20, 3, 70, *ops)  # type: ignore[arg-type]
    cases = [*defaults([problem], ONLY), *drawn([problem], 3, ONLY)]
    bench_of_small_ones.check_all(cases, stress_inputs, stressed=True)


@pytest.mark.parametrize("ops", ["nn", "cn"])
def test_sums_of_many_terms_stay_accurate(ops: str, bench_of_small_ones: Bench) -> None:
    """All terms are positive and none is exact, so a plain sequential float32 sum would exceed the bound."""
    problem = Cgemm(1, 8, 2, 100 * CHAIN + 4, *ops)  # type: ignore[arg-type]
    bench_of_small_ones.check_all([*defaults([problem], ONLY), *drawn([problem], 2, ONLY)], positive_inputs)


def test_a_nan_shows_in_its_row_and_column_alone(bench_of_small_ones: Bench) -> None:
    problem = Cgemm(3, 9, 4, 7)

    def with_nan(problem: Cgemm, generator: np.random.Generator) -> Mapping[str, Values]:
        given = dict(random_inputs(problem, generator))
        given["a"][1, 8, 6] = np.nan
        given["b"][2, 6, 3] = np.inf
        return given

    for _, _, result in bench_of_small_ones.results([*defaults([problem], ONLY), *drawn([problem], 4, ONLY)], with_nan):
        wrong = ~np.isfinite(result)
        assert wrong[1, 8].all()
        assert wrong[2, :, 3].all()
        assert wrong.sum() == 4 + 9


@pytest.mark.usefixtures("compile_without_optimisation")
class TestUnderTheSanitizers:
    def test_kernels_are_clean(self, tmp_path: Path) -> None:
        problems = [Cgemm(*sizes, a, b) for sizes, (a, b) in zip(SIZES, itertools.product(Op, Op), strict=False)]
        cases = [*defaults(problems, ONLY), *drawn(problems[1:], 1, ONLY)]
        sanitized.check([(case.problem, case.program) for case in cases], tmp_path)

    def test_a_read_beyond_an_operand_would_be_found(self, tmp_path: Path) -> None:
        (case,) = defaults([Cgemm(1, 33, 2, 8)], ONLY)
        source = case.program.source
        clamped = "min(part * kThreadVectors + i, kTallRows - 1)"
        assert source.count(clamped) == 1
        faulty = rewritten(case.program, source.replace(clamped, "part * kThreadVectors + i"))
        with pytest.raises(AssertionError, match="AddressSanitizer"):
            sanitized.check([(case.problem, faulty)], tmp_path)


def test_solves_what_has_a_thin_side() -> None:
    assert FAMILY.why_not(Cgemm(9, 5, 5, 100), HOST) == "takes results of 4 rows or columns at the most"
    for problem in (Cgemm(2664, 64, 1, 96), Cgemm(9, 4, 100, 3)):
        assert default_answer(problem, H200)[0].name == FAMILY.name
