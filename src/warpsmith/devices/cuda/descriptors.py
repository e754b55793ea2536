"""Descriptors through which kernels read memory on a GPU: texture objects, and tensor maps (TMA im2col) of images.

Texture objects are created when a launch is first bound, and destroyed when no kernel can use them any more.

Source: CUDA driver API, cuTensorMapEncodeIm2col.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

from cuda.bindings import driver as cu

from warpsmith.devices.cuda.status import SUCCESS, call, outside_of_captures
from warpsmith.generator.problem import DType
from warpsmith.generator.program import TensorMap, Texture

MOST_KEPT = 64
"""Texture objects that a module caches although no launch is bound to them, and unused ones that trigger a sweep."""

_FORMAT = {
    DType.FLOAT32: cu.CUarray_format.CU_AD_FORMAT_FLOAT,
    DType.FLOAT16: cu.CUarray_format.CU_AD_FORMAT_HALF,
    DType.UINT8: cu.CUarray_format.CU_AD_FORMAT_UNSIGNED_INT8,
}


class TextureObject:
    """One texture object. Kernels take its 64-bit `handle`."""

    __slots__ = ("__weakref__", "handle")

    def __init__(self, handle: int) -> None:
        self.handle = handle


class Textures:
    """The texture objects of one module, for one thread at a time.

    Destroying an object that a queued kernel reads through is undefined behaviour, and nothing tells when a kernel on a
    caller's stream has ended. So objects that no launch is bound to any more are collected, and destroyed together once
    the whole context is idle. Objects of captured launches stay until the module is closed, because their graph may run
    at any time.
    """

    def __init__(self) -> None:
        self._recent: dict[tuple[int, Texture], TextureObject] = {}  # the most recently used is last
        self._captured: list[TextureObject] = []
        self._alive: set[int] = set()
        self._dropped: list[int] = []

    def at(self, address: int, texture: Texture) -> TextureObject:
        """The object for the memory at `address`, in the current context. The caller must keep a reference to it.

        Raises:
            LaunchError: the driver refuses it: an address or a pitch that is not aligned, or too many texels.
        """
        found = self._recent.pop((address, texture), None) or self._made(address, texture)
        self._recent[address, texture] = found
        if len(self._recent) > MOST_KEPT:
            del self._recent[next(iter(self._recent))]
        return found

    def _made(self, address: int, texture: Texture) -> TextureObject:
        size = f"{texture.width}x{texture.height}" if texture.height else f"{texture.width}"
        pitch = f" with rows {texture.pitch} bytes apart" if texture.height else ""
        doing = f"make a texture of {size} {texture.dtype}{pitch} of {texture.buffer} at {address:#x}"
        with outside_of_captures(doing):
            handle = int(call(cu.cuTexObjectCreate(_resource(address, texture), _reading(texture), None), doing))
        made = TextureObject(handle)
        self._alive.add(handle)
        weakref.finalize(made, self._dropped.append, handle).atexit = False
        return made

    def keep(self, textures: tuple[TextureObject, ...]) -> None:
        """Keeps objects until `close`, because a graph uses them."""
        self._captured += [each for each in textures if each not in self._captured]

    def sweep(self) -> None:
        """Destroys objects that no launch is bound to any more, if there are many. It then waits for the context."""
        if len(self._dropped) >= MOST_KEPT:
            waiting = len(self._dropped)  # objects that other threads drop meanwhile may not have been waited for
            if self._destroyed(self._dropped[:waiting]):
                del self._dropped[:waiting]

    def close(self) -> None:
        """Destroys all objects, in the current context, after its work has ended."""
        self._destroyed(list(self._alive))

    def _destroyed(self, handles: list[int]) -> bool:
        """Destroys objects. Returns False if the context cannot be waited for: after a fault, or during a capture on
        any stream.
        """
        if not handles or cu.cuCtxSynchronize()[0] != SUCCESS:
            return False
        for handle in handles:
            cu.cuTexObjectDestroy(handle)
            self._alive.discard(handle)
        return True


def _resource(address: int, texture: Texture) -> Any:
    """CUDA_RESOURCE_DESC for pitched rows, or for one linear block of memory."""
    resource = cu.CUDA_RESOURCE_DESC()
    if texture.height:
        resource.resType = cu.CUresourcetype.CU_RESOURCE_TYPE_PITCH2D
        memory = resource.res.pitch2D
        memory.width, memory.height, memory.pitchInBytes = texture.width, texture.height, texture.pitch
    else:
        resource.resType = cu.CUresourcetype.CU_RESOURCE_TYPE_LINEAR
        memory = resource.res.linear
        memory.sizeInBytes = texture.width * texture.channels * texture.dtype.itemsize
    memory.devPtr, memory.format, memory.numChannels = address, _FORMAT[texture.dtype], texture.channels
    return resource


def _reading(texture: Texture) -> Any:
    """CUDA_TEXTURE_DESC for nearest-texel reads, with clamped coordinates in texels. Integers are not converted to
    0..1.
    """
    reading = cu.CUDA_TEXTURE_DESC()
    reading.addressMode = [cu.CUaddress_mode.CU_TR_ADDRESS_MODE_CLAMP] * 3
    reading.filterMode = cu.CUfilter_mode.CU_TR_FILTER_MODE_POINT
    reading.flags = cu.CU_TRSF_READ_AS_INTEGER if texture.dtype is DType.UINT8 else 0
    return reading


MAP_BYTES = 128
_TYPES = {
    DType.FLOAT32: cu.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
    DType.FLOAT16: cu.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
    DType.BFLOAT16: cu.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
}


def tensor_map_bytes(described: TensorMap, address: int) -> bytes:
    """The 128 bytes of a tensor map of the images at `address`. Raises DeviceError if the driver refuses it."""
    images, rows, columns, channels = described.shape
    pixel = channels * described.dtype.itemsize
    (first_row, first_column), (last_row, last_column) = described.corners
    row_step, column_step = described.step
    made = call(
        cu.cuTensorMapEncodeIm2col(
            _TYPES[described.dtype],
            4,
            address,
            [cu.cuuint64_t(each) for each in (channels, columns, rows, images)],
            [cu.cuuint64_t(each) for each in (pixel, columns * pixel, rows * columns * pixel)],
            [first_column, first_row],
            [last_column, last_row],
            described.channels,
            described.pixels,
            [cu.cuuint32_t(each) for each in (1, column_step, row_step, 1)],
            cu.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            cu.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
            cu.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            cu.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        ),
        f"describe {described.buffer} to the copy engine",
    )
    return ctypes.string_at(int(made.getPtr()), MAP_BYTES)
