"""cuBLAS's products of single precision complex matrices, through ctypes.

Source: cuBLAS API reference, CUDA 13 (strided batched products, user provided workspaces, math modes, graph capture).
"""

from __future__ import annotations

import contextlib
import ctypes
import enum
import functools
import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from warpsmith.devices.cuda.vendor_library import failure_of, loaded_library, outside_of_captures
from warpsmith.devices.module import BoundLaunch, DeviceLibrary, LoadedCall, addresses_of
from warpsmith.devices.process import ForkLock
from warpsmith.errors import DeviceError, LaunchError
from warpsmith.generator.library_calls import CublasProduct, Transpose
from warpsmith.generator.steps import LibraryCall

if TYPE_CHECKING:
    from warpsmith.devices.cuda.primary_context import PrimaryContext
    from warpsmith.devices.cuda.streams import SideStreams

MISSING = "cuBLAS is missing: pip install nvidia-cublas, or install the CUDA 13 toolkit"
_COMPLEX_BYTES = 8


class _Status(enum.IntEnum):
    """cublasStatus_t."""

    SUCCESS = 0
    NOT_INITIALIZED = 1
    ALLOC_FAILED = 3
    INVALID_VALUE = 7
    ARCH_MISMATCH = 8
    MAPPING_ERROR = 11
    EXECUTION_FAILED = 13
    INTERNAL_ERROR = 14
    NOT_SUPPORTED = 15
    LICENSE_ERROR = 16


_REFUSALS = frozenset({_Status.INVALID_VALUE, _Status.ARCH_MISMATCH, _Status.NOT_SUPPORTED})
"""Statuses that depend only on the request, and not on the state of the device."""

_OPERATION = {Transpose.N: 0, Transpose.T: 1, Transpose.C: 2}  # cublasOperation_t
_int, _far, _pointer = ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p
_product = (_pointer, *(_int,) * 5, _pointer)
_strided = (*_product, *(_pointer, _int, _far) * 2, _pointer, _pointer, _int, _far, _int)
_single = (*_product, *(_pointer, _int) * 2, _pointer, _pointer, _int)
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cublasGetProperty": (_int, ctypes.POINTER(_int)),
    "cublasCreate_v2": (ctypes.POINTER(_pointer),),
    "cublasDestroy_v2": (_pointer,),
    "cublasSetStream_v2": (_pointer, _pointer),
    "cublasSetWorkspace_v2": (_pointer, _pointer, ctypes.c_size_t),
    "cublasCgemmStridedBatched": _strided,
    "cublasCgemm3mStridedBatched": _strided,
    "cublasCgemm_v2": _single,
    "cublasCgemm3m": _single,
}
_FUNCTION = {
    ("cgemm", False): "cublasCgemmStridedBatched",
    ("cgemm3m", False): "cublasCgemm3mStridedBatched",
    ("cgemm", True): "cublasCgemm_v2",
    ("cgemm3m", True): "cublasCgemm3m",
}
"""Name of the C function, by `function` and by whether each product is a separate call."""


@functools.cache
def _library() -> ctypes.CDLL:
    """libcublas, from a wheel or the toolkit. Raises LaunchError if there is none."""
    return loaded_library("cublas", MISSING, _SIGNATURES)


def version() -> str:
    """Name and version, such as `cublas 13.1.0`; `cublas missing` if there is none. It needs neither a GPU nor a
    driver.
    """
    number, parts = ctypes.c_int(), []
    try:
        for part in range(3):  # major, minor, patch
            _call("cublasGetProperty", "tell its version", part, ctypes.byref(number))
            parts.append(str(number.value))
    except DeviceError:
        return "cublas missing"
    return f"cublas {'.'.join(parts)}"


def _call(function: str, doing: str, *arguments: Any) -> None:
    """Calls a cuBLAS function. Raises LaunchError, OutOfMemory or DeviceError; `doing` completes "cannot ..."."""
    status = getattr(_library(), function)(*arguments)
    if status != _Status.SUCCESS:
        raise failure_of("cuBLAS", doing, status, _Status, _REFUSALS)


class Cublas(DeviceLibrary):
    """cuBLAS in a context. Raises LaunchError if it is missing, naming what to install."""

    def __init__(self, context: PrimaryContext) -> None:
        self._context = context
        _library()

    def load(self, call: LibraryCall) -> LoadedCall:
        return _LoadedProduct(self._context, call)


class _LoadedProduct(LoadedCall):
    """cuBLAS handles for one call, one handle for each stream that its products are spread over.

    The caller provides the workspace of each call, as for cuFFT's work area, in the size that the call states. A
    workspace owned by a handle would be shared by calls that overlap on two streams, or in a graph. Each handle gets
    its own part of it. All parts have the same size, so that a product has the same bits on each stream. Stream and
    workspace are state of a handle, so only one thread at a time sets them and queues the products. Setting a stream
    resets the workspace, so it comes first.

    A handle's math mode is CUBLAS_DEFAULT_MATH, in which float32 keeps all of its bits. Pedantic mode, which also fixes
    the order of operations, excludes kernels that are just as correct.
    """

    def __init__(self, context: PrimaryContext, call: LibraryCall) -> None:
        self._context, self._call, self._product = context, call, _product_of(call)
        self._lock = ForkLock()
        self.doing = f"multiply ({call.parameters.description()})"
        with context.active(self.doing), outside_of_captures(self.doing), contextlib.ExitStack() as made:
            self._side = _side_streams(self._product.streams - 1, self.doing, made)
            self._handles = tuple(_created(self.doing, made) for _ in range(self._product.streams))
            self._destroy = weakref.finalize(self, _destroy, context, made.pop_all())

    @property
    def workspace_bytes(self) -> int:
        return self._product.all_workspace_bytes

    def bind(self, addresses: Mapping[str, int], workspace: int) -> BoundLaunch:
        if not self._destroy.alive:
            raise LaunchError(f"cannot {self.doing}: its program was closed")
        product, doing, handles = self._product, self.doing, self._handles
        function = _FUNCTION[str(product.function), product.is_looped]
        calls = tuple(_arguments(product, addresses_of(self._call, addresses)))
        places = tuple(workspace + number * product.workspace_pitch_bytes for number in range(product.streams))

        def run(stream: int | None) -> None:
            # cuBLAS loads kernels at their first use, which must not become part of a graph.
            with self._context.active(doing), outside_of_captures(doing), self._lock, self._spread(stream) as streams:
                for handle, each, place in zip(handles, streams, places, strict=False):  # maybe fewer streams
                    _call("cublasSetStream_v2", doing, handle, each)
                    _call("cublasSetWorkspace_v2", doing, handle, place, product.workspace_bytes)
                for number, arguments in enumerate(calls):
                    _call(function, doing, handles[number % len(streams)], *arguments)

        return run

    def _spread(self, stream: int | None) -> contextlib.AbstractContextManager[tuple[int, ...]]:
        """Streams to queue products on. After the block, the caller's stream waits for all of them."""
        own = stream or 0
        return contextlib.nullcontext((own,)) if self._side is None else self._side.beside(own)

    def close(self) -> None:
        self._destroy()


def _product_of(call: LibraryCall) -> CublasProduct:
    """Parameters of the cuBLAS call. Raises TypeError for a call of another library."""
    if not isinstance(call.parameters, CublasProduct):
        raise TypeError(f"not a call of cuBLAS: {call.description()}")
    return call.parameters


def _arguments(product: CublasProduct, starts: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:
    """Arguments after the handle, for each call of the C function."""
    one, zero = (ctypes.c_float * 2)(1.0, 0.0), (ctypes.c_float * 2)(0.0, 0.0)  # must outlive the call
    sizes = (_OPERATION[product.first], _OPERATION[product.second], product.m, product.n, product.k)
    if not product.is_looped:
        a, b, c = zip(starts, product.leads, product.distances, strict=True)
        yield (*sizes, one, *a, *b, zero, *c, product.batch)
        return
    for number in range(product.batch):
        places = (
            start + number * distance * _COMPLEX_BYTES
            for start, distance in zip(starts, product.distances, strict=True)
        )
        a_one, b_one, c_one = zip(places, product.leads, strict=True)
        yield (*sizes, one, *a_one, *b_one, zero, *c_one)


def _side_streams(count: int, doing: str, made: contextlib.ExitStack) -> SideStreams | None:
    """Streams beside the caller's, which `made` closes; None for a count of 0."""
    if count == 0:
        return None
    from warpsmith.devices.cuda.streams import SideStreams  # `version` works without cuda-bindings

    side = SideStreams(count, doing)
    made.callback(side.close)
    return side


def _created(doing: str, made: contextlib.ExitStack) -> int:
    """Creates a handle, which `made` destroys."""
    handle = ctypes.c_void_p()
    _call("cublasCreate_v2", doing, ctypes.byref(handle))
    made.callback(_library().cublasDestroy_v2, handle.value or 0)
    return handle.value or 0


def _destroy(context: PrimaryContext, made: contextlib.ExitStack) -> None:
    # A context that has failed or was released has already freed what the handles hold on the device.
    with contextlib.suppress(DeviceError), context.active("destroy a handle of cuBLAS"):
        made.close()
