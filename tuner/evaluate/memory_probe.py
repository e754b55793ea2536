"""Measures every level of a GPU's memory in a process of its own."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from warpsmith.devices.compiler import Compiler
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.memory_probe import WARM_UP, MemoryAccess, MemoryProbe
from warpsmith.tuner.evaluate.device_lock import DeviceLock, shared_device
from warpsmith.tuner.evaluate.probe import WARM_UP_S, run_apart, sampled
from warpsmith.workers.job import Job, WorkerState


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryRate:
    """The rate of one access, measured."""

    access: MemoryAccess
    bytes_per_ns: float
    """Bytes that the threads of the whole GPU ask for; longer strides move more."""
    clock_mhz: int | None
    """SM clock after the samples; None if it cannot be read."""

    @property
    def texels_per_ns(self) -> float | None:
        return self.access.texels_per_ns(self.bytes_per_ns)

    def bytes_per_cycle(self, device: Device) -> float:
        """Bytes per cycle per SM, at the clock that was read, else at the device's own."""
        cycles_per_ns = self.clock_mhz / 1000 if self.clock_mhz else device.rates.cycles_per_ns
        return self.bytes_per_ns / (device.multiprocessors * cycles_per_ns)

    def share(self, device: Device) -> float | None:
        """Measured rate over the data sheet's; None if no data sheet has it."""
        peak = self.access.peak_bytes_per_ns(device.rates)
        return None if peak is None else self.bytes_per_ns / peak


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryRates:
    """The rates of all accesses on one device, and the circumstances in which they were measured."""

    device: Device
    rates: tuple[MemoryRate, ...]
    driver: str
    compiler: str


@dataclasses.dataclass(frozen=True, slots=True)
class MeasureMemory(Job[MemoryRates]):
    """Measures the memory of a device while no other run of this user does."""

    device: DeviceRef
    lock_file: Path | None

    def run(self, state: WorkerState) -> MemoryRates:
        runtime = state.runtime = state.runtime or self.device.open()
        compiler = self.device.compiler()
        with DeviceLock(self.lock_file):
            rates = memory_rates(runtime, compiler, MemoryProbe.of(runtime.device))
        driver = runtime.environment().get("driver", "unknown")
        return MemoryRates(runtime.device, rates, driver, compiler.identity)


def memory_rates(
    runtime: Runtime, compiler: Compiler, memory: MemoryProbe, warm_up_s: float = WARM_UP_S
) -> tuple[MemoryRate, ...]:
    """Runs every kernel of a probe. Raises CompileError, LaunchError, OutOfMemory or DeviceError."""
    samples = sampled(runtime, compiler, memory.probe, WARM_UP, warm_up_s)
    return tuple(
        MemoryRate(
            memory.accesses[each.name],
            each.ceiling_of(samples[each.name].median_ns),
            samples[each.name].clock_mhz,
        )
        for each in memory.probe.kernels
    )


def measure_memory(ref: DeviceRef) -> MemoryRates:
    """Measures the memory of a GPU.

    Raises:
        BadArgument: the device is the host.
        DeviceError: the device is not there, or cannot be measured; the message says why.
    """
    if ref.kind is DeviceKind.HOST:
        raise BadArgument("a CPU has none of a GPU's memories: name a GPU, such as --device cuda:0")
    ref.device()  # a device that is not there is named without a worker
    with shared_device(ref) as lock_file:
        return run_apart(MeasureMemory(ref, lock_file), f"the memories of {ref}")
