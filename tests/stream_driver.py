"""Fake driver with streams and events only. It logs each call and tracks which streams are captured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cuda.bindings import driver as real

OK = real.CUresult.CUDA_SUCCESS
FIRST_STREAM, FIRST_EVENT = 0x51, 0xE1


class StreamDriver:
    """Driver that numbers streams from FIRST_STREAM on and events from FIRST_EVENT on.

    Args:
        note: called with one line for each driver call.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._streams = self._events = 0
        self.captured: dict[int, int] = {}
        """Captured streams, each with the number of its capture."""
        self.faults: dict[str, Any] = {}
        """Return values of functions that fail, by name."""
        self.most_streams = 100

    def __getattr__(self, name: str) -> Any:
        return getattr(real, name)  # enumerations

    def _answer(self, name: str) -> tuple[Any]:
        return (self.faults.get(name, OK),)

    def cuStreamCreate(self, flags: Any) -> tuple[Any, ...]:  # noqa: N802
        assert flags == real.CUstream_flags.CU_STREAM_NON_BLOCKING  # other streams wait for the legacy default stream
        if self._streams == self.most_streams:
            return (real.CUresult.CUDA_ERROR_OUT_OF_MEMORY, None)
        self._streams += 1
        handle = FIRST_STREAM + self._streams - 1
        self._note(f"create stream {handle:x}")
        return (OK, real.CUstream(handle))

    def cuStreamDestroy(self, stream: Any) -> tuple[Any, ...]:  # noqa: N802
        self._note(f"destroy stream {int(stream):x}")
        return (OK,)

    def cuEventCreate(self, flags: Any) -> tuple[Any, ...]:  # noqa: N802
        assert flags == real.CUevent_flags.CU_EVENT_DISABLE_TIMING
        self._events += 1
        handle = FIRST_EVENT + self._events - 1
        self._note(f"create event {handle:x}")
        return (OK, real.CUevent(handle))

    def cuEventDestroy(self, event: Any) -> tuple[Any, ...]:  # noqa: N802
        self._note(f"destroy event {int(event):x}")
        return (OK,)

    def cuEventRecord(self, event: Any, stream: int) -> tuple[Any, ...]:  # noqa: N802
        self._note(f"record {int(event):x} on {stream:x}")
        return self._answer("cuEventRecord")

    def cuStreamWaitEvent(self, stream: int, event: Any, flags: int) -> tuple[Any, ...]:  # noqa: N802
        assert flags == 0
        self._note(f"{stream:x} waits for {int(event):x}")
        return self._answer("cuStreamWaitEvent")

    def cuStreamGetCaptureInfo(self, stream: int) -> tuple[Any, ...]:  # noqa: N802
        states, capture = real.CUstreamCaptureStatus, self.captured.get(stream)
        none, active = states.CU_STREAM_CAPTURE_STATUS_NONE, states.CU_STREAM_CAPTURE_STATUS_ACTIVE
        return (OK, none if capture is None else active, capture or 0, None, None, None, 0)

    def cuGetErrorString(self, error: Any) -> tuple[Any, ...]:  # noqa: N802
        return (OK, error.name.lower().encode())
