"""A gate that holds the GPU until all timed work is queued, so that launch overhead is not measured."""

from __future__ import annotations

import contextlib
import ctypes
from typing import TYPE_CHECKING

from cuda.bindings import driver as cu

from warpsmith.devices.cuda.compiler import NvrtcCompiler
from warpsmith.devices.cuda.module import CudaModule
from warpsmith.devices.cuda.status import call
from warpsmith.errors import CompileError, DeviceError
from warpsmith.generator.device import Device
from warpsmith.generator.program import ByValue, Launch, Pointer
from warpsmith.generator.steps import Compilation

if TYPE_CHECKING:
    from warpsmith.devices.cuda.primary_context import PrimaryContext

PATIENCE_CYCLES = 40_000_000
"""Clock cycles, about 20 ms, after which the gate opens by itself: work that waits for the GPU while it is being queued
must not hang.
"""

_SOURCE = """// Waits until the host says that everything is queued.
extern "C" __global__ void gate(const volatile int* open, long long patience) {
    const long long begin = clock64();
    while (*open == 0 && clock64() - begin < patience) {
    }
}
"""
_LAUNCH = Launch("gate", (1, 1, 1), (1, 1, 1), (Pointer("open"), ByValue("patience")))


class Gate:
    """One gate of one context, shut inside a `with` block. Raises DeviceError if it cannot be made."""

    def __init__(self, context: PrimaryContext, device: Device) -> None:
        unit = Compilation.of(_SOURCE, (_LAUNCH,))
        self._context = context
        self._module = CudaModule(context, device, NvrtcCompiler(device.arch).compile(unit).image)
        with context.active("make a gate"):
            self._address = int(call(cu.cuMemHostAlloc(4, cu.CU_MEMHOSTALLOC_PORTABLE), "allocate host memory"))
        self._flag = ctypes.c_int.from_address(self._address)
        patience = PATIENCE_CYCLES.to_bytes(8, "little")
        self._launch = self._module.bind(_LAUNCH, {"open": self._address}, {"patience": patience})

    def __enter__(self) -> None:
        """Holds back everything that is queued on the default stream from here on."""
        self._flag.value = 0
        self._launch(None)

    def __exit__(self, *_: object) -> None:
        self._flag.value = 1

    def close(self) -> None:
        """Frees the host memory; a context that has failed or was released has already freed it."""
        self._module.close()
        with contextlib.suppress(DeviceError), self._context.active("give host memory back"):
            cu.cuMemFreeHost(self._address)


def gate_of(context: PrimaryContext, device: Device) -> Gate | None:
    """A gate; None if NVRTC is missing."""
    with contextlib.suppress(CompileError, DeviceError):
        return Gate(context, device)
    return None
