"""The CPU as an open device: memory, libraries, launches, a clock."""

from __future__ import annotations

import _ctypes
import contextlib
import ctypes
import functools
import os
import platform
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.compiler import Binary, BinaryKind
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.cublas import HostCublas
from warpsmith.devices.host.cufft import HostCufft
from warpsmith.devices.host.descriptors import describe, tensor_map_bytes
from warpsmith.devices.host.machine import available_memory, cores, cpu_name, host_device
from warpsmith.devices.module import (
    Allocation,
    BoundLaunch,
    DeviceLibrary,
    Module,
    argument_bytes,
    check_constant,
    required,
)
from warpsmith.devices.process import ForkLock
from warpsmith.devices.runtime import DefaultWork, Runtime, Work, closing
from warpsmith.errors import CompileError, DeviceError, LaunchError, OutOfMemory
from warpsmith.generator.device import Device
from warpsmith.generator.library_calls import Library
from warpsmith.generator.program import Constant, Launch, Texture
from warpsmith.generator.steps import ALIGNMENT

# Every sanitized library imports this symbol.
_SANITIZER_MARK = b"__asan_init"

# Messages for `Status` in launch.h.
_REFUSALS = {
    1: "the grid or the block is empty",
    2: "a block has at most 1024 threads, in at most 1024 x 1024 x 64",
    3: "a grid has at most 2147483647 x 65535 x 65535 blocks",
    4: "it asks for more dynamic shared memory than the program was compiled for",
}
_STOPPED = 5

_STACKS_BYTES = 8192  # at least `Stacks` in fibers.h


class HostModule(Module):
    """A shared library of the host compiler. `workers` is the number of cores that a launch may use.

    Several threads may launch at the same time. They wait for each other if kernels share memory of the library: its
    `__constant__` variables, and in a sanitized build the shared memory of blocks.

    Raises:
        OSError: the image is no library that this machine can load.
    """

    def __init__(self, image: bytes, device: Device, workers: int) -> None:
        self._device = device
        self._workers = workers
        self._is_sanitized = _SANITIZER_MARK in image
        self._in_turn = ForkLock()
        # An in-memory file: a process that is killed leaves nothing behind.
        file = os.memfd_create("warpsmith")
        try:
            with os.fdopen(file, "wb", closefd=False) as written:
                written.write(image)
            loaded = ctypes.CDLL(_path_of(file))
        except OSError:
            os.close(file)
            raise
        self._library: ctypes.CDLL | None = loaded
        if _exports(loaded, "warpsmith_share_stacks"):
            loaded["warpsmith_share_stacks"](_stacks(self._is_sanitized))
        # Bound launches keep the module alive.
        self._unload = weakref.finalize(self, _ctypes.dlclose, loaded._handle)
        self._unload.atexit = False
        if self._is_sanitized:
            # AddressSanitizer keeps reading its tables of a library's variables, and its reports read line numbers from
            # the file. So neither is released.
            self._unload.detach()
        else:
            os.close(file)

    def bind(self, launch: Launch, addresses: Mapping[str, int], values: Mapping[str, bytes]) -> BoundLaunch:
        function = self._function(launch)
        textures = {
            each: describe(each, required(launch, each.buffer, addresses))
            for each in launch.arguments
            if isinstance(each, Texture)
        }
        handles = {texture: made.handle for texture, made in textures.items()}
        data = [argument_bytes(launch, each, addresses, values, handles, tensor_map_bytes) for each in launch.arguments]
        self._check_sizes(launch, [len(each) for each in data])
        constants = [self._constant(launch, each, required(launch, each.operand, values)) for each in launch.constants]
        storage = [ctypes.create_string_buffer(each, len(each)) for each in data]
        pointers = (ctypes.c_void_p * max(1, len(storage)))(*(ctypes.addressof(buffer) for buffer in storage))
        geometry = ((ctypes.c_uint * 3)(*launch.grid), (ctypes.c_uint * 3)(*launch.block), launch.shared_bytes)
        if launch.shared_bytes > self._device.shared_per_block_bytes:
            requested, limit = launch.shared_bytes, self._device.shared_per_block_bytes
            raise LaunchError(f"kernel {launch.entry}: {requested} B of shared memory, the limit is {limit} B")
        status = function(*geometry, None, self._workers)
        if status != 0:
            raise LaunchError(f"kernel {launch.entry}, grid {launch.grid}, block {launch.block}: {_REFUSALS[status]}")

        def run(_stream: int | None) -> None:
            if self._library is None:
                raise LaunchError(f"kernel {launch.entry} was launched after its module was closed")
            with self._in_turn if constants or self._is_sanitized else contextlib.nullcontext():
                for target, content in constants:
                    ctypes.memmove(target, content, len(content))
                if function(*geometry, pointers, self._workers) == _STOPPED:
                    raise DeviceError(f"kernel {launch.entry} was stopped on the host device: {self._failure()}")

        # `pointers` and handles only hold addresses: the memory behind them must live as long as the launch.
        run.kept = (storage, textures)  # type: ignore[attr-defined]
        return run

    def close(self) -> None:
        """Unloads the library; a sanitized one stays loaded until the process ends."""
        self._unload()
        self._library = None

    def _function(self, launch: Launch) -> Callable[..., int]:
        if self._library is None:
            raise LaunchError(f"kernel {launch.entry} was bound after its module was closed")
        name = f"warpsmith_launch_{launch.entry}"
        if not _exports(self._library, name):
            raise LaunchError(f"the library has no kernel {launch.entry}")
        function = self._library[name]
        address = ctypes.c_void_p  # also accepts an array and passes its address
        function.argtypes = [address, address, ctypes.c_ulonglong, address, ctypes.c_int]
        function.restype = ctypes.c_int
        return function

    def _constant(self, launch: Launch, constant: Constant, content: bytes) -> tuple[int, bytes]:
        """Address of a `__constant__` variable and the content to write there."""
        name = f"warpsmith_constant_{constant.symbol}"
        if self._library is None or not _exports(self._library, name):
            raise LaunchError(f"kernel {launch.entry}: the library has no __constant__ {constant.symbol}")
        locate = self._library[name]
        locate.restype = ctypes.c_void_p
        size = ctypes.c_ulonglong()
        address: int = locate(ctypes.byref(size))
        check_constant(launch, constant, len(content), size.value)
        return address, content

    def _failure(self) -> str:
        """Reason why the last launch of this thread was stopped."""
        failure = self._library["warpsmith_failure"]  # type: ignore[index]
        failure.restype = ctypes.c_char_p
        message: bytes = failure()
        return message.decode(errors="replace")

    def _check_sizes(self, launch: Launch, offered: list[int]) -> None:
        parameters = self._library[f"warpsmith_parameters_{launch.entry}"]  # type: ignore[index]
        parameters.restype = ctypes.POINTER(ctypes.c_ulonglong)
        sizes: list[int] = []
        listed = parameters()
        while listed[len(sizes)] != 0:
            sizes.append(listed[len(sizes)])
        if offered != sizes:
            raise LaunchError(f"kernel {launch.entry} takes arguments of {sizes} bytes; the launch gives {offered}")


class HostRuntime(Runtime):
    """This machine's CPU.

    Args:
        workers: cores that a launch may use; None for all that this process may run on.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.device = host_device()
        self._workers = workers if workers is not None else cores()
        # The allocator of the process itself: under AddressSanitizer its redzones begin right at the end of each
        # buffer.
        self._libc = ctypes.CDLL(None)
        self._libc.posix_memalign.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t, ctypes.c_size_t]
        self._libc.free.argtypes = [ctypes.c_void_p]
        self._libc.free.restype = None
        self._live: set[int] = set()

    def environment(self) -> dict[str, str]:
        try:
            compiler = HostCompiler().name
        except CompileError:
            compiler = "none"
        return {"os": platform.platform(), "cpu": cpu_name(), "cores": str(self._workers), "compiler": compiler}

    def load(self, binary: Binary) -> HostModule:
        if binary.kind is not BinaryKind.LIBRARY:
            raise LaunchError(f"the host device runs libraries of its own compiler, not a {binary.kind}")
        if _SANITIZER_MARK in binary.image and not _exports(self._libc, _SANITIZER_MARK.decode()):
            raise LaunchError("a sanitized library needs a process started with HostCompiler.sanitizer_environment()")
        try:
            return HostModule(binary.image, self.device, self._workers)
        except OSError as error:
            raise LaunchError(f"cannot load the library ({error}); compile the program on this machine") from None

    def library(self, library: Library) -> DeviceLibrary:
        match library:
            case Library.CUFFT:
                return HostCufft()
            case Library.CUBLAS:
                return HostCublas()

    def free_bytes(self) -> int | None:
        return available_memory()

    def independent_work(self) -> AbstractContextManager[Work]:
        return closing(DefaultWork(self))

    def ordered_work(self, stream: int | None) -> AbstractContextManager[Work]:  # noqa: ARG002 - there are no streams
        return self.independent_work()

    def allocate(self, nbytes: int) -> Allocation:
        available = available_memory()
        # The kernel overcommits, and kills the process when it touches the pages.
        if available is not None and nbytes > available:
            raise OutOfMemory(f"{nbytes} bytes were asked for, {available} are free; choose a smaller problem")
        address = ctypes.c_void_p()
        # malloc may return a null pointer for 0 bytes, which is no failure.
        status = self._libc.posix_memalign(ctypes.byref(address), ALIGNMENT, max(1, nbytes))
        if status != 0 or address.value is None:
            raise OutOfMemory(f"{nbytes} bytes could not be allocated; choose a smaller problem")
        self._live.add(address.value)
        return Allocation(address.value, nbytes)

    def free(self, allocation: Allocation) -> None:
        if allocation.address not in self._live:
            raise DeviceError(f"address {allocation.address:#x} was freed twice or never allocated here")
        self._live.remove(allocation.address)
        self._libc.free(allocation.address)

    def upload(self, address: int, source: NDArray[np.generic]) -> None:
        if not source.flags.c_contiguous:
            raise ValueError("upload takes a C-contiguous array")
        ctypes.memmove(address, source.ctypes.data, source.nbytes)

    def download(self, target: NDArray[np.generic], address: int) -> None:
        if not (target.flags.c_contiguous and target.flags.writeable):
            raise ValueError("download takes a writable C-contiguous array")
        ctypes.memmove(target.ctypes.data, address, target.nbytes)

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        ctypes.memset(address, byte, nbytes)

    def copy(self, target: int, source: int, nbytes: int, stream: int | None = None) -> None:  # noqa: ARG002 - has none
        ctypes.memmove(target, source, nbytes)

    def synchronize(self) -> None:
        """Returns at once, because a launch returns when it is done."""

    def elapsed_ns(self, work: Callable[[], None]) -> float:
        start = time.perf_counter_ns()
        work()
        return float(time.perf_counter_ns() - start)

    def clock_mhz(self) -> int | None:
        """None, because each core has its own clock, which changes within milliseconds."""
        return None

    def close(self) -> None:
        for address in self._live:
            self._libc.free(address)
        self._live.clear()


def _path_of(file: int) -> str:
    """A path of an open file that no other loaded library has.

    The loader treats a library as already loaded if the paths are equal, and numbers of open files are reused. So the
    path encodes the inode, which a loaded library keeps in use, as slashes with or without a dot behind them. The path
    contains the process id, because clang's symbolizer, a separate process, reads the file.
    """
    inode = "".join("/." if digit == "1" else "/" for digit in f"{os.fstat(file).st_ino:b}")
    return f"/proc/{os.getpid()}/fd{inode}/{file}"


@functools.cache
def _stacks(sanitized: bool) -> ctypes.Array[ctypes.c_char]:  # noqa: ARG001 - one of each, since their sizes differ
    """Memory that all libraries of this process share (`Stacks` in fibers.h). It lives until the process ends."""
    return ctypes.create_string_buffer(_STACKS_BYTES)


def _exports(library: ctypes.CDLL, name: str) -> bool:
    with contextlib.suppress(AttributeError):
        library[name]
        return True
    return False
