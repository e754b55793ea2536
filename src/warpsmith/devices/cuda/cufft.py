"""cuFFT's single precision transforms, through ctypes. CuPy has them too, but is far larger than needed here.

Source: cuFFT API reference, CUDA 13 (advanced data layout, caller allocated work area, streamed transforms).
"""

from __future__ import annotations

import contextlib
import ctypes
import enum
import functools
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from warpsmith.devices.cuda.vendor_library import failure_of, loaded_library, outside_of_captures
from warpsmith.devices.module import BoundLaunch, DeviceLibrary, LoadedCall, addresses_of
from warpsmith.devices.process import ForkLock
from warpsmith.errors import DeviceError, LaunchError
from warpsmith.generator.library_calls import CufftTransform, Direction, TransformKind
from warpsmith.generator.steps import LibraryCall

if TYPE_CHECKING:
    from warpsmith.devices.cuda.primary_context import PrimaryContext

MISSING = "cuFFT is missing: pip install nvidia-cufft, or install the CUDA 13 toolkit"


class _Status(enum.IntEnum):
    """cufftResult."""

    SUCCESS = 0
    INVALID_PLAN = 1
    ALLOC_FAILED = 2
    INVALID_TYPE = 3
    INVALID_VALUE = 4
    INTERNAL_ERROR = 5
    EXEC_FAILED = 6
    SETUP_FAILED = 7
    INVALID_SIZE = 8
    UNALIGNED_DATA = 9
    INVALID_DEVICE = 11
    NO_WORKSPACE = 13
    NOT_IMPLEMENTED = 14
    NOT_SUPPORTED = 16
    MISSING_DEPENDENCY = 17
    NVRTC_FAILURE = 18
    NVJITLINK_FAILURE = 19


_REFUSALS = frozenset(
    {_Status.INVALID_TYPE, _Status.INVALID_VALUE, _Status.INVALID_SIZE, _Status.NOT_IMPLEMENTED, _Status.NOT_SUPPORTED}
)
"""Statuses that depend only on the request, and not on the state of the device."""

_TYPE = {TransformKind.R2C: 0x2A, TransformKind.C2R: 0x2C, TransformKind.C2C: 0x29}  # cufftType
_SIGN = {Direction.FORWARD: -1, Direction.INVERSE: 1}
_int, _pointer = ctypes.c_int, ctypes.c_void_p
_ints = ctypes.POINTER(ctypes.c_int)
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cufftGetVersion": (_ints,),
    "cufftCreate": (_ints,),
    "cufftDestroy": (_int,),
    "cufftSetAutoAllocation": (_int, _int),
    "cufftMakePlanMany": (
        *(_int, _int, _ints),
        *(_ints, _int, _int),
        *(_ints, _int, _int),
        *(_int, _int, ctypes.POINTER(ctypes.c_size_t)),
    ),
    "cufftSetWorkArea": (_int, _pointer),
    "cufftSetStream": (_int, _pointer),
    "cufftExecC2C": (_int, _pointer, _pointer, _int),
    "cufftExecR2C": (_int, _pointer, _pointer),
    "cufftExecC2R": (_int, _pointer, _pointer),
}


@functools.cache
def _library() -> ctypes.CDLL:
    """libcufft, from a wheel or the toolkit. Raises LaunchError if there is none."""
    return loaded_library("cufft", MISSING, _SIGNATURES)


def version() -> str:
    """Name and version, such as `cufft 12.0.0`; `cufft missing` if there is none. It needs neither a GPU nor a
    driver.
    """
    number = ctypes.c_int()
    try:
        _call("cufftGetVersion", "ask for its version", ctypes.byref(number))
    except DeviceError:
        return "cufft missing"
    return f"cufft {number.value // 1000}.{number.value % 1000 // 100}.{number.value % 100}"


def _call(function: str, doing: str, *arguments: Any) -> None:
    """Calls a cuFFT function. Raises LaunchError, OutOfMemory or DeviceError; `doing` completes "cannot ..."."""
    status = getattr(_library(), function)(*arguments)
    if status != _Status.SUCCESS:
        raise failure_of("cuFFT", doing, status, _Status, _REFUSALS)


class Cufft(DeviceLibrary):
    """cuFFT in a context. Raises LaunchError if it is missing, naming what to install."""

    def __init__(self, context: PrimaryContext) -> None:
        self._context = context
        _library()

    def load(self, call: LibraryCall) -> LoadedCall:
        return _LoadedTransform(self._context, call)


class _LoadedTransform(LoadedCall):
    """A cuFFT plan, created once.

    The caller provides the work area of each call: one that cuFFT allocates itself would be shared by calls that
    overlap on two streams, without protection. Stream and work area are state of the plan, so only one thread at a time
    sets them and queues the transform.
    """

    def __init__(self, context: PrimaryContext, call: LibraryCall) -> None:
        self._context, self._call = context, call
        self._lock = ForkLock()
        self.doing = f"transform ({call.parameters.description()})"
        with context.active(self.doing), outside_of_captures(self.doing):
            handle, nbytes = ctypes.c_int(), ctypes.c_size_t()
            _call("cufftCreate", self.doing, ctypes.byref(handle))
            self._destroy = weakref.finalize(self, _destroy, context, handle.value)
            try:
                _call("cufftSetAutoAllocation", self.doing, handle.value, 0)
                _make_plan(handle.value, _transform_of(call), nbytes, self.doing)
            except DeviceError:
                self._destroy()
                raise
        self._handle, self._nbytes = handle.value, nbytes.value

    @property
    def workspace_bytes(self) -> int:
        return self._nbytes

    def bind(self, addresses: Mapping[str, int], workspace: int) -> BoundLaunch:
        if not self._destroy.alive:
            raise LaunchError(f"cannot {self.doing}: its program was closed")
        source, target = addresses_of(self._call, addresses)
        parameters, doing = _transform_of(self._call), self.doing
        function = f"cufftExec{parameters.kind.upper()}"
        signs = (_SIGN[parameters.direction],) if parameters.kind is TransformKind.C2C else ()

        def run(stream: int | None) -> None:
            # cuFFT loads kernels at their first use, which must not become part of a graph.
            with self._context.active(doing), outside_of_captures(doing), self._lock:
                _call("cufftSetStream", doing, self._handle, stream or 0)
                if self._nbytes:
                    _call("cufftSetWorkArea", doing, self._handle, workspace)
                _call(function, doing, self._handle, source, target, *signs)

        return run

    def close(self) -> None:
        self._destroy()


def _transform_of(call: LibraryCall) -> CufftTransform:
    """Parameters of the cuFFT call. Raises TypeError for a call of another library."""
    if not isinstance(call.parameters, CufftTransform):
        raise TypeError(f"not a call of cuFFT: {call.description()}")
    return call.parameters


def _make_plan(handle: int, transform: CufftTransform, nbytes: ctypes.c_size_t, doing: str) -> None:
    """Makes the cuFFT plan and stores the size of its work area, in bytes, in `nbytes`."""
    axes = len(transform.sizes)

    def extents(values: tuple[int, ...]) -> Any:
        return (ctypes.c_int * axes)(*values)

    sides = [(extents(side.embed), side.stride, side.distance) for side in (transform.source, transform.target)]
    layout = (*sides[0], *sides[1])
    kind, batch = _TYPE[transform.kind], transform.batch
    sizes = extents(transform.sizes)
    _call("cufftMakePlanMany", doing, handle, axes, sizes, *layout, kind, batch, ctypes.byref(nbytes))


def _destroy(context: PrimaryContext, handle: int) -> None:
    # A context that has failed or was released has already freed what the plan holds on the device.
    with contextlib.suppress(DeviceError), context.active("destroy a plan of cuFFT"):
        _library().cufftDestroy(handle)
