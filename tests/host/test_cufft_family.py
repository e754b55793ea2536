"""cuFFT as a candidate on the CPU: all steps of a program that calls a library, with NumPy in place of cuFFT."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import exhaustive
import warpsmith as ws
from policies import TWO_SAMPLES
from warpsmith.devices import library_versions as library_module
from warpsmith.devices.executable import Executable
from warpsmith.devices.host import cufft as stand_in
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.library_versions import identity_with_libraries, is_of_today, library_version
from warpsmith.devices.module import BoundLaunch
from warpsmith.devices.select import CompilerChoice, DeviceRef, host_compiler
from warpsmith.devices.workspaces import Workspaces
from warpsmith.errors import BadArgument, LaunchError
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.fft import Fft, Tiling
from warpsmith.generator.fft.cufft_family import FftCufft
from warpsmith.generator.library_calls import Library
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.problem import Problem
from warpsmith.generator.ranking import default_answer
from warpsmith.generator.registry import FAMILIES, families_for
from warpsmith.generator.space import Config
from warpsmith.generator.steps import LibraryCall
from warpsmith.plans.make import StaleTiming
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan
from warpsmith.store.record import Failure, FailureKind, Measurement, Trial
from warpsmith.store.store import Store
from warpsmith.tuner.evaluate.evaluator import Evaluator
from warpsmith.tuner.evaluate.testbed import Testbed
from warpsmith.tuner.export import export
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.progress import SilentProgress
from warpsmith.tuner.run.session import tune
from warpsmith.tuner.workers.deadlines import Deadlines

CUFFT = FftCufft()
ON_HOST = DeviceRef(DeviceKind.HOST)
DIRECTIONS: tuple[dict[str, Any], ...] = (
    {"kind": "r2c"},
    {"kind": "c2r"},
    {"kind": "c2c"},
    {"kind": "c2c", "inverse": True},
)
PROBLEMS = [
    Fft(size, 3, norm=norm, layout=layout, **direction)
    for direction, size, (layout, norm) in itertools.product(
        DIRECTIONS, (7, (6, 5), (5, 8)), (("batch", "backward"), ("batch", "forward"), ("frequency", "ortho"))
    )
]


def configs(problem: Fft) -> tuple[Config, ...]:
    return tuple(CUFFT.space(problem, H200).configs())


def given(problem: Fft, seed: int = 0) -> NDArray[Any]:
    """Random numbers. A half spectrum also gets values that the spectrum of a real signal cannot have."""
    operand, rng = problem.inputs[0], np.random.default_rng(seed)
    parts = rng.standard_normal(operand.components.shape, np.float32)
    return parts.view(operand.dtype.value).reshape(operand.shape)


def expected(problem: Fft, values: NDArray[Any]) -> NDArray[Any]:
    """Result of NumPy in double precision."""
    to_batch = problem.layout == "frequency"
    axes = tuple(range(1, 1 + len(problem.size)))
    if problem.inverse:
        wide = np.moveaxis(values, -1, 0) if to_batch else values
        transform = np.fft.irfftn if problem.is_real else np.fft.ifftn
        return np.asarray(transform(wide.astype(complex), s=problem.size, axes=axes, norm=problem.norm.value))
    transform = np.fft.rfftn if problem.is_real else np.fft.fftn
    spectrum = transform(values.astype(float if problem.is_real else complex), axes=axes, norm=problem.norm.value)
    return np.moveaxis(spectrum, 0, -1) if to_batch else spectrum


def plan_of(problem: Fft, config: Config) -> Plan:
    program = CUFFT.program(problem, config)
    binaries = host_compiler().compile_program(program)
    return Plan.load(problem, Match(MatchKind.DEFAULT, program, None, ()), binaries, HostRuntime())


@pytest.fixture
def without_cufft(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Makes the host like a GPU machine without cuFFT."""

    def missing(*_: object) -> None:
        raise LaunchError("cuFFT is missing: install it")

    monkeypatch.setattr(stand_in.HostCufft, "load", missing)
    monkeypatch.setattr(stand_in, "version", lambda: "cufft missing")
    library_version.cache_clear()
    yield
    library_version.cache_clear()


@pytest.fixture
def on_host(monkeypatch: pytest.MonkeyPatch) -> FftCufft:
    """Adds the host to the devices of the family, also for look-ups."""
    solves = FftCufft.why_not

    def why_not(self: FftCufft, problem: Problem, device: Device) -> str | None:
        return solves(self, problem, H200 if device.kind is DeviceKind.HOST else device)

    monkeypatch.setattr(FftCufft, "why_not", why_not)
    (family,) = (each for each in FAMILIES if isinstance(each, FftCufft))
    return family


class TestResults:
    @exhaustive.one_in(3)
    @pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key())
    @pytest.mark.usefixtures("compile_quickly")
    def test_are_those_of_numpy_and_inputs_stay(self, problem: Fft) -> None:
        """Runs the default and one more config. Half spectra hold values that no real signal produces."""
        assert CUFFT.why_not(problem, H200) is None
        values = given(problem)
        before, right = values.copy(), expected(problem, values)
        for config in {CUFFT.default(problem, H200), configs(problem)[PROBLEMS.index(problem) % len(configs(problem))]}:
            found = plan_of(problem, config)(values)
            np.testing.assert_allclose(found, right, rtol=0, atol=2e-6 * np.abs(right).max(), err_msg=config.key())
            np.testing.assert_array_equal(values, before)

    def test_configs_cover_every_value(self) -> None:
        seen = {item for problem in PROBLEMS for config in configs(problem) for item in config.items}
        wanted = {("scaling", "none"), ("scaling", "before"), ("scaling", "after"), *(("vector", n) for n in range(5))}
        assert wanted - {("vector", 3)} <= seen
        assert {("threads", n) for n in (0, 128, 256, 512)} <= seen

    @pytest.mark.parametrize("compiler", [None, host_compiler()], ids=["on the host", "on the device"])
    @pytest.mark.parametrize(
        "problem",
        [Fft((6, 5), 8, kind="c2r"), Fft(16, 8, norm="ortho"), Fft(16, 8, kind="c2c")],
        ids=lambda problem: problem.key(),
    )
    def test_are_measured_like_any_candidates(self, host: HostRuntime, problem: Fft, compiler: Any) -> None:
        """The workspace of c2r starts poisoned and has guards around it."""
        program = CUFFT.program(problem, CUFFT.default(problem, H200))
        with contextlib.closing(Testbed(host, problem, 3, TWO_SAMPLES, guarded=True, compiler=compiler)) as testbed:
            outcome = testbed.evaluate(program, host_compiler().compile_program(program), TWO_SAMPLES).outcome
        assert isinstance(outcome, Measurement), outcome

    def test_of_a_spectrum_that_is_not_copied_are_found_out(self, host: HostRuntime) -> None:
        """cuFFT's complex-to-real transforms use their input as scratch memory."""
        problem = Fft((6, 5), 8, kind="c2r", norm="forward")
        right = CUFFT.program(problem, CUFFT.default(problem, H200))
        (call,) = right.calls
        direct = dataclasses.replace(right, units=(), steps=(LibraryCall(call.parameters, _pointers(problem)),))
        with contextlib.closing(Testbed(host, problem, 3, TWO_SAMPLES, guarded=True)) as testbed:
            outcome = testbed.evaluate(direct, {}, TWO_SAMPLES).outcome
        assert isinstance(outcome, Failure)
        assert outcome.kind is FailureKind.WRONG
        assert outcome.message.startswith("after 4 timed runs, in buffer set 0: 240 of 240 elements are wrong")

    def test_a_call_needs_its_memory(self, host: HostRuntime) -> None:
        program = CUFFT.program(Fft(16, 8), CUFFT.default(Fft(16, 8), H200))
        executable = Executable.load(host, program, {})
        with pytest.raises(LaunchError, match="a call of cufft needs 'spectrum', which was not given"):
            executable.bind({"signal": 0}, {}, {})

    def test_a_librarys_scratch_memory_is_a_workspace(self, host: HostRuntime) -> None:
        """The library on the device says how large the workspace is, so it is not part of a program's fingerprint."""
        problem = Fft(16, 8)
        program = CUFFT.program(problem, CUFFT.default(problem, H200))
        assert program.workspaces == ()
        executable = Executable.load(host, program, {})
        assert executable.workspace_bytes == stand_in.SCRATCH_BYTES
        with Workspaces(host, executable.workspaces).borrow(None) as scratch:
            assert len(scratch) == 1


def _pointers(problem: Fft) -> Any:
    program = CUFFT.program(Fft(16, 8), CUFFT.default(Fft(16, 8), H200))
    source, target = program.calls[0].arguments
    names = problem.inputs[0].name, problem.output.name
    return tuple(dataclasses.replace(each, buffer=name) for each, name in zip((source, target), names, strict=True))


class TestFamily:
    @pytest.mark.parametrize(
        ("problem", "told"),
        [
            (Fft(16, 8, order="reversed"), "bit-reversed"),
            (Fft((6, 5), 8, layout="transposed"), "exchanges no dimensions"),
            (Fft(16, 8, valid=9), "neither pads nor clips"),
            (Fft(16, 8, tiling=Tiling((8,), (16,), (0,), (128,))), "whole signals, no tiles of planes"),
            (Fft(2, 2**31), "2147483647 transforms at most"),
        ],
    )
    def test_says_what_cufft_does_not(self, problem: Fft, told: str) -> None:
        assert told in (CUFFT.why_not(problem, H200) or "")

    def test_runs_on_gpus_only(self) -> None:
        """NumPy stands in for cuFFT on the host. It would win every search there, which would mean nothing."""
        assert CUFFT.why_not(Fft(16, 8), HOST) == "calls cuFFT, which runs on GPUs only"

    @pytest.mark.parametrize("problem", [Fft(16, 8), Fft(250, 9), Fft((32, 32), 7, kind="c2r"), Fft(512, 1)])
    def test_never_answers_where_nothing_is_stored(self, problem: Fft) -> None:
        assert CUFFT in families_for(problem, H200, (CUFFT,))
        assert default_answer(problem, H200)[0].name != CUFFT.name

    def test_not_even_alone(self) -> None:
        prime = Fft(101, 8)
        assert [each.name for each in families_for(prime, H200)] == ["fft_cufft"]
        with pytest.raises(BadArgument, match=r"fft_cufft alone, which is chosen by a search .*: run `warpsmith tune"):
            default_answer(prime, H200)


class TestIdentity:
    def test_has_the_version_of_each_library_that_is_called(self) -> None:
        version = library_version(DeviceKind.HOST, Library.CUFFT)
        assert version == f"cufft by numpy {np.__version__}"
        assert identity_with_libraries("g++ 12", (), DeviceKind.HOST) == "g++ 12"
        assert identity_with_libraries("g++ 12", (Library.CUFFT,), DeviceKind.HOST) == f"g++ 12; {version}"

    @pytest.mark.parametrize(
        ("identity", "holds"),
        [
            ("g++ 12", True),
            ("g++ 12; VERSION", True),
            ("g++ 13", False),
            ("g++ 13; VERSION", False),
            ("g++ 12; cufft 1.0.0", False),
            ("g++ 12; cufft missing", False),
            ("g++ 12; VERSION; cublas 1", False),
        ],
    )
    def test_of_another_version_is_not_of_today(self, identity: str, holds: bool) -> None:
        told = identity.replace("VERSION", library_version(DeviceKind.HOST, Library.CUFFT))
        assert is_of_today(told, "g++ 12", DeviceKind.HOST) == holds

    def test_a_program_that_calls_none_asks_for_no_library(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(library_module, "library_version", None)
        assert identity_with_libraries("nvrtc 13.0", (), DeviceKind.CUDA) == "nvrtc 13.0"
        assert is_of_today("nvrtc 13.0", "nvrtc 13.0", DeviceKind.CUDA)


@pytest.mark.usefixtures("on_host")
class TestSearch:
    PROBLEM = Fft(32, 16, norm="ortho")

    def run(self, path: Path, trials: int = 6) -> tuple[Any, tuple[Any, ...]]:
        with Store.open(str(path), write=True) as store:
            report = tune(self.PROBLEM, (ON_HOST,), store, TuneOptions(trials=trials), SilentProgress(), (CUFFT,))
            return report, store.trials(self.PROBLEM, ON_HOST.device())

    def test_stores_trials_that_hold_for_this_version_alone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        report, trials = self.run(tmp_path / "a.db")
        version = library_version(DeviceKind.HOST, Library.CUFFT)
        assert {trial.compiler for trial in trials} == {f"{host_compiler().identity}; {version}"}
        assert report.record.trial.family == "fft_cufft"
        assert self.run(tmp_path / "a.db")[0].reused == 6
        monkeypatch.setattr(stand_in, "version", lambda: "cufft by numpy 99")
        library_version.cache_clear()
        try:
            again, trials = self.run(tmp_path / "a.db")
            assert again.reused == 0
            assert len(trials) == 12
            self._check_look_ups(tmp_path / "a.db", version)
        finally:
            monkeypatch.undo()
            library_version.cache_clear()

    def _check_look_ups(self, path: Path, version: str) -> None:
        """The winner is still found, as under another driver. A plan warns that its time belongs to another library
        version.
        """
        with Store.open(str(path), write=True) as store:
            record = store.winner(self.PROBLEM.key(), ON_HOST.device().key())
            assert record is not None
            old = dataclasses.replace(record.trial, compiler=record.trial.compiler.split(";")[0] + f"; {version}")
            store.put_winner(dataclasses.replace(record, trial=old))
        with pytest.warns(StaleTiming, match=f"taken with {version}, here is cufft by numpy 99; tune again"):
            plan = ws.plan(self.PROBLEM, "host", store=str(path))
        assert plan.match.kind is MatchKind.EXACT
        assert plan.match.program.family == "fft_cufft"

    def test_a_trial_of_a_library_is_not_one_without(self) -> None:
        """A trial counts only if its compiler identity names the program's library and its version. Other trials can
        come from an edited store.
        """
        opened = Evaluator.open(
            self.PROBLEM, ON_HOST, (CUFFT,), CompilerChoice.AUTO, 0, Deadlines(), sanitize=False, policy=TWO_SAMPLES
        )
        with opened as evaluator:
            config = CUFFT.default(self.PROBLEM, H200)
            program = evaluator.program(CUFFT.name, config)
            failure = Failure(FailureKind.WRONG, "wrong")
            identity = evaluator.identity_of(program)
            trial = Trial(program.family, config, program.fingerprint, failure, identity)
            assert evaluator.still_holds(trial)
            bare = dataclasses.replace(trial, compiler=evaluator.compiler_identity)
            assert evaluator.may_hold(bare)
            assert not evaluator.still_holds(bare)
            other = dataclasses.replace(trial, compiler=f"{evaluator.compiler_identity}; cufft 1.0.0")
            assert not evaluator.may_hold(other)

    @pytest.mark.usefixtures("without_cufft")
    def test_a_missing_library_is_its_candidates_failure(self, host: HostRuntime) -> None:
        program = CUFFT.program(self.PROBLEM, CUFFT.default(self.PROBLEM, H200))
        with contextlib.closing(Testbed(host, self.PROBLEM, 3, TWO_SAMPLES, guarded=True)) as testbed:
            outcome = testbed.evaluate(program, host_compiler().compile_program(program), TWO_SAMPLES).outcome
        assert outcome == Failure(FailureKind.LAUNCH, "cuFFT is missing: install it")
        assert identity_with_libraries("g++", program.libraries, DeviceKind.HOST) == "g++; cufft missing"

    def test_of_what_only_it_solves(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        prime = Fft(101, 8)
        monkeypatch.setattr(TestSearch, "PROBLEM", prime)
        report, _ = self.run(tmp_path / "a.db", trials=1)
        assert report.record.trial.family == "fft_cufft"
        values = given(prime)
        found = ws.plan(prime, "host", store=str(tmp_path / "a.db"))
        assert found.match.kind is MatchKind.EXACT
        right = expected(prime, values)
        np.testing.assert_allclose(found(values), right, rtol=0, atol=2e-6 * np.abs(right).max())

    def test_winners_are_exported_and_run_from_bundles(self, tmp_path: Path) -> None:
        report, _ = self.run(tmp_path / "a.db")
        export([report.record], tmp_path / "b")
        manifest = json.loads((tmp_path / "b" / "manifest.json").read_text())
        assert manifest["version"] == 2
        plan, values = ws.load_bundle(tmp_path / "b").plan(self.PROBLEM, "host"), given(self.PROBLEM)
        right = expected(self.PROBLEM, values)
        np.testing.assert_allclose(plan(values), right, rtol=0, atol=2e-6 * np.abs(right).max())


def test_a_closed_call_is_told(host: HostRuntime) -> None:
    problem = Fft(16, 8)
    executable = Executable.load(host, CUFFT.program(problem, CUFFT.default(problem, H200)), {})
    workspaces = {each.name: 0 for each in executable.workspaces}
    call: BoundLaunch = executable.bind({"signal": 0, "spectrum": 0}, {}, workspaces)
    executable.close()
    with pytest.raises(LaunchError, match="its program was closed"):
        call(None)
