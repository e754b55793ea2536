"""Measures a GPU's ceilings in a process of its own, and stores them beside the device."""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
import time
import warnings
from pathlib import Path
from typing import TypeVar

import numpy as np

from warpsmith.devices.compiler import Compiler
from warpsmith.devices.module import Module
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument, DeviceError, StoreError, WarpsmithError, one_line
from warpsmith.generator.ceilings import Ceilings
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.probe import DATA, Microkernel, Probe
from warpsmith.store.ceilings import StoredCeilings
from warpsmith.store.rows import now
from warpsmith.store.store import Store
from warpsmith.store.store_chain import open_beside
from warpsmith.tuner.evaluate.device_lock import DeviceLock, shared_device
from warpsmith.workers.job import Job, WorkerState
from warpsmith.workers.worker import DeadlinePassed, Worker, WorkerDied

DEADLINE_S = 60.0
"""Seconds for a probe, which takes 3: starting the drivers of many GPUs, or waiting for another run, takes longer."""
WARM_UP_S, SAMPLES = 0.5, 15
"""Seconds of arithmetic before the first sample, since an idle GPU's clocks are low; and samples of each kernel."""
_PATTERN_WORDS = 2**20
ResultT = TypeVar("ResultT")
CLOCK = "multiply_adds_per_ns"
"""Ceiling after whose samples the clock is read: float32 arithmetic stays within the power limit of most GPUs."""


class NotMeasured(UserWarning):
    """The ceilings of a device could not be measured, or some are not used: models use its data-sheet rates."""


@dataclasses.dataclass(frozen=True, slots=True)
class MeasureCeilings(Job[StoredCeilings]):
    """Measures the ceilings of a device while no other run of this user does."""

    device: DeviceRef
    lock_file: Path | None

    def run(self, state: WorkerState) -> StoredCeilings:
        runtime = state.runtime = state.runtime or self.device.open()
        compiler = self.device.compiler()
        probe = Probe.of(runtime.device)
        with DeviceLock(self.lock_file):
            ceilings = measured(runtime, compiler, probe)
        driver = runtime.environment().get("driver", "unknown")
        return StoredCeilings(ceilings, now(), driver, compiler.identity)


def measured(runtime: Runtime, compiler: Compiler, probe: Probe, warm_up_s: float = WARM_UP_S) -> Ceilings:
    """Runs every kernel of a probe and returns the ceilings.

    Raises CompileError, LaunchError, OutOfMemory or DeviceError.
    """
    samples = sampled(runtime, compiler, probe, CLOCK, warm_up_s)
    found = {each.name: each.ceiling_of(samples[each.name].median_ns) for each in probe.kernels}
    if clock_mhz := samples[CLOCK].clock_mhz:
        found["clock_mhz"] = clock_mhz
    return Ceilings(**found)


@dataclasses.dataclass(frozen=True, slots=True)
class Sampled:
    """What the samples of one kernel gave."""

    median_ns: float
    clock_mhz: int | None
    """SM clock after the last sample; None if it cannot be read."""


def sampled(
    runtime: Runtime, compiler: Compiler, probe: Probe, warm_up: str, warm_up_s: float = WARM_UP_S
) -> dict[str, Sampled]:
    """Runs every kernel of a probe, after the kernel `warm_up` has run for a while. The result is by kernel name.

    Raises CompileError, LaunchError, OutOfMemory or DeviceError.
    """
    module = runtime.load(compiler.compile(probe.program.compilation()))
    allocation = runtime.allocate(probe.data_bytes)
    try:
        _fill(runtime, allocation.address, probe.data_bytes)
        stopwatches = {each.name: _Stopwatch(runtime, module, each, allocation.address) for each in probe.kernels}
        end = time.monotonic() + warm_up_s
        while time.monotonic() < end:
            stopwatches[warm_up].sample_ns()
        return {name: Sampled(each.median_ns(), runtime.clock_mhz()) for name, each in stopwatches.items()}
    finally:
        runtime.free(allocation)
        module.close()


def _fill(runtime: Runtime, address: int, nbytes: int) -> None:
    """Fills memory with random float32 numbers, which repeat after a few MiB: zeros cost less power, and run faster."""
    numbers = np.random.default_rng(0).uniform(0.1, 0.9, min(_PATTERN_WORDS, nbytes // 4)).astype(np.float32)
    runtime.upload(address, numbers)
    filled = numbers.nbytes
    while filled < nbytes:
        runtime.copy(address + filled, address, min(filled, nbytes - filled))
        filled *= 2


class _Stopwatch:
    """Takes samples of one kernel."""

    def __init__(self, runtime: Runtime, module: Module, kernel: Microkernel, address: int) -> None:
        self.kernel = kernel
        self._runtime = runtime
        self._run = module.bind(kernel.launch, {DATA: address}, {})

    def sample_ns(self) -> float:
        return self._runtime.elapsed_ns(self._launches)

    def median_ns(self) -> float:
        """Median of SAMPLES samples; the first one loads the kernel's code, and is dropped."""
        return statistics.median([self.sample_ns() for _ in range(1 + SAMPLES)][1:])

    def _launches(self) -> None:
        for _ in range(self.kernel.launches):
            self._run(None)


def measurable_device(ref: DeviceRef) -> Device:
    """The GPU that a reference names. Raises BadArgument for the host, and DeviceError if the GPU is not there."""
    if ref.kind is DeviceKind.HOST:
        raise BadArgument(
            "a CPU has no ceilings, since no model expects its times: name a GPU, such as --device cuda:0"
        )
    return ref.device()


def probe_device(ref: DeviceRef, store: Store, *, again: bool = False) -> tuple[Device, StoredCeilings, bool]:
    """The device with its ceilings, what is stored of them, and whether they were measured now.

    Stored ceilings, also those of the user's other stores, are measured again only with `again`.

    Raises:
        BadArgument: the device is the host.
        DeviceError: the device is not there, or cannot be measured; the message says why.
        StoreError: the store failed.
    """
    device, stored = measurable_device(ref), None
    if not again:
        with open_beside(store) as stores:
            stored = stores.ceilings(device)
    is_new = stored is None
    if stored is None:
        with shared_device(ref) as lock_file:
            stored = run_apart(MeasureCeilings(ref, lock_file), f"the ceilings of {ref}")
        store.put_ceilings(device, stored)
    return dataclasses.replace(device, ceilings=stored.ceilings), stored, is_new


def probe_before_search(ref: DeviceRef, store: Store) -> None:
    """Measures a GPU that has no stored ceilings. A failure is a warning, a NotMeasured, and ends no search.

    Raises StoreError if the store failed.
    """
    if ref.kind is DeviceKind.HOST:
        return
    try:
        device, _, is_new = probe_device(ref, store)
    except StoreError:
        raise
    except WarpsmithError as error:
        warnings.warn(f"{one_line(error)}; models use the data sheet's rates", NotMeasured, stacklevel=2)
        return
    if is_new and (refusals := [figure.refusal for figure in device.figures if figure.refusal]):
        warnings.warn("; ".join(refusals), NotMeasured, stacklevel=2)


def run_apart(job: Job[ResultT], what: str) -> ResultT:
    """Measures in a worker process, which a broken driver may kill or hang.

    Raises DeviceError for any failure; the message begins with `what`, a plural.
    """
    with contextlib.closing(Worker()) as worker:
        try:
            return worker.call(job, DEADLINE_S)
        except (WarpsmithError, WorkerDied, DeadlinePassed) as error:
            raise DeviceError(f"{what} could not be measured: {one_line(error)}") from None
