"""Converts element types to NumPy's."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from warpsmith.generator.problem import DType


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """NumPy's dtype. The package ml_dtypes registers bfloat16 with NumPy when it is loaded."""
    if dtype is DType.BFLOAT16:
        importlib.import_module("ml_dtypes")
    return np.dtype(dtype.value)
