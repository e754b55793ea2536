"""Encodes tensor maps (TMA im2col descriptors) of images on a GPU.

Source: CUDA driver API, cuTensorMapEncodeIm2col.
"""

from __future__ import annotations

import ctypes

from cuda.bindings import driver as cu

from warpsmith.devices.cuda.status import call
from warpsmith.generator.problem import DType
from warpsmith.generator.program import TensorMap

MAP_BYTES = 128
_TYPES = {
    DType.FLOAT16: cu.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
    DType.BFLOAT16: cu.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
}


def tensor_map_bytes(told: TensorMap, address: int) -> bytes:
    """The 128 bytes of a tensor map of the images at `address`. Raises DeviceError if the driver refuses it."""
    images, rows, columns, channels = told.shape
    pixel = channels * told.dtype.itemsize
    (first_row, first_column), (last_row, last_column) = told.corners
    row_step, column_step = told.step
    made = call(
        cu.cuTensorMapEncodeIm2col(
            _TYPES[told.dtype],
            4,
            address,
            [cu.cuuint64_t(each) for each in (channels, columns, rows, images)],
            [cu.cuuint64_t(each) for each in (pixel, columns * pixel, rows * columns * pixel)],
            [first_column, first_row],
            [last_column, last_row],
            told.channels,
            told.pixels,
            [cu.cuuint32_t(each) for each in (1, column_step, row_step, 1)],
            cu.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            cu.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
            cu.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            cu.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        ),
        f"describe {told.buffer} to the copy engine",
    )
    return ctypes.string_at(int(made.getPtr()), MAP_BYTES)
