"""Float64 references made by kernels: they equal NumPy's, wrong ones are found, and results are verified by them."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import exhaustive
from policies import ONE_RUN
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.generator.cgemm import Cgemm, Op
from warpsmith.generator.conv2d import Conv2d, PaddingMode, Pass
from warpsmith.generator.conv2d.plain_family import Conv2dPlain
from warpsmith.generator.fft import Fft, Tiling
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.plain_family import Filter1dPlain
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.reference import conv2d as conv2d_kernels
from warpsmith.generator.reference.kernels import ReferenceKernels
from warpsmith.store.record import Failure, FailureKind, Measurement
from warpsmith.tuner.evaluate import dataset, device_reference, testbed
from warpsmith.tuner.evaluate.buffers import GuardedBuffer
from warpsmith.tuner.evaluate.device_reference import (
    DeviceReference,
    ReferenceBuffers,
    WrongReference,
    sampled_count,
    sampled_indices,
)
from warpsmith.tuner.evaluate.testbed import Testbed
from warpsmith.tuner.faults import Part
from warpsmith.tuner.operations.registry import judge_of, random_operands, references

pytestmark = pytest.mark.usefixtures("compile_quickest")

Values = NDArray[np.float64]

LAYERS = [
    Conv2d(
        (2, 4, 9, 8),
        (6, 2, 3, 2),
        groups=2,
        stride=(2, 1),
        dilation=(1, 2),
        padding=((1, 2), (0, 3)),
        padding_mode=mode,
        pass_=pass_,
        bias=pass_ is not Pass.WGRAD,
        relu=pass_ is not Pass.WGRAD,
    )
    for pass_, mode in itertools.product(Pass, PaddingMode)
]
ARITHMETIC: list[Problem] = [
    *(
        Conv2d((1, 70, 17, 18), (40, 70, 3, 3), padding=1, pass_=pass_, dtype="float16", precision="f16", layout="nhwc")
        for pass_ in Pass
    ),
    *(
        Conv2d(
            (1, 6, 40, 50),
            (6, 1, 3, 3),
            padding=1,
            groups=6,
            pass_=pass_,
            dtype="bfloat16",
            precision="bf16",
            accuracy="elementwise",
        )
        for pass_ in Pass
    ),
    Conv2d((3, 4, 60, 60), (5, 4, 3, 3), padding=1, pass_="wgrad"),  # sums that several blocks share
]
PRODUCTS = [
    Cgemm(3, 7, 9, 11, a, b, accuracy)
    for (a, b), accuracy in zip(itertools.product(Op, Op), itertools.cycle(("normwise", "elementwise")), strict=False)
]
FILTERS = [
    *(
        Filter2d(
            (5, 9),
            (3, 5),
            border=border,
            dtype="uint8",
            channels=3,
            planes=2,
            filters=2,
            convolve=True,
            cval=2.5 if border is Border.CONSTANT else 0.0,
        )
        for border in Border
    ),
    *(
        Filter2d((3, 4), (9, 12), border=border, dtype="float16", accuracy="normwise", pitch=64, anchor=(1, 2))
        for border in Border
        if border is not Border.VALID
    ),
    Filter2d((40, 31), (7, 3), pitch=160),
]

LINES = [
    Filter1d(300, 17, batch=2, channels=4, filters=2),
    Filter1d(300, 16, batch=2, channels=4, filters=4, layout="btc", mode="same", convolve=True, dtype="int16"),
    Filter1d(50, 80, channels=3, layout="btc", dtype="uint8", result_dtype="float16", pitch=5, result_pitch=8, down=3),
    Filter1d(70, 5, batch=3, mode="causal", dtype="float16", channels=2, filters=2, pitch=144, convolve=True),
    Filter1d(70, 5, batch=2, mode="valid", dtype="bfloat16", taps_dtype="bfloat16", result_dtype="float32", down=2),
    Filter1d(70, 5, dtype="float16", taps_dtype="float16", result_dtype="bfloat16", lags=(-2, 60)),
    Filter1d(90, 33, batch=2, dtype="complex64", channels=2, layout="btc", lags=(3, 80), convolve=True),
    Filter1d(90, 33, batch=2, dtype="complex64", taps_dtype="complex64", channels=2, filters=2, down=7),
    Filter1d(1, 1, dtype="complex64"),
    Filter1d(300, 4, batch=2, channels=6, filters=6, mode="causal", bias=True, activation="silu"),
    Filter1d(90, 5, batch=2, channels=6, filters=2, layout="btc", dtype="int16", bias=True),
    Filter1d(90, 5, channels=4, dtype="bfloat16", taps_dtype="bfloat16", layout="btc", bias=True, activation="silu"),
    Filter1d(70, 5, dtype="float16", activation="silu"),
    Filter1d(200, 9, batch=2, channels=4, filters=2, accuracy="elementwise"),
    Filter1d(200, 9, batch=2, channels=4, accuracy="elementwise", nonfinite="any", bias=True),
    Filter1d(200, 9, batch=2, channels=4, filters=2, layout="btc", nonfinite="any", dtype="complex64"),
    Filter1d(3, 9, batch=2, channels=4, mode="causal", state="both", bias=True, activation="silu"),
    Filter1d(200, 9, mode="causal", state="after", down=2, accuracy="elementwise"),
    Filter1d(200, 9, batch=2, channels=4, mode="causal", state="before", layout="btc", dtype="complex64"),
    Filter1d(2, 4, batch=9, channels=4, filters=4, mode="causal", state="carried", state_rows=11, dtype="bfloat16"),
    Filter1d(2, 4, batch=9, channels=4, mode="causal", state="carried", circular=True, state_width=7, layout="btc"),
    Filter1d(90, 5, 2, channels=4, filters=2, dtype="bfloat16", result_dtype="float16", pitch=192, gates="both"),
    Filter1d(90, 5, 2, channels=4, layout="btc", dtype="float16", gates="both", activation="silu", result_pitch=16),
    Filter1d(90, 5, channels=3, gates="before", nonfinite="any"),
    Filter1d(90, 5, 2, "causal", 4, 2, "btc", "bfloat16", gates="both", projection=3, convolve=True),
    Filter1d(90, 5, 2, "causal", 4, 4, dtype="float16", result_dtype="float32", gates="both", projection=4),
    Filter1d(60, 4, channels=4, filters=4, mode="causal", packed=9),
    Filter1d(60, 4, channels=4, filters=4, mode="causal", packed=9, state="both", layout="btc", dtype="int16"),
    Filter1d(60, 4, channels=4, mode="causal", packed=9, state="carried", state_rows=12, convolve=True),
]
TRANSFORMS = [
    Fft((30,), batch=7),
    Fft((30,), batch=7, kind="c2c", inverse=True, norm="ortho"),
    Fft((6, 9), batch=5, kind="c2r", layout="frequency"),
    Fft((6, 10), batch=5, kind="c2r", layout="transposed", valid=(4, 7), start=(5, 2)),
    Fft((8, 16), batch=3, order="reversed", norm="forward"),
    Fft((8, 16), batch=3, kind="c2r", order="reversed", layout="transposed"),
    Fft((8, 4), batch=3, kind="c2c", order="reversed", valid=(5, 3), layout="frequency"),
    Fft((12, 10), batch=4, valid=(7, 5), start=(3, 9)),
    *(Fft((12, 11), batch=3, valid=(7, 5), border=f"{mode}:2+1x3") for mode in ("reflect", "replicate", "circular")),
    Fft(
        (7, 9),
        batch=2 * 12 * 3,
        layout="frequency",
        tiling=Tiling(count=(3, 4), step=(5, 6), origin=(-1, -2), plane=(14, 19), inner=3),
    ),
    Fft(
        (7, 9),
        batch=2 * 12 * 3,
        kind="c2r",
        valid=(5, 6),
        layout="frequency",
        tiling=Tiling(count=(3, 4), step=(5, 6), origin=(0, 0), plane=(14, 19), inner=3),
    ),
]


@dataclasses.dataclass(frozen=True)
class Made:
    """A reference made on the device."""

    host: HostRuntime
    problem: Problem
    operands: dict[str, NDArray[Any]]
    buffers: ReferenceBuffers
    reference: DeviceReference

    def numbers(self) -> tuple[Values, Values]:
        size = self.problem.output.components.size
        expected, scale = np.empty(size), np.empty(size)
        self.host.download(expected, self.buffers.expected.address)
        self.host.download(scale, self.buffers.scale.address)
        return expected, scale

    def check(self, count: int = 200) -> None:
        indices = sampled_indices(self.problem.output, count)
        self.reference.check(judge_of(self.problem).samples(self.problem, self.operands, indices))


@contextlib.contextmanager
def made(
    host: HostRuntime,
    compiler: HostCompiler,
    problem: Problem,
    kernels: ReferenceKernels[Any] | None = None,
    slack: float = 1.0,
) -> Iterator[Made]:
    operands = dict(random_operands(problem, 1))
    kernels = kernels or judge_of(problem).kernels(problem)
    assert kernels is not None
    with contextlib.ExitStack() as opened:
        inputs = {}
        for operand in problem.inputs:
            buffer = GuardedBuffer(host, operand, 0)
            opened.callback(buffer.free)
            buffer.upload(operands[operand.name])
            inputs[operand.name] = buffer.address
        nbytes = 8 * problem.output.components.size
        buffers = ReferenceBuffers(host.allocate(nbytes), host.allocate(nbytes))
        for allocation in (buffers.expected, buffers.scale):
            opened.callback(host.free, allocation)
        reference = DeviceReference(host, compiler, problem, kernels, inputs, buffers, slack)
        opened.callback(reference.close)
        reference.compute()
        yield Made(host, problem, operands, buffers, reference)


@exhaustive.one_in(3)
@pytest.mark.parametrize(
    "problem", [*LAYERS, *ARITHMETIC, *PRODUCTS, *FILTERS, *LINES, *TRANSFORMS], ids=lambda problem: problem.key()
)
def test_is_the_host_s_reference(host: HostRuntime, quickest: HostCompiler, problem: Problem) -> None:
    with made(host, quickest, problem) as found:
        expected, scale = found.numbers()
        exact = references(problem, found.operands)[problem.output.name]
        assert (np.abs(expected - exact.expected.reshape(-1)) <= 1e-13 * exact.scale.reshape(-1)).all()
        np.testing.assert_allclose(scale, exact.scale.reshape(-1), rtol=1e-12)
        found.check()


def test_is_the_same_in_strips_of_few_blocks(
    host: HostRuntime, quickest: HostCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Conv2d((2, 20, 30, 31), (40, 20, 3, 3), padding=1)
    with made(host, quickest, problem) as found:
        whole = found.numbers()
        launches = len(list(device_reference.strips(found.reference._program)))
        monkeypatch.setattr(device_reference, "BLOCKS_AT_ONCE", 2)
        assert len(list(device_reference.strips(found.reference._program))) > launches
        found.reference.compute()
        np.testing.assert_array_equal(whole, found.numbers())


def test_slack_makes_the_scale_as_many_times_as_large(host: HostRuntime, quickest: HostCompiler) -> None:
    problem = LAYERS[0]
    with made(host, quickest, problem) as one, made(host, quickest, problem, slack=3.0) as three:
        np.testing.assert_array_equal(one.numbers()[0], three.numbers()[0])
        np.testing.assert_allclose(3 * one.numbers()[1], three.numbers()[1], rtol=1e-15)


@dataclasses.dataclass(frozen=True)
class Altered(ReferenceKernels[Any]):
    """Kernels with a fault: one piece of their text is replaced."""

    before: str
    after: str

    def multiply_adds(self, problem: Problem) -> int:
        return problem.flops

    def program(self, problem: Problem) -> Program:
        kernels = judge_of(problem).kernels(problem)
        assert kernels is not None
        program = kernels.program(problem)
        (unit,) = program.units
        assert self.before in unit.source
        altered = dataclasses.replace(unit, source=unit.source.replace(self.before, self.after))
        return dataclasses.replace(program, units=(altered,))


FAULTS = {
    "a tap too few": ("const bool exists = t < end;", "const bool exists = t < end - 1;"),
    "the padding is shifted": ("constexpr int kLeft = 1;", "constexpr int kLeft = 0;"),
    "a scale that lets all pass": ("* slack;", "* slack * 1e6;"),
    "a scale that lets nothing pass": ("* slack;", "* slack * 1e-6;"),
    "nothing is written": ("*target = sums[i][j];", ""),
    "not a number": ("*target = sums[i][j];", "*target = sums[i][j] * __longlong_as_double(0x7ff8000000000000ll);"),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=list(FAULTS))
def test_a_sample_finds_a_wrong_one(host: HostRuntime, quickest: HostCompiler, fault: tuple[str, str]) -> None:
    problem = Conv2d((2, 5, 12, 13), (7, 5, 3, 3), padding=1)
    with (
        made(host, quickest, problem, Altered(*fault)) as found,
        pytest.raises(WrongReference, match="sampled results"),
    ):
        found.check()


def test_samples_are_few_where_sums_are_long() -> None:
    assert sampled_count(4608) == 1000
    assert sampled_count(1 << 20) == 32
    assert sampled_count(1 << 30) == 16
    output = Conv2d((1, 3, 100, 100), (4, 3, 3, 3)).output
    indices = sampled_indices(output, 1000)
    assert {0, output.size - 1} <= set(indices)
    assert 950 <= len(indices) <= 1000  # some are drawn twice


LAYER = Conv2d((2, 8, 20, 18), (6, 8, 3, 3), padding=1)


@pytest.fixture
def bed(host: HostRuntime, quickest: HostCompiler, monkeypatch: pytest.MonkeyPatch) -> Iterator[Testbed]:
    """Testbed that makes its references on the device, as for large problems."""
    monkeypatch.setattr(dataset, "QUICK_TERMS", 0)

    def no_reference(*_: object) -> Any:
        raise AssertionError("the host made a reference")

    monkeypatch.setattr(dataset, "references", no_reference)
    with contextlib.closing(Testbed(host, LAYER, 3, ONE_RUN, guarded=True, compiler=quickest)) as opened:
        yield opened


def plain(before: str = "", after: str = "") -> Program:
    family = Conv2dPlain()
    program = family.program(LAYER, family.default(LAYER, HostRuntime().device))
    (unit,) = program.units
    assert before in unit.source
    altered = dataclasses.replace(unit, source=unit.source.replace(before, after) if before else unit.source)
    return dataclasses.replace(program, units=(altered,))


def outcome(bed: Testbed, compiler: HostCompiler, program: Program) -> Measurement | Failure:
    return bed.evaluate(program, compiler.compile_program(program), ONE_RUN).outcome


def test_results_are_judged_where_they_lie(bed: Testbed, quickest: HostCompiler) -> None:
    right = outcome(bed, quickest, plain())
    assert isinstance(right, Measurement)
    assert 0 < right.max_error < 1e-6
    one = outcome(bed, quickest, plain("y[index] = sum;", "y[index] = index == 77 ? sum + 3.0f : sum;"))
    assert isinstance(one, Failure)
    assert one.kind is FailureKind.WRONG
    assert one.message.startswith("1 of 4320 elements are wrong; the worst, at (0, 0, 4, 5), is ")
    got, expected = (float(word) for word in re.findall(r"(?:is|be) (-?[\d.]+)", one.message))
    assert got - expected == pytest.approx(3.0, rel=1e-6)
    unwritten = outcome(bed, quickest, plain("y[index] = sum;", "if (index != 90) { y[index] = sum; }"))
    assert isinstance(unwritten, Failure)
    assert unwritten.message.startswith("1 of 4320 elements are wrong; the worst, at (0, 0, 5, 0), is nan")


def test_what_is_written_beside_the_result_is_found(bed: Testbed, quickest: HostCompiler) -> None:
    beside = outcome(bed, quickest, plain("y[index] = sum;", "y[index] = sum; if (index == 0) { y[-3] = sum; }"))
    assert isinstance(beside, Failure)
    assert (beside.kind, beside.message) == (
        FailureKind.OUT_OF_BOUNDS,
        "y: 4 bytes written within 65536 bytes before the buffer",
    )


def test_a_wrong_candidate_leaves_the_next_one_inputs_and_a_reference_that_are_right(
    bed: Testbed, quickest: HostCompiler
) -> None:
    computed: list[bool] = []
    compute = DeviceReference.compute
    patched = pytest.MonkeyPatch()
    patched.setattr(DeviceReference, "compute", lambda self: computed.append(True) or compute(self))
    try:
        wrong = outcome(bed, quickest, plain("y[index] = sum;", "y[index] = -sum;"))
        assert isinstance(wrong, Failure)
        assert computed == []  # nothing had changed
        changing = "const_cast<float*>(x)[0] = 5.0f; y[index] = -sum;"
        assert isinstance(outcome(bed, quickest, plain("y[index] = sum;", changing)), Failure)
        assert computed == [True]  # of the set of data that it ran on
        assert isinstance(outcome(bed, quickest, plain()), Measurement)
    finally:
        patched.undo()


def test_of_stress_data_is_left_to_the_finals_where_it_takes_long(
    host: HostRuntime, quickest: HostCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[bool] = []
    compute = DeviceReference.compute
    monkeypatch.setattr(DeviceReference, "compute", lambda self: computed.append(True) or compute(self))
    monkeypatch.setattr(dataset, "QUICK_TERMS", 0)
    terms = LAYER.output.size * judge_of(LAYER).terms(LAYER)
    for most, datasets in ((terms, 2), (terms - 1, 1)):
        computed.clear()
        monkeypatch.setattr(testbed, "STRESS_TERMS_THERE", most)
        with contextlib.closing(Testbed(host, LAYER, 3, ONE_RUN, guarded=True, compiler=quickest)) as bed:
            assert len(computed) == datasets
            bed.renew(4)
            assert len(computed) == datasets + 2


def test_one_that_is_wrong_is_made_on_the_host(
    host: HostRuntime, quickest: HostCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset, "QUICK_TERMS", 0)
    usual = conv2d_kernels.Conv2dReference.program

    def altered(self: conv2d_kernels.Conv2dReference, problem: Conv2d) -> Program:
        program = usual(self, problem)
        (unit,) = program.units
        source = unit.source.replace(*FAULTS["a tap too few"])
        return dataclasses.replace(program, units=(dataclasses.replace(unit, source=source),))

    monkeypatch.setattr(conv2d_kernels.Conv2dReference, "program", altered)
    with contextlib.closing(Testbed(host, LAYER, 3, ONE_RUN, guarded=True, compiler=quickest)) as bed:
        assert isinstance(outcome(bed, quickest, plain()), Measurement)
        failed = next(each for each in bed.faults if each.part is Part.REFERENCE)
    assert failed.name == "on the device"
    assert "sampled results" in failed.failure.message


@pytest.mark.parametrize("state", ["carried", "both"])
@pytest.mark.parametrize("rows", [{"batch": 3}, {"packed": 4}])
def test_states_are_judged_beside_a_result_whose_reference_lies_there(
    host: HostRuntime, quickest: HostCompiler, monkeypatch: pytest.MonkeyPatch, state: str, rows: dict[str, int]
) -> None:
    monkeypatch.setattr(dataset, "QUICK_TERMS", 0)
    problem = Filter1d(30, 4, channels=3, mode="causal", state=state, **rows)  # type: ignore[arg-type]
    family = Filter1dPlain()
    right = family.program(problem, family.default(problem, HostRuntime().device))
    copy = "target[i] = " if state == "carried" else "after[item] = samples"
    with contextlib.closing(Testbed(host, problem, 3, ONE_RUN, guarded=True, compiler=quickest)) as bed:
        assert bed._data.is_made_on_device
        assert not bed.faults
        assert isinstance(outcome(bed, quickest, right), Measurement)
        for line, mistake, told in (
            (copy, f"if (channel != 1) {copy}", "state" if state == "carried" else "after"),
            ("result[output] = to_result(", "result[output] = to_result(1.5f * ", "elements are wrong"),
        ):
            wrong = Program.of_source(right.family, right.config, right.source.replace(line, mistake), right.launches)
            found = outcome(bed, quickest, wrong)
            assert isinstance(found, Failure)
            assert told in found.message
        assert isinstance(outcome(bed, quickest, right), Measurement)
