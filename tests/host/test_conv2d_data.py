"""The plain and direct families on the CPU: every element type and layout, 64-bit element counts, and plans."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import exhaustive
import sanitized
import warpsmith as ws
from conv2d_layers import spread
from policies import ONE_RUN
from together import Case, chosen, results
from warpsmith.devices.elements import numpy_dtype
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.runtime import Runtime
from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Conv2d, ImageLayout, PaddingMode, Pass
from warpsmith.generator.conv2d.layer.words import DTYPES
from warpsmith.generator.conv2d.operation import CONV2D
from warpsmith.generator.conv2d.plain_family import Conv2dPlain
from warpsmith.generator.conv2d.sums.direct_family import Conv2dDirect
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.problem import DType
from warpsmith.store.record import Measurement
from warpsmith.tuner.evaluate.testbed import Testbed
from warpsmith.tuner.evaluate.verify import verify
from warpsmith.tuner.operations.conv2d.judge import Conv2dJudge
from warpsmith.tuner.operations.conv2d.oracle import reference
from warpsmith.tuner.operations.judge import Reference
from warpsmith.tuner.operations.registry import random_operands, stress_operands

FAMILIES = CONV2D.families

PLAIN, DIRECT = Conv2dPlain(), Conv2dDirect()
every_pass = pytest.mark.parametrize("pass_", Pass)
every_layout = pytest.mark.parametrize("layout", ImageLayout)
every_dtype = pytest.mark.parametrize("dtype", DTYPES)


def defaults(problems: Iterable[Conv2d]) -> Iterator[Case]:
    """Default config of each family that solves a problem."""
    for problem in problems:
        for family in (PLAIN, DIRECT):
            if family.why_not(problem, HOST) is None:
                yield Case(problem, family, family.default(problem, HOST))


def check(cases: list[Case], quickest: HostCompiler, host: Runtime, *, stressed: bool = False) -> None:
    """Runs cases that together have every feature of `cases`, and fails with a list of all wrong kernels."""
    judge, wrong = Conv2dJudge(), []
    make = stress_operands if stressed else random_operands
    for case, result, given in results(chosen(cases), quickest, host, lambda problem: make(problem, 5)):
        bound = judge.error_bound(case.problem, case.problem.output)
        bound *= judge.stress_slack(case.problem) if stressed else 1.0
        exact = Reference(*reference(case.problem, given))
        verdict = verify(np.ascontiguousarray(result), exact, case.problem.dtype, bound)
        if not verdict.right:
            wrong.append(f"{case}: {verdict.message}")
    assert not wrong, "\n".join(wrong)


class TestResults:
    def test_where_every_two_options_meet(self, quickest: HostCompiler, host: Runtime) -> None:
        problems = spread()
        cases = list(defaults(problems))
        assert {case.problem for case in cases if case.family is PLAIN} == set(problems)
        solved = [case.problem for case in cases if case.family is DIRECT]
        assert {problem.dtype for problem in solved} == set(DTYPES)
        assert {problem.layout for problem in solved} == set(ImageLayout)
        check(cases, quickest, host)

    @every_pass
    def test_of_random_configs_of_direct_sums(self, pass_: Pass, quickest: HostCompiler, host: Runtime) -> None:
        """Channels-last and 16-bit operands, with and without staging in shared memory."""
        grouped = {"input": (2, 10, 11, 13), "weight": (6, 5, 3, 2), "groups": 2, "stride": (1, 2), "padding": 1}
        dense = {"input": (1, 7, 9, 14), "weight": (9, 7, 2, 3), "dilation": (2, 1), "padding": (0, 2)}
        cases = []
        for number, (shape, layout, dtype) in enumerate(itertools.product((grouped, dense), ImageLayout, DTYPES)):
            problem = Conv2d(**shape, pass_=pass_, layout=layout, dtype=dtype)  # type: ignore[arg-type]
            space, rng = DIRECT.space(problem, HOST), random.Random(number)
            cases += [Case(problem, DIRECT, config) for config in (space.drawn(rng) for _ in range(4)) if config]
        assert {"shared", "global"} == {
            case.config.values().get("pixels", "global") for case in cases
        } or pass_ is Pass.WGRAD
        check(cases, quickest, host)

    @exhaustive.meeting()
    @every_dtype
    @every_pass
    def test_of_inputs_that_are_hard_on_rounding_errors(
        self, dtype: DType, pass_: Pass, quickest: HostCompiler, host: Runtime
    ) -> None:
        problems = [
            Conv2d((3, 24, 14, 15), (20, 24, 3, 3), padding=1, pass_=pass_, dtype=dtype, layout=layout)  # type: ignore[arg-type]
            for layout in ImageLayout
        ]
        check(list(defaults(problems)), quickest, host, stressed=True)

    @every_layout
    @every_pass
    def test_with_elements_counted_in_64_bits(
        self,
        pass_: Pass,
        layout: ImageLayout,
        quickest: HostCompiler,
        host: Runtime,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Small operands run the source text that is meant for large ones."""
        fields: dict[str, Any] = {"stride": (1, 2), "padding": ((1, 2), (0, 3)), "pass_": pass_, "layout": layout}
        grouped = {"input": (2, 6, 7, 9), "weight": (4, 3, 3, 2), "groups": 2}
        problems = [
            Conv2d(**shape, **fields, padding_mode=mode)
            for shape in (grouped, {"input": (2, 3, 7, 9), "weight": (5, 3, 3, 2)})
            for mode in (PaddingMode.ZEROS, PaddingMode.REFLECT)
        ]
        monkeypatch.setattr(Conv2d, "is_large", True)
        cases = [Case(problem, PLAIN, PLAIN.default(problem, HOST)) for problem in problems]
        for case in cases:
            assert "long long" in case.program.source
        check(cases, quickest, host)

    @pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16])
    def test_that_are_nan_or_overflow_are_those_of_the_type(
        self, dtype: DType, quickest: HostCompiler, host: Runtime
    ) -> None:
        """A NaN stays a NaN, also after a ReLU. Overflow gives infinity. Ties round to even."""
        kind = numpy_dtype(dtype)
        problem = Conv2d((1, 1, 1, 4), (1, 1, 1, 1), dtype=dtype, relu=True)
        largest = 65504.0 if dtype is DType.FLOAT16 else 3.3895313892515355e38
        step = 2.0**-10 if dtype is DType.FLOAT16 else 2.0**-7
        given = {
            "x": np.array([np.nan, largest, 1 + step, -2.0], kind).reshape(problem.input),
            "w": np.array([1.5], kind).reshape(problem.weight),
        }
        for case, result, _ in results(list(defaults([problem])), quickest, host, lambda _: given):
            told = result.astype(np.float64).ravel()
            assert np.isnan(told[0]), case
            assert told[1:].tolist() == [np.inf, 1.5 + 2 * step, 0.0], case


OF_ALL_DATA = {"conv2d_direct", "conv2d_mma", "conv2d_warpgroup"}
"""Families that solve all dtypes, layouts and epilogues (bias, ReLU), up to 2^31 - 1 elements per operand."""
OF_ALL_ENDS = {"conv2d_depthwise", "conv2d_slices", "conv2d_winograd"}
"""Families that solve float32 dgrad layers with a bias or a ReLU too."""
OF_IEEE_ALONE = {"conv2d_slices", "conv2d_winograd"}
"""Families that solve only precision "ieee": a lower one gains them nothing, or makes their error too large."""


class TestFamilies:
    @pytest.mark.parametrize(
        ("fields", "says"),
        [
            ({"layout": "nhwc"}, "nchw only"),
            ({"dtype": "float16"}, "float32 only, and no float16"),
            ({"dtype": "bfloat16"}, "float32 only, and no bfloat16"),
            ({"pass_": "dgrad", "bias": True}, "adds no bias to dgrad"),
            ({"pass_": "dgrad", "relu": True}, "has no ReLU behind it"),
            ({"input": (2**12, 64, 128, 128)}, "in 32 bits"),
        ],
    )
    @pytest.mark.parametrize("depthwise", [False, True])
    def test_say_what_they_do_not_read(self, fields: dict[str, Any], says: str, depthwise: bool) -> None:
        shapes = {"weight": (64, 1, 7, 7), "groups": 64} if depthwise else {"weight": (64, 64, 7, 7)}
        usual = {"input": (4, 64, 32, 32), "padding": 3, **shapes}
        able = [family for family in FAMILIES if family.why_not(Conv2d(**usual), H200) is None]
        assert len(able) > 2
        problem = Conv2d(**{**usual, **fields})
        why = {family.name: family.why_not(problem, H200) for family in able}
        assert why.pop("conv2d_plain") is None
        solving = OF_ALL_DATA | (OF_ALL_ENDS if {"bias", "relu"} & fields.keys() else set())
        solving |= {"conv2d_slices"} if "layout" in fields else set()
        for name, told in why.items():
            assert (told is None) is (name in solving and "input" not in fields), name
            assert told is None or "\n" not in told
        assert any(says in told for told in why.values() if told)

    @pytest.mark.parametrize("precision", ["tf32", "f16", "bf16"])
    def test_of_float32_solve_what_asks_for_less(self, precision: str) -> None:
        usual = Conv2d((4, 64, 32, 32), (64, 64, 3, 3))
        less = dataclasses.replace(usual, precision=precision)
        for family in FAMILIES:
            if family.why_not(usual, H200) is None:
                assert (family.why_not(less, H200) is None) is (family.name not in OF_IEEE_ALONE), family.name


class TestCounts:
    def test_are_of_64_bits_from_2_to_31_elements_on(self) -> None:
        for pass_ in Pass:
            for layout in ImageLayout:
                texts = [
                    PLAIN.program(problem, PLAIN.default(problem, H200))
                    for problem in (
                        Conv2d((1, 8, 2**14, size), (4, 8, 3, 3), pass_=pass_, layout=layout)
                        for size in (2**14 - 1, 2**14)
                    )
                ]
                small, large = (text.source for text in texts)
                assert "long long" not in small
                assert "constexpr long long kRows" in large
                assert "static_cast<unsigned long long>(blockIdx.x)" in large or pass_ is Pass.WGRAD
                assert all(launch.grid[0] < 2**31 for text in texts for launch in text.launches)


class TestTuning:
    @exhaustive.meeting()
    @every_dtype
    @every_layout
    def test_a_candidate_is_verified_on_the_device_and_from_the_host(
        self, dtype: DType, layout: ImageLayout, quickest: HostCompiler, host: Runtime
    ) -> None:
        """Buffers have guards and the program runs twice. Both ways of verification find an error of one element."""
        problem = Conv2d((2, 6, 7, 9), (4, 3, 3, 2), groups=2, padding=1, dtype=dtype, layout=layout, bias=True)  # type: ignore[arg-type]
        program = PLAIN.program(problem, PLAIN.default(problem, HOST))
        faulty = program.source.replace("y[index] = ", "y[index ^ 1] = ")
        assert faulty != program.source
        for compiler in (None, quickest):
            bed = Testbed(host, problem, 3, ONE_RUN, compiler=compiler, guarded=True)
            outcomes = []
            for source in (program.source, faulty):
                units = tuple(dataclasses.replace(unit, source=source) for unit in program.units)
                each = dataclasses.replace(program, units=units)
                outcomes.append(bed.evaluate(each, quickest.compile_program(each), ONE_RUN).outcome)
            bed.close()
            assert isinstance(outcomes[0], Measurement), outcomes[0]
            assert not isinstance(outcomes[1], Measurement)


class TestPlans:
    @exhaustive.meeting()
    @every_pass
    @every_layout
    @every_dtype
    def test_take_tensors_of_pytorch_and_arrays(self, pass_: Pass, layout: ImageLayout, dtype: DType) -> None:
        torch = pytest.importorskip("torch")
        problem = Conv2d((2, 4, 7, 9), (6, 4, 3, 2), pass_=pass_, dtype=dtype, layout=layout)
        plan = ws.plan(problem, device="host")
        memory = torch.channels_last if layout is ImageLayout.NHWC else torch.contiguous_format
        kind, torch_kind = numpy_dtype(dtype), getattr(torch, dtype.value)
        given = [values.astype(np.float32) for values in random_operands(problem, 0).values()]
        tensors = [torch.from_numpy(values).to(torch_kind).contiguous(memory_format=memory) for values in given]
        arrays = [
            np.ndarray(each.shape, kind, np.empty(each.nbytes, np.uint8), strides=each.strides)
            for each in problem.inputs
        ]
        for array, values in zip(arrays, given, strict=True):
            array[...] = values
        for _ in range(3):  # the second and later calls take the fast path
            result, other = plan(*tensors), plan(*arrays)
            assert result.dtype is torch_kind
            assert result.is_contiguous(memory_format=memory)
            assert other.dtype == kind
            assert other.strides == problem.output.strides
            assert np.array_equal(result.float().numpy(), other.astype(np.float32))
        operands = dict(zip((each.name for each in problem.inputs), arrays, strict=True))
        assert verify(np.ascontiguousarray(other), Reference(*reference(problem, operands)), dtype).right

    def test_refuse_what_lies_otherwise_in_one_line(self) -> None:
        torch = pytest.importorskip("torch")
        last, first = (
            ws.plan(Conv2d((2, 4, 7, 9), (6, 4, 3, 2), layout=layout), device="host")
            for layout in ("nhwc", "nchw")  # type: ignore[arg-type]
        )
        x, w = torch.zeros(2, 4, 7, 9), torch.zeros(6, 4, 3, 2)
        with pytest.raises(BadArgument, match=r"x: must be channels last, with strides of \(1008, 4, 144, 16\) bytes"):
            last(x, w)
        with pytest.raises(BadArgument, match="x: must be C-contiguous"):
            first(x.contiguous(memory_format=torch.channels_last), w)
        with pytest.raises(BadArgument, match=r"x: expected float32 of shape .* got bfloat16"):
            first(x.bfloat16(), w)


@pytest.mark.usefixtures("compile_without_optimisation")
def test_nothing_is_read_or_written_outside_of_a_buffer(tmp_path: Path) -> None:
    sanitized.check([(case.problem, case.program) for case in list(defaults(spread()))[::7]], tmp_path)
