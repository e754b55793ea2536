"""Copies weights from the caller's host memory to the device, once for each distinct content."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsmith.devices.arrays import ArrayView, host_view
from warpsmith.devices.base import Runtime
from warpsmith.devices.elements import numpy_dtype
from warpsmith.devices.process import ForkLock
from warpsmith.devices.tensors import torch_of
from warpsmith.devices.weights import weights_bytes
from warpsmith.devices.workspaces import KeptWorkspaces, Workspaces
from warpsmith.errors import BadArgument
from warpsmith.generator.problem import Operand
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
