"""What a program has to do at the least, and how long a device needs for that."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.device import Device

_LANES = 128
"""float32 multiply-adds that a multiprocessor does in a cycle, compute capability 8.6 to 9.0 (CUDA C++ Programming
Guide, throughput of native arithmetic instructions)."""
_L1_BYTES = 128
"""That a multiprocessor loads through its L1 cache in a cycle."""


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """A lower bound, over all threads."""

    multiply_adds: int
    """In float32, a thread each."""
    loaded_bytes: int
    """That threads load from global memory, whatever cache they come from."""

    def least_ns(self, device: Device) -> float:
        """The time in ns below which no GPU of this kind can do it."""
        cycles = max(self.multiply_adds / _LANES, self.loaded_bytes / _L1_BYTES) / device.multiprocessors
        return cycles / device.clock_mhz * 1e3
