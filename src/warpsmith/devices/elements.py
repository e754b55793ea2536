"""Element types as NumPy's."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from warpsmith.generator.problem import DType


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """NumPy's dtype. That of bfloat16 is of the package ml_dtypes, which gives NumPy the name when it is loaded."""
    if dtype is DType.BFLOAT16:
        importlib.import_module("ml_dtypes")
    return np.dtype(dtype.value)
