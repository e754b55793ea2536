"""Parameters of library calls: one type for each function that a step of a program may call."""

from __future__ import annotations

from typing import Any

from warpsmith.generator.cublas_product import CublasProduct
from warpsmith.generator.cufft_transform import CufftTransform
from warpsmith.generator.library import Library

Parameters = CufftTransform | CublasProduct
"""Arguments of a library call besides memory; one type for each function of each library."""


def parameters_of(library: Library, spec: dict[str, Any]) -> Parameters:
    """Parameters of a call from their JSON values. Raises ValueError, TypeError or LookupError."""
    match library:
        case Library.CUFFT:
            return CufftTransform.of(spec)
        case Library.CUBLAS:
            return CublasProduct.of(spec)
