"""Tensor maps: arguments of the driver, and reads of the host's copies."""

from __future__ import annotations

from typing import Any

import pytest
from cuda.bindings import driver as real

from warpsmith.devices.cuda import descriptors as on_gpu
from warpsmith.devices.host import descriptors as on_host
from warpsmith.errors import DeviceError
from warpsmith.generator.problem import DType
from warpsmith.generator.program import TensorMap

MAP = TensorMap(
    "x", DType.BFLOAT16, (2, 11, 9, 72), first=(-1, -2), extent=(6, 3), step=(2, 3), channels=64, pixels=128
)


def test_the_driver_counts_columns_first_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def encode(*given: Any) -> Any:
        asked.extend(given)
        return real.CUresult.CUDA_SUCCESS, real.CUtensorMap()

    monkeypatch.setattr(on_gpu.cu, "cuTensorMapEncodeIm2col", encode)
    assert len(on_gpu.tensor_map_bytes(MAP, 0x4000)) == 128
    kind, rank, address, sizes, strides, first, last, channels, pixels, steps, _, swizzle, *_ = asked
    assert (kind, rank, address) == (real.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, 0x4000)
    assert list(map(int, sizes)) == [72, 9, 11, 2]
    assert list(map(int, strides)) == [144, 9 * 144, 99 * 144]
    assert (first, last) == ([-2, -1], [-2 + 2 * 3 - 8, -1 + 5 * 2 - 10])
    assert (channels, pixels, list(map(int, steps))) == (64, 128, [1, 3, 2, 1])
    assert swizzle == real.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B


def test_a_refusal_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = real.CUresult.CUDA_ERROR_INVALID_VALUE
    monkeypatch.setattr(on_gpu.cu, "cuTensorMapEncodeIm2col", lambda *_: (refused, None))
    monkeypatch.setattr(on_gpu.cu, "cuGetErrorString", lambda _: (real.CUresult.CUDA_SUCCESS, b"invalid argument"))
    with pytest.raises(DeviceError, match="cannot describe x to the copy engine: invalid argument"):
        on_gpu.tensor_map_bytes(MAP, 0x4000)


def test_the_host_s_has_all_of_it() -> None:
    made = on_host._TensorMap.from_buffer_copy(on_host.tensor_map_bytes(MAP, 0x4000))
    assert (made.data, *made.shape) == (0x4000, 2, 11, 9, 72)
    assert (*made.first, *made.extent, *made.step) == (-1, -2, 6, 3, 2, 3)
    assert (made.channels, made.pixels, made.bytes) == (64, 128, 2)
