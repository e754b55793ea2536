"""Measuring a GPU's memories: the kernels and their machine code, the rates, and what the command prints."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import exhaustive
from machine_code import loops_of
from warpsmith.devices.cuda.compiler import NvrtcCompiler, why_no_nvrtc
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.memory_probe import ACCESSES, WARM_UP, Kernel, Level, MemoryAccess, MemoryProbe, entry_of
from warpsmith.generator.presets import A100, GB10, H200, PRESETS
from warpsmith.generator.program import Pointer, Texture
from warpsmith.tuner.evaluate import memory_probe
from warpsmith.tuner.evaluate.memory_probe import MeasureMemory, MemoryRate, MemoryRates
from warpsmith.workers.worker import Worker, WorkerDied

BY_NAME = {access.name: access for access in ACCESSES}


def expected_code(access: MemoryAccess) -> dict[str, int]:
    """Instructions that one turn of the kernel's loop must have, with their numbers."""
    bits, loads = 8 * access.width_bytes, access.loads
    match access.kernel:
        case Kernel.COPY:
            return {f"LDG.{bits}": loads, f"STG.{bits}": loads}
        case Kernel.WRITE:
            return {f"STG.{bits}": loads}
        case Kernel.READ | Kernel.L2 | Kernel.L1:
            return {f"LDG.{bits}": loads}
        case Kernel.TEXTURE_LINE:
            return {f"TLD.{access.width_bytes // 4}": loads}
        case Kernel.TEXTURE_ROWS:
            return {f"TEX.{access.width_bytes // 4}": loads}
        case Kernel.SHARED:
            return {f"LDS.{bits}": loads}
        case Kernel.CONSTANT_LOAD:
            return {f"LDC.{bits}": loads}
        case Kernel.CONSTANT | Kernel.REGISTERS:
            return {"FFMA": loads}


class TestKernels:
    def test_are_all_rows_of_the_paper(self) -> None:
        assert len(BY_NAME) == len(ACCESSES)
        assert {access.level for access in ACCESSES} == set(Level)
        assert {access.kernel for access in ACCESSES} == set(Kernel)
        strides = {access.stride for access in ACCESSES if access.level is Level.GLOBAL}
        assert strides == {1, 2, 4, 8, 32}
        assert WARM_UP in BY_NAME

    @pytest.mark.skipif(why_no_nvrtc() is not None, reason="NVRTC is not here")
    def test_loops_have_the_loads_that_they_claim(self) -> None:
        loops = loops_of(MemoryProbe.of(H200).probe.program.source)
        assert loops.keys() == {entry_of(access) for access in ACCESSES}
        memory = {"LDG", "STG", "LDS", "TEX", "TLD"}
        for access in ACCESSES:
            main = loops[entry_of(access)][-1]
            counted = Counter({name: count for name, count in main.items() if name[:3] in memory})
            wanted = expected_code(access)
            assert {**counted, **{name: main[name] for name in wanted}} == wanted, access.name
        # Two numbers of constant memory a load; the compiler keeps an eighth in uniform registers.
        assert loops["memory_constant_4"][-1]["ULDC.64"] >= 0.85 * BY_NAME["constant_4"].loads / 2

    @exhaustive.one_in(3, 2)
    @pytest.mark.skipif(why_no_nvrtc() is not None, reason="NVRTC is not here")
    @pytest.mark.parametrize("device", PRESETS.values(), ids=PRESETS)
    def test_compile_without_spills(self, device: Any) -> None:
        made = MemoryProbe.of(device).probe
        binary = NvrtcCompiler(device.arch).compile(made.program.compilation())
        assert set(binary.kernels) == {each.launch.entry for each in made.kernels}
        assert {usage.spill_bytes for usage in binary.kernels.values()} == {0}

    def test_do_the_work_that_is_counted(self) -> None:
        work = {each.name: each.work for each in MemoryProbe.of(H200, loops=128).probe.kernels}
        threads = 132 * 2048
        assert work["l1_16"] == threads * 128 * 16
        assert work["shared_4_stride_32"] == threads * 128 // 8 * 4
        assert work["texture_rows_4"] == threads * 128 // 4 * 4
        assert work["registers_16"] == 132 * 3 * 256 * 16 * 128 * 16  # 16 times as many multiply-adds of 16 bytes
        assert work["constant_4"] == work["registers_16"] / 4

    @pytest.mark.parametrize("device", PRESETS.values(), ids=PRESETS)
    def test_pass_far_more_than_stays_in_l2(self, device: Any) -> None:
        made = MemoryProbe.of(device).probe
        for kernel in made.kernels:
            access = BY_NAME[kernel.name]
            if access.level is Level.GLOBAL:
                passed = kernel.work * access.stride
                assert 0.6 * 16 * device.l2_bytes < passed <= made.data_bytes <= device.memory_bytes // 8, kernel.name
            for argument in kernel.launch.arguments:
                if isinstance(argument, Texture):
                    texels = argument.width * max(1, argument.height)
                    assert texels * argument.channels * 4 <= made.data_bytes
                if isinstance(argument, Pointer) and argument.offset:
                    assert 2 * argument.offset == kernel.work

    def test_stay_in_l1(self) -> None:
        places = [access for access in ACCESSES if access.kernel in (Kernel.L1, Kernel.TEXTURE_LINE)]
        assert len(places) == 4
        for access in places:
            last = 255 + access.step * (2 * access.loads - 1)
            assert (last + 1) * access.width_bytes <= 2**15 <= 0.5 * 64 * 2**10

    def test_need_no_l2_that_a_driver_tells(self) -> None:
        assert MemoryProbe.of(dataclasses.replace(GB10, l2_bytes=0)).probe.kernels


def rates_of(device: Any, clock_mhz: int | None = None) -> MemoryRates:
    """Rates of half the data sheet's, or 1000 bytes per ns."""
    rates = (
        MemoryRate(each, (each.peak_bytes_per_ns(device.rates) or 2000) / 2, clock_mhz or device.clock_mhz)
        for each in ACCESSES
    )
    return MemoryRates(device, tuple(rates), "580.1", "nvrtc 13.0")


class TestRates:
    def test_are_per_cycle_and_sm(self) -> None:
        rates = {rate.access.name: rate for rate in rates_of(H200).rates}
        per_cycle = {name: rate.bytes_per_cycle(H200) for name, rate in rates.items()}
        assert per_cycle["shared_16"] == per_cycle["l1_4"] == pytest.approx(64)
        assert per_cycle["registers_16"] == pytest.approx(128 * 16 / 2)
        assert per_cycle["texture_rows_16"] == pytest.approx(4 * 16 / 2)
        assert rates["texture_rows_16"].texels_per_ns == pytest.approx(132 * 1.98 * 2)
        assert rates["shared_4"].texels_per_ns is None
        assert rates["constant_load_4"].share(H200) is None
        assert rates["copy_16"].share(H200) == 0.5

    def test_follow_the_clock_that_was_read(self) -> None:
        (slow, *_), (fast, *_) = rates_of(H200, 990).rates, rates_of(H200, 1980).rates
        assert slow.bytes_per_cycle(H200) == pytest.approx(2 * fast.bytes_per_cycle(H200))
        unread = dataclasses.replace(fast, clock_mhz=None)
        assert unread.bytes_per_cycle(H200) == pytest.approx(fast.bytes_per_cycle(H200), rel=0.01)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """An A100 here, whose memories have half the data sheet's rates."""

    def measured(_: Worker, job: object, _deadline_s: float) -> MemoryRates:
        assert isinstance(job, MeasureMemory)
        return rates_of(A100)

    monkeypatch.setattr(DeviceRef, "device", lambda _: A100)
    monkeypatch.setattr(memory_probe, "shared_device", lambda _: contextlib.nullcontext(None))
    monkeypatch.setattr(Worker, "call", measured)


class TestCommand:
    @pytest.mark.usefixtures("gpu")
    def test_prints_a_table_beside_the_papers(self, printed: Callable[..., str]) -> None:
        lines = printed("bench", "memory", "--device", "cuda:0").splitlines()
        assert lines[0].endswith("| data sheet GB/s | share | C2050 | GTX 680 |")
        copied = A100.rates.memory_bytes_per_ns
        start = f"| global memory | copy | 16 | {copied / 2:.0f} | - |"
        (copy,) = [line for line in lines if line.startswith(start)]
        assert copy.endswith(f"| {copied:.0f} | 0.50 | 90.4 | 123 |")
        endings = {
            "| texture cache | tex2D | 16 |": "| 0.50 | 49.4 | 129 |",
            "| shared memory | read | 4 |": "| 0.50 | 931 | 893 |",
            "| shared memory | read, 2-way bank conflicts |": "| 0.50 | - | - |",
            "| global memory | read, stride 8 |": "| 0.50 | - | - |",
            "| constant memory | read, one address for all lanes | 8 |": "| - | - | - | - |",
        }
        for start, end in endings.items():
            (line,) = [line for line in lines if line.startswith(start)]
            assert line.endswith(end)
        assert len([line for line in lines if line.startswith("|")]) == 2 + len(ACCESSES)
        assert f"device    {A100.key()}" in lines

    @pytest.mark.usefixtures("gpu")
    def test_prints_json(self, printed: Callable[..., str]) -> None:
        document = json.loads(printed("bench", "memory", "--device", "cuda:0", "--json"))
        page = (Path(__file__).parents[2] / "docs/reference/json.md").read_text()
        (section,) = re.findall(r"^## bench memory\n(.*?)^## ", page, re.DOTALL | re.MULTILINE)
        documented = (line.split("|")[1] for line in section.splitlines() if line.startswith("| `"))
        assert document.keys() == {name for cell in documented for name in re.findall(r"`(\w+)`", cell)}
        assert all(f"`{member}`" in section for member in document["rows"][0])
        rows = {row["name"]: row for row in document["rows"]}
        assert rows.keys() == BY_NAME.keys()
        assert rows["read_4"]["paper"] == {"c2050": 90.4, "gtx680": 123}
        assert (rows["read_4_stride_8"]["paper"], rows["read_4_stride_8"]["stride"]) == (None, 8)
        assert rows["copy_16"]["bytes_per_ns"] == rows["copy_16"]["data_sheet"] / 2

    def test_refuses_the_host(self, refusal: Callable[..., str]) -> None:
        assert "name a GPU, such as --device cuda:0" in refusal(2, "bench", "memory", "--device", "host")

    @pytest.mark.usefixtures("gpu")
    def test_fails_in_one_line(self, refusal: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
        def dies(*_: object) -> object:
            raise WorkerDied(1, "")

        monkeypatch.setattr(Worker, "call", dies)
        why = refusal(1, "bench", "memory", "--device", "cuda:0")
        assert why == "the memories of cuda:0 could not be measured: the worker process ended with exit code 1"
