"""Texture objects and `__constant__` variables against a driver that notes calls: their order and arguments."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from builders import launch as made_launch
from warpsmith.devices.cuda import constants, descriptors
from warpsmith.devices.cuda.constants import BoundConstant, Constants, ModuleCopies
from warpsmith.devices.cuda.descriptors import MOST_KEPT, Textures
from warpsmith.errors import LaunchError
from warpsmith.generator.problem import DType
from warpsmith.generator.program import Constant, Texture

REAL = constants.cu
OK = REAL.CUresult.CUDA_SUCCESS
LAUNCH = made_launch()
VARIABLE = Constant("taps", "weights")
SIZE = 16


class Notes:
    """Driver functions that these modules call; others are the real ones."""

    def __init__(self) -> None:
        self.log: list[tuple[Any, ...]] = []
        self.textures: set[int] = set()
        self.created = 0
        self.idle = OK
        """Result of a wait for the context."""
        self.refused: str | None = None
        """A function name that fails."""
        self.loaded = 0
        self.mode = REAL.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL

    def __getattr__(self, name: str) -> Any:
        return getattr(REAL, name)

    def cuModuleLoadData(self, _image: bytes) -> tuple[Any, ...]:  # noqa: N802
        self.loaded += 1
        self.log.append(("load", self.loaded))
        return (OK, self.loaded)

    def cuModuleUnload(self, module: int) -> tuple[Any, ...]:  # noqa: N802
        self.log.append(("unload", module))
        return (OK,)

    def cuModuleGetFunction(self, module: int, name: bytes) -> tuple[Any, ...]:  # noqa: N802
        return (OK, (module, name))

    def cuStreamCreate(self, flags: Any) -> tuple[Any, ...]:  # noqa: N802
        assert flags == REAL.CUstream_flags.CU_STREAM_NON_BLOCKING
        return (OK, 99)

    def cuStreamSynchronize(self, stream: int) -> tuple[Any, ...]:  # noqa: N802
        self.log.append(("host waits for", stream))
        return (REAL.CUresult.CUDA_ERROR_INVALID_VALUE if self.refused == "wait" else OK,)

    def cuStreamDestroy(self, stream: int) -> tuple[Any, ...]:  # noqa: N802
        self.log.append(("destroy stream", stream))
        return (OK,)

    def cuModuleGetGlobal(self, _module: Any, name: bytes) -> tuple[Any, ...]:  # noqa: N802
        return (OK, 0x500, SIZE) if name == b"taps" else (REAL.CUresult.CUDA_ERROR_NOT_FOUND, None, 0)

    def cuMemcpyHtoDAsync(self, address: int, source: int, nbytes: int, stream: int) -> tuple[Any, ...]:  # noqa: N802
        self.log.append(("copy", address, ctypes.string_at(source, nbytes)[0], stream))
        return (OK,)

    def cuEventCreate(self, _flags: Any) -> tuple[Any, ...]:  # noqa: N802
        return (OK, "event")

    def cuEventRecord(self, _event: Any, stream: int) -> tuple[Any, ...]:  # noqa: N802
        self.log.append(("record", stream))
        return (OK,)

    def cuStreamWaitEvent(self, stream: int, _event: Any, _flags: int) -> tuple[Any, ...]:  # noqa: N802
        self.log.append(("wait", stream))
        return (OK,)

    def cuEventSynchronize(self, _event: Any) -> tuple[Any, ...]:  # noqa: N802
        self.log.append(("host waits",))
        return (OK,)

    def cuEventDestroy(self, _event: Any) -> tuple[Any, ...]:  # noqa: N802
        self.log.append(("destroy",))
        return (OK,)

    def cuGetErrorString(self, _status: Any) -> tuple[Any, ...]:  # noqa: N802
        return (OK, b"refused")

    def cuThreadExchangeStreamCaptureMode(self, mode: Any) -> tuple[Any, ...]:  # noqa: N802
        before, self.mode = self.mode, mode
        return (OK, before)

    def cuTexObjectCreate(self, resource: Any, _reading: Any, _view: None) -> tuple[Any, ...]:  # noqa: N802
        if resource.resType == REAL.CUresourcetype.CU_RESOURCE_TYPE_PITCH2D and resource.res.pitch2D.pitchInBytes % 32:
            return (REAL.CUresult.CUDA_ERROR_INVALID_VALUE, None)
        self.created += 1
        self.textures.add(self.created)
        return (OK, self.created)

    def cuTexObjectDestroy(self, handle: int) -> tuple[Any, ...]:  # noqa: N802
        self.textures.remove(handle)
        return (OK,)

    def cuCtxSynchronize(self) -> tuple[Any, ...]:  # noqa: N802
        self.log.append(("context idle",))
        return (self.idle,)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Notes:
    notes = Notes()
    modules: tuple[ModuleType, ...] = (constants, descriptors)
    for module in modules:
        monkeypatch.setattr(module, "cu", notes)
    monkeypatch.setattr("warpsmith.devices.cuda.status.cu", notes)
    return notes


class TestConstants:
    @pytest.fixture
    def launch(self, driver: Notes) -> Callable[..., list[tuple[Any, ...]]]:
        """Launches on a stream with a variable full of one byte; gives the driver calls since the last launch."""
        held = Constants("module")

        def launched(byte: int, stream: int) -> list[tuple[Any, ...]]:
            driver.log.clear()
            with held.written((bound(held, byte),), stream, "launch"):
                driver.log.append(("kernel", stream))
            return list(driver.log)

        return launched

    def test_on_the_default_stream_alone_nothing_is_recorded(self, launch: Any) -> None:
        assert launch(1, 0) == [("copy", 0x500, 1, 0), ("kernel", 0)]
        assert launch(1, 0) == [("kernel", 0)]
        assert launch(2, 0) == [("copy", 0x500, 2, 0), ("kernel", 0)]

    def test_another_stream_waits_for_the_last_launch(self, launch: Any) -> None:
        assert launch(1, 7) == [("copy", 0x500, 1, 7), ("kernel", 7), ("record", 7)]
        assert launch(2, 8) == [("wait", 8), ("copy", 0x500, 2, 8), ("kernel", 8), ("record", 8)]
        assert launch(2, 0) == [("wait", 0), ("kernel", 0)]
        assert launch(3, 8) == [("record", 0), ("wait", 8), ("copy", 0x500, 3, 8), ("kernel", 8), ("record", 8)]

    def test_a_handle_may_be_that_of_a_new_stream(self, launch: Any) -> None:
        launch(1, 7)
        assert launch(1, 7) == [("wait", 7), ("kernel", 7), ("record", 7)]

    def test_a_launch_that_fails_is_waited_for_too(self, driver: Notes) -> None:
        held = Constants("module")
        with pytest.raises(RuntimeError), held.written((bound(held, 1),), 7, "launch"):
            raise RuntimeError
        driver.log.clear()
        with held.written((bound(held, 1),), 8, "launch"):
            pass
        assert driver.log == [("wait", 8), ("record", 8)]

    def test_a_source_lives_until_its_copy_is_done(self, driver: Notes) -> None:
        held = Constants("module")
        for byte in range(64):
            with held.written((bound(held, byte),), 0, "launch"):
                pass
        assert ("host waits",) not in driver.log
        assert len(held._sources) == 64
        driver.log.clear()
        with held.written((bound(held, 64),), 0, "launch"):
            pass
        assert driver.log == [("record", 0), ("host waits",), ("copy", 0x500, 64, 0)]
        assert len(held._sources) == 1

    def test_the_event_is_given_back(self, driver: Notes) -> None:
        held = Constants("module")
        with held.written((bound(held, 1),), 7, "launch"):
            pass
        held.close()
        held.close()
        assert driver.log.count(("destroy",)) == 1

    def test_variables_that_do_not_fit(self, driver: Notes) -> None:  # noqa: ARG002
        held = Constants("module")
        with pytest.raises(LaunchError, match="kernel kernel: __constant__ taps takes 16 bytes; weights has 12"):
            held.bind(LAUNCH, VARIABLE, bytes(12))
        with pytest.raises(LaunchError, match="cannot bind kernel kernel to __constant__ other: refused"):
            held.bind(LAUNCH, Constant("other", "weights"), bytes(16))


def bound(held: Constants, byte: int) -> BoundConstant:
    return held.bind(LAUNCH, VARIABLE, bytes([byte]) * SIZE)


class TestModuleCopies:
    """A captured graph's launches have constants of their own, which nobody writes again."""

    def test_one_copy_for_each_contents_written_once_outside_of_the_capture(self, driver: Notes) -> None:
        held, copies_of = Constants("module"), ModuleCopies(b"image")
        before = driver.mode
        assert copies_of.function("kernel", (bound(held, 1),), "launch") == (1, b"kernel")
        assert driver.log == [
            ("load", 1),
            ("copy", 0x500, 1, 99),
            ("host waits for", 99),
            ("destroy stream", 99),
        ]
        driver.log.clear()
        assert copies_of.function("other", (bound(held, 1),), "launch") == (1, b"other")
        assert driver.log == []
        assert copies_of.function("kernel", (bound(held, 2),), "launch") == (2, b"kernel")
        assert driver.mode == before
        driver.log.clear()
        copies_of.close()
        copies_of.close()
        assert sorted(driver.log) == [("unload", 1), ("unload", 2)]

    def test_one_that_cannot_be_written_is_unloaded(self, driver: Notes) -> None:
        held, copies_of = Constants("module"), ModuleCopies(b"image")
        driver.refused = "wait"
        with pytest.raises(LaunchError, match="cannot launch: refused"):
            copies_of.function("kernel", (bound(held, 1),), "launch")
        assert driver.log[-2:] == [("destroy stream", 99), ("unload", 1)]
        driver.refused = None
        assert copies_of.function("kernel", (bound(held, 1),), "launch") == (2, b"kernel")


def rows(pitch: int = 64) -> Texture:
    return Texture("image", DType.FLOAT32, 7, 5, pitch)


class TestTextures:
    def test_one_object_for_one_memory(self, driver: Notes) -> None:
        held = Textures()
        first = held.at(0x200, rows())
        assert held.at(0x200, rows()) is first
        assert held.at(0x400, rows()) is not first
        assert held.at(0x200, rows(96)) is not first
        assert driver.created == 3

    def test_no_object_goes_while_a_launch_is_bound_to_it(self, driver: Notes) -> None:
        held = Textures()
        used = [held.at(0x200 * i, rows()) for i in range(4 * MOST_KEPT)]
        held.sweep()
        assert len(driver.textures) == len(used)
        assert driver.log == []

    def test_those_of_dropped_launches_go_once_the_context_is_idle(self, driver: Notes) -> None:
        held = Textures()
        for i in range(2 * MOST_KEPT - 1):
            held.at(0x200 * i, rows())
            held.sweep()
        gc.collect()
        assert driver.log == []
        held.at(0, rows(96))
        held.sweep()
        assert driver.log == [("context idle",)]
        assert len(driver.textures) == MOST_KEPT

    def test_what_a_graph_uses_stays(self, driver: Notes) -> None:
        held = Textures()
        captured = held.at(0x200, rows())
        handle = captured.handle
        held.keep((captured, captured))
        del captured
        for i in range(4 * MOST_KEPT):
            held.at(0x200 * (i + 2), rows())
            held.sweep()
        assert handle in driver.textures
        assert len(driver.textures) < 3 * MOST_KEPT

    def test_where_the_context_cannot_be_waited_for_they_stay(self, driver: Notes) -> None:
        driver.idle = REAL.CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
        held = Textures()
        for i in range(4 * MOST_KEPT):
            held.at(0x200 * i, rows())
            held.sweep()
        assert len(driver.textures) == 4 * MOST_KEPT
        driver.idle = OK
        held.sweep()
        assert len(driver.textures) == MOST_KEPT

    def test_one_dropped_while_the_context_is_waited_for_stays(
        self, driver: Notes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its last launch may have been queued after the wait began."""
        held = Textures()
        used = [held.at(0x200 * i, rows()) for i in range(3 * MOST_KEPT)]
        late = used.pop()
        handle, held._recent = late.handle, {}
        kept = [late]
        del late, used

        def wait() -> tuple[Any, ...]:
            kept.clear()
            return (OK,)

        monkeypatch.setattr(driver, "cuCtxSynchronize", wait)
        held.sweep()
        assert driver.textures == {handle}
        assert held._dropped == [handle]

    def test_closing_destroys_all_of_them_once(self, driver: Notes) -> None:
        held = Textures()
        used = held.at(0x200, rows())
        held.at(0x400, rows())
        held.close()
        assert driver.textures == set()
        del used, held
        assert driver.textures == set()

    def test_a_refusal_is_one_line(self, driver: Notes) -> None:  # noqa: ARG002
        message = "cannot make a texture of 7x5 float32 with rows 36 bytes apart of image at 0x200: refused"
        with pytest.raises(LaunchError) as caught:
            Textures().at(0x200, rows(36))
        assert str(caught.value) == message


@pytest.mark.parametrize(
    ("dtype", "layout", "flags"),
    [(DType.FLOAT32, 32, 0), (DType.FLOAT16, 16, 0), (DType.UINT8, 1, 1)],  # CUarray_format, CU_TRSF_READ_AS_INTEGER
)
def test_what_the_driver_is_told(dtype: DType, layout: int, flags: int) -> None:
    made = descriptors._resource(0x1200, Texture("image", dtype, 7, 5, 64))
    words = (ctypes.c_uint64 * 6).from_address(made.getPtr())
    # resType 3; devPtr; format and numChannels; width; height; pitchInBytes (CUDA_RESOURCE_DESC of cuda.h)
    assert [words[0] & 0xFFFFFFFF, *words[1:]] == [3, 0x1200, layout | 1 << 32, 7, 5, 64]
    line = descriptors._resource(0x1200, Texture("image", dtype, 99))
    words = (ctypes.c_uint64 * 4).from_address(line.getPtr())
    assert [words[0] & 0xFFFFFFFF, *words[1:]] == [2, 0x1200, layout | 1 << 32, 99 * dtype.itemsize]
    line = descriptors._resource(0x1200, Texture("image", dtype, 99, channels=4))
    words = (ctypes.c_uint64 * 4).from_address(line.getPtr())
    assert list(words[2:]) == [layout | 4 << 32, 4 * 99 * dtype.itemsize]
    reading = descriptors._reading(Texture("image", dtype, 99))
    # address modes 1 1 1 (clamp), filter 0 (point), flags (CUDA_TEXTURE_DESC)
    assert list((ctypes.c_uint32 * 5).from_address(reading.getPtr())) == [1, 1, 1, 0, flags]
