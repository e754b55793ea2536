"""PyTorch's tensors of peers, from NumPy's arrays and back, and the errors of its arithmetic on 16-bit data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.elements import numpy_dtype
from warpsmith.generator.problem import DType

HALF_TOLERANCES = {DType.FLOAT16: 2e-3, DType.BFLOAT16: 1.6e-2}
"""Scaled errors allowed for libraries on 16-bit data: kernels that add up in several passes, or use Winograd's method,
round intermediate values to 16 bits too.
"""


def convolved_dtype(dtype: DType, *, on_gpu: bool) -> DType:
    """Type in which PyTorch convolves samples of a real type: integers, and float16 on the CPU, become float32.

    oneDNN's float16 convolution of a channel each does not return from 9 to 16 taps on, on CPUs with AVX-512 FP16: it
    generates code without end (PyTorch 2.13).
    """
    is_half = dtype is DType.BFLOAT16 or (dtype is DType.FLOAT16 and on_gpu)
    return dtype if is_half else DType.FLOAT32


def arithmetic_of(dtype: DType, *, on_gpu: bool) -> str:
    """Words for that type behind a peer's name, such as ` in bfloat16`; none for float32 samples."""
    number = convolved_dtype(dtype, on_gpu=on_gpu)
    if number is not dtype:
        return f", converted to {number}"
    return "" if dtype is DType.FLOAT32 else f" in {dtype}"


def array_of(tensor: Any, torch: Any) -> NDArray[Any]:
    """Values of a tensor. PyTorch gives NumPy no bfloat16, so these pass as 16-bit integers."""
    if tensor.dtype is not torch.bfloat16:
        array: NDArray[Any] = tensor.cpu().numpy()
        return array
    bits: NDArray[Any] = tensor.cpu().view(torch.int16).numpy()
    return bits.view(numpy_dtype(DType.BFLOAT16))


def tensor_of(array: NDArray[Any], torch: Any, *, on_gpu: bool) -> Any:
    """Copy of an array on the device. PyTorch warns about read-only arrays, and takes no bfloat16 from NumPy."""
    if array.dtype.name == DType.BFLOAT16.value:
        return tensor_of(array.view(np.int16), torch, on_gpu=on_gpu).view(torch.bfloat16)
    if on_gpu:
        return torch.from_numpy(array if array.flags.writeable else array.copy()).cuda()
    return torch.from_numpy(array.copy())
