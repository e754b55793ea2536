"""NVIDIA's image filter library NPP, called through ctypes, and its peers: all taps at once, or a row and a column.

CUDA 13 has only functions that take a stream context.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import importlib.metadata
from collections.abc import Callable
from ctypes import Structure, byref, c_int, c_size_t, c_uint, c_void_p
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.filter2d.separable import Term
from warpsmith.generator.problem import DType
from warpsmith.tuner.operations.judge import Operands
from warpsmith.tuner.operations.peer import Peer, Unavailable

REPLICATE = 2
"""`NPP_BORDER_REPLICATE`, the only border that the filter is known to support; SciPy's `nearest`."""

NON_BLOCKING = 1
"""`cudaStreamNonBlocking`."""

_BLOCK_THREADS, _BLOCK_SHARED, _PROCESSORS, _PROCESSOR_THREADS, _MAJOR, _MINOR = 1, 8, 16, 39, 75, 76
"""`CUdevice_attribute` values of the driver's cuda.h."""


class StreamContext(Structure):
    """`NppStreamContext`, passed by value."""

    _fields_ = (
        ("stream", c_void_p),
        ("device", c_int),
        ("multiprocessors", c_int),
        ("threads_per_multiprocessor", c_int),
        ("threads_per_block", c_int),
        ("shared_per_block", c_size_t),
        ("major", c_int),
        ("minor", c_int),
        ("stream_flags", c_uint),
        ("reserved", c_int),
    )


class Size(Structure):
    """`NppiSize`, in pixels."""

    _fields_ = (("width", c_int), ("height", c_int))


class Point(Structure):
    """`NppiPoint`, in pixels."""

    _fields_ = (("x", c_int), ("y", c_int))


@dataclasses.dataclass(frozen=True, slots=True)
class Image:
    """A dense image in an array with `__cuda_array_interface__`: `rows` by `columns` pixels of `pixel_bytes` each."""

    array: Any
    rows: int
    columns: int
    pixel_bytes: int

    @property
    def pitch(self) -> int:
        """Bytes from row to row."""
        return self.columns * self.pixel_bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Mask:
    """A filter's float32 values, in an array like an image's, and its anchor as row and column."""

    array: Any
    rows: int
    columns: int
    anchor: tuple[int, int]


@dataclasses.dataclass(frozen=True, slots=True)
class LineMask:
    """A one-dimensional filter: its float32 values in an array like an image's, their number, and the anchor's
    index.
    """

    array: Any
    taps: int
    anchor: int


class _Border:
    """A function of the library on this thread's current device, whose arguments begin with two images.

    Raises OSError without the library or a driver, AttributeError without the function, RuntimeError without a current
    device.
    """

    def __init__(self, name: str, filter_arguments: tuple[Any, ...]) -> None:
        self._name = name
        self._function = getattr(_library(), f"{name}_Ctx")
        source, target = (c_void_p, c_int, Size, Point), (c_void_p, c_int, Size)
        self._function.argtypes = (*source, *target, *filter_arguments, c_int, StreamContext)
        self._function.restype = c_int
        self._context = _context()

    def _call(
        self, image: Image, offset: tuple[int, int], result: Image, arguments: tuple[Any, ...], stream: int | None
    ) -> None:
        row, column = offset
        status = self._function(
            _address(image.array) + row * image.pitch + column * image.pixel_bytes,
            image.pitch,
            Size(image.columns, image.rows),
            Point(column, row),
            _address(result.array),
            result.pitch,
            Size(result.columns, result.rows),
            *arguments,
            REPLICATE,
            self._context if stream is None else _on_stream(self._context, stream),
        )
        if status:
            raise RuntimeError(f"{self._name} returned NppStatus {status}")


class FilterBorder(_Border):
    """One of the functions `nppiFilterBorder...`, which share their arguments. Raises as its base class does."""

    def __init__(self, name: str) -> None:
        super().__init__(name, (c_void_p, Size, Point))

    def __call__(
        self, image: Image, offset: tuple[int, int], result: Image, mask: Mask, stream: int | None = None
    ) -> None:
        """Filters the part of `image` that starts at row and column `offset` and is as large as `result`.

        result[y, x] = sum over r, s of mask[r, s] * image[y + offset row + anchor row - r, ...]: a convolution about
        the anchor. It runs on the stream with handle `stream`, or on the default one, and does not wait. Raises
        RuntimeError with NPP's status.
        """
        geometry = (_address(mask.array), Size(mask.columns, mask.rows), Point(mask.anchor[1], mask.anchor[0]))
        self._call(image, offset, result, geometry, stream)


class LineFilterBorder(_Border):
    """One of `nppiFilterRowBorder_32f...` or `nppiFilterColumnBorder_32f...`. Raises as its base class does."""

    def __init__(self, name: str) -> None:
        super().__init__(name, (c_void_p, c_int, c_int))

    def __call__(
        self, image: Image, offset: tuple[int, int], result: Image, line: LineMask, stream: int | None = None
    ) -> None:
        """Filters along rows or columns, depending on the function; otherwise as `FilterBorder`."""
        self._call(image, offset, result, (_address(line.array), line.taps, line.anchor), stream)


def _on_stream(context: StreamContext, stream: int) -> StreamContext:
    """Context of the same device on a stream that does not wait for the default one, as streams under capture
    require.
    """
    other = StreamContext.from_buffer_copy(context)
    other.stream, other.stream_flags = stream, NON_BLOCKING
    return other


def npp_version() -> str:
    """Version of the wheel; `13` if the library comes from elsewhere."""
    try:
        return importlib.metadata.version("nvidia-npp")
    except importlib.metadata.PackageNotFoundError:
        return "13"


def _address(array: Any) -> int:
    address: int = array.__cuda_array_interface__["data"][0]
    return address


@functools.cache
def _library() -> ctypes.CDLL:
    """The filter library, from the wheel `nvidia-npp` or the loader's path. Raises OSError."""
    for folder in _wheel_folders():
        core = folder / "libnppc.so.13"
        if core.is_file():
            # The filters need the core library, which the loader finds by name once it is loaded.
            ctypes.CDLL(str(core), mode=ctypes.RTLD_GLOBAL)
            return ctypes.CDLL(str(folder / "libnppif.so.13"))
    return ctypes.CDLL("libnppif.so.13")


def _wheel_folders() -> list[Path]:
    """Library folders of NVIDIA's wheels: nvidia/cu13/lib, or nvidia/npp/lib in older ones."""
    namespace = find_spec("nvidia")
    places = namespace.submodule_search_locations if namespace is not None else None
    return [folder for place in places or () for folder in sorted(Path(place).glob("*/lib"))]


def _context() -> StreamContext:
    """Context of the default stream of this thread's current device. Raises OSError without a driver, RuntimeError if a
    driver call fails.
    """
    driver = ctypes.CDLL("libcuda.so.1")

    def queried(function: str, *arguments: int) -> int:
        value = c_int()
        if status := getattr(driver, function)(byref(value), *arguments):
            raise RuntimeError(f"{function} returned CUresult {status}")
        return value.value

    device = queried("cuCtxGetDevice")
    attribute = functools.partial(queried, "cuDeviceGetAttribute")
    return StreamContext(
        device=device,
        multiprocessors=attribute(_PROCESSORS, device),
        threads_per_multiprocessor=attribute(_PROCESSOR_THREADS, device),
        threads_per_block=attribute(_BLOCK_THREADS, device),
        shared_per_block=attribute(_BLOCK_SHARED, device),
        major=attribute(_MAJOR, device),
        minor=attribute(_MINOR, device),
    )


FILTERS = {DType.FLOAT32: "nppiFilterBorder_32f", DType.UINT8: "nppiFilterBorder32f_8u"}
"""Function names by element type of image and result. The weights are float32 in both."""

DeviceArrays = tuple[Callable[[NDArray[Any]], Any], Callable[[Any], NDArray[Any]]]
"""Functions that copy an array to the device, and back."""


def npp_peer(problem: Filter2d, taps: NDArray[np.float32], operands: Operands, arrays: DeviceArrays, sets: int) -> Peer:
    """Peer that runs NPP's filter on dense arrays.

    Args:
        problem: filter problem.
        taps: weights as (filters, R, S), rotated so that a correlation applies them.
        operands: the problem's inputs.
        arrays: another library's device memory; NPP has none of its own.
        sets: number of buffer sets.

    Raises:
        Unavailable: NPP does not support the problem.
    """
    _require(problem, tuple(FILTERS))
    name = f"{FILTERS[problem.dtype]}_C{problem.channels}R"
    filter_image = FilterBorder(name)
    to_device, to_host = arrays
    above, left = _centre(problem)
    # NPP's filters are convolutions, so their mask is rotated, and so is the position of its anchor.
    rotated = to_device(np.ascontiguousarray(taps[0, ::-1, ::-1]))
    mask = Mask(rotated, *problem.filter, (problem.filter[0] - 1 - above, problem.filter[1] - 1 - left))
    sources, targets = _images(problem, operands, to_device, sets)
    offset = (above, left) if problem.border is Border.VALID else (0, 0)

    def run(index: int = 0, stream: int | None = None, /) -> None:
        filter_image(sources[index], offset, targets[index], mask, stream)

    return Peer(f"npp {npp_version()} {name}", run, lambda: to_host(targets[0].array))


def separable_npp_peer(problem: Filter2d, term: Term, operands: Operands, arrays: DeviceArrays, sets: int) -> Peer:
    """Peer that runs NPP's row filter, then its column filter, with a float32 image between them. Raises as `npp_peer`
    does.
    """
    _require(problem, (DType.FLOAT32,))
    names = [f"nppiFilter{way}Border_32f_C{problem.channels}R" for way in ("Row", "Column")]
    along, down = (LineFilterBorder(name) for name in names)
    to_device, to_host = arrays
    (above, left), (r, s) = _centre(problem), problem.filter
    row = LineMask(to_device(np.array(term.row[::-1], np.float32)), s, s - 1 - left)
    column = LineMask(to_device(np.array(term.column[::-1], np.float32)), r, r - 1 - above)
    sources, targets = _images(problem, operands, to_device, sets)
    # The intermediate image of border `valid` has the result's columns and every row, which the column filter reads.
    rows, columns = problem.image[0], problem.output_shape[1]
    shape = (rows, columns, problem.channels)
    between = [_image(to_device(np.zeros(shape, np.float32)), (rows, columns), problem) for _ in range(sets)]
    inside = problem.border is Border.VALID

    def run(index: int = 0, stream: int | None = None, /) -> None:
        along(sources[index], (0, left if inside else 0), between[index], row, stream)
        down(between[index], (above if inside else 0, 0), targets[index], column, stream)

    return Peer(f"npp {npp_version()} {' and '.join(names)}", run, lambda: to_host(targets[0].array))


def _require(problem: Filter2d, dtypes: tuple[DType, ...]) -> None:
    if problem.border not in (Border.VALID, Border.NEAREST):
        raise Unavailable(f"it has no border {problem.border}: it replicates at the edge")
    if problem.result_dtype is not None or problem.dtype not in dtypes:
        result = problem.result_dtype or problem.dtype
        raise Unavailable(f"it has no such filter from {problem.dtype} to {result}")
    if problem.planes > 1 or problem.filters > 1:
        raise Unavailable("it has one image and one filter a call")


def _centre(problem: Filter2d) -> tuple[int, int]:
    """Rows above and columns left of the pixel that a window is assigned to.

    With border `valid` that is the window's centre: a library may be fastest in the inside of the image.
    """
    if problem.border is Border.VALID:
        return problem.filter[0] // 2, problem.filter[1] // 2
    return problem.before


def _images(
    problem: Filter2d, operands: Operands, to_device: Callable[[NDArray[Any]], Any], sets: int
) -> tuple[list[Image], list[Image]]:
    empty = np.zeros(problem.output.shape, str(problem.output.dtype))
    sources = [_image(to_device(operands["image"]), problem.image, problem) for _ in range(sets)]
    return sources, [_image(to_device(empty), problem.output_shape, problem) for _ in range(sets)]


def _image(array: Any, extent: tuple[int, int], problem: Filter2d) -> Image:
    return Image(array, *extent, problem.channels * problem.dtype.itemsize)
