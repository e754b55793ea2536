"""Streams beside a caller's: fork, join, and callers that may not have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stream_driver import StreamDriver
from warpsmith.devices.cuda import status, streams
from warpsmith.devices.cuda.available import cuda_device_count
from warpsmith.devices.cuda.streams import SideStreams
from warpsmith.errors import DeviceError, OutOfMemory

REAL = streams.cu
FAULT = REAL.CUresult.CUDA_ERROR_LAUNCH_FAILED
FORK, JOIN = (
    ["record e1 on 77", "51 waits for e1", "52 waits for e1"],
    ["record e2 on 51", "77 waits for e2", "record e3 on 52", "77 waits for e3"],
)


class Notes:
    """Notes of a driver's calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._lines: list[str] = []
        self.driver = StreamDriver(self._lines.append)
        for module in (streams, status):
            monkeypatch.setattr(module, "cu", self.driver)

    def read(self) -> list[str]:
        """Lines since the last read."""
        lines = list(self._lines)
        self._lines.clear()
        return lines


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Notes:
    return Notes(monkeypatch)


@pytest.fixture
def side(notes: Notes) -> SideStreams:
    made = SideStreams(2, "multiply")
    notes.read()
    return made


def fail_beside(side: SideStreams, error: Exception, before: Callable[[], None] = lambda: None) -> None:
    with side.beside(0x77):
        before()
        raise error


def test_work_waits_for_the_callers_stream_which_waits_for_it(notes: Notes, side: SideStreams) -> None:
    for _ in range(2):
        with side.beside(0x77) as streams:
            assert streams == (0x77, 0x51, 0x52)
            assert notes.read() == FORK
        assert notes.read() == JOIN


def test_the_default_stream_is_a_callers_too(notes: Notes, side: SideStreams) -> None:
    with side.beside(0) as streams:
        assert streams == (0, 0x51, 0x52)
    assert notes.read()[0] == "record e1 on 0"


def test_they_go_as_they_came(notes: Notes) -> None:
    side = SideStreams(2, "multiply")
    created = notes.read()
    side.close()
    side.close()
    assert notes.read() == [line.replace("create", "destroy") for line in reversed(created)]
    assert len(created) == 5


def test_what_fails_is_joined_and_told(notes: Notes, side: SideStreams) -> None:
    with pytest.raises(ValueError, match="no such product"):
        fail_beside(side, ValueError("no such product"))
    assert notes.read() == [*FORK, *JOIN]
    notes.driver.faults["cuEventRecord"] = FAULT
    with pytest.raises(DeviceError, match="cannot multiply: cuda_error_launch_failed"), side.beside(0x77):
        pytest.fail("they were not forked")


def test_the_first_error_is_the_one_that_is_told(notes: Notes, side: SideStreams) -> None:
    with pytest.raises(ValueError, match="no such product"):
        fail_beside(side, ValueError("no such product"), lambda: notes.driver.faults.update(cuStreamWaitEvent=FAULT))


class TestCaptures:
    def test_that_have_them_use_them_again(self, notes: Notes, side: SideStreams) -> None:
        notes.driver.captured = {0x77: 5, 0x51: 5, 0x52: 5}
        with side.beside(0x77) as streams:
            assert streams == (0x77, 0x51, 0x52)
        assert notes.read() == [*FORK, *JOIN]

    def test_that_begin_take_free_ones(self, notes: Notes, side: SideStreams) -> None:
        notes.driver.captured = {0x77: 5}
        with side.beside(0x77) as streams:
            assert streams == (0x77, 0x51, 0x52)

    @pytest.mark.parametrize(("stream", "captured"), [(0x77, {}), (0, {}), (0x77, {0x77: 6})])
    def test_leave_others_their_own_stream(
        self, notes: Notes, side: SideStreams, stream: int, captured: dict[int, int]
    ) -> None:
        notes.driver.captured = {0x51: 5, 0x52: 5, **captured}
        with side.beside(stream) as streams:
            assert streams == (stream,)
        assert notes.read() == []


def test_none_is_left_where_not_all_can_be_made(notes: Notes) -> None:
    notes.driver.most_streams = 1
    with pytest.raises(OutOfMemory, match="cannot multiply"):
        SideStreams(2, "multiply")
    assert notes.read() == ["create event e1", "create stream 51", "destroy stream 51", "destroy event e1"]


ASKED: dict[str, tuple[Any, ...]] = {
    "cuStreamCreate": (REAL.CUstream_flags.CU_STREAM_NON_BLOCKING,),
    "cuStreamDestroy": (REAL.CUstream(7),),
    "cuEventCreate": (REAL.CUevent_flags.CU_EVENT_DISABLE_TIMING,),
    "cuEventDestroy": (REAL.CUevent(7),),
    "cuEventRecord": (REAL.CUevent(7), 7),
    "cuStreamWaitEvent": (7, REAL.CUevent(7), 0),
}
"""Arguments of the types that the real functions are given."""


@pytest.mark.skipif(cuda_device_count() > 0, reason="would be carried out here; the GPU tests call all of them")
@pytest.mark.parametrize("name", ASKED)
def test_the_real_functions_take_such_arguments(name: str) -> None:
    """A call without a driver fails only after its arguments were accepted; wrong ones raise TypeError before."""
    with pytest.raises(RuntimeError):
        getattr(REAL, name)(*ASKED[name])
