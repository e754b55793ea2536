"""Functions of the fast path that read and make the arrays of one library, and that read operands passed by value."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from warpsmith.devices.elements import numpy_dtype
from warpsmith.devices.signature import CallerOperand, FixedOperand
from warpsmith.devices.weights import weights_bytes
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
    empty: Callable[[], tuple[Any, int]]
    """Makes an uninitialised result; returns the array and its address."""
    mark_written: Callable[[tuple[Any, ...]], None] | None
    """Tells the library that arrays are written to. A RuntimeError leaves the call to `CheckedCalls`."""
    current_stream: CurrentStream
    on_host: bool


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
        return lambda _: fixed
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
