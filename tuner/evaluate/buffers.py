"""Device memory for operands, with canaries wherever a kernel has no business to write."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.base import Allocation, Runtime
from warpsmith.devices.elements import numpy_dtype
from warpsmith.generator.problem import DType, Operand
from warpsmith.tuner.operations.strips import for_each_strip

GUARD_BYTES = 64 * 1024
"""Canaries on each side of a buffer: seven rows of the paper's image, so that an index one row off is seen."""
POISON = 0xFF
"""Fills outputs, guards and what lies between rows: as a float it is NaN, so that reading it shows in the result."""
_AT_ONCE = 1 << 28
"""Bytes of an operand that are laid out on the host at once; of larger ones an image after the other is."""
_ALIGNMENT = 512
"""Bytes: of the buffers of an operand. cuMemAlloc gives as much, and textures need it
(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT)."""


def poisons(dtype: DType) -> tuple[int, ...]:
    """The bytes to fill an output with, a run each, so that an element that was never written is wrong in one of them.

    NaN is no result of a filter; among integers every value is, so they take two runs.
    """
    return (POISON, 0x00) if dtype is DType.UINT8 else (POISON,)


class GuardedBuffer:
    """Device memory of an operand between two guards, in the operand's own layout.

    Args:
        runtime: the device.
        operand: what lies in it.
        guard_bytes: of each guard.
        within: memory of as many bytes to lie in; None to allocate it. Raises OutOfMemory.
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
        """Fills the buffer and its guards."""
        self.filled_with = byte
        self._runtime.fill(self._allocation.address, byte, self._allocation.nbytes)

    def upload(self, values: NDArray[Any]) -> None:
        """Writes the elements, of the operand's shape, and leaves what lies between rows as it is filled."""
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
        """Whether the parts of the first axis are uploaded one after the other: to lay out all at once takes as much of
        the host's memory again.
        """
        strides = self._operand.strides
        return self.nbytes > _AT_ONCE and len(strides) > 1 and strides[0] == max(strides)

    def _upload_part(self, values: NDArray[Any], strides: tuple[int, ...], first: int, nbytes: int) -> None:
        """Writes elements with these strides into the bytes from `first` on."""
        memory = np.full(nbytes, self.filled_with, np.uint8)
        laid_out = np.ndarray(values.shape, numpy_dtype(self._operand.dtype), memory, strides=strides)
        # Strips along the axis with far steps in both reach each cache line once.
        axes = zip(values.shape, strides, values.strides, strict=True)
        steps = [min(step, its) if size > 1 else 0 for size, step, its in axes]
        target, source = (np.moveaxis(each, int(np.argmax(steps)), 0) for each in (laid_out, values))

        def lay_out(rows: slice) -> None:
            target[rows] = source[rows]

        for_each_strip(len(target), source[0].nbytes, lay_out)  # 1 GiB of channels to be last took 5 s on one core
        self._runtime.upload(self.address + first, memory)

    def download(self) -> tuple[NDArray[Any], str]:
        """The elements in row order, and what was written between rows, in words; empty where nothing was."""
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
        """Which guard was written to, in words; empty where none was."""
        guard = np.empty(self.guard_bytes, dtype=np.uint8)
        for side, address in self.guards:
            self._runtime.download(guard, address)
            if written := int(np.count_nonzero(guard != self.filled_with)):
                return f"{written} bytes written within {self.guard_bytes} bytes {side} the buffer"
        return ""

    @property
    def guards(self) -> tuple[tuple[str, int], ...]:
        """On which side of the buffer each guard lies, and its address; none where they have no bytes."""
        if not self.guard_bytes:
            return ()
        return ("before", self._allocation.address), ("after", self.address + self.nbytes)

    def free(self) -> None:
        """Gives the memory back, where it was allocated for this buffer alone."""
        if self._is_owner:
            self._runtime.free(self._allocation)

    def difference(self, values: NDArray[Any]) -> str:
        """How its elements differ from `values`, or what was written between them, in words; empty where neither is."""
        there, between = self.download()
        changed = int(np.count_nonzero(there.reshape(-1).view(np.uint8) != values.reshape(-1).view(np.uint8)))
        return between or (f"{changed} bytes changed" if changed else "")

    def _elements(self, memory: NDArray[np.uint8], dtype: np.dtype[Any]) -> NDArray[Any]:
        """The operand's elements in a copy of its memory."""
        return np.ndarray(self._operand.shape, dtype, memory, strides=self._operand.strides)


class GuardedSets:
    """Several buffers of one operand, each between guards of its own, in one allocation: one fill reaches all of them,
    where one each would take 1 ms for 256. Raises OutOfMemory.
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
        """Fills all buffers and their guards with POISON."""
        self._runtime.fill(self._allocation.address, POISON, self._allocation.nbytes)
        for buffer in self.buffers:
            buffer.filled_with = POISON

    def free(self) -> None:
        """Gives the memory back."""
        self._runtime.free(self._allocation)
