"""NVML, the driver's own monitor: clocks, throttling, the driver's version. Everything is None without it."""

from __future__ import annotations

import ctypes
import enum
import weakref
from pathlib import Path

_SUCCESS = 0
_CLOCK_SM = 1
_VERSION_LENGTH = 80  # NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE


class _Reason(enum.IntFlag):
    """Why clocks are below what was asked for: the bits that mean a slower kernel (nvmlClocksEventReasons)."""

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
    """The version of the driver that the system has loaded, such as `580.95.05`, without NVML; None where not told."""
    try:
        return path.read_text().strip() or None
    except OSError:
        return None


class Monitor:
    """One GPU as NVML sees it.

    Args:
        pci_bus_id: where the GPU sits: NVML does not heed CUDA_VISIBLE_DEVICES, so ordinals do not name it.
        library: the name or path of NVML.
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
        """The multiprocessor clock right now."""
        clock = ctypes.c_uint()
        if self._nvml is None:
            return None
        status = self._nvml.nvmlDeviceGetClockInfo(self._handle, _CLOCK_SM, ctypes.byref(clock))
        return clock.value if status == _SUCCESS else None

    def throttled(self) -> bool | None:
        """Whether power or temperature holds the clocks down right now."""
        reasons = ctypes.c_ulonglong()
        if self._nvml is None:
            return None
        # The name before driver 535, which newer drivers keep.
        status = self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle, ctypes.byref(reasons))
        return bool(reasons.value & _THROTTLED) if status == _SUCCESS else None

    def driver_version(self) -> str | None:
        """Such as `580.95.05`."""
        text = ctypes.create_string_buffer(_VERSION_LENGTH)
        if self._nvml is None or self._nvml.nvmlSystemGetDriverVersion(text, _VERSION_LENGTH) != _SUCCESS:
            return None
        return text.value.decode()
