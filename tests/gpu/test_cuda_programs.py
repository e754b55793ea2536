"""Programs that need more than pointers on a real GPU: textures, `__constant__` variables, arrays with gaps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from builders import launch as made_launch
from builders import program as made_program
from warpsmith.devices.arrays import device_view, empty_like_caller
from warpsmith.devices.cuda.runtime import CudaRuntime
from warpsmith.devices.module import Module
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument, LaunchError
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.problem import PIXELS, DType, Operand, Role
from warpsmith.generator.program import Constant, Launch, Pointer, Texture

pytestmark = pytest.mark.gpu

ROWS, COLUMNS, PITCH = 5, 7, 64

SOURCE = """
struct Weights { float values[4]; };
__constant__ Weights constant_weights;

template <typename T> __device__ void fetch_rows(cudaTextureObject_t image, float* out) {
    const int x = int(threadIdx.x) - 2, y = int(threadIdx.y) - 2;
    out[threadIdx.y * blockDim.x + threadIdx.x] = tex2D<T>(image, x + 0.5f, y + 0.5f);
}
extern "C" __global__ void rows_of_floats(cudaTextureObject_t image, float* out) { fetch_rows<float>(image, out); }
extern "C" __global__ void rows_of_bytes(cudaTextureObject_t image, float* out) {
    fetch_rows<unsigned char>(image, out);
}
extern "C" __global__ void line_of_floats(cudaTextureObject_t image, float* out) {
    out[threadIdx.x] = tex1Dfetch<float>(image, threadIdx.x);
}
extern "C" __global__ void line_of_four_floats(cudaTextureObject_t image, float* out) {
    out[threadIdx.x] = tex1Dfetch<float4>(image, threadIdx.x).w;
}
extern "C" __global__ void line_of_bytes(cudaTextureObject_t image, float* out) {
    out[threadIdx.x] = tex1Dfetch<unsigned char>(image, threadIdx.x);
}
extern "C" __global__ void weighted(float* out) {
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); while (now - begin < 20000000);  // 20 ms
    const volatile float* values = constant_weights.values;
    out[threadIdx.x] = 2 * values[threadIdx.x];
}
extern "C" __global__ void doubled(const char* x, char* y) {
    const float* from = reinterpret_cast<const float*>(x + blockIdx.x * 64);
    reinterpret_cast<float*>(y + blockIdx.x * 96)[threadIdx.x] = 2 * from[threadIdx.x];
}
"""
WEIGHTED = made_launch(Pointer("out"), entry="weighted", block=(4, 1, 1), constants=[Constant("constant_weights", "w")])
DOUBLED = made_launch(Pointer("x"), Pointer("y"), entry="doubled", grid=(ROWS, 1, 1), block=(COLUMNS, 1, 1))
X = Operand("x", Role.INPUT, (ROWS, COLUMNS), DType.FLOAT32, (64, 4))
Y = Operand("y", Role.OUTPUT, (ROWS, COLUMNS), DType.FLOAT32, (96, 4))


@pytest.fixture(scope="module")
def runtime() -> Iterator[CudaRuntime]:
    opened = CudaRuntime(0)
    yield opened
    opened.close()


@pytest.fixture
def module(runtime: CudaRuntime) -> Iterator[Module]:
    """The module, loaded anew for each test, so that no test sees `__constant__` variables of another."""
    program = made_program(SOURCE, WEIGHTED)
    loaded = runtime.load(DeviceRef(DeviceKind.CUDA).compiler().compile(program.compilation()))
    yield loaded
    loaded.close()


class Memory:
    """Device memory that is freed when the test ends."""

    def __init__(self, runtime: CudaRuntime) -> None:
        self._runtime = runtime
        self._taken: list[Any] = []

    def of(self, array: NDArray[Any]) -> int:
        """The address of a copy on the device."""
        self._taken.append(self._runtime.allocate(array.nbytes))
        self._runtime.upload(self._taken[-1].address, array)
        return int(self._taken[-1].address)

    def read(self, address: int, *shape: int, dtype: str = "float32") -> NDArray[Any]:
        self._runtime.synchronize()
        result = np.empty(shape, dtype)
        self._runtime.download(result, address)
        return result

    def free(self) -> None:
        for allocation in self._taken:
            self._runtime.free(allocation)


@pytest.fixture
def memory(runtime: CudaRuntime) -> Iterator[Memory]:
    made = Memory(runtime)
    yield made
    made.free()


def drawn(dtype: DType, *shape: int) -> NDArray[Any]:
    generator = np.random.default_rng(31)
    if dtype is DType.UINT8:
        return generator.integers(0, 256, shape, np.uint8)
    return generator.standard_normal(shape).astype(str(dtype))


def in_rows(values: NDArray[Any], pitch: int) -> NDArray[np.uint8]:
    """Bytes of the values in rows `pitch` bytes apart, with 0xFF between rows."""
    memory = np.full(values.shape[0] * pitch, 0xFF, np.uint8)
    np.ndarray(values.shape, values.dtype, memory, strides=(pitch, values.itemsize))[...] = values
    return memory


def rows_launch(dtype: DType, pitch: int = PITCH) -> Launch:
    entry = "rows_of_bytes" if dtype is DType.UINT8 else "rows_of_floats"
    texture = Texture("image", dtype, COLUMNS, ROWS, pitch)
    return made_launch(texture, Pointer("out"), entry=entry, block=(COLUMNS + 4, ROWS + 4, 1))


@pytest.mark.parametrize("dtype", PIXELS)
def test_a_texture_of_rows_is_clamped_and_read_as_stored(module: Module, memory: Memory, dtype: DType) -> None:
    image = drawn(dtype, ROWS, COLUMNS)
    out = memory.of(np.zeros((ROWS + 4, COLUMNS + 4), np.float32))
    module.bind(rows_launch(dtype), {"image": memory.of(in_rows(image, PITCH)), "out": out}, {})(None)
    expected = np.pad(image.astype(np.float32), 2, mode="edge")
    np.testing.assert_array_equal(memory.read(out, ROWS + 4, COLUMNS + 4), expected)


@pytest.mark.parametrize("dtype", PIXELS)
def test_a_texture_of_one_line_is_fetched_by_index(module: Module, memory: Memory, dtype: DType) -> None:
    image = drawn(dtype, 96)
    out = memory.of(np.zeros(96, np.float32))
    entry = "line_of_bytes" if dtype is DType.UINT8 else "line_of_floats"
    launch = made_launch(Texture("image", dtype, 96), Pointer("out"), entry=entry, block=(96, 1, 1))
    module.bind(launch, {"image": memory.of(image), "out": out}, {})(None)
    np.testing.assert_array_equal(memory.read(out, 96), image.astype(np.float32))


def test_texels_of_four_channels(module: Module, memory: Memory) -> None:
    image = drawn(DType.FLOAT32, 96, 4)
    out = memory.of(np.zeros(96, np.float32))
    texture = Texture("image", DType.FLOAT32, 96, channels=4)
    launch = made_launch(texture, Pointer("out"), entry="line_of_four_floats", block=(96, 1, 1))
    module.bind(launch, {"image": memory.of(image), "out": out}, {})(None)
    np.testing.assert_array_equal(memory.read(out, 96), image[:, 3])


def test_a_texture_that_the_driver_refuses(module: Module, memory: Memory) -> None:
    image = memory.of(np.zeros(4096, np.uint8))
    out = memory.of(np.zeros((ROWS + 4, COLUMNS + 4), np.float32))
    with pytest.raises(LaunchError, match="cannot make a texture of 7x5 float32 with rows 36 bytes apart of image"):
        module.bind(rows_launch(DType.FLOAT32, pitch=36), {"image": image, "out": out}, {})
    with pytest.raises(LaunchError, match="cannot make a texture of 7x5 float32"):
        module.bind(rows_launch(DType.FLOAT32), {"image": image + 16, "out": out}, {})
    module.bind(rows_launch(DType.FLOAT32), {"image": image, "out": out}, {})(None)
    assert not memory.read(out, ROWS + 4, COLUMNS + 4).any()


def test_more_textures_than_are_kept(module: Module, memory: Memory) -> None:
    image = np.arange(512 * 300 // 4, dtype=np.float32)
    address, out = memory.of(image), memory.of(np.zeros((ROWS + 4, COLUMNS + 4), np.float32))
    for i in range(290):
        module.bind(rows_launch(DType.FLOAT32), {"image": address + 512 * i, "out": out}, {})(None)
        if i % 29 == 0:
            assert memory.read(out, ROWS + 4, COLUMNS + 4)[0, 0] == image[128 * i]


class Streams:
    """Two streams that the default stream does not wait for."""

    def __init__(self) -> None:
        from cuda.bindings import driver

        self.driver = driver
        self.two = [int(self._done(driver.cuStreamCreate(1))) for _ in range(2)]  # CU_STREAM_NON_BLOCKING

    def _done(self, result: tuple[Any, ...]) -> Any:
        assert result[0] == self.driver.CUresult.CUDA_SUCCESS
        return result[1] if len(result) > 1 else None

    def begin(self, stream: int) -> None:
        mode = self.driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL
        self._done(self.driver.cuStreamBeginCapture(stream, mode))

    def end(self, stream: int) -> Any:
        graph = self._done(self.driver.cuStreamEndCapture(stream))
        return self._done(self.driver.cuGraphInstantiate(graph, 0))

    def replay(self, graph: Any, stream: int) -> None:
        self._done(self.driver.cuGraphLaunch(graph, stream))
        self._done(self.driver.cuStreamSynchronize(stream))

    def close(self) -> None:
        for stream in self.two:
            self.driver.cuStreamDestroy(stream)


@pytest.fixture
def streams(runtime: CudaRuntime) -> Iterator[Streams]:  # noqa: ARG001
    made = Streams()
    yield made
    made.close()


def four(first: float) -> bytes:
    return np.arange(first, first + 4, dtype=np.float32).tobytes()


def doubled(first: float) -> list[float]:
    return [2 * (first + i) for i in range(4)]


def test_two_streams_do_not_take_each_others_weights(module: Module, memory: Memory, streams: Streams) -> None:
    outs = [memory.of(np.zeros(4, np.float32)) for _ in range(6)]
    for i, out in enumerate(outs):
        # Each kernel reads its weights 20 ms after its start: the next copy must not pass it.
        stream = (*streams.two, None)[i % 3]
        module.bind(WEIGHTED, {"out": out}, {"w": four(10 * i)})(stream)
    for i, out in enumerate(outs):
        assert memory.read(out, 4).tolist() == doubled(10 * i)


def test_weights_that_stand_there_already_are_not_copied_past_a_kernel(
    module: Module, memory: Memory, streams: Streams
) -> None:
    outs = [memory.of(np.zeros(4, np.float32)) for _ in range(4)]
    launches = [module.bind(WEIGHTED, {"out": out}, {"w": four(i // 2)}) for i, out in enumerate(outs)]
    for i, launch in enumerate(launches):
        launch(streams.two[i % 2])
    assert [memory.read(out, 4).tolist() for out in outs] == [doubled(0), doubled(0), doubled(1), doubled(1)]


def test_a_graph_brings_its_own_weights(module: Module, memory: Memory, streams: Streams) -> None:
    stream = streams.two[0]
    captured_out, out = (memory.of(np.zeros(4, np.float32)) for _ in range(2))
    captured = module.bind(WEIGHTED, {"out": captured_out}, {"w": four(1)})
    plain = module.bind(WEIGHTED, {"out": out}, {"w": four(5)})
    plain(stream)
    streams.begin(stream)
    captured(stream)
    graph = streams.end(stream)
    del captured
    assert memory.read(captured_out, 4).tolist() == [0.0] * 4
    for _ in range(2):
        streams.replay(graph, stream)
        plain(stream)
        assert memory.read(captured_out, 4).tolist() == doubled(1)
        assert memory.read(out, 4).tolist() == doubled(5)


def test_a_graph_keeps_its_texture(module: Module, memory: Memory, streams: Streams) -> None:
    stream = streams.two[0]
    image = drawn(DType.FLOAT32, ROWS, COLUMNS)
    address, others = memory.of(in_rows(image, PITCH)), memory.of(np.zeros(512 * 300, np.uint8))
    out, other_out = (memory.of(np.zeros((ROWS + 4, COLUMNS + 4), np.float32)) for _ in range(2))
    streams.begin(stream)
    module.bind(rows_launch(DType.FLOAT32), {"image": address, "out": out}, {})(stream)  # made within the capture
    graph = streams.end(stream)
    for i in range(290):
        module.bind(rows_launch(DType.FLOAT32), {"image": others + 512 * i, "out": other_out}, {})(None)
    streams.replay(graph, stream)
    expected = np.pad(image, 2, mode="edge")
    np.testing.assert_array_equal(memory.read(out, ROWS + 4, COLUMNS + 4), expected)


@pytest.mark.parametrize(
    ("constant", "nbytes", "message"),
    [
        ("constant_weights", 12, "__constant__ constant_weights takes 16 bytes; w has 12"),
        ("taps", 16, "cannot bind kernel weighted to __constant__ taps: "),
    ],
)
def test_constants_that_do_not_fit(module: Module, memory: Memory, constant: str, nbytes: int, message: str) -> None:
    out = memory.of(np.zeros(4, np.float32))
    launch = made_launch(Pointer("out"), entry="weighted", block=(4, 1, 1), constants=[Constant(constant, "w")])
    with pytest.raises(LaunchError, match=message):
        module.bind(launch, {"out": out}, {"w": bytes(nbytes)})


def doubled_rows(x: Any, module: Module, runtime: CudaRuntime) -> Any:
    y = empty_like_caller(x, Y, runtime)
    views = {"x": device_view(x, X), "y": device_view(y, Y, writable=True)}
    runtime.fill(views["y"].address, 0xFF, ROWS * 96)
    module.bind(DOUBLED, {name: view.address for name, view in views.items()}, {})(None)
    runtime.synchronize()
    between = np.empty(ROWS * 96, np.uint8)
    runtime.download(between, views["y"].address)
    assert (between.reshape(ROWS, 96)[:, 4 * COLUMNS :] == 0xFF).all()
    return y


def test_arrays_of_cupy_with_gaps(module: Module, runtime: CudaRuntime) -> None:
    cupy = pytest.importorskip("cupy")
    image = drawn(DType.FLOAT32, ROWS, COLUMNS)
    x = cupy.zeros((ROWS, 16), cupy.float32)[:, :COLUMNS]
    x[...] = cupy.asarray(image)
    cupy.cuda.Device().synchronize()
    y = doubled_rows(x, module, runtime)
    assert isinstance(y, cupy.ndarray)
    assert y.strides == (96, 4)
    np.testing.assert_array_equal(cupy.asnumpy(y), 2 * image)
    with pytest.raises(BadArgument, match="x: its rows must start 64 bytes apart; they start 28 bytes apart"):
        device_view(cupy.ascontiguousarray(x), X)


def test_tensors_of_torch_with_gaps(module: Module, runtime: CudaRuntime) -> None:
    torch = pytest.importorskip("torch")
    image = drawn(DType.FLOAT32, ROWS, COLUMNS)
    x = torch.zeros((ROWS, 16), device="cuda")[:, :COLUMNS]
    x.copy_(torch.from_numpy(image))
    torch.cuda.synchronize()
    y = doubled_rows(x, module, runtime)
    assert isinstance(y, torch.Tensor)
    assert y.stride() == (24, 1)
    np.testing.assert_array_equal(y.cpu().numpy(), 2 * image)
    with pytest.raises(BadArgument, match="x: its rows must start 64 bytes apart; they start 28 bytes apart"):
        device_view(x.contiguous(), X)


def test_arrays_of_another_library_with_gaps(module: Module, runtime: CudaRuntime, memory: Memory) -> None:
    image = drawn(DType.FLOAT32, ROWS, COLUMNS)

    class Described:
        __cuda_array_interface__ = {  # noqa: RUF012
            "shape": (ROWS, COLUMNS),
            "typestr": "<f4",
            "data": (memory.of(in_rows(image, 64)), False),
            "strides": (64, 4),
            "version": 3,
        }

    y = doubled_rows(Described(), module, runtime)
    assert type(y).__name__ == "DeviceArray"
    assert y.strides == (96, 4)
    result = np.empty(ROWS * 24, np.float32)
    runtime.download(result, y.address)
    np.testing.assert_array_equal(result.reshape(ROWS, 24)[:, :COLUMNS], 2 * image)


@pytest.mark.parametrize("dtype", PIXELS)
def test_every_dtype_is_read_off_every_librarys_arrays(dtype: DType) -> None:
    torch, cupy = pytest.importorskip("torch"), pytest.importorskip("cupy")
    operand = Operand("x", Role.INPUT, (4, 6), dtype)
    tensor = torch.zeros((4, 6), dtype=getattr(torch, str(dtype)), device="cuda")
    array = cupy.zeros((4, 6), str(dtype))
    assert device_view(tensor, operand).address == tensor.data_ptr()
    assert device_view(array, operand).address == array.data.ptr
