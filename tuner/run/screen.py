"""Screen that drops candidates before they run, by what is known of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from warpsmith.devices.compiler import Binaries, Usage
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.space import Config
from warpsmith.store.record import Failure, FailureKind
from warpsmith.tuner.faults import Faults, Part

MAX_SPILL_BYTES = 64
"""Bytes of spilled registers per thread above which a candidate is dropped. Of 399 candidates that spilled more, over
22 filters of 2x2 to 15x15 on an H200, the best took 1.40 times as long as the fastest without; of 232 that spilled
less, 1.12 times.
"""
MIN_WARPS = 8
"""Resident warps per SM, two for each of its schedulers, below which a candidate is dropped. Of 47 candidates with
fewer, the best took 1.92 times as long as the fastest; some with exactly 8 win.
"""
HOPELESS, LONG_NS = 4.0, 3e5
"""Ratio to the best (or expected) time, and ns: a spared candidate is dropped if its work alone takes longer than both.
In a search of 3 s for the weight gradient of 128x128 filters of 9x9 (H200), the defaults of two families at 180 and 800
times the best time took 2 s. In one of 1.5 s for 256x384 filters of 3x3, the default of a family whose work takes 0.4
ms took 25 ms, and the config that would have been the fastest had no turn.
"""
_NOT_AGAIN = "not run again: "
_WARP = 32
_REGISTERS_AT_ONCE = 256
"""Registers are allocated to a warp in units of this size (CUDA occupancy calculator, compute capability 7.0 to
9.0).
"""
_WARPS_AT_ONCE = 4
"""Resident warps per SM come in units of this size, one per scheduler (same source)."""
_MOST_BLOCKS = 32
"""Largest number of resident blocks per SM (CUDA C++ Programming Guide, technical specifications per compute
capability).
"""
_FEWER_BLOCKS = {(7, 5): 16, (8, 6): 16, (8, 9): 24}
"""Smaller limits of resident blocks, by compute capability (same source)."""
_RESERVED_SHARED = 1024
"""Bytes of shared memory that the system reserves per block (CUDA C++ Programming Guide, from 8.0 on)."""


class Screen:
    """Drops poisoned candidates and, once one is right, those that cannot be the fastest.

    Args:
        problem: problem that candidates solve.
        device: device that they run on. On the host only poisoned ones are dropped: GPU limits do not apply there.
        families: families by name.
        poisoned: failures of programs that crashed or hung the device before, by fingerprint.
        drops: drop candidates that cannot win.
        spared: families and configs that run even if they cannot win, unless they are poisoned or HOPELESS: a winner is
            compared with them.
        expected_ns: expected best time, in ns; infinite if unknown.
        likely_ns: shortest time, in ns, that a family's model expects of its default; infinite if there is no model.
        faults: collects families that cannot estimate the work of their programs.
    """

    def __init__(
        self,
        problem: Problem,
        device: Device,
        families: Mapping[str, Family],
        poisoned: Mapping[str, Failure],
        *,
        drops: bool,
        spared: Collection[tuple[str, Config]] = (),
        expected_ns: float = math.inf,
        likely_ns: float = math.inf,
        faults: Faults | None = None,
    ) -> None:
        self._faults = Faults() if faults is None else faults
        self._problem, self._device, self._families, self._poisoned = problem, device, families, poisoned
        self._spared = spared
        self._drops = drops and device.kind is DeviceKind.CUDA
        self._best_ns, self._expected_ns, self._likely_ns = math.inf, expected_ns, likely_ns

    def expect(self, best_ns: float) -> None:
        """Sets the best time so far."""
        self._best_ns = best_ns

    def of_program(self, program: Program, fingerprint: str) -> Failure | None:
        """Reason not to compile a candidate; None if there is none."""
        if (poison := self._poisoned.get(fingerprint)) is not None:
            return Failure(poison.kind, _NOT_AGAIN + poison.message.removeprefix(_NOT_AGAIN))
        return self.of_work(program)

    def of_work(self, program: Program) -> Failure | None:
        """Reason why the work of a candidate rules it out as the fastest; None if there is none."""
        best_ns = min(self._best_ns, self._expected_ns)
        limit_ns = self._best_ns if self._may_drop(program) else max(HOPELESS * best_ns, LONG_NS)
        if not self._drops or limit_ns == math.inf:
            return None
        least_ns = self._least_ns(program)
        if least_ns <= limit_ns:
            return None
        least = f"its work takes {least_ns / 1e3:.1f} us at the least"
        if self._best_ns < math.inf:
            return Failure(FailureKind.DROPPED, f"{least}, the best so far {self._best_ns / 1e3:.1f} us")
        return Failure(FailureKind.DROPPED, f"{least}, the best about {self._expected_ns / 1e3:.1f} us by its stages")

    def should_wait(self, program: Program) -> bool:
        """True if a candidate should run after all others.

        This is the case while nothing has a time yet, if the candidate's work alone takes HOPELESS times as long as
        another family's model expects. The plain kernel of a layer of 5 TFLOP compiles first, and its verification and
        samples would take a minute (H200). That family's model may be wrong, so the candidate is not dropped.
        """
        if not self._drops or self._best_ns < math.inf or self._likely_ns == math.inf:
            return False
        return self._least_ns(program) > max(HOPELESS * self._likely_ns, LONG_NS)

    def _least_ns(self, program: Program) -> float:
        """Lower bound of the time of a program's work; 0 if its family cannot estimate it."""
        try:
            work = self._families[program.family].work(self._problem, program.config)
        except Exception as error:
            self._faults.add(Part.FAMILY, program.family, error)
            return 0.0
        return 0.0 if work is None else work.least_ns(self._device)

    def of_binaries(self, program: Program, binaries: Binaries) -> Failure | None:
        """Reason not to run a compiled candidate; None if there is none.

        The limits were measured on programs of one launch. In a program of several launches it is unknown which one
        takes the time, so it is dropped only if every launch exceeds a limit. Nothing is known of a library's work.
        """
        if not self._may_drop(program):
            return None
        reasons = [self._of_launch(each, binaries[each.unit].usage(each.entry)) for each in program.launches]
        if program.calls or None in reasons:
            return None
        return next((Failure(FailureKind.DROPPED, reason) for reason in reasons if reason), None)

    def _of_launch(self, launch: Launch, usage: Usage) -> str | None:
        if (usage.spill_bytes or 0) > MAX_SPILL_BYTES:
            return f"each thread spills {usage.spill_bytes} bytes of registers"
        warps = resident_warps(launch, usage, self._device)
        return f"a multiprocessor holds {warps} of its warps at once" if warps < MIN_WARPS else None

    def _may_drop(self, program: Program) -> bool:
        return self._drops and self._best_ns < math.inf and (program.family, program.config) not in self._spared


def resident_warps(launch: Launch, usage: Usage, device: Device) -> int:
    """Warps of a launch that are resident on one SM. Unknown properties of its kernel do not limit them."""
    warps = math.ceil(math.prod(launch.block) / _WARP)
    blocks = _FEWER_BLOCKS.get(device.compute_capability, _MOST_BLOCKS)
    fitting = [blocks, device.threads_per_multiprocessor // (warps * _WARP)]
    if usage.registers:
        registers = math.ceil(usage.registers * _WARP / _REGISTERS_AT_ONCE) * _REGISTERS_AT_ONCE
        resident = device.registers_per_multiprocessor // registers // _WARPS_AT_ONCE * _WARPS_AT_ONCE
        fitting.append(resident // warps)
    shared = (usage.shared_bytes or 0) + launch.shared_bytes + _RESERVED_SHARED
    fitting.append(device.shared_per_multiprocessor_bytes // shared)
    return min(fitting) * warps
