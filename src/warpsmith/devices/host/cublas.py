"""cuBLAS's interface on the CPU: the same products by NumPy, in float64 and rounded once."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.module import BoundLaunch, DeviceLibrary, LoadedCall, addresses_of
from warpsmith.errors import LaunchError
from warpsmith.generator.library_calls import CublasProduct, Transpose
from warpsmith.generator.steps import LibraryCall

LOST, LOST_BYTES = 0xFF, 256
"""Byte and number of bytes that overwrite the start of a call's workspace, as if cuBLAS had used it."""


def version() -> str:
    """Version of the replacement for cuBLAS, such as `cublas by numpy 2.3.1`."""
    return f"cublas by numpy {np.__version__}"


class HostCublas(DeviceLibrary):
    """Computes the products of cuBLAS by NumPy."""

    def load(self, call: LibraryCall) -> LoadedCall:
        return _LoadedProduct(call)


class _LoadedProduct(LoadedCall):
    def __init__(self, call: LibraryCall) -> None:
        if not isinstance(call.parameters, CublasProduct):
            raise TypeError(f"not a call of cuBLAS: {call.description()}")
        self._call, self._product = call, call.parameters
        self._is_open = True

    @property
    def workspace_bytes(self) -> int:
        """Same size as on a GPU, so that the CPU checks a program's limit too."""
        return self._product.all_workspace_bytes

    def bind(self, addresses: Mapping[str, int], workspace: int) -> BoundLaunch:
        starts, product = addresses_of(self._call, addresses), self._product

        def run(_stream: int | None) -> None:
            if not self._is_open:
                raise LaunchError(f"cannot multiply ({product.description()}): its program was closed")
            _multiply(product, starts)
            ctypes.memset(workspace, LOST, LOST_BYTES)

        return run

    def close(self) -> None:
        self._is_open = False


def _multiply(product: CublasProduct, starts: tuple[int, ...]) -> None:
    """Computes all products, from two addresses to a third one."""
    m, n, k = product.m, product.n, product.k
    first = (m, k) if product.first is Transpose.N else (k, m)
    second = (k, n) if product.second is Transpose.N else (n, k)
    a, b, c = (
        _by_columns(start, lead, distance, (product.batch, *shape))
        for start, lead, distance, shape in zip(
            starts, product.leads, product.distances, (first, second, (m, n)), strict=True
        )
    )
    c[...] = np.matmul(_op_of(a, product.first), _op_of(b, product.second))


def _by_columns(start: int, lead: int, distance: int, shape: tuple[int, ...]) -> NDArray[np.complex64]:
    """Column-major matrices in memory, with `lead` elements from one column to the next."""
    dtype = np.dtype(np.complex64)
    batch, rows, columns = shape
    reach = (batch - 1) * distance + (columns - 1) * lead + rows
    memory = memoryview((ctypes.c_char * (reach * dtype.itemsize)).from_address(start)).cast("B")
    strides = (distance * dtype.itemsize, dtype.itemsize, lead * dtype.itemsize)
    return np.ndarray(shape, dtype, memory, strides=strides)


def _op_of(matrices: NDArray[np.complex64], how: Transpose) -> NDArray[Any]:
    wide = matrices.astype(np.complex128)
    if how is Transpose.N:
        return wide
    transposed = wide.swapaxes(1, 2)
    return transposed.conj() if how is Transpose.C else transposed
