"""Callers' arrays as addresses: what is accepted, what is refused and how."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from warpsmith.devices.arrays import device_view, empty_like_caller, host_view, stream_handle
from warpsmith.devices.cuda.interop import launch_stream
from warpsmith.devices.elements import numpy_dtype
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.signature import weights_bytes
from warpsmith.errors import BadArgument
from warpsmith.generator.problem import PIXELS, DType, Operand, Role

IMAGE = Operand("image", Role.INPUT, (4, 6), DType.FLOAT32)
WEIGHTS = Operand("weights", Role.INPUT, (2, 3), DType.FLOAT32)
LAST = Operand("x", Role.INPUT, (2, 3, 4, 5), DType.BFLOAT16, (120, 2, 30, 6))
"""Channels last."""
PITCHED = Operand("image", Role.INPUT, (2, 4, 6), DType.FLOAT32, (128, 32, 4))
"""Two planes of four rows, 32 bytes apart with 24 of them used."""


def image(**changes: Any) -> np.ndarray[Any, Any]:
    return np.zeros(changes.get("shape", (4, 6)), changes.get("dtype", "float32"))


class OnGpu:
    """An array with `__cuda_array_interface__`, as CuPy's; the address is made up and never read."""

    def __init__(self, **changes: Any) -> None:
        plain = {"shape": (4, 6), "typestr": "<f4", "data": (0x7F0000000100, False), "strides": None, "version": 3}
        self.__cuda_array_interface__ = plain | changes


class OverDlpack:
    """An array with `__dlpack__` alone."""

    def __init__(self, array: np.ndarray[Any, Any], device: int = 1) -> None:
        self._array = array
        self._device = device

    def __dlpack__(self, **options: Any) -> Any:
        if self._device != 1:
            raise BufferError("cannot export to another device")
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self._device, 0)


def misaligned() -> np.ndarray[Any, Any]:
    """A contiguous array of the right shape, but 4 bytes past a multiple of 16."""
    flat = np.zeros(40, np.float32)
    start = (-flat.ctypes.data // 4) % 4 + 1
    return flat[start : start + 24].reshape(4, 6)


def pitched(operand: Operand = PITCHED, pitch: int = 32) -> np.ndarray[Any, Any]:
    """An array of the operand's shape with rows `pitch` bytes apart."""
    *outer, rows, columns = operand.shape
    memory = np.zeros((*outer, rows, pitch // operand.dtype.itemsize), str(operand.dtype))
    return memory[..., :columns]


def read_only() -> np.ndarray[Any, Any]:
    array = image()
    array.flags.writeable = False
    return array


def test_a_numpy_array_is_viewed_where_it_lies() -> None:
    array = image()
    view = host_view(array, IMAGE, writable=True)
    assert view.address == array.ctypes.data
    assert view.keepalive is array
    assert view.stream is None


@pytest.mark.parametrize(
    "wrap", [OverDlpack, lambda array: SimpleNamespace(__array_interface__=array.__array_interface__)]
)
def test_other_libraries_arrays_are_viewed_where_they_lie(wrap: Any) -> None:
    array = image()
    wrapped = wrap(array)
    view = host_view(wrapped, IMAGE)
    assert view.address == array.ctypes.data
    assert view.keepalive is wrapped


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (image(dtype="float64"), r"image: expected float32 of shape \(4, 6\); got float64 of shape \(4, 6\)"),
        (image(shape=(6, 4)), r"image: expected float32 of shape \(4, 6\); got float32 of shape \(6, 4\)"),
        (image(dtype=">f4"), r"image: expected float32 of shape \(4, 6\); got >f4 of shape"),
        (image(shape=(6, 4)).T, "image: must be C-contiguous; copy it first"),
        (image(shape=(4, 12))[:, ::2], "image: must be C-contiguous; copy it first"),
        (misaligned(), "image: must start at a multiple of 16 bytes; copy it first"),
        ([[0.0] * 6] * 4, "image: expected a NumPy array; got list"),
        (OnGpu(), "image: is on a GPU; the host device takes arrays in host memory"),
        (OverDlpack(image(), device=2), "image: is on a GPU; the host device takes arrays in host memory"),
    ],
)
def test_what_the_host_refuses(array: Any, message: str) -> None:
    with pytest.raises(BadArgument, match=message):
        host_view(array, IMAGE)


def test_outputs_must_be_writable() -> None:
    assert host_view(read_only(), IMAGE).address
    with pytest.raises(BadArgument, match="image: is read-only"):
        host_view(read_only(), IMAGE, writable=True)
    with pytest.raises(BadArgument, match="image: is read-only"):
        device_view(OnGpu(data=(0x100, True)), IMAGE, writable=True)


@pytest.mark.parametrize("strides", [None, (24, 4)])
@pytest.mark.parametrize(("told", "stream"), [(None, None), (1, 0), (2, 2), (0x5550, 0x5550)])
def test_a_gpu_array_is_viewed_with_its_stream(strides: Any, told: int | None, stream: int | None) -> None:
    array = OnGpu(strides=strides, stream=told)
    view = device_view(array, IMAGE, writable=True)
    assert view.address == 0x7F0000000100
    assert view.keepalive is array
    assert view.stream == stream


def test_strides_of_dimensions_of_one_element_do_not_matter() -> None:
    row = Operand("row", Role.INPUT, (1, 6), DType.FLOAT32)
    assert device_view(OnGpu(shape=(1, 6), strides=(4096, 4)), row).address


@pytest.mark.parametrize("dtype", PIXELS)
def test_a_pitched_array_is_viewed_where_it_lies(dtype: DType) -> None:
    operand = Operand("image", Role.INPUT, (2, 4, 6), dtype, (128, 32, dtype.itemsize))
    array = pitched(operand)
    assert host_view(array, operand, writable=True).address == array.ctypes.data
    assert host_view(OverDlpack(array), operand).address == array.ctypes.data
    described = {"shape": (2, 4, 6), "typestr": array.dtype.str, "strides": array.strides}
    assert device_view(OnGpu(**described), operand).address == 0x7F0000000100


def test_channels_of_a_pitched_array_lie_together() -> None:
    operand = Operand("image", Role.INPUT, (4, 5, 3), DType.UINT8, (16, 3, 1))
    memory = np.zeros((4, 16), np.uint8)
    assert host_view(memory[:, :15].reshape(4, 5, 3), operand).address == memory.ctypes.data


APART = "image: its rows must start 32 bytes apart; they start"


@pytest.mark.parametrize(
    ("strides", "message"),
    [
        (None, f"{APART} 24 bytes apart"),
        ((96, 24, 4), f"{APART} 24 bytes apart"),
        ((256, 64, 4), f"{APART} 64 bytes apart"),
        ((256, 32, 4), r"image: its strides must be \(128, 32, 4\) bytes; they are \(256, 32, 4\)"),
        ((4, 32, 8), r"image: its strides must be \(128, 32, 4\) bytes; they are \(4, 32, 8\)"),
    ],
)
def test_other_rows_than_a_plan_was_made_for(strides: tuple[int, ...] | None, message: str) -> None:
    with pytest.raises(BadArgument, match=message):
        device_view(OnGpu(shape=(2, 4, 6), strides=strides), PITCHED)


def test_a_pitched_array_where_rows_have_no_gap() -> None:
    dense = Operand("image", Role.INPUT, (2, 4, 6), DType.FLOAT32)
    with pytest.raises(BadArgument, match="image: must be C-contiguous; copy it first"):
        host_view(pitched(), dense)


def test_the_pitch_of_a_single_row_does_not_matter() -> None:
    row = Operand("row", Role.INPUT, (1, 6), DType.FLOAT32, (64, 4))
    assert device_view(OnGpu(shape=(1, 6)), row).address
    assert host_view(np.zeros((1, 6), np.float32), row).address


@pytest.mark.parametrize("dtype", DType)
def test_tensors_of_torch_are_viewed_with_their_strides(dtype: DType) -> None:
    torch = pytest.importorskip("torch")
    operand = Operand("image", Role.INPUT, (2, 4, 3), dtype, (128, 32, dtype.itemsize))
    tensor = torch.zeros((2, 4, 32 // dtype.itemsize), dtype=getattr(torch, str(dtype)))[..., :3]
    assert host_view(tensor, operand, writable=True).address == tensor.data_ptr()
    with pytest.raises(BadArgument, match=APART):
        host_view(tensor.contiguous(), operand)
    runtime = HostRuntime()
    try:
        made = empty_like_caller(tensor, operand, runtime)
    finally:
        runtime.close()
    assert isinstance(made, torch.Tensor)
    assert host_view(made, operand, writable=True).address == made.data_ptr()
    assert made.untyped_storage().nbytes() == 256


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (OnGpu(typestr="<f8"), r"image: expected float32 of shape \(4, 6\); got float64"),
        (OnGpu(shape=(4, 6, 1)), r"image: expected .* got float32 of shape \(4, 6, 1\)"),
        (OnGpu(strides=(4, 16)), "image: must be C-contiguous"),
        (OnGpu(strides=(32, 4)), "image: must be C-contiguous"),
        (OnGpu(data=(0x7F0000000104, False)), "image: must start at a multiple of 16 bytes"),
        (image(), "image: is in host memory; move it to the GPU first"),
        (OverDlpack(image()), "image: is in host memory; move it to the GPU first"),
        ("photo.png", "image: expected an array with __cuda_array_interface__ or __dlpack__; got str"),
    ],
)
def test_what_a_gpu_refuses(array: Any, message: str) -> None:
    with pytest.raises(BadArgument, match=message):
        device_view(array, IMAGE)


@pytest.mark.parametrize(
    "place",
    [
        {"device": SimpleNamespace(id=1)},
        {"device": SimpleNamespace(index=1)},
        {"__dlpack_device__": lambda: (2, 1)},
        {"__dlpack_device__": lambda: (2, 1), "device": SimpleNamespace(id=7)},
    ],
    ids=["cupy", "torch", "dlpack", "jax"],
)
def test_an_array_on_another_gpu_is_refused_by_name(place: dict[str, Any]) -> None:
    array = SimpleNamespace(__cuda_array_interface__=OnGpu().__cuda_array_interface__, **place)
    with pytest.raises(BadArgument) as caught:
        device_view(array, IMAGE, ordinal=0)
    told = "image: is on cuda:1, and the plan on cuda:0; copy it there, or make a plan for device='cuda:1'"
    assert str(caught.value) == told
    assert device_view(array, IMAGE, ordinal=1).address
    assert device_view(array, IMAGE).address


@pytest.mark.parametrize("place", [{}, {"device": "gpu"}, {"__dlpack_device__": lambda: (13, 1)}])
def test_an_array_that_does_not_say_where_it_is_or_is_everywhere(place: dict[str, Any]) -> None:
    array = SimpleNamespace(__cuda_array_interface__=OnGpu().__cuda_array_interface__, **place)
    assert device_view(array, IMAGE, ordinal=0).address


def test_printing_a_view_does_not_fetch_the_array() -> None:
    assert "array" not in repr(host_view(image(), IMAGE))


def test_an_output_of_the_host_is_a_numpy_array() -> None:
    runtime = HostRuntime()
    try:
        made = empty_like_caller(image(), WEIGHTS, runtime)
    finally:
        runtime.close()
    assert isinstance(made, np.ndarray)
    assert host_view(made, WEIGHTS, writable=True).address == made.ctypes.data


@pytest.mark.parametrize("dtype", PIXELS)
def test_an_output_has_the_operands_strides_up_to_the_end_of_its_last_row(dtype: DType) -> None:
    operand = Operand("result", Role.OUTPUT, (2, 4, 6), dtype, (128, 32, dtype.itemsize))
    runtime = HostRuntime()
    try:
        made = empty_like_caller(pitched(operand), operand, runtime)
    finally:
        runtime.close()
    assert (made.shape, made.dtype, made.strides) == (operand.shape, str(dtype), operand.strides)
    assert host_view(made, operand, writable=True).address == made.ctypes.data
    assert made.base.nbytes == 256


EXPECTED = np.array([[1, 2, 3], [4, 5, 6]], np.float32).tobytes()


@pytest.mark.parametrize(
    "weights",
    [
        [[1, 2, 3], [4, 5, 6]],
        [1, 2, 3, 4, 5, 6],
        np.arange(1.0, 7.0).reshape(2, 3),
        np.arange(1, 7, dtype=">i2").reshape(2, 3),
        np.asfortranarray(np.arange(1.0, 7.0).reshape(2, 3)),
        SimpleNamespace(__cuda_array_interface__={}, get=lambda: np.arange(1, 7).reshape(2, 3)),
        OverDlpack(np.arange(1.0, 7.0).reshape(2, 3)),
    ],
    ids=["rows", "flat", "float64", "big-endian", "fortran", "gpu", "dlpack"],
)
def test_weights_of_any_kind_become_bytes(weights: Any) -> None:
    assert weights_bytes(weights, WEIGHTS) == EXPECTED


@pytest.mark.parametrize("shape", [(2, 2, 3), (12,)])
def test_a_bank_of_filters_becomes_bytes(shape: tuple[int, ...]) -> None:
    bank = Operand("weights", Role.INPUT, (2, 2, 3), DType.FLOAT32)
    values = np.arange(12, dtype=np.float16)
    assert weights_bytes(values.reshape(shape), bank) == values.astype(np.float32).tobytes()
    with pytest.raises(BadArgument, match=r"weights: expected shape \(2, 2, 3\); got \(4, 3\)"):
        weights_bytes(values.reshape(4, 3), bank)


def test_weights_are_rounded_to_the_operands_type() -> None:
    assert weights_bytes([0.1] * 6, WEIGHTS) == np.full(6, 0.1, np.float32).tobytes()


def test_complex_weights_are_those_of_a_complex_operand() -> None:
    operand = Operand("weights", Role.INPUT, (2,), DType.COMPLEX64)
    expected = np.array([1, 2 - 3j], np.complex64).tobytes()
    for weights in ([1, 2 - 3j], np.array([1, 2 - 3j]), np.array([1, 2 - 3j], np.complex64)):
        assert weights_bytes(weights, operand) == expected
    assert weights_bytes([1.0, 2.0], operand) == np.array([1, 2], np.complex64).tobytes()


def test_weights_of_pytorch_have_any_type() -> None:
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64):
        assert weights_bytes(torch.arange(1, 7).reshape(2, 3).to(dtype), WEIGHTS) == EXPECTED
    halves = Operand("weights", Role.INPUT, (2, 3), DType.BFLOAT16)
    values = torch.randn(2, 3).to(torch.bfloat16)
    assert weights_bytes(values, halves) == values.view(torch.int16).numpy().tobytes()
    conjugates = torch.tensor([1 + 2j, 3 - 1j]).conj()
    assert weights_bytes(conjugates, Operand("weights", Role.INPUT, (2,), DType.COMPLEX64)) == bytes(
        np.array([1 - 2j, 3 + 1j], np.complex64)
    )


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros((3, 2)), r"weights: expected shape \(2, 3\); got \(3, 2\)"),
        (np.zeros(5), r"weights: expected shape \(2, 3\); got \(5,\)"),
        (np.zeros((2, 3), complex), "weights: expected real numbers; got complex128"),
        ([["a", "b", "c"]] * 2, "weights: expected real numbers; got <U1"),
        (OverDlpack(np.zeros((2, 3)), device=2), "weights: cannot be read as an array of numbers"),
        ([[1, 2, 3], [4, 5]], "weights: cannot be read as an array of numbers"),
        (None, "weights: expected real numbers; got object"),
    ],
)
def test_what_weights_may_not_be(weights: Any, message: str) -> None:
    with pytest.raises(BadArgument, match=message):
        weights_bytes(weights, WEIGHTS)


@pytest.mark.parametrize(
    ("stream", "handle"),
    [
        (None, None),
        (0x77, 0x77),
        (SimpleNamespace(cuda_stream=5), 5),
        (SimpleNamespace(ptr=6), 6),
        (SimpleNamespace(handle=7), 7),
        (SimpleNamespace(__cuda_stream__=lambda: (0, 8)), 8),
    ],
)
def test_streams_of_any_library(stream: Any, handle: int | None) -> None:
    assert stream_handle(stream) == handle


def test_what_is_no_stream() -> None:
    with pytest.raises(BadArgument, match="stream: expected a CUDA stream or its handle; got str"):
        stream_handle("fast")


@pytest.mark.parametrize(
    ("requested", "owners", "chosen"),
    [
        (None, [], None),
        (None, [None, None], None),
        (None, [None, 5, 5], 5),
        (5, [5, None], 5),
        (None, [0], 0),
        (0, [0, 0], 0),
    ],
)
def test_one_stream_needs_no_waiting(requested: int | None, owners: list[int | None], chosen: int | None) -> None:
    assert launch_stream(requested, owners) == chosen


class TestBfloat16:
    """Arrays of bfloat16: NumPy has it through ml_dtypes, and no array protocol has a type string for it."""

    def array(self) -> np.ndarray[Any, Any]:
        return np.ndarray(LAST.shape, numpy_dtype(DType.BFLOAT16), np.zeros(240, np.uint8), strides=LAST.strides)

    def test_arrays_are_viewed_where_they_lie_and_made_alike(self) -> None:
        array = self.array()
        assert host_view(array, LAST).address == array.ctypes.data
        with contextlib.closing(HostRuntime(workers=1)) as host:
            made = empty_like_caller(array, LAST, host)
        assert (made.dtype, made.shape, made.strides) == (array.dtype, LAST.shape, LAST.strides)

    def test_a_gpus_array_says_its_type_itself(self) -> None:
        fields = {"shape": LAST.shape, "strides": LAST.strides, "typestr": "<V2"}
        array = OnGpu(**fields)
        with pytest.raises(BadArgument, match=r"x: expected bfloat16 of shape .*; got \|V2 of shape"):
            device_view(array, LAST)
        array.dtype = numpy_dtype(DType.BFLOAT16)  # type: ignore[attr-defined]
        assert device_view(array, LAST).address == 0x7F0000000100

    def test_of_a_library_that_numpy_cannot_read_is_refused_in_one_line(self) -> None:
        torch = pytest.importorskip("torch")
        foreign = OverDlpack(torch.zeros(LAST.shape, dtype=torch.bfloat16))
        with pytest.raises(
            BadArgument, match=r"x: cannot be read by NumPy over DLPack \(.*\); give an array"
        ) as caught:
            host_view(foreign, LAST)
        assert "\n" not in str(caught.value)

    def test_weights_are_numbers_too(self) -> None:
        values = np.arange(1, 7).astype(numpy_dtype(DType.BFLOAT16)).reshape(2, 3)
        assert weights_bytes(values, WEIGHTS) == EXPECTED

    @pytest.mark.parametrize("strides", [None, (120, 40, 10, 2)])
    def test_other_strides_are_refused_with_those_that_fit(self, strides: tuple[int, ...] | None) -> None:
        array = OnGpu(shape=LAST.shape, strides=strides, typestr="<V2")
        array.dtype = numpy_dtype(DType.BFLOAT16)  # type: ignore[attr-defined]
        says = r"x: must be channels last, with strides of \(120, 2, 30, 6\) bytes; they are \(120, 40, 10, 2\); give"
        with pytest.raises(BadArgument, match=says):
            device_view(array, LAST)
