"""Device buffers of operands, surrounded by canaries that detect out-of-bounds writes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.elements import numpy_dtype
from warpsmith.devices.module import Allocation
from warpsmith.devices.runtime import Runtime
from warpsmith.generator.problem import DType, Operand
from warpsmith.tuner.operations.strips import for_each_strip

GUARD_BYTES = 64 * 1024
"""Bytes of canaries on each side of a buffer: seven rows of the paper's image, so that an index one row off is
detected.
"""
POISON = 0xFF
"""Fill byte of outputs, guards and gaps between rows. As a float it is NaN, so reading it shows in the result."""
POISONS = (POISON, 0x00)
"""All fill bytes of outputs: other outputs of a problem may need a run that this one does not."""
_AT_ONCE = 1 << 28
"""Bytes of an operand that are laid out on the host at once. Larger operands are laid out one image at a time."""
_ALIGNMENT = 512
"""Bytes of alignment of an operand's buffers. cuMemAlloc gives as much, and textures need it
(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT).
"""


def poisons(dtype: DType) -> tuple[int, ...]:
    """Fill bytes of an output, one run each, so that an element that is never written is wrong in at least one run.

    A filter never returns NaN, so one run suffices for floats. Integers have no such value and take two runs.
    """
    return POISONS if dtype in (DType.UINT8, DType.INT16) else (POISON,)


class GuardedBuffer:
    """Device memory of one operand between two guards, in the operand's own layout.

    Args:
        runtime: the device.
        operand: operand stored in the buffer.
        guard_bytes: bytes of each guard.
        within: existing allocation of the same size to use; None to allocate one, which may raise OutOfMemory.
    """

    def __init__(self, runtime: Runtime, operand: Operand, guard_bytes: int, within: Allocation | None = None) -> None:
        self._runtime = runtime
        self._operand = operand
        self.guard_bytes = guard_bytes
        self.nbytes = operand.span_bytes
        self._is_owner = within is None
        self._allocation: Allocation = within or runtime.allocate(self.nbytes + 2 * guard_bytes)
        self.address = self._allocation.address + guard_bytes
        self.poison()

    def poison(self, byte: int = POISON) -> None:
        """Fills the buffer and its guards with `byte`."""
        self.filled_with = byte
        self._runtime.fill(self._allocation.address, byte, self._allocation.nbytes)

    def upload(self, values: NDArray[Any]) -> None:
        """Writes the elements, given in the operand's shape. Gaps between rows keep their fill byte."""
        if self._operand.is_in_row_order and values.flags.c_contiguous:
            self._runtime.upload(self.address, values)
            return
        shaped, strides = values.reshape(self._operand.shape), self._operand.strides
        if not self._is_by_images:
            self._upload_part(shaped, strides, 0, self.nbytes)
            return
        for first, image in zip(range(0, self.nbytes, strides[0]), shaped, strict=True):
            self._upload_part(image, strides[1:], first, min(strides[0], self.nbytes - first))

    @property
    def _is_by_images(self) -> bool:
        """True if the slices of the first axis are uploaded one by one. Laying out all of them at once would double the
        host memory in use.
        """
        strides = self._operand.strides
        return self.nbytes > _AT_ONCE and len(strides) > 1 and strides[0] == max(strides)

    def _upload_part(self, values: NDArray[Any], strides: tuple[int, ...], first: int, nbytes: int) -> None:
        """Writes elements with the given byte strides, from byte `first` of the buffer on."""
        memory = np.full(nbytes, self.filled_with, np.uint8)
        laid_out = np.ndarray(values.shape, numpy_dtype(self._operand.dtype), memory, strides=strides)
        # Strips along the axis that has long strides in both arrays touch each cache line once.
        axes = zip(values.shape, strides, values.strides, strict=True)
        steps = [min(step, its) if size > 1 else 0 for size, step, its in axes]
        target, source = (np.moveaxis(each, int(np.argmax(steps)), 0) for each in (laid_out, values))

        def lay_out(rows: slice) -> None:
            target[rows] = source[rows]

        for_each_strip(len(target), source[0].nbytes, lay_out)  # converting 1 GiB to channels-last took 5 s on one core
        self._runtime.upload(self.address + first, memory)

    def download(self) -> tuple[NDArray[Any], str]:
        """The elements in row order, and a message about bytes written between rows, empty if there are none."""
        dtype = numpy_dtype(self._operand.dtype)
        if self._operand.is_in_row_order:
            result = np.empty(self._operand.shape, dtype)
            self._runtime.download(result, self.address)
            return result, ""
        memory = np.empty(self.nbytes, np.uint8)
        self._runtime.download(memory, self.address)
        result = self._elements(memory, dtype).copy()
        size = self._operand.dtype.itemsize
        self._elements(memory, np.dtype(f"u{size}"))[...] = int.from_bytes(bytes([self.filled_with]) * size, "little")
        written = int(np.count_nonzero(memory != self.filled_with))
        return result, f"{written} bytes written between the rows" if written else ""

    def damage(self) -> str:
        """Message about the first guard that was overwritten; empty if none was."""
        guard = np.empty(self.guard_bytes, dtype=np.uint8)
        for side, address in self.guards:
            self._runtime.download(guard, address)
            if written := int(np.count_nonzero(guard != self.filled_with)):
                return f"{written} bytes written within {self.guard_bytes} bytes {side} the buffer"
        return ""

    @property
    def guards(self) -> tuple[tuple[str, int], ...]:
        """The side and device address of each guard; empty if the guards have no bytes."""
        if not self.guard_bytes:
            return ()
        return ("before", self._allocation.address), ("after", self.address + self.nbytes)

    def free(self) -> None:
        """Frees the memory if this buffer allocated it."""
        if self._is_owner:
            self._runtime.free(self._allocation)

    def difference(self, values: NDArray[Any]) -> str:
        """Message about bytes between rows that were overwritten, or else about elements that differ from `values`;
        empty if there are neither.
        """
        there, between = self.download()
        changed = int(np.count_nonzero(there.reshape(-1).view(np.uint8) != values.reshape(-1).view(np.uint8)))
        return between or (f"{changed} bytes changed" if changed else "")

    def _elements(self, memory: NDArray[np.uint8], dtype: np.dtype[Any]) -> NDArray[Any]:
        """View of a host copy of the buffer as the operand's elements."""
        return np.ndarray(self._operand.shape, dtype, memory, strides=self._operand.strides)


class GuardedSets:
    """Several buffers of one operand in one allocation, each between its own guards.

    One fill reaches all of them; a fill for each of 256 buffers would take 1 ms. Raises OutOfMemory.
    """

    def __init__(self, runtime: Runtime, operand: Operand, guard_bytes: int, count: int) -> None:
        nbytes = operand.span_bytes + 2 * guard_bytes
        step = math.ceil(nbytes / _ALIGNMENT) * _ALIGNMENT
        self._runtime = runtime
        self._allocation = runtime.allocate((count - 1) * step + nbytes)
        self.buffers = [
            GuardedBuffer(runtime, operand, guard_bytes, Allocation(self._allocation.address + i * step, nbytes))
            for i in range(count)
        ]

    def poison(self) -> None:
        self._runtime.fill(self._allocation.address, POISON, self._allocation.nbytes)
        for buffer in self.buffers:
            buffer.filled_with = POISON

    def free(self) -> None:
        self._runtime.free(self._allocation)
