"""`__constant__` variables of a loaded module: there is one of each, whatever the streams of the launches that read it.

The stream order of two launches on one stream does not hold for two streams, so each launch that reads variables is
made to wait for the one before it.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
from collections.abc import Iterator
from typing import Any

from cuda.bindings import driver as cu

from warpsmith.devices.base import check_constant
from warpsmith.devices.cuda.status import SUCCESS, call, failure, outside_of_captures
from warpsmith.generator.program import Constant, Launch

_DEFAULT = 0
_MOST_SOURCES = 64


@dataclasses.dataclass(frozen=True, slots=True)
class BoundConstant:
    """What is to stand in a variable when a launch starts."""

    symbol: str
    address: int
    content: bytes
    source: ctypes.Array[ctypes.c_char] = dataclasses.field(repr=False)
    """The content, where the driver reads it; never written to again."""

    @property
    def source_address(self) -> int:
        """Where `source` lies."""
        return ctypes.addressof(self.source)


class Constants:
    """The `__constant__` variables of one module. All calls expect the module's context to be current.

    One thread at a time, `written` included up to its end: the copies, the launch and the event of one thread may not
    fall between those of another. Captured launches have variables of their own, in `ModuleCopies`.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        self._event: Any = None
        """Recorded after the last launch, unless that was on the default stream."""
        self._last: int | None = None
        """The stream of the last launch; None before the first."""
        self._content: dict[str, bytes] = {}
        """What the last copy to each variable wrote, in the order of the launches."""
        self._sources: list[object] = []
        """What copies may still be reading: the driver need not have taken pageable memory when it returns."""

    def bind(self, launch: Launch, constant: Constant, content: bytes) -> BoundConstant:
        """Finds a variable. Raises LaunchError where there is none, or one of another size."""
        status, address, nbytes = cu.cuModuleGetGlobal(self._module, constant.symbol.encode())
        if status != SUCCESS:
            raise failure(status, f"bind kernel {launch.entry} to __constant__ {constant.symbol}")
        check_constant(launch, constant, len(content), int(nbytes))
        source = ctypes.create_string_buffer(content, len(content))
        return BoundConstant(constant.symbol, int(address), content, source)

    @contextlib.contextmanager
    def written(self, constants: tuple[BoundConstant, ...], stream: int, doing: str) -> Iterator[None]:
        """Within it the variables have their contents, for work on `stream`, which is not being captured."""
        self._follow(stream, doing)
        self._forget_sources(doing)
        try:
            for each in constants:
                if self._content.get(each.symbol) != each.content:
                    self._content.pop(each.symbol, None)
                    self._sources.append(each.source)
                    call(cu.cuMemcpyHtoDAsync(each.address, each.source_address, len(each.content), stream), doing)
                    self._content[each.symbol] = each.content
            yield
        finally:
            self._mark(stream, doing)

    def _follow(self, stream: int, doing: str) -> None:
        """Makes `stream` wait for the last launch."""
        if self._last is None or stream == self._last == _DEFAULT:
            return
        self._record_default(doing)
        # Also where the handle is that of the last stream: it may have been given to another one meanwhile.
        call(cu.cuStreamWaitEvent(stream, self._event, 0), doing)

    def _mark(self, stream: int, doing: str) -> None:
        """Remembers `stream` as the last one.

        The default stream is there for ever, so its event can wait until another stream asks: the tuner times launches
        on it, back to back. Other streams may be gone by then.
        """
        self._last = stream
        if stream != _DEFAULT:
            self._record(stream, doing)

    def _record_default(self, doing: str) -> None:
        if self._last == _DEFAULT:
            self._record(_DEFAULT, doing)

    def _record(self, stream: int, doing: str) -> None:
        if self._event is None:
            self._event = call(cu.cuEventCreate(cu.CUevent_flags.CU_EVENT_DISABLE_TIMING), doing)
        call(cu.cuEventRecord(self._event, stream), doing)

    def _forget_sources(self, doing: str) -> None:
        """Lets go of sources, where they are many, once their copies are done.

        Each launch waits for the one before, so the event of the last one tells of all.
        """
        if len(self._sources) >= _MOST_SOURCES:
            self._record_default(doing)
            with outside_of_captures(doing):  # another thread may be capturing
                call(cu.cuEventSynchronize(self._event), doing)
            self._sources.clear()

    def close(self) -> None:
        """Lets go of the event."""
        event, self._event = self._event, None
        if event is not None:
            cu.cuEventDestroy(event)
