"""Every cgemm family on the CPU, compared with the float64 reference, and run under the sanitizers."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import exhaustive
import sanitized
from builders import rewritten
from guarded import FILL, Guarded
from together import AT_ONCE, Case, chosen, together
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.module import Module
from warpsmith.generator.cgemm import Cgemm, Op
from warpsmith.generator.cgemm.plain_family import CgemmPlain
from warpsmith.generator.cgemm.tensor_family import CHAIN as TENSOR_CHAIN
from warpsmith.generator.cgemm.tensor_family import CgemmTensor
from warpsmith.generator.cgemm.tiled_family import CgemmTiled
from warpsmith.generator.cgemm.tiled_geometry import CHAIN
from warpsmith.generator.family import Family
from warpsmith.generator.presets import HOST
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Value
from warpsmith.tuner.operations.cgemm.judge import CgemmJudge
from warpsmith.tuner.operations.cgemm.oracle import reference
from warpsmith.tuner.operations.cgemm.stress import stress_inputs, stress_slack

PLAIN, TILED, TENSOR = CgemmPlain(), CgemmTiled(), CgemmTensor()
FAMILIES: tuple[Family, ...] = (TILED, TENSOR, PLAIN)
every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
every_pair_of_ops = pytest.mark.parametrize(("a", "b"), tuple(itertools.product(Op, Op)))
EACH_OP_IN_EACH_PLACE = ((Op.N, Op.C), (Op.T, Op.N), (Op.C, Op.T))
"""Each op once for each operand: enough if reading one operand does not depend on the op of the other."""

ERROR_BOUND = 1e-6
"""Largest error allowed, relative to the sum of |a| |b|."""

Values = NDArray[Any]
Make = Callable[[Cgemm, np.random.Generator], Mapping[str, Values]]

random_inputs: Make = CgemmJudge().inputs


def positive_inputs(problem: Cgemm, generator: np.random.Generator) -> Mapping[str, Values]:
    """Inputs with positive terms only, none of them exact in float32."""
    return {each.name: generator.uniform(0.5, 1, each.shape).astype(np.complex64) for each in problem.inputs}


SIZES = (
    (1, 1, 1, 1),
    (3, 5, 7, 11),
    (9, 2, 3, 4),
    (2, 40, 24, 16),
    (2, 33, 37, 9),
    (1, 1, 70, 18),
    (1, 66, 1, 5),
    (17, 12, 10, 3),
)
"""Odd and even values of batch, M, N and K, for results of one tile and of several."""


def run(module: Module, program: Program, problem: Cgemm, given: Mapping[str, Values]) -> Values:
    """Runs a program's launches and returns the result. Fails if anything but the result and the workspaces changes."""
    memory = {operand.name: Guarded(operand) for operand in problem.operands}
    scratch = {each.name: np.full(each.nbytes, FILL, np.uint8) for each in program.workspaces}
    for name, values in given.items():
        memory[name].elements[...] = values
    addresses = {name: each.address for name, each in memory.items()}
    addresses |= {name: each.ctypes.data for name, each in scratch.items()}
    for launch in program.launches:
        module.bind(launch, addresses, {})(None)
    for name, each in memory.items():
        assert each.is_intact(), f"wrote around {name}"
    for name, values in given.items():
        assert np.array_equal(memory[name].elements.view(np.uint64), values.view(np.uint64)), f"wrote to {name}"
    return memory[problem.output.name].elements


def check(case: Case, result: Values, given: Mapping[str, Values], slack: float = 1.0) -> None:
    expected, scale = reference(case.problem, given)
    found = result.view(np.float32).reshape(expected.shape)
    wrong = ~(np.abs(found - expected) <= slack * ERROR_BOUND * scale)  # NaN is wrong too
    assert not wrong.any(), f"{wrong.sum()} of {wrong.size} are off, by up to {np.abs(found - expected).max()}"


@dataclasses.dataclass(frozen=True)
class Bench:
    """Compiles kernels and runs them."""

    compiler: HostCompiler
    runtime: HostRuntime

    def results(self, cases: Sequence[Case], make: Make) -> Iterator[tuple[Case, Mapping[str, Values], Values]]:
        """Runs each case and yields it with its inputs and its result."""
        for start in range(0, len(cases), AT_ONCE):
            part = cases[start : start + AT_ONCE]
            whole, placed = together([case.program for case in part])
            with contextlib.closing(self.runtime.load(self.compiler.compile(whole.compilation()))) as module:
                for case, program in zip(part, placed, strict=True):
                    given = make(case.problem, np.random.default_rng(3))
                    yield case, given, run(module, program, case.problem, given)

    def check_all(
        self, cases: Iterable[Case], make: Make = random_inputs, *, stressed: bool = False, every: bool = False
    ) -> None:
        """Runs `every` case, or cases that together have every feature of `cases`, and fails with a list of all wrong
        kernels.
        """
        wrong = []
        for case, given, result in self.results(list(cases) if every else chosen(cases), make):
            try:
                check(case, result, given, stress_slack(case.problem) if stressed else 1.0)
            except AssertionError as error:
                wrong.append(f"{case}: {error}")
        assert not wrong, "\n".join([f"{len(wrong)} kernels are wrong", *wrong])


@pytest.fixture
def bench(quick: HostCompiler) -> Iterator[Bench]:
    """Bench with some optimisation: without it, emulated tensor core products run ten times as long."""
    with contextlib.closing(HostRuntime(workers=2)) as runtime:
        yield Bench(quick, runtime)


@pytest.fixture
def bench_of_small_ones(quickest: HostCompiler) -> Iterator[Bench]:
    """Bench for kernels that take longer to compile than to run."""
    with contextlib.closing(HostRuntime(workers=2)) as runtime:
        yield Bench(quickest, runtime)


def defaults(problems: Iterable[Cgemm], families: tuple[Family, ...] = FAMILIES) -> Iterator[Case]:
    for problem, family in itertools.product(problems, families):
        yield Case(problem, family, family.default(problem, HOST))


def drawn(problems: Iterable[Cgemm], count: int, families: tuple[Family, ...] = FAMILIES) -> Iterator[Case]:
    """Random configs of every family, the same in each run."""
    for problem, family in itertools.product(problems, families):
        space, rng = family.space(problem, HOST), random.Random(problem.key())
        for config in dict.fromkeys(space.drawn(rng) for _ in range(count)):
            assert config is not None
            yield Case(problem, family, config)


def covering(problem: Cgemm, family: Family) -> Iterator[Case]:
    """Random configs that together have each value of each parameter that some legal config has."""
    space, rng, seen = family.space(problem, HOST), random.Random(problem.key()), set[tuple[str, Value]]()
    for parameter, value in [(each, value) for each in space.parameters for value in each.values]:
        if (parameter.name, value) in seen:
            continue
        config = space.narrowed({parameter.name: [value]}).drawn(rng)
        if config is not None:
            seen.update(config.items)
            yield Case(problem, family, config)


def wanted_of(family: Family, problem: Cgemm, **wanted: Value) -> Case:
    """A config of a family with at least the `wanted` values."""
    space = family.space(problem, HOST)
    config = space.like({**family.default(problem, HOST).values(), **wanted})
    assert config is not None
    assert wanted.items() <= config.values().items(), config
    return Case(problem, family, config)


def tiled(problem: Cgemm, **wanted: Value) -> Case:
    """A config of `cgemm_tiled` with at least the `wanted` values."""
    return wanted_of(TILED, problem, **wanted)


def tensor(problem: Cgemm, **wanted: Value) -> Case:
    """A config of `cgemm_tensor` with at least the `wanted` values."""
    return wanted_of(TENSOR, problem, **wanted)


class TestResults:
    @every_pair_of_ops
    def test_of_every_op_and_size(self, a: Op, b: Op, bench_of_small_ones: Bench) -> None:
        some = exhaustive.share(SIZES, 3 * list(Op).index(a) + list(Op).index(b), 3)
        bench_of_small_ones.check_all(defaults(Cgemm(*sizes, a, b) for sizes in some))

    def test_of_random_configs(self, bench: Bench) -> None:
        bench.check_all(drawn((Cgemm(*sizes, *ops) for ops in EACH_OP_IN_EACH_PLACE for sizes in SIZES[1:5]), 3))

    @exhaustive.meeting()
    @every_family
    @pytest.mark.parametrize("ops", ["nc", "cn"])
    def test_of_every_value_of_every_parameter(self, family: Family, ops: str, bench: Bench) -> None:
        problems = (Cgemm(3, 14, 22, 260, *ops), Cgemm(2, 45, 50, 9, *ops), Cgemm(5, 3, 4, 2, *ops))  # type: ignore[arg-type]
        bench.check_all(itertools.chain(*(covering(problem, family) for problem in problems)))

    def test_of_inputs_that_are_hard_on_rounding_errors(self, bench: Bench) -> None:
        problems = [Cgemm(7, 20, 24, 70, *ops) for ops in EACH_OP_IN_EACH_PLACE]
        cases = [*defaults(problems), *(case(each, multiplies=3) for each in problems for case in (tiled, tensor))]
        bench.check_all(cases, stress_inputs, stressed=True)

    def test_of_three_and_four_real_products(self, bench: Bench) -> None:
        """Each op of each operand meets both numbers by default, in both families."""
        cases = [
            family(Cgemm(2, 9, 12, 13, a, b), multiplies=multiplies)
            for turn, (a, b) in enumerate(itertools.product(Op, Op))
            for multiplies in exhaustive.share((3, 4), turn, 2)
            for family in (tiled, tensor)
        ]
        bench.check_all(cases, every=True)

    def test_of_warps_that_share_a_tile(self, bench: Bench) -> None:
        """Checks a result whose tiles two by two warps share, and results that end inside a warp's part."""
        cases = []
        for turn, ops in enumerate(EACH_OP_IN_EACH_PLACE):
            wide, ragged = Cgemm(1, 64, 64, 24, *ops), Cgemm(2, 34, 66, 20, *ops)
            own = [tensor(wide, rows=32, columns=32, block_rows=2, block_columns=2), tensor(wide, rows=16, columns=64)]
            own += [tensor(ragged, rows=16, columns=32, terms=16), tensor(ragged, rows=32, columns=16, multiplies=3)]
            cases += exhaustive.share(own, turn, 2)
        bench.check_all(cases, every=True)


IN_PARTS: dict[str, Value] = {"rows": 1, "columns": 1, "block_rows": 8, "block_columns": 8, "products": 1, "splits": 2}


class TestSums:
    def test_of_many_terms_stay_accurate(self, bench: Bench) -> None:
        """All terms are positive and none is exact, so a plain sequential float32 sum exceeds the bound."""
        problem = Cgemm(1, 8, 8, 100 * CHAIN + 3, "c", "n")  # type: ignore[arg-type]
        configs: tuple[dict[str, Value], ...] = ({}, IN_PARTS, {"multiplies": 3}, {"stages": 2, "terms": 16})
        cases = [*defaults([problem], (PLAIN,)), *(tiled(problem, **wanted) for wanted in configs)]
        bench.check_all(cases, positive_inputs, every=True)
        given = positive_inputs(problem, np.random.default_rng(3))
        expected, scale = reference(problem, given)
        products = given["a"][0, :, 0].real * given["b"][0, :, 0].real
        chain = np.add.accumulate(products, dtype=np.float32)[-1]
        assert abs(chain - expected[0, 0, 0, 0]) > ERROR_BOUND * scale[0, 0, 0, 0]

    @exhaustive.one_in(2)
    @pytest.mark.parametrize("wanted", [{}, {"splits": 2}, {"multiplies": 3, "slices": 2}], ids=str)
    def test_of_many_terms_on_the_tensor_cores_stay_accurate(self, wanted: dict[str, Value], bench: Bench) -> None:
        """K exceeds the longest chain of sequential additions. Configs that split the sum are included."""
        bench.check_all([tensor(Cgemm(1, 5, 6, 3 * TENSOR_CHAIN + 3, "c", "n"), products=1, **wanted)])  # type: ignore[arg-type]

    @pytest.mark.parametrize("batch", [7, 8])
    def test_of_several_products_in_a_block_are_each_written_once(self, batch: int, bench: Bench) -> None:
        """Covers sums longer than one chain, and blocks with more threads than products left."""
        problem = Cgemm(batch, 4, 5, 2 * CHAIN + 20, "n", "t")  # type: ignore[arg-type]
        few = dataclasses.replace(problem, batch=batch - 4, k=TENSOR_CHAIN + 20)
        cases = [tiled(problem, products=4), tiled(problem, products=8), tensor(few, products=4)]
        bench.check_all(cases, every=True)

    def test_in_parts_are_those_of_the_whole(self, bench: Bench) -> None:
        """Each family meets each number of parts with one number of terms by default."""
        problem, cases = Cgemm(2, 18, 20, 2100, "n", "c"), []  # type: ignore[arg-type]
        small = dataclasses.replace(problem, batch=1, m=9, k=600)
        for turn, splits in enumerate((2, 4, 8)):
            cases += [tiled(problem, splits=splits, terms=terms) for terms in exhaustive.share((8, 32), turn, 2)]
            terms_of = exhaustive.share((8, 16), turn + 1, 2)
            cases += [tensor(small, splits=splits, terms=terms, products=1) for terms in terms_of]
        bench.check_all(cases, every=True)

    def test_have_the_same_bits_however_blocks_are_spread(self, bench: Bench) -> None:
        problem, small = Cgemm(3, 40, 41, 300), Cgemm(3, 20, 18, 130)
        cases = [*defaults([problem], (TILED, PLAIN)), tiled(problem, splits=4), tiled(problem, multiplies=3)]
        cases += [*defaults([small], (TENSOR,)), tensor(small, splits=2, products=1), tensor(small, multiplies=3)]
        first = [result for _, _, result in bench.results(cases, random_inputs)]
        with contextlib.closing(HostRuntime(workers=1)) as one:
            again = [result for _, _, result in Bench(bench.compiler, one).results(cases, random_inputs)]
        for here, there in zip(first, again, strict=True):
            assert np.array_equal(here.view(np.uint64), there.view(np.uint64))

    def test_a_nan_shows_in_its_row_and_column_alone(self, bench_of_small_ones: Bench) -> None:
        """Only the product that reads the value shows it. Tile rows beyond M and terms beyond K add nothing."""
        problem = Cgemm(3, 9, 10, 7)

        def with_nan(problem: Cgemm, generator: np.random.Generator) -> Mapping[str, Values]:
            given = dict(random_inputs(problem, generator))
            given["a"][1, 8, 6] = np.nan
            given["b"][2, 6, 9] = np.inf
            return given

        for _, _, result in bench_of_small_ones.results([*defaults([problem]), *drawn([problem], 4)], with_nan):
            wrong = ~np.isfinite(result)
            assert wrong[1, 8].all()
            assert wrong[2, :, 9].all()
            assert wrong.sum() == 10 + 9


class TestUnderTheSanitizers:
    @pytest.mark.usefixtures("compile_as_asked")  # such products run three times as long unoptimised
    def test_kernels_are_clean(self, tmp_path: Path) -> None:
        some = [Cgemm(*sizes, a, b) for sizes, (a, b) in zip(SIZES, itertools.product(Op, Op), strict=False)]
        split = Cgemm(1, 10, 12, 270, "t", "n")  # type: ignore[arg-type]
        cases = [*defaults(some[1::2], (TILED, PLAIN)), *defaults(some[2:5], (TENSOR,)), *drawn(some[4:5], 1)]
        cases += [tiled(split, splits=2), tensor(dataclasses.replace(split, k=140), splits=2, products=1)]
        sanitized.check([(case.problem, case.program) for case in cases], tmp_path)

    @pytest.mark.usefixtures("compile_without_optimisation")
    def test_a_read_beyond_an_operand_would_be_found(self, tmp_path: Path) -> None:
        case = tiled(Cgemm(1, 33, 12, 8))
        source = case.program.source
        assert source.count("min(row + down, kM - 1)") == 1
        faulty = rewritten(case.program, source.replace("min(row + down, kM - 1)", "row + down"))
        with pytest.raises(AssertionError, match="AddressSanitizer"):
            sanitized.check([(case.problem, faulty)], tmp_path)


def test_configs_are_carried_over_to_other_sizes() -> None:
    """A winner of one size is a start for another size. If it is not legal there, the nearest legal config is."""
    home, here = Cgemm(2112, 128, 64, 64, "n", "c"), Cgemm(91, 16, 24, 3, "n", "c")  # type: ignore[arg-type]
    config = TILED.default(home, HOST)
    carried = TILED.carried(config, _Home(home), here, HOST)  # type: ignore[arg-type]
    assert carried is not None
    assert TILED.space(here, HOST).contains(carried)
    assert isinstance(carried, Config)


@dataclasses.dataclass(frozen=True)
class _Home:
    problem: Cgemm
    device: Any = HOST
