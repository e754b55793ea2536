"""Clocks, throttling and driver version from NVML, NVIDIA's management library. Every value is None without it."""

from __future__ import annotations

import ctypes
import enum
import weakref
from pathlib import Path

_SUCCESS = 0
_CLOCK_SM = 1
_VERSION_LENGTH = 80  # bytes: NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE


class _Reason(enum.IntFlag):
    """Reasons for reduced clocks: the bits of nvmlClocksEventReasons that mean a slower kernel."""

    SW_POWER_CAP = 0x04
    HW_SLOWDOWN = 0x08
    SW_THERMAL_SLOWDOWN = 0x20
    HW_THERMAL_SLOWDOWN = 0x40
    HW_POWER_BRAKE = 0x80


_THROTTLED = (
    _Reason.SW_POWER_CAP
    | _Reason.HW_SLOWDOWN
    | _Reason.SW_THERMAL_SLOWDOWN
    | _Reason.HW_THERMAL_SLOWDOWN
    | _Reason.HW_POWER_BRAKE
)


def loaded_driver_version(path: Path = Path("/sys/module/nvidia/version")) -> str | None:
    """Version of the loaded kernel driver, such as `580.95.05`, read without NVML; None if the system does not tell."""
    try:
        return path.read_text().strip() or None
    except OSError:
        return None


class Monitor:
    """One GPU as NVML sees it.

    Args:
        pci_bus_id: PCI bus id of the GPU. NVML ignores CUDA_VISIBLE_DEVICES, so an ordinal does not identify it.
        library: name or path of NVML.
    """

    def __init__(self, pci_bus_id: str, library: str = "libnvidia-ml.so.1") -> None:
        self._nvml: ctypes.CDLL | None = None
        self._handle = ctypes.c_void_p()
        try:
            nvml = ctypes.CDLL(library)
        except OSError:
            return
        if nvml.nvmlInit_v2() != _SUCCESS:
            return
        weakref.finalize(self, nvml.nvmlShutdown)
        if nvml.nvmlDeviceGetHandleByPciBusId_v2(pci_bus_id.encode(), ctypes.byref(self._handle)) == _SUCCESS:
            self._nvml = nvml

    def clock_mhz(self) -> int | None:
        """MHz of the SM clock now."""
        clock = ctypes.c_uint()
        if self._nvml is None:
            return None
        status = self._nvml.nvmlDeviceGetClockInfo(self._handle, _CLOCK_SM, ctypes.byref(clock))
        return clock.value if status == _SUCCESS else None

    def throttled(self) -> bool | None:
        """True if a power or temperature limit is reducing the clocks now."""
        reasons = ctypes.c_ulonglong()
        if self._nvml is None:
            return None
        # This is the name before driver 535; newer drivers still export it.
        status = self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle, ctypes.byref(reasons))
        return bool(reasons.value & _THROTTLED) if status == _SUCCESS else None

    def driver_version(self) -> str | None:
        """Driver version, such as `580.95.05`."""
        text = ctypes.create_string_buffer(_VERSION_LENGTH)
        if self._nvml is None or self._nvml.nvmlSystemGetDriverVersion(text, _VERSION_LENGTH) != _SUCCESS:
            return None
        return text.value.decode()
