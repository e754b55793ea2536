"""Copies of a module for CUDA graphs, with `__constant__` variables that are written only once."""

from __future__ import annotations

from typing import Any

from cuda.bindings import driver as cu

from warpsmith.devices.cuda.constants import BoundConstant
from warpsmith.devices.cuda.status import call, outside_of_captures

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
