"""The micro-kernels of all memories, run by the host's compiler."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest

from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.generator.memory_probe import ACCESSES, MemoryProbe
from warpsmith.generator.probe import DATA
from warpsmith.tuner.evaluate import probe as evaluation
from warpsmith.tuner.evaluate.memory_probe import memory_rates


@pytest.fixture(scope="module")
def runtime() -> Iterator[HostRuntime]:
    with contextlib.closing(HostRuntime()) as opened:
        yield opened


@pytest.fixture(scope="module")
def memory(runtime: HostRuntime) -> MemoryProbe:
    small = dataclasses.replace(
        runtime.device, multiprocessors=1, threads_per_multiprocessor=512, memory_bytes=2**23, l2_bytes=0
    )
    return MemoryProbe.of(small, loops=1)


def test_every_kernel_runs(runtime: HostRuntime, memory: MemoryProbe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "SAMPLES", 1)
    rates = memory_rates(runtime, HostCompiler(), memory, warm_up_s=0.0)
    assert [rate.access for rate in rates] == list(ACCESSES)
    assert min(rate.bytes_per_ns for rate in rates) > 0


def test_kernels_move_what_is_counted(runtime: HostRuntime, memory: MemoryProbe) -> None:
    """Each word of the data is its own index. Copies and writes leave as many words changed as they claim."""
    module = runtime.load(HostCompiler().compile(memory.probe.program.compilation()))
    numbers = np.arange(memory.probe.data_bytes // 4, dtype=np.float32)
    allocation = runtime.allocate(numbers.nbytes)
    try:
        for kernel in memory.probe.kernels:
            runtime.upload(allocation.address, numbers)
            module.bind(kernel.launch, {DATA: allocation.address}, {})(None)
            after = np.empty_like(numbers)
            runtime.download(after, allocation.address)
            expected, words = numbers.copy(), int(kernel.work) // 4
            if kernel.name.startswith("copy"):
                expected[words // 2 : words] = numbers[: words // 2]
            if kernel.name.startswith("write"):
                access = memory.accesses[kernel.name]
                first = numbers[: 512 * access.loads * access.width_bytes // 4]  # what 512 threads read before
                expected[:words] = np.resize(first, words)
            np.testing.assert_array_equal(after, expected, kernel.name)
    finally:
        runtime.free(allocation)
        module.close()
