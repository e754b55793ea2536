"""Descriptors through which kernels read memory on the host: those of `tex2D` and `tex1Dfetch` (texture.h), and of
`tma_load_im2col` (tensor_map.h).
"""

from __future__ import annotations

import ctypes
import enum

from warpsmith.generator.problem import DType
from warpsmith.generator.program import TensorMap, Texture


class ChannelFormat(enum.IntEnum):
    """Number format of a texel's channel."""

    SIGNED = 0
    UNSIGNED = 1
    FLOAT = 2


class AddressMode(enum.IntEnum):
    """How coordinates outside the texture are read. Values are those of cudaTextureAddressMode.

    Wrap and mirror need normalized coordinates; with others the device clamps, as a GPU does.
    """

    WRAP = 0
    CLAMP = 1
    MIRROR = 2
    BORDER = 3


class TextureDescriptor(ctypes.Structure):
    """A pitch-linear 2-D texture. Its handle is its address, valid for as long as this object lives.

    Fields: `data` address of the first texel; `width` and `height` in texels; `pitch` in bytes from row to row;
    `channels` 1, 2 or 4; `bits` of a channel, 8, 16 or 32 (float: 16 or 32); `address` modes of x and y; `linear`
    filter instead of point; `normalized_coordinates` 0 to 1 instead of 0 to width; `normalized_float` reads integers
    as 0 to 1 (signed: -1 to 1); `border` the colour outside for AddressMode.BORDER.
    """

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("width", ctypes.c_int32),
        ("height", ctypes.c_int32),
        ("pitch", ctypes.c_int32),
        ("channels", ctypes.c_int32),
        ("bits", ctypes.c_int32),
        ("format", ctypes.c_int32),
        ("address", ctypes.c_int32 * 2),
        ("linear", ctypes.c_int32),
        ("normalized_coordinates", ctypes.c_int32),
        ("normalized_float", ctypes.c_int32),
        ("border", ctypes.c_float * 4),
    )

    @property
    def handle(self) -> int:
        """The `cudaTextureObject_t` to pass to a kernel, 8 bytes by value."""
        return ctypes.addressof(self)


def describe(texture: Texture, address: int) -> TextureDescriptor:
    """The descriptor of a kernel's texture argument over the memory at `address`."""
    return TextureDescriptor(
        data=address,
        width=texture.width,
        height=max(1, texture.height),
        pitch=texture.pitch,
        channels=texture.channels,
        bits=8 * texture.dtype.itemsize,
        format=ChannelFormat.UNSIGNED if texture.dtype is DType.UINT8 else ChannelFormat.FLOAT,
        address=(AddressMode.CLAMP, AddressMode.CLAMP),
    )


class _TensorMap(ctypes.Structure):
    """`TensorMap` of tensor_map.h. It has the size of a GPU's tensor map."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("shape", ctypes.c_int32 * 4),
        ("first", ctypes.c_int32 * 2),
        ("extent", ctypes.c_int32 * 2),
        ("step", ctypes.c_int32 * 2),
        ("channels", ctypes.c_int32),
        ("pixels", ctypes.c_int32),
        ("bytes", ctypes.c_int32),
        ("unused", ctypes.c_int32 * 17),
    )


def tensor_map_bytes(described: TensorMap, address: int) -> bytes:
    """Bytes of a tensor map of the images at `address`."""
    fields = described.shape, described.first, described.extent, described.step
    return bytes(_TensorMap(address, *fields, described.channels, described.pixels, described.dtype.itemsize))
