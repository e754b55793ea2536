"""`cgemm_warpgroup` on the CPU: wgmma products, whose sums are truncated, against the float64 reference."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

import exhaustive
import sanitized
from builders import rewritten
from together import Case
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.generator.cgemm import Cgemm, Op
from warpsmith.generator.cgemm.warpgroup_family import CgemmWarpgroup
from warpsmith.generator.presets import HOST
from warpsmith.generator.space import Value
from warpsmith.tuner.operations.cgemm.stress import stress_inputs

from .test_cgemm_families import Bench, Values, covering, random_inputs, wanted_of

WARPGROUP = CgemmWarpgroup()
OPS = tuple(itertools.product(Op, Op))


def asked(*sizes: int, a: str = "n", b: str = "n") -> Cgemm:
    return Cgemm(*sizes, a, b, accuracy="normwise")  # type: ignore[arg-type, misc]


def case(problem: Cgemm, **wanted: Value) -> Case:
    """A config with at least the `wanted` values."""
    return wanted_of(WARPGROUP, problem, **wanted)


@pytest.fixture
def bench(quick: HostCompiler) -> Iterator[Bench]:
    with contextlib.closing(HostRuntime(workers=2)) as runtime:
        yield Bench(quick, runtime)


class TestResults:
    def test_of_every_op(self, bench: Bench) -> None:
        """Odd sizes, whose elements are copied one by one, and even sizes, in results of one tile and of several. By
        default each op of each operand meets both.
        """
        sizes = ((2, 5, 35, 21), (1, 66, 34, 34))
        some = ((op, each) for turn, op in enumerate(OPS) for each in exhaustive.share(sizes, turn, 2))
        problems = (asked(*each, a=a, b=b) for (a, b), each in some)
        bench.check_all(case(problem, columns=32) for problem in problems)

    def test_of_every_value_of_every_parameter(self, bench: Bench) -> None:
        problems = (asked(1, 65, 65, 260, a="c"), asked(2, 40, 33, 70, b="c"))
        bench.check_all(itertools.chain(*(covering(problem, WARPGROUP) for problem in problems)))

    def test_of_inputs_that_are_hard_on_rounding_errors(self, bench: Bench) -> None:
        problems = (asked(7, 20, 24, 70, a=a, b=b) for a, b in (("n", "c"), ("c", "n"), ("t", "t")))
        cases = [case(problem, terms=terms) for problem, terms in zip(problems, (16, 32, 64), strict=True)]
        bench.check_all(cases, stress_inputs, stressed=True)

    def test_of_rows_that_are_to_keep_to_themselves(self, bench: Bench) -> None:
        """Every third row is a million times as large as the others. The configs cover all ways to copy tiles."""
        problems = [asked(*sizes, b=b) for b in ("n", "c") for sizes in ((3, 5, 9, 35), (1, 130, 34, 70))]
        rowwise = [dataclasses.replace(problem, accuracy="rowwise") for problem in problems]
        cases = [case(each, columns=32, terms=terms) for each in rowwise for terms in (16, 32, 64)]
        bench.check_all([*cases, *covering(rowwise[3], WARPGROUP)], stress_inputs, stressed=True)

    @pytest.mark.parametrize("size", [2.0**-55, 2.0**60, 2.0**-70])
    def test_of_numbers_as_small_or_large_as_products_allow(self, size: float, bench: Bench) -> None:
        """The factor that undoes the scales of both tiles may exceed the exponent range of a float."""

        def scaled(problem: Cgemm, generator: np.random.Generator) -> Mapping[str, Values]:
            given = random_inputs(problem, generator)
            return {name: (values * np.float32(size)).astype(np.complex64) for name, values in given.items()}

        problem = asked(1, 4, 4, 20)
        ((_, given, found),) = bench.results([case(problem)], scaled)
        exact = given["a"].astype(np.complex128) @ given["b"].astype(np.complex128)
        assert np.abs(found - exact).max() <= 1e-6 * np.abs(exact).max() + 2.0**-148
        assert size < 2.0**-60 or found.all()

    def test_are_zeros_of_zeros_beside_the_largest_numbers(self, bench: Bench) -> None:
        def zeros(problem: Cgemm, generator: np.random.Generator) -> Mapping[str, Values]:
            given = {name: values.copy() for name, values in random_inputs(problem, generator).items()}
            given["a"][0] = 0
            given["b"][0] *= np.float32(2.0**100)
            given["a"][1, 1:] *= np.float32(2.0**100)  # beyond the range of float32; row 0 gives zeros
            given["a"][1, 0] = 0
            given["b"][1] *= np.float32(2.0**100)
            return given

        ((_, _, found),) = bench.results([case(asked(2, 3, 4, 20))], zeros)
        assert not found[0].any()
        assert not found[1, 0].any()
        assert not np.isfinite(found[1, 1:].view(np.float32)).any()

    def test_a_nan_or_an_infinity_shows_in_its_row_and_column_alone(self, bench: Bench) -> None:
        """Also holds if the other numbers of the tile are small."""

        def with_nan(problem: Cgemm, generator: np.random.Generator) -> Mapping[str, Values]:
            given = {name: values.copy() for name, values in random_inputs(problem, generator).items()}
            given["a"][1, 8, 6] = np.nan
            given["a"][1, 3, 17] = complex(0, -np.inf)
            given["b"][2, 6, 9] = np.inf
            return given

        cases = [case(asked(3, 9, 10, 19)), case(asked(3, 9, 10, 33), terms=32)]
        for each, given, result in bench.results(cases, with_nan):
            wrong = ~np.isfinite(result)
            assert wrong[1, [3, 8]].all()
            assert wrong[2, :, 9].all()
            assert wrong.sum() == 10 + 10 + 9
            with np.errstate(invalid="ignore"):
                exact = given["a"].astype(np.complex128) @ given["b"].astype(np.complex128)
            assert np.abs((result - exact)[~wrong]).max() < 1e-5, each


class TestDealtOut:
    """Stream-K scheduling of tiles over the host's two blocks."""

    @pytest.mark.parametrize("columns", [32, 64])
    def test_of_three_tiles_and_more(self, columns: int, bench: Bench) -> None:
        """Shares of a block end with a tile or inside one, have one step per tile or several, and begin with whole
        tiles or not.
        """
        sizes = ((3, 20, 34, 16), (3, 20, 40, 50), (4, 20, 34, 33), (5, 20, 36, 40), (2, 70, 70, 50), (7, 65, 33, 37))
        problems = (asked(*each, a=a, b=b) for each, (a, b) in zip(sizes, OPS, strict=False))
        bench.check_all(
            case(problem, columns=columns, terms=16, stages=stages, groups=1, splits=1, min_blocks=0, dealt_to=2)
            for problem, stages in itertools.product(problems, (0, 1))
        )

    def test_are_the_same_bits_each_time(self, bench: Bench) -> None:
        wanted = {"columns": 32, "terms": 16, "stages": 0, "groups": 1, "splits": 1, "min_blocks": 0, "dealt_to": 2}
        cases = [case(asked(5, 20, 24, 40), **wanted)] * 3
        first, *others = (result.tobytes() for _, _, result in bench.results(cases, random_inputs))
        assert all(other == first for other in others)


class TestSums:
    def test_of_many_terms_and_in_parts_stay_accurate(self, bench: Bench) -> None:
        """All terms are positive and none is exact, so sums that stay in tensor core accumulators would exceed the
        bound.
        """

        def positive(problem: Cgemm, generator: np.random.Generator) -> Mapping[str, Values]:
            return {each.name: generator.uniform(0.5, 1, each.shape).astype(np.complex64) for each in problem.inputs}

        problem = asked(1, 6, 8, 2500, a="c")
        bench.check_all([case(problem), case(problem, splits=4, terms=32)], positive)

    def test_have_the_same_bits_however_blocks_are_spread(self, bench: Bench) -> None:
        problem = asked(3, 70, 40, 150)
        cases = [case(problem, groups=2, columns=32), case(problem, groups=2, columns=32, splits=2)]
        first = [result for _, _, result in bench.results(cases, random_inputs)]
        with contextlib.closing(HostRuntime(workers=1)) as one:
            again = [result for _, _, result in Bench(bench.compiler, one).results(cases, random_inputs)]
        for here, there in zip(first, again, strict=True):
            assert np.array_equal(here.view(np.uint64), there.view(np.uint64))


@pytest.mark.usefixtures("compile_without_optimisation")
class TestUnderTheSanitizers:
    def test_kernels_are_clean_and_a_read_beyond_an_operand_is_found(self, tmp_path: Path) -> None:
        problems = (asked(2, 66, 33, 18, a="t", b="c"), asked(1, 5, 34, 35))
        cases = [case(problem, columns=32) for problem in problems]
        sanitized.check([(each.problem, each.program) for each in cases], tmp_path)
        source = cases[1].program.source
        clamp = "min(row + place.y + across, kM - 1)"
        assert source.count(clamp) == 1
        faulty = rewritten(cases[1].program, source.replace(clamp, "row + place.y + across"))
        with pytest.raises(AssertionError, match="AddressSanitizer"):
            sanitized.check([(cases[1].problem, faulty)], tmp_path)


def test_configs_are_carried_over_to_other_sizes() -> None:
    config = WARPGROUP.default(asked(544, 128, 128, 128), HOST)
    here = asked(91, 64, 40, 20)
    carried = WARPGROUP.carried(config, _Home(asked(544, 128, 128, 128)), here, HOST)  # type: ignore[arg-type]
    assert carried is not None
    assert WARPGROUP.space(here, HOST).contains(carried)
    assert WARPGROUP.space(here, HOST).drawn(random.Random(0)) is not None


@dataclasses.dataclass(frozen=True)
class _Home:
    problem: Cgemm
    device: object = HOST
