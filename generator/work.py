"""Lower bounds on the work of a program, and on its time on a device."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.device import Device


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """Lower bound on a program's work, summed over all threads."""

    multiply_adds: int
    """float32 multiply-adds, counted once per thread."""
    loaded_bytes: int
    """Bytes that threads load from global memory, through any cache."""

    def least_ns(self, device: Device) -> float:
        """Nanoseconds below which no GPU of this kind can do the work."""
        rates = device.rates
        return max(self.multiply_adds / rates.multiply_adds_per_ns, self.loaded_bytes / rates.shared_bytes_per_ns)
