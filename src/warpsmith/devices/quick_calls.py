"""Which array libraries have quick calls, told by the type of a call's first array."""

from __future__ import annotations

import sys
from typing import Any

from warpsmith.devices.base import Runtime
from warpsmith.devices.calls import QuickCalls
from warpsmith.devices.signature import Signature
from warpsmith.generator.device import DeviceKind


def quick_calls(array: object, signature: Signature, runtime: Runtime) -> QuickCalls | None:
    """What reads the calls of a program on a device quickly, with arrays of the type that `array` is of.

    Args:
        array: one of a call that was accepted.
        signature: of the program.
        runtime: the device.

    Returns: None where nothing is quicker than `AnyCalls`.
    """
    if not signature.is_usual:
        return None
    on_gpu = runtime.device.kind is DeviceKind.CUDA
    torch: Any = sys.modules.get("torch")
    if torch is not None and type(array) is getattr(torch, "Tensor", None):
        from warpsmith.devices.torch_calls import stream_of, torch_calls

        device = torch.device("cuda", runtime.ordinal) if on_gpu else torch.device("cpu")
        return torch_calls(torch, signature, device, stream_of(torch, device) if on_gpu else _no_stream)
    cupy: Any = sys.modules.get("cupy")
    if on_gpu and cupy is not None and type(array) is getattr(cupy, "ndarray", None):
        from warpsmith.devices.cupy_calls import cupy_calls

        return cupy_calls(cupy, signature, runtime.ordinal)
    return None


def _no_stream() -> None:
    """The host has none."""
