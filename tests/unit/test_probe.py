"""Probing: micro-kernels, their work and their timing, and what the command line, doctor and a search make of it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import exhaustive
from warpsmith.cli import doctor
from warpsmith.cli.app import run
from warpsmith.devices.compiler_report import CompilerReport, Condition
from warpsmith.devices.cuda.compiler import NvrtcCompiler, why_no_nvrtc
from warpsmith.devices.module import Allocation
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument, CompileError, DeviceError, OutOfMemory, StoreError
from warpsmith.generator.ceilings import Ceilings
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import A100, GB10, H200, PRESETS, T4
from warpsmith.generator.probe import LAUNCHES, Probe
from warpsmith.store.ceilings import StoredCeilings
from warpsmith.store.store import Store
from warpsmith.tuner.evaluate import probe
from warpsmith.tuner.evaluate.probe import NotMeasured, measured, probe_before_search, probe_device
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.progress import SilentProgress
from warpsmith.tuner.run import problem_list, session
from warpsmith.workers.worker import DeadlinePassed, Worker, WorkerDied

CUDA, HOST = DeviceRef(DeviceKind.CUDA), DeviceRef(DeviceKind.HOST)
HERE = Ceilings(memory_bytes_per_ns=1700.0, multiply_adds_per_ns=9000.0, launch_ns=1500.0, clock_mhz=1400.0)
STORED = StoredCeilings(HERE, "2026-11-28T10:00:00+00:00", "580.1", "nvrtc 13.0")
THROTTLED = dataclasses.replace(STORED, ceilings=Ceilings(memory_bytes_per_ns=10.0))


class TestKernels:
    def test_are_for_what_the_device_has(self) -> None:
        names = {name: {each.name for each in Probe.of(device).kernels} for name, device in PRESETS.items()}
        assert [name for name, each in names.items() if "wgmma_f16_per_ns" in each] == ["h200"]
        assert [name for name, each in names.items() if "mma_s8_per_ns" not in each] == ["t4"]
        assert len(names["h200"]) == 11
        assert names["h200"] | {"clock_mhz"} == {field.name for field in dataclasses.fields(Ceilings)}

    def test_do_the_work_that_is_counted(self) -> None:
        work = {each.name: each.work for each in Probe.of(H200, loops=8).kernels}
        threads = 132 * 256
        assert work["shared_bytes_per_ns"] == 8 * threads * 8 * 16
        assert work["multiply_adds_per_ns"] == 4 * threads * 8 * 16
        assert work["l2_bytes_per_ns"] == 8 * threads * 8 * 16  # one turn of 8 loads
        assert work["mma_f16_per_ns"] == 2 * threads // 32 * 8 * 8 * (16 * 8 * 16)
        assert work["mma_tf32_per_ns"] == work["mma_f16_per_ns"] / 2
        assert work["mma_s8_per_ns"] == work["mma_f16_per_ns"] * 2
        assert work["wgmma_f16_per_ns"] == 132 * 2 * 4 * (64 * 256 * 16)
        assert (work["barrier_ns"], work["launch_ns"]) == (8, 1)

    @pytest.mark.parametrize("device", PRESETS.values(), ids=PRESETS)
    def test_copy_far_more_than_stays_in_l2(self, device: Any) -> None:
        made = Probe.of(device)
        (copy,) = (each for each in made.kernels if each.name == "memory_bytes_per_ns")
        assert 0.9 * 16 * device.l2_bytes < copy.work <= made.data_bytes <= device.memory_bytes // 8
        _, target = copy.launch.arguments
        assert 2 * cast(Any, target).offset == copy.work

    def test_need_no_l2_that_a_driver_tells(self) -> None:
        assert Probe.of(dataclasses.replace(GB10, l2_bytes=0)).kernels

    @exhaustive.one_in(3, 2)  # an H200 among them, which has wgmma
    @pytest.mark.skipif(why_no_nvrtc() is not None, reason="NVRTC is not here")
    @pytest.mark.parametrize("device", PRESETS.values(), ids=PRESETS)
    def test_compile_without_spills(self, device: Any) -> None:
        made = Probe.of(device)
        binary = NvrtcCompiler(device.arch).compile(made.program.compilation())
        assert set(binary.kernels) == {each.launch.entry for each in made.kernels}
        assert {usage.spill_bytes for usage in binary.kernels.values()} == {0}

    def test_are_of_one_text_for_equal_devices(self) -> None:
        assert Probe.of(T4).program.source == Probe.of(T4).program.source
        assert "mma" not in Probe.of(T4).program.source


class FakeRuntime:
    """A device on which a sample of each kernel takes as many ns as its entry has letters."""

    def __init__(self, clock_mhz: int | None = 1400, memory_bytes: int = 2**40) -> None:
        self.device = A100
        self.live: list[Allocation] = []
        self.filled: set[tuple[int, int]] = set()
        self._clock_mhz, self._memory_bytes, self._took = clock_mhz, memory_bytes, 0

    def load(self, _: object) -> FakeRuntime:
        return self

    def close(self) -> None:
        self.filled.add((-1, -1))

    def bind(self, launch: Any, buffers: dict[str, int], _: object) -> Callable[[int | None], None]:
        assert buffers == {"data": 4096}

        def launched(_: int | None) -> None:
            self._took += len(launch.entry)

        return launched

    def allocate(self, nbytes: int) -> Allocation:
        if nbytes > self._memory_bytes:
            raise OutOfMemory("no room")
        self.live.append(Allocation(4096, nbytes))
        return self.live[0]

    def free(self, allocation: Allocation) -> None:
        self.live.remove(allocation)

    def upload(self, address: int, source: np.ndarray) -> None:
        assert source.dtype == np.float32
        assert (source > 0).all()
        self.filled.add((address, address + source.nbytes))

    def copy(self, target: int, source: int, nbytes: int) -> None:
        assert source + nbytes <= target  # no overlap
        self.filled.add((target, target + nbytes))

    def elapsed_ns(self, work: Callable[[], None]) -> float:
        self._took = 0
        work()
        return float(self._took)

    def clock_mhz(self) -> int | None:
        return self._clock_mhz

    def compile(self, unit: Any) -> str:
        return str(unit)


def measure(runtime: FakeRuntime) -> Ceilings:
    return measured(cast(Runtime, runtime), cast(Any, runtime), Probe.of(A100), warm_up_s=0.0)


class TestMeasuring:
    def test_divides_work_by_time(self) -> None:
        runtime = FakeRuntime()
        found = measure(runtime)
        for kernel in Probe.of(A100).kernels:
            took = len(kernel.launch.entry)
            expected = {"launch_ns": took, "barrier_ns": took / kernel.work}.get(kernel.name, kernel.work / took)
            assert getattr(found, kernel.name) == pytest.approx(expected), kernel.name
        assert found.clock_mhz == 1400
        assert found.wgmma_f16_per_ns is None
        assert LAUNCHES > 1

    def test_fills_the_buffer_and_gives_it_back(self) -> None:
        runtime = FakeRuntime()
        measure(runtime)
        end = 4096
        for first, last in sorted(runtime.filled - {(-1, -1)}):
            assert first == end
            end = last
        assert end == 4096 + Probe.of(A100).data_bytes
        assert (-1, -1) in runtime.filled
        assert runtime.live == []

    def test_lacks_a_clock_that_no_one_tells(self) -> None:
        assert measure(FakeRuntime(clock_mhz=None)).clock_mhz is None

    def test_gives_memory_back_after_a_failure(self, monkeypatch: pytest.MonkeyPatch) -> None:
        runtime = FakeRuntime()

        def fails(_: object) -> float:
            raise DeviceError("an illegal address")

        monkeypatch.setattr(runtime, "elapsed_ns", fails)
        with pytest.raises(DeviceError, match="illegal"):
            measure(runtime)
        assert runtime.live == []
        with pytest.raises(OutOfMemory):
            measure(FakeRuntime(memory_bytes=0))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> list[StoredCeilings]:
    """An A100 here, and what its next probes measure; the last one is repeated."""
    coming = [STORED]

    def probed(_: Worker, job: object, deadline_s: float) -> StoredCeilings:
        assert isinstance(job, probe.MeasureCeilings)
        assert deadline_s == probe.DEADLINE_S
        return coming.pop(0) if len(coming) > 1 else coming[0]

    monkeypatch.setattr(DeviceRef, "device", lambda _: A100)
    monkeypatch.setattr(probe, "shared_device", lambda _: contextlib.nullcontext(None))
    monkeypatch.setattr(Worker, "call", probed)
    return coming


def breaks(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fails(*_: object) -> object:
        raise error

    monkeypatch.setattr(Worker, "call", fails)


FAILURES = {
    "dies": (WorkerDied(-11, "segmentation fault"), "killed by SIGSEGV"),
    "hangs": (DeadlinePassed(60.0), "no answer within 60 s"),
    "has no compiler": (CompileError("NVRTC is missing: install it"), "NVRTC is missing"),
    "has no room": (OutOfMemory("1 GiB was asked for"), "1 GiB was asked for"),
}


class TestOnce:
    def test_measures_and_stores(self, gpu: list[StoredCeilings]) -> None:  # noqa: ARG002
        with Store.open(":memory:", write=True) as store:
            assert probe_device(CUDA, store) == (dataclasses.replace(A100, ceilings=HERE), STORED, True)
            assert store.ceilings(A100) == STORED
            assert probe_device(CUDA, store)[2] is False

    def test_again_replaces(self, gpu: list[StoredCeilings]) -> None:
        gpu.append(THROTTLED)
        with Store.open(":memory:", write=True) as store:
            probe_device(CUDA, store)
            assert probe_device(CUDA, store, again=True)[1] == THROTTLED
            assert store.ceilings(A100) == THROTTLED

    def test_refuses_the_host(self) -> None:
        with Store.open(":memory:", write=True) as store, pytest.raises(BadArgument, match="no ceilings"):
            probe_device(HOST, store)

    @pytest.mark.parametrize(("error", "why"), FAILURES.values(), ids=FAILURES)
    @pytest.mark.usefixtures("gpu")
    def test_says_why_it_failed(self, monkeypatch: pytest.MonkeyPatch, error: Exception, why: str) -> None:
        breaks(monkeypatch, error)
        with Store.open(":memory:", write=True) as store:
            with pytest.raises(DeviceError, match=rf"the ceilings of cuda:0 could not be measured: .*{why}"):
                probe_device(CUDA, store)
            assert store.ceilings(A100) is None


class TestBeforeASearch:
    def test_is_silent(self, gpu: list[StoredCeilings]) -> None:
        with Store.open(":memory:", write=True) as store, warnings.catch_warnings():
            warnings.simplefilter("error")
            probe_before_search(HOST, store)
            probe_before_search(CUDA, store)
            gpu[:] = [THROTTLED]
            probe_before_search(CUDA, store)  # has ceilings already
            assert store.ceilings(A100) == STORED

    @pytest.mark.parametrize(("error", "why"), FAILURES.values(), ids=FAILURES)
    @pytest.mark.usefixtures("gpu")
    def test_warns_once_and_goes_on(self, monkeypatch: pytest.MonkeyPatch, error: Exception, why: str) -> None:
        breaks(monkeypatch, error)
        with Store.open(":memory:", write=True) as store, pytest.warns(NotMeasured, match=why) as told:
            probe_before_search(CUDA, store)
        (warning,) = told
        assert str(warning.message).endswith("; models use the data sheet's rates")
        assert "\n" not in str(warning.message)

    def test_names_what_is_refused(self, gpu: list[StoredCeilings]) -> None:
        gpu[:] = [THROTTLED]
        with Store.open(":memory:", write=True) as store, pytest.warns(NotMeasured, match="memory_bytes_per_ns is 10,"):
            probe_before_search(CUDA, store)

    @pytest.mark.usefixtures("gpu")
    def test_a_failed_store_is_no_warning(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fails(*_: object) -> None:
            raise StoreError("the disk is full")

        monkeypatch.setattr(Store, "put_ceilings", fails)
        with Store.open(":memory:", write=True) as store, pytest.raises(StoreError, match="disk"):
            probe_before_search(CUDA, store)

    def test_of_one_problem_and_of_a_list(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        probed: list[DeviceRef] = []
        for module in (session, problem_list):
            monkeypatch.setattr(module, "probe_before_search", lambda ref, _: probed.append(ref))
            monkeypatch.setattr(module, "tune", lambda *_: pytest.fail("too early") if not probed else _stop())
        problem, options = Filter2d(image=(32, 32), filter=(3, 3)), TuneOptions(time_limit_s=1.0)
        with pytest.raises(KeyboardInterrupt):
            session.tune_into(str(tmp_path / "a.db"), problem, (HOST,), options, SilentProgress())
        with Store.open(":memory:", write=True) as store, pytest.raises(KeyboardInterrupt):
            problem_list.tune_all([problem], (HOST,), store, options, SilentProgress())
        assert probed == [HOST, HOST]

    def test_the_search_has_them(self, gpu: list[StoredCeilings], monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG002
        searched: list[object] = []
        monkeypatch.setattr(session, "_search", lambda _problem, device, *_: searched.append(device))
        with Store.open(":memory:", write=True) as store:
            store.put_ceilings(A100, STORED)
            problem = Filter2d(image=(32, 32), filter=(3, 3))
            session.tune(problem, (CUDA,), store, TuneOptions(), SilentProgress())
        assert searched == [dataclasses.replace(A100, ceilings=HERE)]


def _stop() -> None:
    raise KeyboardInterrupt


@pytest.mark.usefixtures("gpu")
class TestCommand:
    def test_prints_a_table(self, printed: Callable[..., str], tmp_path: Path) -> None:
        file = str(tmp_path / "a.db")
        arguments = ("probe", "--device", "cuda:0", "--store", file)
        lines = printed(*arguments).splitlines()
        assert lines[:2] == ["| ceiling | measured | data sheet | share |", "|---|---|---|---|"]
        assert f"| memory_bytes_per_ns | 1700 | {A100.rates.memory_bytes_per_ns:.0f} | 0.83 |" in lines
        assert "| launch_ns | 1500 | - | - |" in lines
        assert f"device    {A100.key()}" in lines
        assert "with      580.1, nvrtc 13.0" in lines
        assert lines[-1] == f"stored    {file}"
        again = printed(*arguments).splitlines()
        assert again[-1] == "stored    since 2026-11-28T10:00:00+00:00; `warpsmith probe --again` measures anew"
        assert again[:-1] == lines[:-1]

    def test_prints_json(self, printed: Callable[..., str], tmp_path: Path) -> None:
        arguments = ("probe", "--device", "cuda:0", "--store", str(tmp_path / "a.db"), "--json")
        document = json.loads(printed(*arguments))
        page = (Path(__file__).parents[2] / "docs/reference/json.md").read_text()
        (section,) = re.findall(r"^## probe\n(.*?)^## ", page, re.DOTALL | re.MULTILINE)
        assert document.keys() == set(re.findall(r"^\| `(\w+)`", section, re.MULTILINE))
        assert all(f"`{member}`" in section for member in document["ceilings"][0] if member != "data_sheet")
        assert document["device_key"] == A100.key()
        assert (document["created"], document["driver"]) == (STORED.created, STORED.driver)
        assert (document["measured_now"], json.loads(printed(*arguments))["measured_now"]) == (True, False)
        first = document["ceilings"][0]
        assert (first["name"], first["measured"], first["refused"]) == ("memory_bytes_per_ns", 1700, None)
        assert eval(document["python"], {"Ceilings": Ceilings}) == HERE

    def test_again_measures(self, gpu: list[StoredCeilings], printed: Callable[..., str], tmp_path: Path) -> None:
        gpu.append(THROTTLED)
        arguments = ("probe", "--device", "cuda:0", "--store", str(tmp_path / "a.db"))
        printed(*arguments)
        (refused,) = [line for line in printed(*arguments, "--again").splitlines() if line.startswith("refused")]
        assert "memory_bytes_per_ns is 10, more than 3 times off" in refused

    def test_fails_in_one_line(
        self, refusal: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        breaks(monkeypatch, WorkerDied(1, ""))
        why = refusal(1, "probe", "--device", "cuda:0", "--store", str(tmp_path / "a.db"))
        assert why == "the ceilings of cuda:0 could not be measured: the worker process ended with exit code 1"

    def test_refuses_the_host_and_makes_no_store(self, refusal: Callable[..., str], tmp_path: Path) -> None:
        file = tmp_path / "a.db"
        assert "a CPU has no ceilings" in refusal(2, "probe", "--device", "host", "--store", str(file))
        assert "unknown device" in refusal(2, "probe", "--device", "gpu", "--store", str(file))
        assert not file.exists()

    @pytest.mark.usefixtures("no_trial_kernels")
    def test_doctor_shows_them(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        file = str(tmp_path / "a.db")
        Store.open(file, write=True).close()
        assert run(["doctor", "--store", file]) in (0, 1)
        assert _line(capsys) == f"{'-- ceilings':<17} missing: not measured: warpsmith probe"
        with Store.open(file, write=True) as store:
            store.put_ceilings(A100, dataclasses.replace(STORED, ceilings=dataclasses.replace(HERE, clock_mhz=100.0)))
        run(["doctor", "--store", file])
        line = _line(capsys)
        assert line.startswith("ok ceilings")
        assert "2026-11-28T10:00:00+00:00: memory_bytes_per_ns 1700 (83%), " in line
        assert "launch_ns 1500, clock_mhz 100 (7%); clock_mhz is 100, more than 3 times off" in line


@pytest.fixture
def no_trial_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compilers whose trial takes no time: doctor's takes seconds for each of them."""
    for compiler in ("host_compiler", "nvrtc", "nvcc", "pycuda"):
        monkeypatch.setattr(doctor, f"report_on_{compiler}", lambda *_: CompilerReport(Condition.OK, "tried"))


def _line(capsys: pytest.CaptureFixture[str]) -> str:
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line[3:].startswith("ceilings")]
    return line


@pytest.mark.usefixtures("no_trial_kernels")
def test_doctor_without_a_gpu_says_nothing_of_ceilings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_: DeviceRef) -> object:
        raise DeviceError("no GPU")

    monkeypatch.setattr(DeviceRef, "device", missing)
    run(["doctor"])
    assert "ceilings" not in capsys.readouterr().out
    assert doctor.TRIAL_ARCH == "sm_80"
