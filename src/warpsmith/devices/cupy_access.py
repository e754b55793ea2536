"""Fast calls with CuPy's arrays, read by their attributes: `__cuda_array_interface__` would make a dictionary per
array.

CuPy is never imported here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warpsmith.devices.array_access import AddressOf, ArrayAccess, values_reader
from warpsmith.devices.arrays import LEGACY_DEFAULT_STREAM
from warpsmith.devices.elements import numpy_dtype
from warpsmith.devices.signature import Signature
from warpsmith.generator.problem import Operand


def cupy_access(cupy: Any, signature: Signature, ordinal: int) -> ArrayAccess:
    """Reads and allocates CuPy's arrays on one GPU.

    Args:
        cupy: the module.
        signature: signature of the program.
        ordinal: the GPU that the arrays must be on.
    """
    get_current_stream = cupy.cuda.get_current_stream

    def current_stream() -> int:
        handle: int = get_current_stream().ptr
        return 0 if handle == LEGACY_DEFAULT_STREAM else handle

    return ArrayAccess(
        address_of=lambda operand, alignment: _address_of(cupy, operand, ordinal, alignment),
        values_of=values_reader(signature.by_value),
        empty=_empty_of(cupy, signature.outputs[0], ordinal),
        mark_written=None,
        current_stream=current_stream,
        on_host=False,
    )


def _address_of(cupy: Any, operand: Operand, ordinal: int, alignment: int) -> AddressOf:
    kind, dtype, shape, strides = cupy.ndarray, numpy_dtype(operand.dtype), operand.shape, operand.strides
    misaligned = alignment - 1  # alignments are powers of two

    def address_of(x: Any) -> int:
        if type(x) is kind and x.dtype is dtype and x.shape == shape and x.strides == strides:
            memory = x.data
            if memory.device_id == ordinal:
                address: int = memory.ptr
                return 0 if address & misaligned else address
        return 0

    return address_of


def _empty_of(cupy: Any, operand: Operand, ordinal: int) -> Callable[[], tuple[Any, int]]:
    """Makes uninitialised arrays on the GPU, with memory up to the end of the last row."""
    shape, strides, dtype = operand.shape, operand.strides, numpy_dtype(operand.dtype)
    nbytes = operand.allocated_bytes
    current, allocate, array = cupy.cuda.runtime.getDevice, cupy.cuda.alloc, cupy.ndarray

    def made() -> tuple[Any, int]:
        if current() == ordinal:
            memory = allocate(nbytes)
        else:
            with cupy.cuda.Device(ordinal):
                memory = allocate(nbytes)
        return array(shape, dtype, memptr=memory, strides=strides), memory.ptr

    return made
