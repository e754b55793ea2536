"""cuBLAS as a candidate on the CPU: all steps of a program that calls it, with NumPy in place of cuBLAS."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import exhaustive
import warpsmith as ws
from policies import TWO_SAMPLES
from warpsmith.devices.executable import Executable
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.library_versions import library_version
from warpsmith.devices.module import BoundLaunch
from warpsmith.devices.select import DeviceRef, host_compiler
from warpsmith.errors import LaunchError
from warpsmith.generator.cgemm import Cgemm, Op
from warpsmith.generator.cgemm.cublas_family import CgemmCublas
from warpsmith.generator.conv2d.fourier.fourier_steps import with_room
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.library_calls import LEAST_CUBLAS_BYTES, USUAL_CUBLAS_BYTES, CublasProduct, Library
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import LibraryCall, Pointer, Program
from warpsmith.generator.registry import FAMILIES
from warpsmith.generator.space import Config
from warpsmith.plans.bundle_program import check_program
from warpsmith.store.record import Measurement
from warpsmith.store.store import Store
from warpsmith.tuner.evaluate.testbed import Testbed
from warpsmith.tuner.export import export
from warpsmith.tuner.operations.cgemm.oracle import reference
from warpsmith.tuner.operations.registry import random_operands
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.progress import SilentProgress
from warpsmith.tuner.run.session import tune

CUBLAS = CgemmCublas()
ON_HOST = DeviceRef(DeviceKind.HOST)
PROBLEM = Cgemm(3, 5, 7, 11, "t", "c")  # type: ignore[arg-type]


def configs(problem: Cgemm) -> tuple[Config, ...]:
    return tuple(CUBLAS.space(problem, H200).configs())


@exhaustive.one_in(3)
@pytest.mark.parametrize(("a", "b"), tuple(itertools.product(Op, Op)))
def test_results_are_right_however_operands_lie(host: HostRuntime, a: Op, b: Op) -> None:
    for problem in (Cgemm(4, 5, 7, 11, a, b), Cgemm(1, 1, 6, 2, a, b)):
        assert CUBLAS.why_not(problem, H200) is None
        with contextlib.closing(Testbed(host, problem, 3, TWO_SAMPLES, guarded=True)) as testbed:
            for config in configs(problem):
                outcome = testbed.evaluate(CUBLAS.program(problem, config), {}, TWO_SAMPLES).outcome
                assert isinstance(outcome, Measurement), outcome
                assert outcome.max_error < 1e-7


def test_its_scratch_memory_is_a_workspace(host: HostRuntime) -> None:
    program = CUBLAS.program(PROBLEM, CUBLAS.default(PROBLEM, H200))
    assert Executable.load(host, program, {}).workspace_bytes == USUAL_CUBLAS_BYTES
    assert Executable.load(host, with_room(program, LEAST_CUBLAS_BYTES), {}).workspace_bytes == LEAST_CUBLAS_BYTES


def test_each_stream_has_scratch_memory_of_its_own(host: HostRuntime) -> None:
    problem = dataclasses.replace(PROBLEM, batch=4)
    program = CUBLAS.program(problem, Config.of({"function": "cgemm", "calls": "four_streams"}))
    assert Executable.load(host, program, {}).workspace_bytes == 4 * USUAL_CUBLAS_BYTES
    assert Executable.load(host, with_room(program, 1 << 20), {}).workspace_bytes == 1 << 20


def test_as_much_of_it_as_is_usual_is_not_told() -> None:
    """Fingerprints with the usual cuBLAS workspace thus stay as they were before the limit existed."""
    program = CUBLAS.program(PROBLEM, CUBLAS.default(PROBLEM, H200))
    limited = with_room(program, 1 << 20)
    (usual,), (less,) = (each.calls for each in (program, limited))
    assert with_room(program, 1 << 40) == program
    assert "workspace" not in json.dumps(usual.parameters.spec()) + usual.description()
    assert less.parameters.spec() == usual.parameters.spec() | {"workspace_bytes": 1 << 20}
    assert limited.fingerprint != program.fingerprint
    assert "1048576 bytes of workspace" in less.description()
    for each in (usual, less):
        assert CublasProduct.of(json.loads(json.dumps(each.parameters.spec()))) == each.parameters


@pytest.mark.parametrize("nbytes", [0, LEAST_CUBLAS_BYTES - 1, 2**31, 65536.0, True])
def test_less_than_cublas_needs_is_refused(nbytes: Any) -> None:
    (call,) = CUBLAS.program(PROBLEM, CUBLAS.default(PROBLEM, H200)).calls
    with pytest.raises(ValueError, match="the workspace of a product must be 16384 to"):
        dataclasses.replace(call.parameters, workspace_bytes=nbytes)


def test_a_closed_call_is_told(host: HostRuntime) -> None:
    executable = Executable.load(host, CUBLAS.program(PROBLEM, CUBLAS.default(PROBLEM, H200)), {})
    workspaces = {each.name: 0 for each in executable.workspaces}
    call: BoundLaunch = executable.bind({"a": 0, "b": 0, "c": 0}, {}, workspaces)
    executable.close()
    with pytest.raises(LaunchError, match="its program was closed"):
        call(None)


class TestBundles:
    def test_take_what_is_generated(self) -> None:
        problem = dataclasses.replace(PROBLEM, batch=8)
        for config in configs(problem):
            program = CUBLAS.program(problem, config)
            check_program(program, problem)
            assert Program.from_spec(json.loads(json.dumps(program.spec())), {}) == program

    @pytest.mark.parametrize("changes", [{"m": 8}, {"n": 6}, {"k": 12}, {"batch": 4}])
    def test_refuse_a_call_that_reaches_beyond_its_memory(self, changes: dict[str, Any]) -> None:
        program = CUBLAS.program(PROBLEM, CUBLAS.default(PROBLEM, H200))
        (call,) = program.calls
        larger = LibraryCall(dataclasses.replace(call.parameters, **changes), call.arguments)
        with pytest.raises(ValueError, match="a call of cublas reaches beyond"):
            check_program(dataclasses.replace(program, steps=(larger,)), PROBLEM)

    def test_refuse_a_call_of_two_buffers(self) -> None:
        program = CUBLAS.program(PROBLEM, CUBLAS.default(PROBLEM, H200))
        fewer = LibraryCall(program.calls[0].parameters, (Pointer("a"), Pointer("c")))
        with pytest.raises(ValueError, match="a call of cublas takes 3 buffers; got 2"):
            check_program(dataclasses.replace(program, steps=(fewer,)), PROBLEM)


def test_a_winner_is_stored_found_and_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    solves = CgemmCublas.why_not

    def why_not(self: CgemmCublas, problem: Problem, device: Device) -> str | None:
        return solves(self, problem, H200 if device.kind is DeviceKind.HOST else device)

    monkeypatch.setattr(CgemmCublas, "why_not", why_not)
    (family,) = (each for each in FAMILIES if isinstance(each, CgemmCublas))
    path = tmp_path / "a.db"
    with Store.open(str(path), write=True) as store:
        report = tune(PROBLEM, (ON_HOST,), store, TuneOptions(trials=4), SilentProgress(), (family,))
    version = library_version(DeviceKind.HOST, Library.CUBLAS)
    assert version == f"cublas by numpy {np.__version__}"
    assert report.record.trial.compiler == f"{host_compiler().identity}; {version}"
    operands = random_operands(PROBLEM, 1)
    expected, scale = reference(PROBLEM, operands)
    export([report.record], tmp_path / "b")
    for plan in (ws.plan(PROBLEM, "host", store=str(path)), ws.load_bundle(tmp_path / "b").plan(PROBLEM, "host")):
        found = plan(operands["a"], operands["b"]).view(np.float32).reshape(expected.shape)
        assert (np.abs(found - expected) <= 1e-6 * scale).all()
