"""`pycuda.gpuarray`."""

from __future__ import annotations

from typing import Any


class GPUArray:
    """Array over memory that its creator does not own."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, gpudata: Any, strides: tuple[int, ...]) -> None:
        self.shape = shape
        self.dtype = dtype
        self.gpudata = gpudata
        self.strides = strides
