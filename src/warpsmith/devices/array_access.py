"""Functions of the fast path that read and make the arrays of one library, and that read operands passed by value.

CuPy's arrays are read by their attributes, because `__cuda_array_interface__` would make a dictionary per array. CuPy
is never imported here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from warpsmith.devices.arrays import LEGACY_DEFAULT_STREAM
from warpsmith.devices.elements import numpy_dtype
from warpsmith.devices.signature import CallerOperand, FixedOperand, Signature, weights_bytes
from warpsmith.generator.problem import Operand

AddressOf = Callable[[Any], int]
"""Address of an array. It returns 0 or raises RuntimeError for an unexpected array, which `CheckedCalls` must then
check.
"""

CurrentStream = Callable[[], int | None]
"""Handle of the stream on which a library orders its work; None on a device without streams."""

ValuesOf = Callable[[tuple[Any, ...]], tuple[bytes, ...]]
"""Bytes of every operand that kernels take by value, from a call's arrays. Raises BadArgument as `weights_bytes`
does.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class ArrayAccess:
    """Functions that read and make the arrays of one library on one device."""

    address_of: Callable[[Operand, int], AddressOf]
    """Makes the function that reads an operand's arrays. They must start at a multiple of the given number of bytes."""
    values_of: ValuesOf
    empty: tuple[Callable[[], tuple[Any, int]], ...]
    """Functions that make an uninitialised array, one for each result, and return it with its address."""
    mark_written: Callable[[tuple[Any, ...]], None] | None
    """Tells the library that arrays are written to. A RuntimeError leaves the call to `CheckedCalls`."""
    current_stream: CurrentStream
    on_host: bool
    memory: Callable[[int], Callable[[], tuple[Any, int]]] | None = None
    """Makes the function that allocates so many bytes, which returns an array and its address; None if the
    memory that plans share serves as well.
    """


def values_reader(
    by_value: tuple[CallerOperand | FixedOperand, ...], torch: Any = None, compiled: ModuleType | None = None
) -> ValuesOf:
    """Makes the reader of operands that kernels take by value.

    NumPy arrays of exactly the operand's dtype and shape, and such PyTorch tensors on the CPU, are copied directly. A
    copy of 225 weights takes 0.1 us, and without a copy an array that was changed in place would go unnoticed.
    Everything else goes through `weights_bytes`.

    Args:
        by_value: the operands, in order.
        torch: the module, if the calls are PyTorch's; None otherwise.
        compiled: the module `native_calls`; None to read them in Python.
    """
    fixed = tuple(each.content for each in by_value if isinstance(each, FixedOperand))
    if len(fixed) == len(by_value):
        return (lambda _: fixed) if compiled is None else compiled.FixedValues(fixed)
    passed = [(each.place, _bytes_of(each.operand, torch)) for each in by_value if isinstance(each, CallerOperand)]
    if len(by_value) == 1:
        place, bytes_of = passed[0]
        if compiled is not None:
            operand = by_value[0].operand
            dtype = numpy_dtype(operand.dtype)
            made: ValuesOf = compiled.ArrayValues(place, np.ndarray, dtype, operand.shape, bytes_of)
            return made
        return lambda inputs: (bytes_of(inputs[place]),)

    def read(inputs: tuple[Any, ...]) -> tuple[bytes, ...]:
        contents = iter([bytes_of(inputs[place]) for place, bytes_of in passed])
        return tuple([each.content if isinstance(each, FixedOperand) else next(contents) for each in by_value])

    return read


def _bytes_of(operand: Operand, torch: Any) -> Callable[[Any], bytes]:
    array, shape, dtype = np.ndarray, operand.shape, numpy_dtype(operand.dtype)
    tensor = getattr(torch, "Tensor", None)
    tensor_dtype = getattr(torch, operand.dtype.value, None)
    cpu = torch.device("cpu") if torch is not None else None

    def read(x: Any) -> bytes:
        kind = type(x)
        if kind is array:
            if x.dtype is dtype and x.shape == shape:
                content: bytes = x.tobytes()
                return content
        elif (
            kind is tensor
            and x.dtype is tensor_dtype
            and x.shape == shape
            and x.device == cpu
            and not x.requires_grad
            and not x.is_neg()
        ):
            try:
                content = x.numpy().tobytes()
            except (RuntimeError, TypeError):  # no memory of its own, or not dense
                return weights_bytes(x, operand)
            return content
        return weights_bytes(x, operand)

    return read


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
        empty=tuple(_empty_of(cupy, each, ordinal) for each in signature.outputs),
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
