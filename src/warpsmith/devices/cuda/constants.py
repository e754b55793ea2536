"""Writes the `__constant__` variables of a loaded module. All streams that launch its kernels share one copy of each.

Two launches on one stream run in order, but launches on two streams may overlap. So each launch that reads such
variables is made to wait for the one before it. CUDA graphs read copies of the module, whose variables are written only
once.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
from collections.abc import Iterator
from typing import Any

from cuda.bindings import driver as cu

from warpsmith.devices.cuda.status import SUCCESS, call, failure, outside_of_captures
from warpsmith.devices.module import check_constant
from warpsmith.generator.program import Constant, Launch

_DEFAULT = 0
_MOST_SOURCES = 64


@dataclasses.dataclass(frozen=True, slots=True)
class BoundConstant:
    """Content that a variable must have when a launch starts."""

    symbol: str
    address: int
    content: bytes
    source: ctypes.Array[ctypes.c_char] = dataclasses.field(repr=False)
    """The content in host memory, from which the driver copies it. It is never written to again."""

    @property
    def source_address(self) -> int:
        return ctypes.addressof(self.source)


class Constants:
    """The `__constant__` variables of one module. All calls expect the module's context to be current.

    Only one thread at a time may use it, and `written` counts until its end: the copies, the launch and the event of
    one thread must not interleave with those of another. Captured launches have variables of their own, in
    `ModuleCopies`.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        self._event: Any = None
        """Event recorded after the last launch, unless that was on the default stream."""
        self._last: int | None = None
        """The stream of the last launch; None before the first."""
        self._content: dict[str, bytes] = {}
        """Content that the last queued copy writes to each variable, by symbol."""
        self._sources: list[object] = []
        """Host buffers that queued copies may still read: the driver may return before it has read pageable memory."""

    def bind(self, launch: Launch, constant: Constant, content: bytes) -> BoundConstant:
        """Finds a variable. Raises LaunchError if there is none, or if its size differs."""
        status, address, nbytes = cu.cuModuleGetGlobal(self._module, constant.symbol.encode())
        if status != SUCCESS:
            raise failure(status, f"bind kernel {launch.entry} to __constant__ {constant.symbol}")
        check_constant(launch, constant, len(content), int(nbytes))
        source = ctypes.create_string_buffer(content, len(content))
        return BoundConstant(constant.symbol, int(address), content, source)

    @contextlib.contextmanager
    def written(self, constants: tuple[BoundConstant, ...], stream: int, doing: str) -> Iterator[None]:
        """Gives the variables their contents for the work that is queued on `stream` inside this context. The stream
        must not be captured.
        """
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
        # This is done even if the handle equals the last one: the driver may have given it to another stream meanwhile.
        call(cu.cuStreamWaitEvent(stream, self._event, 0), doing)

    def _mark(self, stream: int, doing: str) -> None:
        """Remembers `stream` as the last one.

        The default stream always exists, so its event is recorded only when another stream needs it: the tuner times
        launches on it, back to back. Other streams may be destroyed by then, so their event is recorded at once.
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
        """If there are many host buffers, waits until their copies are done and drops them.

        Each launch waits for the one before, so the event of the last launch covers all of them.
        """
        if len(self._sources) >= _MOST_SOURCES:
            self._record_default(doing)
            with outside_of_captures(doing):  # another thread may be capturing
                call(cu.cuEventSynchronize(self._event), doing)
            self._sources.clear()

    def close(self) -> None:
        """Destroys the event."""
        event, self._event = self._event, None
        if event is not None:
            cu.cuEventDestroy(event)


Contents = tuple[tuple[str, bytes], ...]


class ModuleCopies:
    """Copies of one module, each with its own contents in its `__constant__` variables.

    A graph may run at any time, on any stream, beside other graphs and other launches of the module. So captured
    launches read variables that nothing writes to again: there is one copy of the module for each set of contents.
    Copies stay until `close`, because a graph may be launched as long as the module is loaded. All calls expect the
    module's context to be current, and one thread at a time.
    """

    def __init__(self, image: bytes) -> None:
        self._image = image
        self._modules: dict[Contents, Any] = {}

    def function(self, entry: str, constants: tuple[BoundConstant, ...], doing: str) -> Any:
        """The kernel `entry` of the copy whose variables have these contents. The copy is made if it does not exist.

        It works while the thread captures a graph, and adds nothing to that graph. Raises the error of
        `status.failure`.
        """
        contents = tuple((each.symbol, each.content) for each in constants)
        with outside_of_captures(doing):
            if contents not in self._modules:
                self._modules[contents] = self._copy(constants, doing)
            return call(cu.cuModuleGetFunction(self._modules[contents], entry.encode()), doing)

    def _copy(self, constants: tuple[BoundConstant, ...], doing: str) -> Any:
        module = call(cu.cuModuleLoadData(self._image), doing)
        try:
            # The default stream may not be used while a stream that waits for it is captured.
            stream = call(cu.cuStreamCreate(cu.CUstream_flags.CU_STREAM_NON_BLOCKING), doing)
            try:
                for each in constants:
                    address, _ = call(cu.cuModuleGetGlobal(module, each.symbol.encode()), doing)
                    call(cu.cuMemcpyHtoDAsync(address, each.source_address, len(each.content), stream), doing)
                call(cu.cuStreamSynchronize(stream), doing)
            finally:
                cu.cuStreamDestroy(stream)
        except BaseException:
            cu.cuModuleUnload(module)
            raise
        return module

    def close(self) -> None:
        """Unloads the copies."""
        while self._modules:
            cu.cuModuleUnload(self._modules.popitem()[1])
