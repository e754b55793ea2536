"""Whether this machine can run CUDA programs, and what to do where it cannot."""

from __future__ import annotations

from warpsmith.errors import DeviceError
from warpsmith.extras import Extra, install


def gpu_count() -> int:
    """How many GPUs the driver offers; CUDA_VISIBLE_DEVICES narrows it.

    Raises:
        DeviceError: there is none, or the driver or the extra `cuda` is missing; the message names the remedy.
    """
    try:
        from warpsmith.devices.cuda import driver
    except ModuleNotFoundError as error:
        raise DeviceError(f"no {error.name} here: {install(Extra.CUDA)}, or use the device host") from None
    except ImportError as error:
        raise DeviceError(f"cuda-bindings do not load ({error}): reinstall them, or use the device host") from None
    return driver.count()


def cuda_device_count() -> int:
    """How many GPUs programs can run on; 0 without a GPU, a driver or the extra `cuda`."""
    try:
        return gpu_count()
    except DeviceError:
        return 0


def require_gpu(ordinal: int) -> None:
    """Raises DeviceError where `cuda:ordinal` is not there; the message says how many GPUs are."""
    count = gpu_count()
    if ordinal >= count:
        there = "cuda:0 alone" if count == 1 else f"cuda:0 to cuda:{count - 1}"
        raise DeviceError(f"no cuda:{ordinal} here: the driver offers {count} GPU{'s' * (count > 1)}, {there}")
