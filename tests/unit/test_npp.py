"""NPP's filter without NPP: a library with the same interface, written here, on host memory."""

from __future__ import annotations

import ctypes
import dataclasses
import importlib.util
import sys
import types
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import DType
from warpsmith.tuner.evaluate.verify import verify
from warpsmith.tuner.operations.filter2d import npp_peers as npp
from warpsmith.tuner.operations.registry import Peer, peers, random_operands, reference

FLOATS, BYTES = "nppiFilterBorder_32f_C1R", "nppiFilterBorder32f_8u_C1R"
CONTEXT = npp.StreamContext(device=3, multiprocessors=132, shared_per_block=49152, major=9, minor=0, stream_flags=7)
C_SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    *(ctypes.c_void_p, ctypes.c_int, npp.Size, npp.Point),
    *(ctypes.c_void_p, ctypes.c_int, npp.Size),
    *(ctypes.c_void_p, npp.Size, npp.Point),
    *(ctypes.c_int, npp.StreamContext),
)


class OnDevice(np.ndarray[Any, Any]):
    """A host array that claims to lie on a device, as CuPy's do."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.__array_interface__


def memory(address: int, dtype: type[Any], rows: int, pitch: int, columns: int) -> NDArray[Any]:
    """Rows at an address, without the gaps between them."""
    nbytes = (rows - 1) * pitch + columns * np.dtype(dtype).itemsize
    flat = np.frombuffer((ctypes.c_char * nbytes).from_address(address), np.uint8)
    return np.lib.stride_tricks.as_strided(flat.view(dtype), (rows, columns), (pitch, np.dtype(dtype).itemsize))


def nppi_filter_border(dtype: type[Any], channels: int, seen: list[tuple[int, ...]]) -> Callable[..., int]:
    """Convolution about an anchor with the image replicated at its edges, as NVIDIA describes it."""

    def function(
        source: int,
        source_step: int,
        source_size: npp.Size,
        offset: npp.Point,
        target: int,
        target_step: int,
        roi: npp.Size,
        kernel: int,
        kernel_size: npp.Size,
        anchor: npp.Point,
        border: int,
        context: npp.StreamContext,
    ) -> int:
        seen.append((border, context.device, context.multiprocessors, context.shared_per_block, context.stream_flags))
        if border != npp.REPLICATE:
            return -9999
        first = source - offset.y * source_step - offset.x * channels * np.dtype(dtype).itemsize
        image = memory(first, dtype, source_size.height, source_step, source_size.width * channels)
        pixels = image.reshape(source_size.height, source_size.width, channels).astype(np.float64)
        mask = memory(kernel, np.float32, kernel_size.height, kernel_size.width * 4, kernel_size.width)
        total = np.zeros((roi.height, roi.width, channels))
        for (r, s), weight in np.ndenumerate(mask):
            rows = np.clip(np.arange(roi.height) + offset.y + anchor.y - r, 0, source_size.height - 1)
            columns = np.clip(np.arange(roi.width) + offset.x + anchor.x - s, 0, source_size.width - 1)
            total += weight * pixels[rows][:, columns]
        if dtype is np.uint8:
            total = np.clip(np.rint(total), 0, 255)
        memory(target, dtype, roi.height, target_step, roi.width * channels)[:] = total.reshape(roi.height, -1)
        return 0

    return function


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Arguments of each NPP call besides its images; NPP and CuPy appear present, on the host."""
    calls: list[tuple[int, ...]] = []
    library = types.SimpleNamespace(
        **{
            f"{name}_C{channels}R_Ctx": C_SIGNATURE(nppi_filter_border(dtype, channels, calls))
            for name, dtype in (("nppiFilterBorder_32f", np.float32), ("nppiFilterBorder32f_8u", np.uint8))
            for channels in (1, 3, 4)
        }
    )
    cupy = types.ModuleType("cupy")
    cupy.__dict__.update(asarray=lambda array: np.array(array).view(OnDevice), asnumpy=np.asarray)
    found = {"cupy": ModuleSpec("cupy", None)}
    monkeypatch.setattr("warpsmith.tuner.operations.peer.find_spec", found.get)
    monkeypatch.setattr("warpsmith.tuner.operations.filter2d.peers.find_spec", found.get)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(npp, "_library", lambda: library)
    monkeypatch.setattr(npp, "_context", lambda: CONTEXT)
    return calls


def npp_peers(problem: Filter2d) -> tuple[Peer, ...]:
    return tuple(peer for peer in peers(problem, random_operands(problem, 0), DeviceKind.CUDA) if "npp" in peer.name)


class TestFilter:
    @pytest.mark.parametrize("border", [Border.VALID, Border.NEAREST])
    @pytest.mark.parametrize("size", [(1, 1), (3, 3), (2, 4), (5, 2), (1, 6)])
    @pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.UINT8])
    def test_is_given_our_problem(
        self, seen: list[tuple[int, ...]], border: Border, size: tuple[int, int], dtype: DType
    ) -> None:
        for channels, convolve in ((1, False), (1, True), (3, False), (4, True)):
            problem = Filter2d((9, 12), size, dtype=dtype, border=border, channels=channels, convolve=convolve)
            (peer,) = npp_peers(problem)
            peer.run()
            verdict = verify(peer.result(), reference(problem, random_operands(problem, 0)), dtype)
            assert verdict.right, f"{problem.key()}: {verdict.message}"
        assert seen == [(npp.REPLICATE, 3, 132, 49152, 7)] * 4

    def test_is_given_the_anchor(self, seen: list[tuple[int, ...]]) -> None:  # noqa: ARG002
        for anchor in ((0, 0), (2, 3), (1, 0)):
            for convolve in (False, True):
                problem = Filter2d((9, 12), (3, 4), border=Border.NEAREST, anchor=anchor, convolve=convolve)
                (peer,) = npp_peers(problem)
                peer.run()
                assert verify(peer.result(), reference(problem, random_operands(problem, 0)), DType.FLOAT32).right

    def test_names_library_and_function(self, seen: list[tuple[int, ...]]) -> None:  # noqa: ARG002
        for dtype, name in ((DType.FLOAT32, FLOATS), (DType.UINT8, BYTES)):
            (peer,) = npp_peers(Filter2d((9, 12), (3, 3), dtype=dtype))
            assert peer.name == f"npp {npp.npp_version()} {name}"

    @pytest.mark.parametrize(
        "fields",
        [
            {"border": Border.MIRROR},
            {"border": Border.CONSTANT},
            {"dtype": DType.FLOAT16},
            {"result_dtype": DType.FLOAT16},
            {"dtype": DType.UINT8, "result_dtype": DType.FLOAT32},
            {"planes": 2},
            {"filters": 2},
            {"channels": 2},  # the library here has no such function
        ],
        ids=str,
    )
    def test_is_not_asked_for_what_it_does_not_have(
        self,
        seen: list[tuple[int, ...]],  # noqa: ARG002
        fields: dict[str, Any],
    ) -> None:
        assert npp_peers(dataclasses.replace(Filter2d((9, 12), (3, 3)), **fields)) == ()

    def test_a_status_is_an_error_with_its_number(self, seen: list[tuple[int, ...]]) -> None:
        npp._library().nppiFilterBorder_32f_C1R_Ctx = C_SIGNATURE(lambda *_: -9999)
        (peer,) = npp_peers(Filter2d((9, 12), (3, 3)))
        with pytest.raises(RuntimeError, match=f"{FLOATS} returned NppStatus -9999"):
            peer.run()
        assert seen == []


def line_filter(down: bool, seen: list[tuple[int, ...]]) -> Callable[..., int]:
    """Convolution along rows or down columns, of one channel of float32."""
    whole = nppi_filter_border(np.float32, 1, seen)

    def function(*arguments: Any) -> int:
        *images, kernel, taps, anchor, border, context = arguments
        size, at = (npp.Size(1, taps), npp.Point(0, anchor)) if down else (npp.Size(taps, 1), npp.Point(anchor, 0))
        return whole(*images, kernel, size, at, border, context)

    return function


class TestRowAndColumn:
    @pytest.mark.parametrize("border", [Border.VALID, Border.NEAREST])
    @pytest.mark.parametrize("convolve", [False, True])
    def test_are_given_our_problem(self, seen: list[tuple[int, ...]], border: Border, convolve: bool) -> None:
        pointer, number = ctypes.c_void_p, ctypes.c_int
        source, target = (pointer, number, npp.Size, npp.Point), (pointer, number, npp.Size)
        signature = ctypes.CFUNCTYPE(number, *source, *target, pointer, number, number, number, npp.StreamContext)
        for way in ("Row", "Column"):
            made = signature(line_filter(way == "Column", seen))
            setattr(npp._library(), f"nppiFilter{way}Border_32f_C1R_Ctx", made)
        weights = tuple(float(a * b) for a in (1, 2, 5, -3) for b in (3, -1, 7, 2, 1))
        problem = Filter2d((9, 12), (4, 5), border=border, convolve=convolve, weights=weights)
        anchors = (None,) if border is Border.VALID else (None, (0, 4), (3, 1))
        for anchor in anchors:
            asked = dataclasses.replace(problem, anchor=anchor)
            whole, peer = npp_peers(asked)
            assert (
                peer.name == f"npp {npp.npp_version()} nppiFilterRowBorder_32f_C1R and nppiFilterColumnBorder_32f_C1R"
            )
            for each in (whole, peer):
                each.run()
                error = verify(each.result(), reference(asked, random_operands(asked, 0)), DType.FLOAT32).max_error
                assert error < 2e-5, asked.key()
        assert len(seen) == 3 * len(anchors)


class TestStream:
    def test_is_that_of_the_call_and_the_device_stays(self, seen: list[tuple[int, ...]]) -> None:
        streams: list[int | None] = []
        function = nppi_filter_border(np.float32, 1, seen)

        def noting(*arguments: Any) -> int:
            streams.append(arguments[-1].stream)
            return function(*arguments)

        npp._library().nppiFilterBorder_32f_C1R_Ctx = C_SIGNATURE(noting)
        problem = Filter2d((9, 12), (3, 3))
        (peer,) = peers(problem, random_operands(problem, 0), DeviceKind.CUDA, 2)[-1:]
        peer.run(1, 4711)
        peer.run(0)
        assert streams == [4711, None]
        assert [each[:4] for each in seen] == [(npp.REPLICATE, 3, 132, 49152)] * 2
        assert [each[4] for each in seen] == [npp.NON_BLOCKING, 7]


class TestLayout:
    """Structure layouts of NVIDIA's nppdefs.h on 64-bit Linux."""

    def test_of_the_stream_context(self) -> None:
        offsets = {name: getattr(npp.StreamContext, name).offset for name, _ in npp.StreamContext._fields_}
        assert offsets == {
            "stream": 0,
            "device": 8,
            "multiprocessors": 12,
            "threads_per_multiprocessor": 16,
            "threads_per_block": 20,
            "shared_per_block": 24,
            "major": 32,
            "minor": 36,
            "stream_flags": 40,
            "reserved": 44,
        }
        assert ctypes.sizeof(npp.StreamContext) == 48

    def test_of_sizes_and_points(self) -> None:
        assert bytes(npp.Size(width=1, height=2)) == bytes(npp.Point(x=1, y=2)) == b"\1\0\0\0\2\0\0\0"


class TestMissing:
    def test_library_and_driver_are_errors_that_leave_the_peer_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        npp._library.cache_clear()
        monkeypatch.setattr(npp, "find_spec", lambda _: None)
        monkeypatch.setattr(npp.ctypes, "CDLL", _no_library)
        for missing in (npp._library, npp._context, lambda: npp.FilterBorder(FLOATS)):
            with pytest.raises(OSError, match="cannot open shared object file"):
                missing()

    @pytest.mark.parametrize("folder", ["cu13", "npp"])
    def test_library_of_the_wheel_is_loaded_after_its_core(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: str
    ) -> None:
        loaded: list[str] = []
        lib = tmp_path / folder / "lib"
        lib.mkdir(parents=True)
        (tmp_path / "another" / "lib").mkdir(parents=True)
        (lib / "libnppc.so.13").touch()
        namespace = ModuleSpec("nvidia", None)
        namespace.submodule_search_locations = [str(tmp_path)]
        npp._library.cache_clear()
        monkeypatch.setattr(npp, "find_spec", lambda name: namespace if name == "nvidia" else None)
        monkeypatch.setattr(npp.ctypes, "CDLL", lambda name, **_: loaded.append(name))
        npp._library()
        npp._library.cache_clear()
        assert loaded == [str(lib / "libnppc.so.13"), str(lib / "libnppif.so.13")]

    @pytest.mark.skipif(importlib.util.find_spec("cupy") is not None, reason="CuPy is here")
    @pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="PyTorch is here")
    def test_arrays_of_a_gpu_leave_the_peer_out(self) -> None:
        assert npp_peers(Filter2d((9, 12), (3, 3))) == ()


def _no_library(name: str, **_: Any) -> None:
    raise OSError(f"{name}: cannot open shared object file: No such file or directory")
