"""Small inputs that kernels take by value, converted from any array to bytes in host memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsmith.devices.elements import numpy_dtype
from warpsmith.devices.tensors import check_tensor, torch_of
from warpsmith.errors import BadArgument
from warpsmith.generator.problem import DType, Operand


def weights_bytes(w: object, operand: Operand) -> bytes:
    """Small inputs that a kernel takes by value, as bytes in host memory, rounded to the operand's dtype.

    Args:
        w: nested lists, or an array of any library and device, of real numbers. Its shape is the operand's, or it lists
            the operand's elements in row order. An array on a GPU is copied to the host, which waits.
        operand: shape and dtype.

    Raises:
        BadArgument: another shape, or no real numbers.
    """
    array = _on_host(w, operand)
    if array.dtype.kind not in "fiub" and array.dtype.name != DType.BFLOAT16.value:
        raise BadArgument(f"{operand.name}: expected real numbers; got {array.dtype}")
    if array.shape not in (operand.shape, (operand.size,)):
        raise BadArgument(f"{operand.name}: expected shape {operand.shape}; got {array.shape}")
    return array.astype(numpy_dtype(operand.dtype)).tobytes()


def _on_host(x: Any, operand: Operand) -> np.ndarray[Any, Any]:
    """Any array or nested list as a NumPy array."""
    torch = torch_of(x)
    if torch is not None:
        check_tensor(torch, x, operand.name)
    try:
        if torch is not None:
            x = x.detach().resolve_conj().resolve_neg().cpu().numpy()
        elif hasattr(x, "__cuda_array_interface__") and hasattr(x, "get"):  # CuPy, PyCUDA
            x = x.get()
        if hasattr(x, "__dlpack__") and not hasattr(x, "__array__"):
            return np.from_dlpack(x)
        return np.asarray(x)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise BadArgument(f"{operand.name}: cannot be read as an array of numbers ({reason})") from None
