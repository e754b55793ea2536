"""The micro-kernels of a probe, run by the host's compiler, with all tensor instructions emulated."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest

from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.generator.probe import DATA, Probe
from warpsmith.tuner.evaluate import probe as evaluation
from warpsmith.tuner.evaluate.probe import measured


@pytest.fixture
def runtime() -> Iterator[HostRuntime]:
    with contextlib.closing(HostRuntime()) as opened:
        yield opened


@pytest.fixture
def probe(runtime: HostRuntime) -> Probe:
    small = dataclasses.replace(runtime.device, multiprocessors=1, memory_bytes=2**23, l2_bytes=0)
    return Probe.of(small, loops=1)


def test_every_kernel_runs(runtime: HostRuntime, probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "SAMPLES", 1)
    found = measured(runtime, HostCompiler(), probe, warm_up_s=0.0).spec()
    assert found.keys() == {each.name for each in probe.kernels}
    assert len(found) == 11
    assert min(found.values()) > 0


def test_the_copy_moves_what_is_counted(runtime: HostRuntime, probe: Probe) -> None:
    (copy,) = (each for each in probe.kernels if each.name == "memory_bytes_per_ns")
    module = runtime.load(HostCompiler().compile(probe.program.compilation()))
    numbers = np.arange(probe.data_bytes // 4, dtype=np.float32)
    allocation = runtime.allocate(numbers.nbytes)
    try:
        runtime.upload(allocation.address, numbers)
        module.bind(copy.launch, {DATA: allocation.address}, {})(None)
        after = np.empty_like(numbers)
        runtime.download(after, allocation.address)
    finally:
        runtime.free(allocation)
    half = int(copy.work) // 8  # half of the bytes are read, half are written
    np.testing.assert_array_equal(after[: 2 * half], np.tile(numbers[:half], 2))
    np.testing.assert_array_equal(after[2 * half :], numbers[2 * half :])
