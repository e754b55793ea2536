"""Fast conversion of weights to bytes for the usual array types, by comparisons alone."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from warpsmith.devices.elements import numpy_dtype
from warpsmith.devices.signature import Given, Known
from warpsmith.devices.weights import weights_bytes
from warpsmith.generator.problem import Operand

Values = Callable[[tuple[Any, ...]], tuple[bytes, ...]]
"""Bytes of every operand that kernels take by value, from a call's arrays. Raises BadArgument as `weights_bytes`
does.
"""


def quick_values(by_value: tuple[Given | Known, ...], torch: Any = None, compiled: ModuleType | None = None) -> Values:
    """Makes the reader of operands that kernels take by value.

    NumPy arrays of exactly the operand's dtype and shape, and such PyTorch tensors on the CPU, are copied directly. A
    copy of 225 weights takes 0.1 us, and without a copy an array that was changed in place would go unnoticed.
    Everything else goes through `weights_bytes`.

    Args:
        by_value: the operands, in order.
        torch: the module, if the calls are PyTorch's; None otherwise.
        compiled: the module `native_calls`; None to read them in Python.
    """
    known = tuple(each.content for each in by_value if isinstance(each, Known))
    if len(known) == len(by_value):
        return lambda _: known
    given = [(each.place, _bytes_of(each.operand, torch)) for each in by_value if isinstance(each, Given)]
    if len(by_value) == 1:
        place, bytes_of = given[0]
        if compiled is not None:
            operand = by_value[0].operand
            dtype = numpy_dtype(operand.dtype)
            made: Values = compiled.ArrayValues(place, np.ndarray, dtype, operand.shape, bytes_of)
            return made
        return lambda inputs: (bytes_of(inputs[place]),)

    def read(inputs: tuple[Any, ...]) -> tuple[bytes, ...]:
        contents = iter([bytes_of(inputs[place]) for place, bytes_of in given])
        return tuple([each.content if isinstance(each, Known) else next(contents) for each in by_value])

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
