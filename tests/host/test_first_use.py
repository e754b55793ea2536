"""Untuned default plans are checked once: right ones pass, wrong ones are poisoned, and the next one takes over."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import exhaustive
import warpsmith as ws
from joined import plans_of
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument, CompileError, OutOfMemory, WrongResult
from warpsmith.generator import registry
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.fft import Product, Tiling
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.gradients_apart_family import Filter1dGradientsApartFft
from warpsmith.generator.filter2d.plain_family import Filter2dPlain
from warpsmith.generator.problem import Problem
from warpsmith.generator.ranking import default_answer
from warpsmith.generator.space import Config
from warpsmith.plans import make
from warpsmith.plans.first_use import check, verdicts
from warpsmith.plans.first_use.check import check_on_random_data
from warpsmith.plans.first_use.kernels import samples_of
from warpsmith.plans.first_use.verdicts import Finding
from warpsmith.plans.loaded import Verified, Verify
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan
from warpsmith.plans.poisoned import WRONG_HERE, WrongProgram
from warpsmith.store.record import FailureKind
from warpsmith.store.store import Store
from warpsmith.tuner.operations.registry import random_operands

DEVICE = DeviceRef(DeviceKind.HOST).device()
SMALL = ws.Filter2d(image=(40, 50), filter=(3, 4))
LAYER: dict[str, Any] = {"input": (2, 4, 11, 13), "weight": (6, 2, 3, 2), "groups": 2}
TILES = Tiling(count=(3, 2), step=(11, 13), origin=(0, 0), plane=(30, 25))


def filter2d(**fields: Any) -> ws.Filter2d:
    return ws.Filter2d(**{"image": (40, 50), "filter": (5, 4)} | fields)


def conv2d(**fields: Any) -> ws.Conv2d:
    return ws.Conv2d(**LAYER | fields)


def filter1d(**fields: Any) -> Filter1d:
    return Filter1d(**{"signal": 90, "taps": 7, "batch": 2} | fields)


def gradient(pass_: str, **fields: Any) -> Filter1d:
    """A gradient of a filter that looks back, or of one with other lags."""
    slice_ = {} if "lags" in fields else {"mode": "causal"}
    return filter1d(**{"channels": 4, "filters": 4, "pass_": pass_} | slice_ | fields)


def fft(*size: int, **fields: Any) -> ws.Fft:
    return ws.Fft(**{"size": size, "batch": 6} | fields)


PAIRS: tuple[tuple[Problem, Problem], ...] = (
    (filter2d(border="reflect"), filter2d(border="mirror")),
    (filter2d(border="wrap", dtype="uint8"), filter2d(border="nearest", dtype="uint8")),
    (filter2d(border="constant", cval=3.0), filter2d(border="constant", cval=4.0)),
    (filter2d(border="nearest"), filter2d(border="nearest", convolve=True)),
    (filter2d(border="nearest"), filter2d(border="nearest", anchor=(0, 3))),
    (filter2d(dtype="float16", channels=3), filter2d(dtype="float16", image=(40, 50), channels=3, pitch=304)),
    (filter2d(planes=2, filters=3, accuracy="normwise"), filter2d(planes=3, filters=2, accuracy="normwise")),
    (filter2d(result_dtype="uint8", planes=2), filter2d(result_dtype="uint8", planes=2, result_pitch=64)),
    (filter2d(accuracy="imagewise", weights=range(20)), filter2d(accuracy="imagewise", weights=range(1, 21))),
    (conv2d(padding=1), conv2d(padding=1, padding_mode="circular")),
    (conv2d(padding=2, pass_="dgrad", padding_mode="reflect"), conv2d(padding=2, pass_="dgrad")),
    (conv2d(padding=2, pass_="dgrad", padding_mode="replicate"), conv2d(padding=2, pass_="dgrad")),
    (conv2d(padding=((2, 1), (0, 1)), pass_="wgrad"), conv2d(padding=((1, 2), (0, 1)), pass_="wgrad")),
    (conv2d(bias=True, padding=2, stride=2), conv2d(bias=True, padding=2, stride=2, relu=True)),
    (conv2d(dilation=2, padding=2), conv2d(dilation=2, padding=2, layout="nhwc")),
    (conv2d(pass_="dgrad", stride=(2, 3), padding=1), conv2d(pass_="dgrad", stride=(3, 2), padding=1)),
    (conv2d(dtype="float16", precision="f16"), conv2d(dtype="float16", precision="f16", layout="nhwc")),
    (conv2d(dtype="bfloat16", precision="bf16", bias=True), conv2d(dtype="bfloat16", precision="bf16", relu=True)),
    (conv2d(precision="tf32", accuracy="elementwise"), conv2d(precision="tf32", accuracy="elementwise", relu=True)),
    (fft(16), fft(16, norm="ortho")),
    (fft(8, 16), fft(8, 16, layout="transposed")),
    (fft(8, 16, order="reversed"), fft(8, 16)),
    (fft(8, 16, kind="c2r", layout="frequency", order="reversed"), fft(8, 16, kind="c2r", layout="frequency")),
    (fft(12, 15, kind="c2c", inverse=True), fft(12, 15, kind="c2c")),
    (fft(16, 16, valid=(9, 10), start=(3, 14)), fft(16, 16, valid=(9, 10), start=(3, 13))),
    (fft(16, 16, valid=(9, 10), border="reflect:2+1x3"), fft(16, 16, valid=(9, 10), border="circular:2+1x3")),
    (fft(16, 16, kind="c2r", valid=(9, 10), start=(3, 14)), fft(16, 16, kind="c2r", valid=(9, 10))),
    (
        fft(16, 16, kind="c2r", valid=(11, 13), tiling=TILES, batch=12),
        fft(16, 16, kind="c2r", valid=(11, 13), tiling=dataclasses.replace(TILES, inner=2), batch=12),
    ),
    (
        fft(16, 16, tiling=dataclasses.replace(TILES, origin=(-2, -3)), batch=12),
        fft(16, 16, tiling=dataclasses.replace(TILES, origin=(-2, -2)), batch=12),
    ),
    (
        fft(8, 16, kind="c2r", layout="frequency", product=Product(2, 4, 2), batch=8),
        fft(8, 16, kind="c2r", layout="frequency", product=Product(2, 4, 2, a="c", b="t"), batch=8),
    ),
    (
        fft(8, 16, kind="c2r", layout="frequency", product=Product(2, 4, 2, offset=True), batch=8),
        fft(8, 16, kind="c2r", layout="frequency", product=Product(2, 4, 2, b="c", offset=True), batch=8),
    ),
    (ws.Cgemm(batch=12, m=7, n=9, k=8), ws.Cgemm(batch=12, m=7, n=9, k=8, a="c")),
    (ws.Cgemm(batch=3, m=7, n=9, k=8, b="t", accuracy="normwise"), ws.Cgemm(batch=3, m=7, n=9, k=8, b="c")),
    (filter1d(), filter1d(convolve=True)),
    (filter1d(mode="causal", dtype="int16"), filter1d(mode="same", dtype="int16")),
    (filter1d(dtype="uint8", lags=(3, 50), down=4), filter1d(dtype="uint8", lags=(4, 50), down=4)),
    (filter1d(channels=4, filters=2, down=3, pitch=368), filter1d(channels=2, filters=2, batch=4, down=3, pitch=368)),
    (filter1d(channels=4, layout="btc", pitch=32), filter1d(channels=4, layout="btc", pitch=32, convolve=True)),
    (
        filter1d(dtype="float16", taps_dtype="float16", result_dtype="bfloat16"),
        filter1d(dtype="bfloat16", taps_dtype="bfloat16", result_dtype="float16"),
    ),
    (filter1d(dtype="complex64", result_pitch=776), filter1d(dtype="complex64", result_pitch=776, convolve=True)),
    (
        filter1d(dtype="complex64", taps_dtype="complex64", channels=4, filters=4, layout="btc"),
        filter1d(dtype="complex64", taps_dtype="complex64", channels=4, filters=4, layout="bct"),
    ),
    (filter1d(weights=range(7)), filter1d(weights=range(1, 8))),
    (filter1d(activation="silu", channels=2), filter1d(channels=2)),
    (filter1d(activation="silu", dtype="int16", taps=70), filter1d(dtype="int16", taps=70)),
    (
        filter1d(bias=True, channels=4, filters=4, activation="silu"),
        filter1d(bias=True, channels=4, filters=4),
    ),
    (
        filter1d(bias=True, channels=4, layout="btc", dtype="float16", taps_dtype="float16"),
        filter1d(bias=True, channels=4, layout="bct", dtype="float16", taps_dtype="float16"),
    ),
    (filter1d(bias=True, channels=4, dtype="uint8"), filter1d(bias=True, channels=4, dtype="uint8", convolve=True)),
    (
        filter1d(bias=True, dtype="bfloat16", activation="silu", weights=range(7)),
        filter1d(bias=True, dtype="bfloat16", weights=range(7)),
    ),
    (gradient("wgrad"), gradient("wgrad", convolve=True)),
    (gradient("dgrad", activation="silu"), gradient("dgrad", activation="silu", convolve=True)),
    (gradient("backward", bias=True), gradient("backward", bias=True, lags=(-3, 86))),
    (
        gradient("backward", bias=True, activation="silu", dtype="bfloat16", layout="btc"),
        gradient("backward", bias=True, activation="silu", dtype="bfloat16", layout="bct"),
    ),
    (
        gradient("backward", dtype="float16", taps_dtype="float16", filters=2),
        gradient("backward", dtype="float16", taps_dtype="float16", filters=2, convolve=True),
    ),
)
"""Pairs of problems. The program of either one gives wrong results for the other."""


def plan_of(host: Runtime, quickest: HostCompiler, problem: Problem, of: Problem | None = None) -> Plan:
    """Plan whose program is the default for another problem."""
    family, config = default_answer(of or problem, DEVICE)
    program = family.program(of or problem, config)
    return Plan.load(problem, Match(MatchKind.DEFAULT, program, None, ()), quickest.compile_program(program), host)


@exhaustive.one_in(3)
@pytest.mark.parametrize(("one", "other"), PAIRS, ids=lambda problem: problem.key())
def test_what_is_right_passes_and_what_answers_a_like_problem_does_not(
    host: Runtime, quickest: HostCompiler, one: Problem, other: Problem
) -> None:
    for problem in (one, other):
        finding = check_on_random_data(plan_of(host, quickest, problem).loaded, quickest, 1)
        assert finding is not None
        assert finding.is_right, finding
        assert 0 <= finding.largest_error <= problem.error_bound
    spans = [[(each.name, each.allocated_bytes) for each in problem.operands] for problem in (one, other)]
    if spans[0] == spans[1]:  # so that the wrong program stays within its own memory
        finding = check_on_random_data(plan_of(host, quickest, one, other).loaded, quickest, 1)
        assert finding is not None
        assert not finding.is_right
        assert "should be" in finding.message


@pytest.mark.parametrize(
    "problem",
    [
        gradient("backward", signal=2048, taps=2048, batch=16),
        gradient("backward", signal=2000, taps=1024, batch=16, filters=2, bias=True, dtype="bfloat16"),
        gradient("backward", signal=2048, taps=1500, batch=16, dtype="float16", result_dtype="float32", convolve=True),
    ],
    ids=lambda problem: problem.key(),
)
def test_gradients_by_transforms_may_have_errors_of_the_whole_row(
    host: Runtime, quickest: HostCompiler, problem: Filter1d
) -> None:
    """Samples at the end of a causal signal meet few taps: an FFT's errors there are larger than their own terms'."""
    family = Filter1dGradientsApartFft()
    (plan,) = plans_of(host, quickest, [(problem, family.program(problem, family.default(problem, DEVICE)))])
    finding = check_on_random_data(plan.loaded, quickest, 1)
    assert finding is not None
    assert finding.is_right, finding
    assert finding.largest_error <= problem.error_bound


def test_most_pairs_have_operands_of_one_size() -> None:
    alike = [
        [each.allocated_bytes for each in one.operands] == [each.allocated_bytes for each in other.operands]
        for one, other in PAIRS
    ]
    assert sum(alike) >= 20


@pytest.mark.parametrize("problem", [SMALL, conv2d(), fft(8, 16), ws.Cgemm(batch=5, m=3, n=70, k=2)])
def test_samples_are_results_with_their_places(problem: Problem) -> None:
    output = problem.output
    samples = samples_of(output, 1000, 1, 3)
    places = np.zeros(output.span_bytes, bool)
    places[samples.offset] = True
    index = np.array(np.unravel_index(samples.index, output.shape))
    assert np.array_equal(samples.offset, np.array(output.strides) @ index)
    assert len(samples.index) >= 1000
    for axis, extent in enumerate(output.shape):
        assert {0, extent - 1} <= set(index[axis].tolist())


# The other tests are about what plans do with a finding.


class Wrong(Family):
    """The plain kernel with a mistake at the right edge of the image, in one result of fifty."""

    name = "filter2d_wrong"
    plain = Filter2dPlain()

    def why_not(self, problem: Problem, device: Any) -> str | None:
        return self.plain.why_not(problem, device)

    def space(self, problem: Problem, device: Any) -> Any:
        return self.plain.space(problem, device)

    def default(self, problem: Problem, device: Any) -> Config:
        return self.plain.default(problem, device)

    def is_likely(self, problem: Problem, device: Any) -> bool:  # noqa: ARG002
        return True

    def program(self, problem: Problem, config: Config) -> Any:
        program = self.plain.program(problem, config)
        before = "        results[f * (kOutputRows"
        assert program.source.count(before) == 1
        mistake = "        if (element == kOutputElements - 1) sums[f] += 0.25f;\n" + before
        source = program.source.replace(before, mistake)
        unit = dataclasses.replace(program.units[0], source=source)
        return dataclasses.replace(program, family=self.name, config=config, units=(unit,))


@pytest.fixture
def first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, compile_quickly: None) -> Iterator[Path]:  # noqa: ARG001
    """Path of the store. Default plans are checked, and the process starts without known verdicts."""
    monkeypatch.setenv("WARPSMITH_VERIFY", "first")
    monkeypatch.setattr(verdicts, "_path", lambda: tmp_path / "verified")
    path = tmp_path / "store.db"
    Store.open(str(path), write=True).close()
    monkeypatch.setenv("WARPSMITH_STORE", str(path))
    forget()
    yield path
    forget()


def forget() -> None:
    """Makes this process forget all verdicts, wrong programs and plans, like a new process."""
    verdicts.VERDICTS.forget()
    WRONG_HERE.forget()
    make.forget_plans()


@pytest.fixture
def wrong_family(monkeypatch: pytest.MonkeyPatch) -> Wrong:
    """A wrong family that is expected to be the fastest."""
    family, operation = Wrong(), registry.OPERATIONS["filter2d"]
    families = dataclasses.replace(operation, listed={family.name: lambda: family, **operation.listed})
    monkeypatch.setattr(registry, "OPERATIONS", {**registry.OPERATIONS, "filter2d": families})
    assert default_answer(SMALL, DEVICE)[0] is family
    return family


def expected(problem: ws.Filter2d, image: Any, weights: Any) -> Any:
    windows = np.lib.stride_tricks.sliding_window_view(image.astype(np.float64), problem.filter)
    return np.einsum("yxrs,rs->yx", windows, weights)


def is_right(plan: Plan) -> bool:
    operands = random_operands(SMALL, 5)
    arrays = [operands[each.name] for each in SMALL.inputs]
    return bool(np.allclose(plan(*arrays), expected(SMALL, *arrays), atol=1e-4))


@pytest.mark.usefixtures("wrong_family")
def test_a_wrong_program_is_poisoned_and_the_next_family_answers(first: Path) -> None:
    with pytest.warns(WrongProgram, match=r"filter2d_wrong .* gave wrong results for filter2d image=40x50"):
        plan = ws.plan(SMALL, "host")
    assert plan.match.program.family != "filter2d_wrong"
    assert is_right(plan)
    assert plan.verified.by is Verified.CHECKED
    assert any("filter2d_wrong" in reason and "poisoned" in reason for reason in plan.match.reasons)
    with Store.open(str(first), write=False) as store:
        (failure,) = store.poisoned(DEVICE).values()
    assert failure.kind is FailureKind.WRONG
    assert "results that were checked are wrong" in failure.message
    forget()
    with warnings.catch_warnings():  # the second look-up skips it
        warnings.simplefilter("error")
        again = ws.plan(SMALL, "host")
        assert ws.query(SMALL, "host").program == again.match.program
    assert again.match.program == plan.match.program


@pytest.mark.usefixtures("wrong_family", "first")
def test_a_process_remembers_where_no_store_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpsmith.plans.poisoned.write_location", lambda _: "/proc/none/store.db")
    with pytest.warns(WrongProgram):
        ws.plan(SMALL, "host")
    make.forget_plans()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert is_right(ws.plan(SMALL, "host"))


@pytest.mark.usefixtures("wrong_family", "first")
def test_only_where_no_answer_is_right_it_raises_and_names_the_programs() -> None:
    with (
        pytest.warns(WrongProgram),
        pytest.raises(WrongResult, match=r"no program is left .* filter2d_wrong .* gave wrong results"),
    ):
        ws.plan(SMALL, "host", method="filter2d_wrong")


@pytest.mark.usefixtures("wrong_family", "first")
def test_never_checks_nothing() -> None:
    plan = ws.plan(SMALL, "host", verify="never")
    assert plan.match.program.family == "filter2d_wrong"
    assert plan.verified.by is Verified.NOT
    assert not is_right(plan)  # shows that the tests above can fail


@pytest.mark.usefixtures("wrong_family", "first")
def test_a_first_call_is_checked_where_random_data_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HostRuntime, "free_bytes", lambda _: 1000)
    plan = ws.plan(SMALL, "host")
    assert (plan.verified.by, plan.match.program.family) == (Verified.PENDING, "filter2d_wrong")
    with pytest.warns(WrongProgram):
        assert is_right(plan)
    assert plan.match.program.family != "filter2d_wrong"
    assert plan.verified.by is Verified.CHECKED
    assert is_right(plan)
    out = np.empty(SMALL.output.shape, np.float32)
    operands = random_operands(SMALL, 6)
    assert plan(operands["image"], operands["weights"], out=out) is out


@pytest.mark.usefixtures("wrong_family", "first")
def test_a_call_with_bound_inputs_is_checked_for_the_whole_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HostRuntime, "free_bytes", lambda _: 1000)
    plan, operands = ws.plan(SMALL, "host"), random_operands(SMALL, 6)
    bound = plan.hold(weights=operands["weights"])
    assert (bound.verified.by, bound.match.program.family) == (Verified.PENDING, "filter2d_wrong")
    with pytest.warns(WrongProgram):
        result = bound(operands["image"])
    assert np.array_equal(result, plan(operands["image"], operands["weights"]))
    assert is_right(plan)
    assert plan.match.program.family != "filter2d_wrong"
    assert (bound.match, bound.verified) == (plan.match, plan.verified)
    assert plan.verified.by is Verified.CHECKED


@pytest.mark.usefixtures("first")
def test_data_that_are_not_finite_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "is_quick", lambda *_: False)
    plan = ws.plan(SMALL, "host")
    operands = random_operands(SMALL, 6)
    image = np.array(operands["image"])
    image[:] = np.inf
    plan(image, operands["weights"])
    assert plan.verified.by is Verified.PENDING
    plan(operands["image"], operands["weights"])
    assert plan.verified.by is Verified.CHECKED


@pytest.mark.usefixtures("first")
@pytest.mark.parametrize("problem", [filter2d(weights=range(20)), filter1d(weights=range(7), dtype="int16")])
def test_a_first_call_is_checked_where_the_program_holds_the_weights(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "is_quick", lambda *_: False)
    plan = ws.plan(problem, "host")
    plan(random_operands(problem, 6)[problem.inputs[0].name])
    assert plan.verified.by is Verified.CHECKED


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Problem]:
    seen: list[Problem] = []
    before = check.check_on_random_data

    def counting(loaded: Any, *rest: Any) -> Finding | None:
        seen.append(loaded.problem)
        return before(loaded, *rest)

    monkeypatch.setattr(check, "check_on_random_data", counting)
    return seen


@pytest.mark.usefixtures("first")
def test_a_program_is_checked_once_and_the_next_process_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = counted(monkeypatch)
    found = ws.plan(SMALL, "host").verified
    assert seen == [SMALL]
    make.forget_plans()
    assert ws.plan(SMALL, "host").verified == found
    forget()
    assert ws.plan(SMALL, "host").verified == found
    assert seen == [SMALL]
    ws.plan(dataclasses.replace(SMALL, image=(41, 50)), "host")
    assert len(seen) == 2


def test_stored_winners_are_exempt_unless_always_is_said(first: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from builders import winner

    record = winner(SMALL, device=DEVICE)
    with Store.open(str(first), write=True) as store:
        store.put_winner(record)
    seen = counted(monkeypatch)
    plan = ws.plan(SMALL, "host")
    assert (plan.match.kind, plan.verified.by, seen) == (MatchKind.EXACT, Verified.STORED, [])
    assert ws.plan(SMALL, "host", verify="always").verified.by is Verified.CHECKED
    assert seen == [SMALL]


@pytest.mark.usefixtures("first")
@pytest.mark.parametrize("error", [CompileError("no compiler"), OutOfMemory("no room"), RuntimeError("a bug")])
def test_a_check_that_fails_is_no_error(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def failing(*_: Any) -> None:
        raise error

    monkeypatch.setattr(check, "kernels_for", failing)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan = ws.plan(SMALL, "host")
        assert is_right(plan)
    assert (plan.verified.by, plan.verified.reason) == (Verified.NOT, str(error))


def test_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WARPSMITH_VERIFY", raising=False)
    assert Verify.of(None) is Verify.FIRST
    monkeypatch.setenv("WARPSMITH_VERIFY", "always")
    assert (Verify.of(None), Verify.of("never")) == (Verify.ALWAYS, Verify.NEVER)
    monkeypatch.setenv("WARPSMITH_VERIFY", "sometimes")
    with pytest.raises(BadArgument, match="WARPSMITH_VERIFY 'sometimes'; choose one of first, never, always"):
        ws.plan(SMALL, "host")
    with pytest.raises(BadArgument, match="verify 'once'; choose one of first, never, always"):
        ws.plan(SMALL, "host", verify="once")


@pytest.mark.usefixtures("first")
def test_layers_of_pytorch_get_checked_plans() -> None:
    torch = pytest.importorskip("torch")
    import warpsmith.torch as wt
    from warpsmith.torch.answers import forget as forget_layers

    forget_layers()
    x, w = torch.randn(1, 3, 8, 9), torch.randn(4, 3, 3, 3)
    y = wt.conv2d(x, w, padding=1, fallback="default")
    assert torch.allclose(y, torch.nn.functional.conv2d(x, w, padding=1), atol=1e-4)
    assert len(verdicts.VERDICTS._known) == 1


def test_a_look_up_passes_over_poisoned_programs_of_any_kind(first: Path) -> None:
    from warpsmith.store.poison import Started
    from warpsmith.store.record import Failure

    answer = ws.query(SMALL, "host")
    program = answer.program
    with Store.open(str(first), write=True) as store:
        started = Started(program.family, program.config, program.fingerprint)
        store.poison.add(DEVICE, started, Failure(FailureKind.CRASH, "it crashed"))
    other = ws.query(SMALL, "host")
    assert other.program.fingerprint != program.fingerprint


def test_weights_of_any_size_and_type_may_be_given(host: Runtime, quickest: HostCompiler) -> None:
    """Small weights are by-value arguments. Large ones are read from memory."""
    problem = ws.Filter2d(image=(120, 130), filter=(95, 97))
    plan, operands = plan_of(host, quickest, problem), random_operands(problem, 2)
    assert [each.operand.name for each in plan.loaded.signature.pointed] == ["image", "weights"]
    image, weights = operands["image"], operands["weights"]
    found = plan(image, weights)
    for given in (weights.tolist(), weights.astype(np.float64), weights.ravel(), np.asfortranarray(weights)):
        assert np.array_equal(plan(image, given), found)
    with pytest.raises(BadArgument, match="weights: expected shape"):
        plan(image, weights[1:])


def test_copies_of_weights_are_made_once_for_each_contents(host: Runtime) -> None:
    from warpsmith.devices.checked_calls import CopiedWeights

    operand = ws.Filter2d(image=(120, 130), filter=(95, 97)).operands[1]
    copies = CopiedWeights(host, operand)
    arrays = [np.full(operand.shape, number, np.float32) for number in range(20)]
    first = copies.view(arrays[0], None).address
    assert copies.view(arrays[0].tolist(), None).address == first
    there = np.empty(operand.shape, np.float32)
    for array in arrays:
        host.download(there, copies.view(array, None).address)
        assert np.array_equal(there, array)
    assert len(copies._copies) == 8  # the latest ones


def test_copies_that_a_graph_reads_stay(host: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    from warpsmith.devices.checked_calls import CopiedWeights

    operand = ws.Filter2d(image=(120, 130), filter=(95, 97)).operands[1]
    copies, captured = CopiedWeights(host, operand), np.full(operand.shape, 7, np.float32)
    monkeypatch.setattr(HostRuntime, "is_being_captured", lambda _: True)
    address = copies.view(captured, None).address
    monkeypatch.undo()
    for number in range(20):
        copies.view(np.full(operand.shape, number + 8, np.float32), None)
    assert copies.view(captured, None).address == address
