"""Runs small CUDA texts on the host device; under the sanitizers where the test process itself is."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from typing import Protocol

import numpy as np
import pytest

from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.generator.program import Argument, ByValue, Launch, Pointer, Program
from warpsmith.generator.space import Config


class RunKernel(Protocol):
    """Runs `kernel` of a CUDA text. Arrays are buffers, changed in place; NumPy scalars go by value."""

    def __call__(
        self,
        source: str,
        *arguments: np.ndarray | np.generic,
        grid: tuple[int, int, int] = (1, 1, 1),
        block: tuple[int, int, int] = (1, 1, 1),
        shared_bytes: int = 0,
    ) -> None: ...


@pytest.fixture
def make_program():
    """Builds a one-kernel program by hand: `arguments` is a word of p (pointer) and v (by value), named a0, a1, ..."""

    def make(source, arguments="", grid=(1, 1, 1), block=(1, 1, 1), shared_bytes=0, entry="kernel") -> Program:
        bound: tuple[Argument, ...] = tuple(
            Pointer(f"a{i}") if kind == "p" else ByValue(f"a{i}") for i, kind in enumerate(arguments)
        )
        launch = Launch(entry=entry, grid=grid, block=block, arguments=bound, shared_bytes=shared_bytes)
        return Program(family="test", config=Config.of({}), source=source, launches=(launch,))

    return make


@pytest.fixture(scope="session")
def host() -> Iterator[HostRuntime]:
    runtime = HostRuntime(workers=4)  # more than the cores of a small machine: blocks interleave
    yield runtime
    runtime.close()


@pytest.fixture(scope="session")
def compiler() -> HostCompiler:
    return HostCompiler(sanitize=hasattr(ctypes.CDLL(None), "__asan_init"))


@pytest.fixture(scope="session")
def compile_once(compiler):
    return functools.cache(compiler.compile)


@pytest.fixture
def run_kernel(host, compile_once, make_program) -> RunKernel:
    def run(source, *arguments, grid=(1, 1, 1), block=(1, 1, 1), shared_bytes=0) -> None:
        word = "".join("p" if isinstance(argument, np.ndarray) else "v" for argument in arguments)
        program = make_program(source, word, grid, block, shared_bytes)
        named = {f"a{i}": argument for i, argument in enumerate(arguments)}
        arrays = {name: argument for name, argument in named.items() if isinstance(argument, np.ndarray)}
        values = {name: np.asarray(argument).tobytes() for name, argument in named.items() if name not in arrays}
        allocations = {name: host.allocate(array.nbytes) for name, array in arrays.items()}
        module = host.load(compile_once(program))
        try:
            for name, array in arrays.items():
                host.upload(allocations[name].address, array)
            addresses = {name: allocation.address for name, allocation in allocations.items()}
            module.bind(program.launches[0], addresses, values)(None)
            for name, array in arrays.items():
                host.download(array, allocations[name].address)
        finally:
            module.close()
            for allocation in allocations.values():
                host.free(allocation)

    return run
