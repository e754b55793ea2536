"""The NVML monitor, against a stand-in with the same functions."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from warpsmith.devices.cuda.nvml import Monitor, loaded_driver_version
from warpsmith.devices.host.toolchain import find_compiler

STAND_IN = """
#include <cstring>
extern "C" {
int nvmlInit_v2() { return INIT; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** handle) {
    if (std::strcmp(bus, "0000:3B:00.0")) return 6;
    *handle = reinterpret_cast<void*>(0x123456789abcULL);
    return 0;
}
static bool known(void* handle) { return handle == reinterpret_cast<void*>(0x123456789abcULL); }
int nvmlDeviceGetClockInfo(void* handle, int clock, unsigned* mhz) {
    *mhz = 1980;
    return known(handle) && clock == 1 ? 0 : 3;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* handle, unsigned long long* reasons) {
    *reasons = REASONS;
    return known(handle) ? 0 : 3;
}
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
    std::strncpy(text, "580.95.05", length);
    return 0;
}
}
"""


def stand_in(folder: Path, reasons: int = 0, init: int = 0) -> str:
    library = folder / f"nvml-{reasons}-{init}.so"
    options = ["-shared", "-fPIC", f"-DREASONS={reasons}", f"-DINIT={init}", "-x", "c++", "-", "-o", str(library)]
    subprocess.run([find_compiler(), *options], input=STAND_IN, text=True, check=True)
    return str(library)


def test_clock_and_driver(tmp_path: Path) -> None:
    monitor = Monitor("0000:3B:00.0", stand_in(tmp_path))
    assert monitor.clock_mhz() == 1980
    assert monitor.driver_version() == "580.95.05"


@pytest.mark.parametrize(
    ("reasons", "throttled"),
    [
        (0x000, False),
        (0x001, False),  # idle
        (0x002, False),  # clocks that someone set
        (0x004, True),  # power
        (0x041, True),  # heat
    ],
)
def test_throttling(tmp_path: Path, reasons: int, throttled: bool) -> None:
    assert Monitor("0000:3B:00.0", stand_in(tmp_path, reasons)).throttled() is throttled


def test_a_gpu_that_nvml_does_not_know(tmp_path: Path) -> None:
    assert Monitor("0000:00:00.0", stand_in(tmp_path)).clock_mhz() is None


@pytest.mark.parametrize("library", ["no-such-library.so", None])
def test_without_nvml_nothing_is_known(tmp_path: Path, library: str | None) -> None:
    monitor = Monitor("0000:3B:00.0", library or stand_in(tmp_path, init=9))
    assert monitor.clock_mhz() is None
    assert monitor.throttled() is None
    assert monitor.driver_version() is None


def test_the_driver_s_version_is_read_off_the_system(tmp_path: Path) -> None:
    told = tmp_path / "version"
    assert loaded_driver_version(told) is None
    told.write_text("580.95.05\n")
    assert loaded_driver_version(told) == "580.95.05"
