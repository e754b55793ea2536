"""Selects the fast path of calls, by the type of a call's first array."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from warpsmith.devices.base import Runtime
from warpsmith.devices.calls import QuickCalls
from warpsmith.devices.launches import Launches
from warpsmith.devices.native import native
from warpsmith.devices.quick_library import Library, Readers, python_calls
from warpsmith.devices.signature import Signature
from warpsmith.generator.device import DeviceKind


def quick_calls(
    array: object, signature: Signature, runtime: Runtime, launches: Launches, values: tuple[bytes, ...]
) -> QuickCalls | None:
    """Makes the fast path of a program's calls, for arrays of the type of `array`.

    Args:
        array: an array of a finished call.
        signature: signature of the program.
        runtime: the device.
        launches: the program's launches on that device.
        values: the values of that call, as in `Launches.launch`.

    Returns: None if nothing is faster than `AnyCalls`.
    """
    if not signature.is_usual:
        return None
    compiled = native()
    library = _library(array, signature, runtime, compiled)
    if library is None:
        return None
    return calls_of(library, signature, launches, values, compiled)


def calls_of(
    library: Library, signature: Signature, launches: Launches, values: tuple[bytes, ...], compiled: ModuleType | None
) -> QuickCalls:
    """Fast calls with arrays of one library. The arguments are those of `quick_calls`.

    Args:
        compiled: the module `native_calls`; None for calls in Python.
    """
    if compiled is None:
        return python_calls(library, signature, launches.launch)
    readers = Readers.of(library, signature)
    launcher, count = launches.native(values, compiled), len(signature.asked)
    calls = compiled.NativeCalls(library, count, readers.pointed, readers.result, launcher, launches.launch)
    call: QuickCalls = calls.call
    return call


def _library(array: object, signature: Signature, runtime: Runtime, compiled: ModuleType | None) -> Library | None:
    on_gpu = runtime.device.kind is DeviceKind.CUDA
    torch: Any = sys.modules.get("torch")
    if torch is not None and type(array) is getattr(torch, "Tensor", None):
        from warpsmith.devices.torch_library import torch_library

        device = torch.device("cuda", runtime.ordinal) if on_gpu else torch.device("cpu")
        return torch_library(torch, signature, device, compiled)
    cupy: Any = sys.modules.get("cupy")
    if on_gpu and cupy is not None and type(array) is getattr(cupy, "ndarray", None):
        from warpsmith.devices.cupy_library import cupy_library

        return cupy_library(cupy, signature, runtime.ordinal)
    return None
