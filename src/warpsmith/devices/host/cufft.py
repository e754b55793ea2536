"""cuFFT's interface on the CPU: the same transforms by NumPy, in float64 and rounded once."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.module import BoundLaunch, DeviceLibrary, LoadedCall, addresses_of
from warpsmith.errors import LaunchError
from warpsmith.generator.library_calls import CufftTransform, Direction, Strided, TransformKind
from warpsmith.generator.steps import LibraryCall

SCRATCH_BYTES = 256
"""Bytes of work area that a call requests, so that the CPU also exercises the code that passes one."""
SLACK = 1e-5
"""Tolerance for a Hermitian column, relative to its largest element: a few roundings of float32."""
LOST = 0xFF
"""Byte that overwrites memory which cuFFT leaves undefined after a transform. As a float it is NaN."""


def version() -> str:
    """Version of the replacement for cuFFT, such as `cufft by numpy 2.3.1`."""
    return f"cufft by numpy {np.__version__}"


class HostCufft(DeviceLibrary):
    """Computes the transforms of cuFFT by NumPy."""

    def load(self, call: LibraryCall) -> LoadedCall:
        return _LoadedTransform(call)


class _LoadedTransform(LoadedCall):
    def __init__(self, call: LibraryCall) -> None:
        self._call = call
        self._is_open = True

    @property
    def workspace_bytes(self) -> int:
        return SCRATCH_BYTES

    def bind(self, addresses: Mapping[str, int], workspace: int) -> BoundLaunch:
        source, target = addresses_of(self._call, addresses)
        transform = self._call.parameters
        if not isinstance(transform, CufftTransform):
            raise TypeError(f"not a call of cuFFT: {self._call.description()}")

        def run(_stream: int | None) -> None:
            if not self._is_open:
                raise LaunchError(f"cannot transform ({transform.description()}): its program was closed")
            _transform(transform, source, target)
            ctypes.memset(workspace, LOST, SCRATCH_BYTES)

        return run

    def close(self) -> None:
        self._is_open = False


def _transform(transform: CufftTransform, source: int, target: int) -> None:
    """Transforms from one address to another, which may be the same."""
    is_real = transform.kind is not TransformKind.C2C
    inverse = transform.direction is Direction.INVERSE
    read = _view(transform, transform.source, source, is_real=is_real and not inverse)
    written = _view(transform, transform.target, target, is_real=is_real and inverse)
    axes = tuple(range(1, 1 + len(transform.sizes)))
    wide = read.astype(np.complex128 if np.iscomplexobj(read) else np.float64)
    if transform.kind is TransformKind.C2R and source != target:
        read[...] = np.frombuffer(bytes([LOST]) * read.itemsize, read.dtype)[0]
    functions: dict[tuple[TransformKind, bool], Callable[..., NDArray[Any]]] = {
        (TransformKind.R2C, False): np.fft.rfftn,
        (TransformKind.C2R, True): np.fft.irfftn,
        (TransformKind.C2C, False): np.fft.fftn,
        (TransformKind.C2C, True): np.fft.ifftn,
    }
    # This norm leaves this direction unscaled.
    norm = "forward" if inverse else "backward"
    written[...] = functions[transform.kind, inverse](wide, s=transform.sizes, axes=axes, norm=norm)
    if transform.kind is TransformKind.C2R and not _is_of_real_signals(wide, transform.sizes[-1]):
        written[...] = np.nan


def _is_of_real_signals(spectra: NDArray[Any], columns: int) -> bool:
    """True if the half spectra are those of real signals: columns that are their own mirror image must be Hermitian, up
    to rounding.

    cuFFT's result is undefined for other spectra; NumPy would use the nearest Hermitian ones.
    """
    rows = tuple(range(1, spectra.ndim - 1))
    for column in (0, -1) if columns % 2 == 0 else (0,):
        values = spectra[..., column]
        mirrored = np.roll(np.flip(values, rows), 1, rows).conj() if rows else values.conj()
        if np.abs(values - mirrored).max() > SLACK * np.abs(values).max():
            return False
    return True


def _view(transform: CufftTransform, side: Strided, address: int, *, is_real: bool) -> NDArray[Any]:
    """One side in memory, as (batch, *extents)."""
    dtype = np.dtype(np.float32 if is_real else np.complex64)
    extents = transform.sizes if is_real else transform.half
    nbytes = side.reach(transform.batch, extents) * dtype.itemsize
    memory = memoryview((ctypes.c_char * nbytes).from_address(address)).cast("B")
    strides = [stride * dtype.itemsize for stride in (side.distance, *side.strides())]
    return np.ndarray((transform.batch, *extents), dtype, memory, strides=strides)
