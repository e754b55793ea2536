"""Calls of the vendor's libraries, as steps of a program: which one, and with what numbers."""

from __future__ import annotations

from typing import Any

from warpsmith.generator.cublas_product import CublasProduct
from warpsmith.generator.cufft_transform import CufftTransform
from warpsmith.generator.library import Library

Parameters = CufftTransform | CublasProduct
"""What a library is told beside the memory; one type for each function of each library."""


def parameters_of(library: Library, spec: dict[str, Any]) -> Parameters:
    """The parameters of a call, from their JSON values. Raises ValueError, TypeError or LookupError."""
    match library:
        case Library.CUFFT:
            return CufftTransform.of(spec)
        case Library.CUBLAS:
            return CublasProduct.of(spec)
