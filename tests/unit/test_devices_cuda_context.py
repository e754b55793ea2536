"""Contexts, memory and events with cuda-bindings and PyCUDA, over stand-in drivers whose GPU memory is host memory."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpsmith.devices.arrays import device_view, empty_like_caller
from warpsmith.devices.cuda import bindings_context, driver, primary_context, runtime, status
from warpsmith.devices.cuda.available import cuda_device_count
from warpsmith.devices.cuda.bindings_context import DeviceArray
from warpsmith.devices.cuda.driver_choice import DriverChoice, chosen_driver
from warpsmith.devices.cuda.primary_context import PrimaryContext
from warpsmith.devices.cuda.runtime import CudaRuntime
from warpsmith.devices.runtime import StreamIdentity
from warpsmith.errors import BadArgument, DeviceError, OutOfMemory
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.problem import DType, Operand, Role

REAL = driver.cu
STATUS = REAL.CUresult
OK = STATUS.CUDA_SUCCESS
HANDLE = 0xC0
OTHER = 0xD0
"""A context of another library."""
MEMORY_BYTES = 1 << 30
ATTRIBUTES = {
    "COMPUTE_CAPABILITY_MAJOR": 9,
    "COMPUTE_CAPABILITY_MINOR": 0,
    "MULTIPROCESSOR_COUNT": 132,
    "L2_CACHE_SIZE": 50 << 20,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232448,
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 233472,
    "MAX_REGISTERS_PER_MULTIPROCESSOR": 65536,
    "MAX_THREADS_PER_MULTIPROCESSOR": 2048,
    "CLOCK_RATE": 1980000,
    "MEMORY_CLOCK_RATE": 3201000,
}


class Driver:
    """Driver functions on host memory. Others are the real ones; calls have the same arity."""

    def __init__(self, stack: list[int]) -> None:
        self.stack = stack
        self.retained = 0
        self.memory: dict[int, Any] = {}
        self.events: dict[int, float] = {}
        self.gpus = 2
        self.captured: dict[int, int] = {}
        """Streams that are captured, and the number of the capture."""
        self.capture_modes: list[str] = []
        """Capture modes that this thread was given, in order."""
        self.fault: Any = OK
        """Result of every call after a kernel fault."""

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("cu"):
            return super().__getattribute__(name)
        try:
            own = super().__getattribute__(name)
        except AttributeError:
            raise AssertionError(f"{name} is not to be called here") from None
        parameters = str(getattr(REAL, name).__doc__).partition("(")[2].partition(")")[0]
        arity = len(parameters.split(",")) if parameters else 0

        def called(*arguments: Any) -> tuple[Any, ...]:
            assert len(arguments) == arity, f"{name}({parameters}) was given {arguments}"
            answer: tuple[Any, ...] = own(*arguments)
            return answer

        return called

    def __getattr__(self, name: str) -> Any:
        return getattr(REAL, name)

    def check(self) -> Any:
        if self.fault != OK:
            return self.fault
        return OK if self.stack and self.stack[-1] == HANDLE else STATUS.CUDA_ERROR_INVALID_CONTEXT

    def cuInit(self, flags: int) -> tuple[Any, ...]:  # noqa: N802
        assert flags == 0
        return (OK,)

    def cuDeviceGetCount(self) -> tuple[Any, ...]:  # noqa: N802
        return (OK, self.gpus)

    def cuDeviceGet(self, ordinal: int) -> tuple[Any, ...]:  # noqa: N802
        return (OK, f"gpu {ordinal}")

    def cuDeviceGetName(self, length: int, _gpu: Any) -> tuple[Any, ...]:  # noqa: N802
        return (OK, b"NVIDIA H200\0".ljust(length))

    def cuDeviceGetPCIBusId(self, length: int, _gpu: Any) -> tuple[Any, ...]:  # noqa: N802
        return (OK, b"0000:1B:00.0\0".ljust(length))

    def cuDeviceTotalMem(self, _gpu: Any) -> tuple[Any, ...]:  # noqa: N802
        return (OK, 141 << 30)

    def cuDeviceGetAttribute(self, attribute: Any, _gpu: Any) -> tuple[Any, ...]:  # noqa: N802
        return (OK, ATTRIBUTES[attribute.name.removeprefix("CU_DEVICE_ATTRIBUTE_")])

    def cuThreadExchangeStreamCaptureMode(self, mode: Any) -> tuple[Any, ...]:  # noqa: N802
        self.capture_modes.append(mode.name.removeprefix("CU_STREAM_CAPTURE_MODE_"))
        return (OK, REAL.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)

    def cuStreamGetId(self, stream: int) -> tuple[Any, ...]:  # noqa: N802
        if stream in self.captured:
            return (STATUS.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, None)
        return (self.check(), 1000 + stream)

    def cuStreamGetCaptureInfo(self, stream: int) -> tuple[Any, ...]:  # noqa: N802
        found = REAL.CUstreamCaptureStatus
        is_captured = stream in self.captured
        state = found.CU_STREAM_CAPTURE_STATUS_ACTIVE if is_captured else found.CU_STREAM_CAPTURE_STATUS_NONE
        return (self.check(), state, self.captured.get(stream, 0), None, None, None, 0)

    def cuDriverGetVersion(self) -> tuple[Any, ...]:  # noqa: N802
        return (OK, 13010)

    def cuGetErrorString(self, error: Any) -> tuple[Any, ...]:  # noqa: N802
        return (OK, error.name.lower().encode())

    def cuDevicePrimaryCtxRetain(self, _gpu: Any) -> tuple[Any, ...]:  # noqa: N802
        self.retained += 1
        return (OK, REAL.CUcontext(HANDLE))

    def cuDevicePrimaryCtxRelease(self, _gpu: Any) -> tuple[Any, ...]:  # noqa: N802
        self.retained -= 1
        return (OK,)

    def cuCtxGetCurrent(self) -> tuple[Any, ...]:  # noqa: N802
        return (OK, REAL.CUcontext(self.stack[-1] if self.stack else 0))

    def cuCtxSetCurrent(self, handle: int) -> tuple[Any, ...]:  # noqa: N802
        if self.stack:
            self.stack.pop()
        if handle:
            self.stack.append(int(handle))
        return (OK,)

    def cuCtxPushCurrent(self, handle: int) -> tuple[Any, ...]:  # noqa: N802
        self.stack.append(int(handle))
        return (OK,)

    def cuCtxPopCurrent(self) -> tuple[Any, ...]:  # noqa: N802
        return (OK, REAL.CUcontext(self.stack.pop()))

    def cuCtxSynchronize(self) -> tuple[Any, ...]:  # noqa: N802
        return (self.check(),)

    def cuMemAlloc(self, nbytes: int) -> tuple[Any, ...]:  # noqa: N802
        if (answer := self.check()) != OK:
            return (answer, None)
        if nbytes > MEMORY_BYTES:
            return (STATUS.CUDA_ERROR_OUT_OF_MEMORY, None)
        memory = ctypes.create_string_buffer(nbytes)
        self.memory[ctypes.addressof(memory)] = memory
        return (OK, REAL.CUdeviceptr(ctypes.addressof(memory)))

    def cuMemFree(self, address: int) -> tuple[Any, ...]:  # noqa: N802
        if (answer := self.check()) == OK:
            del self.memory[int(address)]
        return (answer,)

    def _moved(self, target: int, source: int, nbytes: int) -> tuple[Any, ...]:
        if (answer := self.check()) == OK:
            ctypes.memmove(target, source, nbytes)
        return (answer,)

    def cuMemcpyHtoD(self, target: int, source: int, nbytes: int) -> tuple[Any, ...]:  # noqa: N802
        return self._moved(target, source, nbytes)

    def cuMemcpyDtoH(self, target: int, source: int, nbytes: int) -> tuple[Any, ...]:  # noqa: N802
        return self._moved(target, source, nbytes)

    def cuMemcpyDtoDAsync(self, target: int, source: int, nbytes: int, stream: int) -> tuple[Any, ...]:  # noqa: N802
        assert stream == 0
        return self._moved(target, source, nbytes)

    def cuMemsetD8Async(self, address: int, byte: int, nbytes: int, stream: int) -> tuple[Any, ...]:  # noqa: N802
        assert stream == 0
        if (answer := self.check()) == OK:
            ctypes.memset(address, byte, nbytes)
        return (answer,)

    def cuEventCreate(self, flags: Any) -> tuple[Any, ...]:  # noqa: N802
        assert flags == REAL.CUevent_flags.CU_EVENT_DEFAULT  # an event without timing has no time to query
        self.events[len(self.events) + 1] = 0.0
        return (self.check(), len(self.events))

    def cuEventDestroy(self, event: int) -> tuple[Any, ...]:  # noqa: N802
        del self.events[event]
        return (self.check(),)

    def cuEventRecord(self, event: int, stream: int) -> tuple[Any, ...]:  # noqa: N802
        assert stream == 0
        self.events[event] = time.perf_counter()
        return (self.check(),)

    def cuEventSynchronize(self, event: int) -> tuple[Any, ...]:  # noqa: N802
        assert self.events[event]
        return (self.check(),)

    def cuEventElapsedTime(self, begin: int, end: int) -> tuple[Any, ...]:  # noqa: N802
        return (self.check(), (self.events[end] - self.events[begin]) * 1e3)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, fake_pycuda: Path) -> Driver:  # noqa: ARG001
    """Two GPUs, and a PyCUDA that shares the stack of contexts with the driver."""
    import pycuda.driver

    pycuda.driver.STACK.clear()
    pycuda.driver.ALLOCATED.clear()
    pycuda.driver.RETAINED.clear()
    made = Driver(pycuda.driver.STACK)
    monkeypatch.setattr(REAL, "cuCtxPopCurrent", made.cuCtxPopCurrent)  # `pycuda_context` imports it when it is made
    for module in (bindings_context, driver, primary_context, status):
        monkeypatch.setattr(module, "cu", made)
    return made


@pytest.fixture(params=list(DriverChoice))
def choice(request: pytest.FixtureRequest) -> DriverChoice:
    chosen: DriverChoice = request.param
    return chosen


@pytest.fixture
def context(gpu: Driver, choice: DriverChoice) -> Iterator[PrimaryContext]:  # noqa: ARG001
    opened = driver.open_context(0, choice)
    yield opened
    opened.close()


def held(gpu: Driver) -> int:
    """Bytes that either library has allocated and not freed."""
    import pycuda.driver

    return len(gpu.memory) + len(pycuda.driver.ALLOCATED)


def fail_within(context: PrimaryContext, gpu: Driver, expected: list[int]) -> None:
    with context.active("fail"):
        assert gpu.stack == expected
        raise RuntimeError


ASKED: dict[str, tuple[Any, ...]] = {
    "cuInit": (0,),
    "cuDeviceGetName": (256, REAL.CUdevice(0)),
    "cuDeviceGetPCIBusId": (32, REAL.CUdevice(0)),
    "cuDeviceGetAttribute": (REAL.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_CLOCK_RATE, REAL.CUdevice(0)),
    "cuDevicePrimaryCtxRetain": (REAL.CUdevice(0),),
    "cuDevicePrimaryCtxRelease": (REAL.CUdevice(0),),
    "cuCtxPushCurrent": (HANDLE,),
    "cuCtxSetCurrent": (HANDLE,),
    "cuMemAlloc": (256,),
    "cuMemFree": (256,),
    "cuMemcpyHtoD": (256, 256, 4),
    "cuMemcpyDtoH": (256, 256, 4),
    "cuMemcpyDtoDAsync": (256, 256, 4, 0),
    "cuMemsetD8Async": (256, 255, 4, 0),
    "cuStreamGetId": (7,),
    "cuStreamGetCaptureInfo": (7,),
    "cuThreadExchangeStreamCaptureMode": (REAL.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED,),
    "cuEventCreate": (REAL.CUevent_flags.CU_EVENT_DEFAULT,),
    "cuEventRecord": (REAL.CUevent(1), 0),
    "cuEventElapsedTime": (REAL.CUevent(1), REAL.CUevent(1)),
}
"""Arguments of the types that the real functions are given."""


@pytest.mark.skipif(cuda_device_count() > 0, reason="would be carried out here; the GPU tests call all of them")
@pytest.mark.parametrize("name", ASKED)
def test_the_real_functions_take_such_arguments(name: str) -> None:
    """A call without a driver fails only after its arguments were accepted; wrong ones raise TypeError before."""
    with pytest.raises(RuntimeError):
        getattr(REAL, name)(*ASKED[name])


def test_the_real_functions_refuse_other_arguments() -> None:
    """Shows that the test above can fail."""
    with pytest.raises((TypeError, ValueError)):
        REAL.cuMemsetD8Async(256, "255", 4, 0)


class TestContexts:
    def test_memory(self, gpu: Driver, context: PrimaryContext) -> None:
        first, second = context.allocate(4096), context.allocate(4096)
        assert held(gpu) == 2
        source, target = np.arange(1024, dtype=np.int32), np.zeros(1024, np.int32)
        context.upload(first, source)
        context.copy(second, first, 4096)
        context.fill(second + 4, 0xFF, 8)
        context.synchronize()
        context.download(target, second)
        assert target[:4].tolist() == [0, -1, -1, 3]
        assert (target[3:] == source[3:]).all()
        context.free(first)
        context.free(second)
        assert held(gpu) == 0
        with pytest.raises(DeviceError, match=f"there is no allocation at {first:#x}"):
            context.free(first)

    def test_memory_may_be_taken_and_given_back_while_the_thread_captures_a_graph(
        self, gpu: Driver, context: PrimaryContext
    ) -> None:
        context.free(context.allocate(256))
        assert gpu.capture_modes == ["RELAXED", "THREAD_LOCAL"] * 2

    def test_streams_are_told_apart_by_more_than_their_handles(self, gpu: Driver, context: PrimaryContext) -> None:
        gpu.captured = {8: 31}
        with context.active("ask"):
            found = [status.identity_of(stream) for stream in (0, 1, 7, 8)]
        assert found == [StreamIdentity(), StreamIdentity(), StreamIdentity(1007), StreamIdentity(0, 31)]
        with context.active("ask"):
            gpu.fault = STATUS.CUDA_ERROR_INVALID_HANDLE
            with pytest.raises(DeviceError, match="cannot ask for a stream"):
                status.identity_of(9)
            gpu.fault = OK

    def test_arrays_with_gaps_are_refused(self, context: PrimaryContext) -> None:
        address = context.allocate(64)
        with pytest.raises(ValueError, match="C-contiguous"):
            context.upload(address, np.zeros((4, 4), np.float32)[:, ::2])
        with pytest.raises(ValueError, match="C-contiguous"):
            context.download(np.zeros((4, 4), np.float32)[:, ::2], address)

    def test_more_memory_than_there_is(self, context: PrimaryContext) -> None:
        with pytest.raises(OutOfMemory, match=r"cannot allocate 10,000,000,000,000 bytes on the GPU: .*out.of.memory"):
            context.allocate(10 * 10**12)
        context.free(context.allocate(256))

    def test_the_clock_and_the_gate(self, context: PrimaryContext) -> None:
        log: list[str] = []

        @contextlib.contextmanager
        def gate() -> Iterator[None]:
            log.append("shut")
            try:
                yield
            finally:
                log.append("open")

        def work() -> None:
            log.append("work")
            time.sleep(0.02)

        assert 0.02e9 <= context.elapsed_ns(work, gate()) < 5e9
        assert context.elapsed_ns(lambda: None, None) < 1e9
        assert log == ["shut", "work", "open"]

        def fail() -> None:
            raise RuntimeError

        with pytest.raises(RuntimeError):
            context.elapsed_ns(fail, gate())
        assert log[-1] == "open"

    @pytest.mark.parametrize("before", [[], [OTHER]], ids=["none", "another"])
    def test_what_was_current_is_so_again(self, gpu: Driver, choice: DriverChoice, before: list[int]) -> None:
        gpu.stack[:] = before
        opened = driver.open_context(0, choice)
        current = before or [HANDLE]  # as the CUDA runtime does, where nothing was
        assert gpu.stack == current
        opened.free(opened.allocate(256))
        with pytest.raises(RuntimeError):
            fail_within(opened, gpu, [*current, HANDLE])
        assert gpu.stack == current
        gpu.stack.append(OTHER)
        opened.allocate(256)
        assert gpu.stack == [*current, OTHER]
        gpu.stack.pop()
        opened.close()
        assert gpu.stack == before

    def test_closing_gives_everything_back(self, gpu: Driver, choice: DriverChoice) -> None:
        import pycuda.driver

        opened = driver.open_context(0, choice)
        for _ in range(3):
            opened.allocate(256)
        assert gpu.retained + len(pycuda.driver.RETAINED) == 1
        opened.close()
        opened.close()
        assert (held(gpu), gpu.events, gpu.retained, pycuda.driver.RETAINED) == (0, {}, 0, [])
        for use in (lambda: opened.allocate(256), opened.synchronize):
            with pytest.raises(DeviceError, match="the device is closed"):
                use()

    def test_a_fault_is_told_and_does_not_keep_it_from_closing(self, gpu: Driver) -> None:
        opened = driver.open_context(0, DriverChoice.BINDINGS)
        opened.allocate(256)
        gpu.fault = STATUS.CUDA_ERROR_ILLEGAL_ADDRESS
        with pytest.raises(DeviceError, match="cannot finish the work on the GPU: cuda_error_illegal_address"):
            opened.synchronize()
        with pytest.raises(DeviceError, match="cannot allocate 256 bytes on the GPU: cuda_error_illegal_address"):
            opened.allocate(256)
        opened.close()
        assert gpu.retained == 0


class TestArrays:
    OPERAND = Operand("y", Role.OUTPUT, (2, 3), DType.FLOAT32, (16, 4))

    @pytest.fixture
    def opened(self, gpu: Driver, choice: DriverChoice) -> Iterator[CudaRuntime]:  # noqa: ARG002
        made = CudaRuntime(0, choice)
        yield made
        made.close()

    def test_of_callers_without_a_library(self, gpu: Driver, opened: CudaRuntime, choice: DriverChoice) -> None:
        made = empty_like_caller(object(), self.OPERAND, opened)
        assert made.shape == (2, 3)
        assert made.strides == (16, 4)
        assert held(gpu) == 1
        if choice is DriverChoice.PYCUDA:
            assert type(made).__module__ == "pycuda.gpuarray"
        else:
            assert isinstance(made, DeviceArray)
            assert device_view(made, self.OPERAND, writable=True).address == made.address
            opened.upload(made.address, np.arange(8, dtype=np.float32))
            assert made.get().tolist() == [[0, 1, 2], [4, 5, 6]]
            assert made.get().flags.c_contiguous
        del made
        gc.collect()
        assert held(gpu) == 0

    def test_of_pycudas_callers_are_pycudas(self, gpu: Driver, opened: CudaRuntime) -> None:
        import pycuda.gpuarray

        caller = pycuda.gpuarray.GPUArray((1,), np.float32, None, (4,))
        made = [empty_like_caller(caller, self.OPERAND, opened) for _ in range(2)]
        assert {type(each) for each in made} == {pycuda.gpuarray.GPUArray}
        assert held(gpu) == 2
        opened.close()
        assert pycuda.driver.RETAINED == []

    def test_outlive_the_device_without_harm(self, gpu: Driver, opened: CudaRuntime, choice: DriverChoice) -> None:
        made = empty_like_caller(object(), self.OPERAND, opened)
        opened.close()
        assert held(gpu) == 1  # another library may still read it
        del made
        gc.collect()
        assert choice is DriverChoice.PYCUDA or held(gpu) == 1  # whoever lets go of the context last frees it

    def test_more_than_there_is(self, opened: CudaRuntime) -> None:
        huge = Operand("y", Role.OUTPUT, (1 << 20, 1 << 20), DType.FLOAT32)
        with pytest.raises(OutOfMemory, match=r"cannot allocate an array of shape \(1048576, 1048576\)"):
            empty_like_caller(object(), huge, opened)


class TestGpus:
    def test_are_described(self, gpu: Driver) -> None:  # noqa: ARG002
        device = runtime.cuda_device(1)
        assert (device.name, device.kind, device.arch) == ("NVIDIA H200", DeviceKind.CUDA, "sm_90")
        assert (device.memory_bytes, device.clock_mhz, device.memory_clock_mhz) == (141 << 30, 1980, 3201)
        assert (device.multiprocessors, device.l2_bytes) == (132, 50 << 20)
        assert driver.pci_bus_id(1) == "0000:1B:00.0"

    def test_facts_of_the_machine_name_the_library(self, gpu: Driver, choice: DriverChoice) -> None:  # noqa: ARG002
        opened = CudaRuntime(0, choice)
        facts = opened.environment()
        opened.close()
        assert facts["cuda"] == "13.1"
        assert ("pycuda" in facts) == (choice is DriverChoice.PYCUDA)
        assert ("cuda-bindings" in facts) == (choice is DriverChoice.BINDINGS)
        assert all(isinstance(fact, str) for fact in facts.values())

    def test_none(self, gpu: Driver) -> None:
        gpu.gpus = 0
        with pytest.raises(DeviceError, match="the NVIDIA driver offers no GPU: see nvidia-smi"):
            driver.count()

    def test_refused_by_the_driver(self, gpu: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gpu, "cuInit", lambda _: (STATUS.CUDA_ERROR_NO_DEVICE,))
        with pytest.raises(DeviceError, match=r"offers no GPU \(cannot start: cuda_error_no_device\): see nvidia-smi"):
            driver.count()

    def test_no_driver(self, gpu: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
        def absent(_: int) -> tuple[Any, ...]:
            raise RuntimeError("Failed to dlopen libcuda.so.1\nand more")

        monkeypatch.setattr(gpu, "cuInit", absent)
        with pytest.raises(DeviceError) as told:
            driver.count()
        expected = "no NVIDIA driver here (Failed to dlopen libcuda.so.1): install one, or use the device host"
        assert str(told.value) == expected


class TestChoice:
    @pytest.mark.parametrize(
        ("named", "chosen"),
        [(None, DriverChoice.BINDINGS), ("", DriverChoice.BINDINGS), ("pycuda", DriverChoice.PYCUDA)],
    )
    @pytest.mark.usefixtures("gpu")
    def test_by_the_environment(self, monkeypatch: pytest.MonkeyPatch, named: str | None, chosen: DriverChoice) -> None:
        monkeypatch.delenv("WARPSMITH_DRIVER", raising=False)
        if named is not None:
            monkeypatch.setenv("WARPSMITH_DRIVER", named)
        assert chosen_driver() is chosen
        opened = CudaRuntime()
        assert ("pycuda" in opened.environment()) == (chosen is DriverChoice.PYCUDA)
        opened.close()

    def test_of_another_is_a_bad_argument(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("WARPSMITH_DRIVER", "opencl")
        with pytest.raises(BadArgument, match="WARPSMITH_DRIVER is 'opencl'; choose one of bindings, pycuda"):
            CudaRuntime()

    def test_of_pycuda_without_it(self, gpu: Driver, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG002
        monkeypatch.setitem(sys.modules, "pycuda", None)
        with pytest.raises(DeviceError, match=r'pip install "warpsmith\[pycuda\]", or unset WARPSMITH_DRIVER'):
            driver.open_context(0, DriverChoice.PYCUDA)
