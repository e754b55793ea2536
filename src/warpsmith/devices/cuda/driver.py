"""Lists GPUs through cuda-bindings, and opens their primary contexts. `available.gpu_count` says what is missing."""

from __future__ import annotations

import functools
from typing import Any

from cuda.bindings import driver as cu

from warpsmith.devices.cuda.driver_choice import ENVIRONMENT_VARIABLE, DriverChoice
from warpsmith.devices.cuda.primary_context import PrimaryContext
from warpsmith.devices.cuda.status import call
from warpsmith.errors import DeviceError
from warpsmith.extras import Extra, install
from warpsmith.generator.device import Device, DeviceKind

_ATTRIBUTE = cu.CUdevice_attribute
_NAME_LENGTH = 256
GRAPHS_BEGIN_EARLY = 12030
"""CUDA version, as the driver says it, from which graphs have launches that begin before others end."""
_BUS_ID_LENGTH = 32  # bytes; cuDeviceGetPCIBusId needs at least 13


def count() -> int:
    """Number of GPUs that the driver offers, at least one. Raises DeviceError if it offers none, or there is no
    driver.
    """
    advice = "see nvidia-smi and CUDA_VISIBLE_DEVICES"
    try:
        call(cu.cuInit(0), "start")
        found = int(call(cu.cuDeviceGetCount(), "count the GPUs"))
    except DeviceError as error:
        raise DeviceError(f"the NVIDIA driver offers no GPU ({error}): {advice}") from None
    except RuntimeError as error:  # cuda-bindings finds no libcuda
        reason = str(error).partition("\n")[0].rstrip(".")
        raise DeviceError(f"no NVIDIA driver here ({reason}): install one, or use the device host") from None
    if found == 0:
        raise DeviceError(f"the NVIDIA driver offers no GPU: {advice}")
    return found


def describe(ordinal: int) -> Device:
    """Facts about a GPU for the generator. They never change, so the driver is asked once per process."""
    return _described(cu, ordinal)


@functools.lru_cache(maxsize=64)
def _described(cu: Any, ordinal: int) -> Device:
    doing = f"read cuda:{ordinal}"
    gpu = call(cu.cuDeviceGet(ordinal), doing)

    def number(attribute: Any) -> int:
        return int(call(cu.cuDeviceGetAttribute(attribute, gpu), doing))

    return Device(
        name=_text(call(cu.cuDeviceGetName(_NAME_LENGTH, gpu), doing)),
        kind=DeviceKind.CUDA,
        compute_capability=(
            number(_ATTRIBUTE.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
            number(_ATTRIBUTE.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
        ),
        multiprocessors=number(_ATTRIBUTE.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
        l2_bytes=number(_ATTRIBUTE.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
        memory_bytes=int(call(cu.cuDeviceTotalMem(gpu), doing)),
        shared_per_block_bytes=number(_ATTRIBUTE.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
        shared_per_multiprocessor_bytes=number(_ATTRIBUTE.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
        registers_per_multiprocessor=number(_ATTRIBUTE.CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR),
        threads_per_multiprocessor=number(_ATTRIBUTE.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR),
        clock_mhz=number(_ATTRIBUTE.CU_DEVICE_ATTRIBUTE_CLOCK_RATE) // 1000,  # the driver counts in kHz
        memory_clock_mhz=number(_ATTRIBUTE.CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) // 1000,
    )


def pci_bus_id(ordinal: int) -> str:
    """PCI bus id of the GPU. NVML knows the GPU by it, whatever CUDA_VISIBLE_DEVICES says."""
    doing = f"find cuda:{ordinal}"
    return _text(call(cu.cuDeviceGetPCIBusId(_BUS_ID_LENGTH, call(cu.cuDeviceGet(ordinal), doing)), doing))


def cuda_version() -> str:
    """The newest CUDA version that the driver supports, such as `13.0`."""
    number = _version_number()
    return f"{number // 1000}.{number % 1000 // 10}"


@functools.cache
def can_begin_early() -> bool:
    """Whether the driver accepts launches that begin early, in graphs too."""
    return _version_number() >= GRAPHS_BEGIN_EARLY


def _version_number() -> int:
    """The newest CUDA version that the driver supports, such as 13000 for 13.0."""
    return int(call(cu.cuDriverGetVersion(), "read the driver's version"))


def open_context(ordinal: int, choice: DriverChoice) -> PrimaryContext:
    """A GPU's primary context. Raises DeviceError, also if the chosen library is missing."""
    if choice is DriverChoice.BINDINGS:
        from warpsmith.devices.cuda.bindings_context import BindingsContext

        return BindingsContext(ordinal)
    otherwise = f"or unset {ENVIRONMENT_VARIABLE}"
    try:
        from warpsmith.devices.cuda.pycuda_context import PyCudaContext
    except ModuleNotFoundError as error:
        raise DeviceError(f"no {error.name} here: {install(Extra.PYCUDA)}, {otherwise}") from None
    except ImportError as error:
        raise DeviceError(f"PyCUDA does not load ({error}): reinstall it, {otherwise}") from None
    return PyCudaContext(ordinal)


def _text(padded: bytes) -> str:
    """The text up to the NUL in a padded buffer."""
    return padded.partition(b"\0")[0].decode(errors="replace")
