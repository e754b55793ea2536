"""Checks whether this machine can run CUDA programs, and says what to do if it cannot."""

from __future__ import annotations

import functools

from warpsmith.devices.process import HomeProcess
from warpsmith.errors import DeviceError
from warpsmith.extras import Extra, install


def gpu_count() -> int:
    """Number of GPUs that the driver offers; CUDA_VISIBLE_DEVICES narrows it.

    Raises:
        DeviceError: there is none, or the driver or the extra `cuda` is missing, or this is a forked child of a process
            that has called the driver before; the message names the remedy.
    """
    _check_not_forked()
    try:
        from warpsmith.devices.cuda import driver
    except ModuleNotFoundError as error:
        raise DeviceError(f"no {error.name} here: {install(Extra.CUDA)}, or use the device host") from None
    except ImportError as error:
        raise DeviceError(f"cuda-bindings do not load ({error}): reinstall them, or use the device host") from None
    found = driver.count()
    _first_caller()
    return found


@functools.cache
def _first_caller() -> HomeProcess:
    """The process that first called the driver. A fork copies this cached value, but not the driver's own state."""
    return HomeProcess("CUDA")


def _check_not_forked() -> None:
    if _first_caller.cache_info().currsize:
        _first_caller().check()


def cuda_device_count() -> int:
    """Number of GPUs that programs can run on; 0 without a GPU, a driver or the extra `cuda`.

    Raises:
        DeviceError: this is a forked child of a process that has called the driver before.
    """
    _check_not_forked()
    try:
        return gpu_count()
    except DeviceError:
        return 0


def require_gpu(ordinal: int) -> None:
    """Raises DeviceError if `cuda:ordinal` does not exist; the message says how many GPUs do."""
    count = gpu_count()
    if ordinal >= count:
        there = "cuda:0 alone" if count == 1 else f"cuda:0 to cuda:{count - 1}"
        raise DeviceError(f"no cuda:{ordinal} here: the driver offers {count} GPU{'s' * (count > 1)}, {there}")
