"""Reads the arrays of a call, of any library, and makes every check; copies weights from the caller's host memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from warpsmith.devices.arrays import ArrayView, device_view, empty_like_caller, host_view, stream_handle
from warpsmith.devices.elements import numpy_dtype
from warpsmith.devices.module import Allocation
from warpsmith.devices.process import ForkLock
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.signature import TEXTURE_ALIGNMENT, CallerOperand, Signature, weights_bytes
from warpsmith.devices.tensors import torch_of
from warpsmith.devices.workspaces import KeptWorkspaces, Workspaces
from warpsmith.errors import BadArgument
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.problem import DType, Operand, Role
from warpsmith.generator.steps import Lifetime, Workspace

_MOST_CONTENTS = 8
"""Copies of one operand that stay cached, not counting those that graphs read."""
_DLPACK_CPU = 1


def is_in_host_memory(x: Any) -> bool:
    """Whether an array, of any library, or a nested list lies in host memory."""
    if torch_of(x) is not None:
        return bool(x.device.type == "cpu")
    if hasattr(x, "__cuda_array_interface__"):
        return False
    if isinstance(x, np.ndarray | list | tuple) or hasattr(x, "__array_interface__"):
        return True
    return hasattr(x, "__dlpack_device__") and x.__dlpack_device__()[0] == _DLPACK_CPU


def converted_view(x: Any, operand: Operand) -> ArrayView:
    """Weights for the host device: a view of them, or a copy converted to the operand's type. Raises BadArgument."""
    try:
        return host_view(x, operand)
    except BadArgument:
        if not is_in_host_memory(x):
            raise
        copy = np.frombuffer(weights_bytes(x, operand), numpy_dtype(operand.dtype)).copy()
        return ArrayView(copy.ctypes.data, copy)


class CopiedWeights:
    """Cached device copies of one operand, by content. A copy is never written to again, so calls on any stream may
    read it.

    Args:
        runtime: the device.
        operand: the weights.
    """

    def __init__(self, runtime: Runtime, operand: Operand) -> None:
        self._runtime, self._operand = runtime, operand
        self._memory = Workspaces(runtime, (Workspace(operand.name, operand.nbytes, Lifetime.KEPT),))
        self._lock = ForkLock()
        self._copies: dict[bytes, KeptWorkspaces] = {}
        """Copies by content. The most recently used is last."""
        self._captured: set[bytes] = set()
        """Contents that a captured graph reads. The graph may run at any time."""

    def view(self, x: Any, stream: int | None) -> ArrayView:
        """A device copy of weights for a call on a stream. The copy is complete when this returns.

        Raises:
            BadArgument: `x` is no such weights.
            OutOfMemory: the copy does not fit.
        """
        content = weights_bytes(x, self._operand)
        is_captured = self._runtime.is_being_captured() or self._runtime.identify(stream).capture is not None
        with self._lock:
            copy = self._copies.pop(content, None) or self._copied(content)
            self._copies[content] = copy
            if is_captured:
                self._captured.add(content)
            else:
                self._drop_oldest()
        return ArrayView(copy.addresses[self._operand.name], copy)

    def _copied(self, content: bytes) -> KeptWorkspaces:
        copy = self._memory.allocate_kept()
        with self._runtime.independent_work() as work:
            work.upload(copy.addresses[self._operand.name], np.frombuffer(content, np.uint8))
        return copy

    def _drop_oldest(self) -> None:
        free = [content for content in self._copies if content not in self._captured]
        for content in free[:-_MOST_CONTENTS]:
            self._memory.release(self._copies.pop(content))


@dataclasses.dataclass(frozen=True, slots=True)
class ReadCall:
    """A call whose arrays have passed all checks."""

    target: Any
    """The result's array, or a tuple of several."""
    addresses: tuple[int, ...]
    values: tuple[bytes, ...]
    stream: int | None
    views: tuple[ArrayView, ...]
    """Views of the arrays, which keep them alive. They must be notified when the work is queued."""

    def queued(self) -> None:
        """Notifies the views. Call it when the work is queued."""
        for view in self.views:
            view.used_on(self.stream)


class CheckedCalls:
    """Reads calls of one program on one device, with arrays of any library, and makes every check."""

    def __init__(self, signature: Signature, runtime: Runtime) -> None:
        self._signature = signature
        self._runtime = runtime
        self._on_host = runtime.device.kind is DeviceKind.HOST
        pointed = (each.operand for each in signature.pointed)
        self._copied = {each.name: CopiedWeights(runtime, each) for each in pointed if each.name in signature.copied}
        """Copies on the device of weights that may lie in host memory, by operand name."""

    def read(self, inputs: tuple[Any, ...], out: Any, stream: object) -> ReadCall:
        """Checks a call's arrays. Its arguments and errors are those of `Plan.__call__`."""
        signature = self._signature
        signature.check_count(len(inputs))
        requested = stream_handle(stream)
        targets = self._targets(inputs, out)
        values = tuple(
            weights_bytes(inputs[each.place], each.operand) if isinstance(each, CallerOperand) else each.content
            for each in signature.by_value
        )
        views = (
            *(
                self._view(inputs[each.place], each.operand, requested, writable=each.operand.role is not Role.INPUT)
                for each in signature.pointed
            ),
            *(
                self._view(target, operand, requested, writable=True)
                for target, operand in zip(targets, signature.outputs, strict=True)
            ),
        )
        addresses = tuple(view.address for view in views)
        signature.check_apart(addresses)
        result = targets[0] if len(targets) == 1 else targets
        return ReadCall(result, addresses, values, self._stream(requested, views), views)

    def _targets(self, inputs: tuple[Any, ...], out: Any) -> tuple[Any, ...]:
        """Arrays for the results: the caller's, or new ones of the first input's library."""
        outputs = self._signature.outputs
        if out is None:
            return tuple(empty_like_caller(inputs[0], each, self._runtime) for each in outputs)
        if len(outputs) == 1:
            return (out,)
        if not isinstance(out, tuple | list) or len(out) != len(outputs):
            names = ", ".join(each.name for each in outputs)
            raise BadArgument(f"out: this plan has {len(outputs)} results: give a tuple of arrays for {names}")
        return tuple(out)

    def scratch(self, workspace: Any, nbytes: int, call: ReadCall) -> Allocation:
        """The caller's own workspace for a call. Raises BadArgument if it does not fit or overlaps another array."""
        if not nbytes:
            raise BadArgument("workspace: this plan needs none")
        operand = Operand("workspace", Role.OUTPUT, (nbytes,), DType.UINT8)
        view = self._view(workspace, operand, call.stream, writable=True)
        if any(view.address < each.address + 1 and each.address < view.address + nbytes for each in call.views):
            raise BadArgument("workspace: shares memory with another array of the call; give it memory of its own")
        return Allocation(view.address, nbytes)

    def _view(self, array: Any, operand: Operand, stream: int | None, *, writable: bool = False) -> ArrayView:
        if self._on_host:
            is_copied = operand.name in self._copied
            return converted_view(array, operand) if is_copied else host_view(array, operand, writable)
        if operand.name in self._copied and is_in_host_memory(array):
            return self._copied[operand.name].view(array, stream)
        view = device_view(array, operand, writable, stream, self._runtime.ordinal)
        if operand.name in self._signature.textured and view.address % TEXTURE_ALIGNMENT:
            reason = f"this plan reads it through a texture: it must start at a multiple of {TEXTURE_ALIGNMENT} bytes"
            raise BadArgument(f"{operand.name}: {reason}; copy it first")
        return view

    def _stream(self, requested: int | None, views: Iterable[ArrayView]) -> int | None:
        if self._on_host:
            return None
        from warpsmith.devices.cuda.interop import launch_stream

        return launch_stream(requested, [view.stream for view in views], self._runtime.current)


def copied(array: Any, operand: Operand, runtime: Runtime, stream: object) -> Any:
    """Copies an array in stream order, into a new array of the same library.

    Args:
        array: an array as a call of a plan takes it.
        operand: required shape, dtype and strides.
        runtime: the device.
        stream: as for `Plan.__call__`.

    Raises BadArgument if the array does not match.
    """
    target = dataclasses.replace(operand, role=Role.OUTPUT)
    signature = Signature(
        operation="copy",
        caller_inputs=(operand.name,),
        fixed_inputs=(),
        by_value=(),
        pointed=(CallerOperand(0, operand),),
        outputs=(target,),
        textured=frozenset(),
    )
    call = CheckedCalls(signature, runtime).read((array,), None, stream)
    source, address = call.addresses
    runtime.copy(address, source, operand.span_bytes, call.stream)
    call.queued()
    return call.target
