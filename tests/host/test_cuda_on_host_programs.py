"""Hand-written programs on the host device: texture arguments, `__constant__` variables, operands with gaps."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from builders import launch as made_launch
from builders import program
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.module import Module
from warpsmith.errors import CompileError, LaunchError
from warpsmith.generator.problem import PIXELS, DType
from warpsmith.generator.program import Argument, ByValue, Constant, Launch, Pointer, Program, Texture

RANDOM = np.random.default_rng(29)
ROWS, COLUMNS, PITCH = 5, 7, 64
READ_AS = {DType.FLOAT32: "float", DType.FLOAT16: "float", DType.UINT8: "unsigned char"}

FETCH_2D = """
extern "C" __global__ void kernel(cudaTextureObject_t image, float* out) {
    const int x = int(threadIdx.x) - 2, y = int(threadIdx.y) - 2;
    out[threadIdx.y * blockDim.x + threadIdx.x] = tex2D<T>(image, x + 0.5f, y + 0.5f);
}
"""
FETCH_1D = """
extern "C" __global__ void kernel(cudaTextureObject_t image, float* out) {
    out[threadIdx.x] = tex1Dfetch<T>(image, threadIdx.x);
}
"""
WEIGHTED = """
struct Weights { float values[4]; };
__constant__ Weights constant_weights;
extern "C" __global__ void kernel(float* out) { out[threadIdx.x] = 2 * constant_weights.values[threadIdx.x]; }
"""
CONSTANT = Constant("constant_weights", "weights")


def drawn(dtype: DType, *shape: int) -> NDArray[Any]:
    if dtype is DType.UINT8:
        return RANDOM.integers(0, 256, shape, np.uint8)
    return RANDOM.standard_normal(shape).astype(str(dtype))


def in_rows(values: NDArray[Any], pitch: int) -> NDArray[Any]:
    """Copy of the values in rows `pitch` bytes apart, with 0xFF between rows."""
    memory = np.full(values.shape[0] * pitch, 0xFF, np.uint8)
    rows = np.ndarray(values.shape, values.dtype, memory, strides=(pitch, values.itemsize))
    rows[...] = values
    return rows


@pytest.fixture
def load(host: HostRuntime, compile_once: Any) -> Iterator[Callable[[Program], Module]]:
    modules: list[Module] = []

    def loaded(made: Program) -> Module:
        modules.append(host.load(compile_once(made)))
        return modules[-1]

    yield loaded
    for module in modules:
        module.close()


@pytest.mark.parametrize("dtype", PIXELS)
def test_a_texture_of_rows_is_clamped_and_read_as_stored(load, dtype):
    image = drawn(dtype, ROWS, COLUMNS)
    rows = in_rows(image, PITCH)
    out = np.zeros((ROWS + 4, COLUMNS + 4), np.float32)
    texture = Texture("image", dtype, COLUMNS, ROWS, PITCH)
    launch = made_launch(texture, Pointer("out"), block=(COLUMNS + 4, ROWS + 4, 1))
    module = load(program(FETCH_2D.replace("T>", f"{READ_AS[dtype]}>"), launch))
    bound = module.bind(launch, {"image": rows.ctypes.data, "out": out.ctypes.data}, {})
    bound(None)
    np.testing.assert_array_equal(out, np.pad(image.astype(np.float32), 2, mode="edge"))


@pytest.mark.parametrize("dtype", PIXELS)
def test_a_texture_of_one_line_is_fetched_by_index(load, dtype):
    image = drawn(dtype, 96)
    out = np.zeros(100, np.float32)
    launch = made_launch(Texture("image", dtype, 96), Pointer("out"), block=(100, 1, 1))
    module = load(program(FETCH_1D.replace("T>", f"{READ_AS[dtype]}>"), launch))
    module.bind(launch, {"image": image.ctypes.data, "out": out.ctypes.data}, {})(None)
    np.testing.assert_array_equal(out, np.pad(image.astype(np.float32), (0, 4)))


def test_texels_of_four_channels(load):
    image = drawn(DType.FLOAT32, 96, 4)
    out = np.zeros(96, np.float32)
    launch = made_launch(Texture("image", DType.FLOAT32, 96, channels=4), Pointer("out"), block=(96, 1, 1))
    module = load(program(FETCH_1D.replace("T>", "float4>").replace("threadIdx.x);", "threadIdx.x).w;"), launch))
    module.bind(launch, {"image": image.ctypes.data, "out": out.ctypes.data}, {})(None)
    np.testing.assert_array_equal(out, image[:, 3])


def test_a_texture_takes_one_argument_of_eight_bytes(load):
    launch = made_launch(Texture("image", DType.FLOAT32, 4), Pointer("out"))
    module = load(program(FETCH_1D.replace("T>", "float>"), launch))
    with pytest.raises(LaunchError, match="kernel kernel needs 'image', which was not given"):
        module.bind(launch, {"out": 0}, {})
    wrong: tuple[Argument, ...] = (ByValue("n"), Pointer("out"))
    with pytest.raises(LaunchError, match=r"takes arguments of \[8, 8\] bytes; the launch gives \[4, 8\]"):
        module.bind(made_launch(*wrong), {"out": 0}, {"n": bytes(4)})


def weighted(**changes: Any) -> Launch:
    return dataclasses.replace(made_launch(Pointer("out"), block=(4, 1, 1), constants=[CONSTANT]), **changes)


def test_constants_are_written_before_each_launch(load):
    module = load(program(WEIGHTED, weighted()))
    outs = np.zeros((2, 4), np.float32)
    weights = RANDOM.random((2, 4), np.float32)
    bound = [
        module.bind(weighted(), {"out": out.ctypes.data}, {"weights": each.tobytes()})
        for out, each in zip(outs, weights, strict=True)
    ]
    for i in (0, 1, 0, 0, 1):
        outs[i] = 0
        bound[i](None)
        np.testing.assert_array_equal(outs[i], 2 * weights[i])


def test_modules_have_constants_of_their_own(load):
    sources = [WEIGHTED, WEIGHTED.replace("2 *", "3 *")]
    outs = np.zeros((2, 4), np.float32)
    bound = [
        load(program(source, weighted())).bind(
            weighted(), {"out": out.ctypes.data}, {"weights": np.full(4, i + 1, np.float32).tobytes()}
        )
        for i, (source, out) in enumerate(zip(sources, outs, strict=True))
    ]
    for launch in bound:
        launch(None)
    np.testing.assert_array_equal(outs, [[2] * 4, [6] * 4])


@pytest.mark.parametrize(
    ("values", "constant", "message"),
    [
        ({"weights": bytes(12)}, CONSTANT, "__constant__ constant_weights takes 16 bytes; weights has 12"),
        ({}, CONSTANT, "kernel kernel needs 'weights', which was not given"),
        ({"weights": bytes(16)}, Constant("taps", "weights"), "the library has no __constant__ taps"),
    ],
)
def test_constants_that_do_not_fit(load, values, constant, message):
    module = load(program(WEIGHTED, weighted()))
    with pytest.raises(LaunchError, match=message):
        module.bind(weighted(constants=(constant,)), {"out": 0}, values)


def test_a_constant_that_the_source_lacks_is_a_compile_error(compile_once):
    with pytest.raises(CompileError, match="taps"):
        compile_once(program(WEIGHTED, weighted(constants=(Constant("taps", "weights"),))))


@pytest.mark.parametrize("dtype", PIXELS)
def test_what_lies_between_rows_stays_as_it_is(load, dtype):
    image = drawn(dtype, ROWS, COLUMNS)
    source, target = in_rows(image, PITCH), in_rows(np.zeros_like(image), 2 * PITCH)
    stored = {1: "unsigned char", 2: "unsigned short", 4: "float"}[dtype.itemsize]
    launch = made_launch(Pointer("image"), Pointer("result"), grid=(ROWS, 1, 1), block=(COLUMNS, 1, 1))
    text = """
        extern "C" __global__ void kernel(const char* image, char* result) {
            const T* from = reinterpret_cast<const T*>(image + blockIdx.x * 64);
            reinterpret_cast<T*>(result + blockIdx.x * 128)[threadIdx.x] = from[threadIdx.x];
        }
    """.replace("T*", f"{stored}*")
    module = load(program(text, launch))
    module.bind(launch, {"image": source.ctypes.data, "result": target.ctypes.data}, {})(None)
    np.testing.assert_array_equal(target, image)
    memory = np.frombuffer(ctypes.string_at(target.ctypes.data, ROWS * 2 * PITCH), np.uint8).reshape(ROWS, -1)
    assert (memory[:, image.strides[0] :] == 0xFF).all()
