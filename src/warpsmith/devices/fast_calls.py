"""Selects the fast path of calls, which is compiled, by the type of a call's first array."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from warpsmith.devices.array_access import AddressOf, ArrayAccess
from warpsmith.devices.arrays import ALIGNMENT
from warpsmith.devices.module import Allocation, Launches
from warpsmith.devices.native import native
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.signature import TEXTURE_ALIGNMENT, Signature
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.problem import Operand, Role

FastCalls = Callable[[tuple[Any, ...], Any, object, Allocation | None], Any | None]
"""Fast path of a call. It accepts a call whose arrays are of the common kind, by comparisons alone.

Its arguments are the inputs, out and stream of `Plan.__call__`, and the call's workspace, which must not overlap them;
None for the stream's. It returns the result's array, or None for anything unusual. It has then changed nothing, and
`CheckedCalls` accepts or refuses the call. Raises BadArgument for an argument that is no weights or no stream, and the
errors of `Launches.launch`.
"""


def fast_calls(
    array: object, signature: Signature, runtime: Runtime, launches: Launches, values: tuple[bytes, ...]
) -> FastCalls | None:
    """Makes the fast path of a program's calls, for arrays of the type of `array`.

    Args:
        array: an array of a finished call.
        signature: signature of the program.
        runtime: the device.
        launches: the program's launches on that device.
        values: the values of that call, as in `Launches.launch`.

    Returns: None if nothing is faster than `CheckedCalls`.
    """
    compiled = native()
    if compiled is None or not signature.is_usual:
        return None
    access = _access(array, signature, runtime, compiled)
    return None if access is None else calls_of(access, signature, launches, values, compiled)


def calls_of(
    access: ArrayAccess, signature: Signature, launches: Launches, values: tuple[bytes, ...], compiled: ModuleType
) -> FastCalls:
    """Fast calls with arrays of one library. The arguments are those of `fast_calls`."""

    def reader(operand: Operand) -> tuple[AddressOf, int]:
        """The reader of an operand, and the bytes that the operand spans."""
        textured = operand.name in signature.textured and not access.on_host
        return access.address_of(operand, TEXTURE_ALIGNMENT if textured else ALIGNMENT), operand.span_bytes

    pointed = tuple(
        (each.place, *reader(each.operand), each.operand.role is not Role.INPUT) for each in signature.pointed
    )
    count, results = len(signature.caller_inputs), tuple(reader(each) for each in signature.outputs)
    calls: FastCalls = compiled.NativeCalls(access, count, pointed, results, launches.launcher(values), launches.launch)
    return calls


def _access(array: object, signature: Signature, runtime: Runtime, compiled: ModuleType) -> ArrayAccess | None:
    on_gpu = runtime.device.kind is DeviceKind.CUDA
    torch: Any = sys.modules.get("torch")
    if torch is not None and type(array) is getattr(torch, "Tensor", None):
        from warpsmith.devices.torch_access import torch_access

        device = torch.device("cuda", runtime.ordinal) if on_gpu else torch.device("cpu")
        return torch_access(torch, signature, device, compiled)
    cupy: Any = sys.modules.get("cupy")
    if on_gpu and cupy is not None and type(array) is getattr(cupy, "ndarray", None):
        from warpsmith.devices.array_access import cupy_access

        return cupy_access(cupy, signature, runtime.ordinal)
    return None
