"""Lower bounds on the work of a program, and on its time on a device."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.device import Device

_LANES = 128
"""float32 multiply-adds per clock of an SM, compute capability 8.6 to 9.0 (CUDA C++ Programming Guide, throughput of
native arithmetic instructions)."""
_L1_BYTES = 128
"""Bytes per clock that an SM loads through its L1 cache."""


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """Lower bound on a program's work, summed over all threads."""

    multiply_adds: int
    """float32 multiply-adds, counted once per thread."""
    loaded_bytes: int
    """Bytes that threads load from global memory, through any cache."""

    def least_ns(self, device: Device) -> float:
        """Nanoseconds below which no GPU of this kind can do the work."""
        cycles = max(self.multiply_adds / _LANES, self.loaded_bytes / _L1_BYTES) / device.multiprocessors
        return cycles / device.clock_mhz * 1e3
