"""Tensor maps of images on the host: the descriptors that `tma_load_im2col` of tensor_map.h reads."""

from __future__ import annotations

import ctypes

from warpsmith.generator.program import TensorMap


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


def tensor_map_bytes(told: TensorMap, address: int) -> bytes:
    """Bytes of a tensor map of the images at `address`."""
    fields = told.shape, told.first, told.extent, told.step
    return bytes(_TensorMap(address, *fields, told.channels, told.pixels, told.dtype.itemsize))
