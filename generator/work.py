"""What a program has to do at the least, and how long a device needs for that."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.device import Device


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """A lower bound, over all threads."""

    multiply_adds: int
    """In float32, a thread each."""
    loaded_bytes: int
    """That threads load from global memory, whatever cache they come from."""

    def least_ns(self, device: Device) -> float:
        """The time in ns below which no GPU of this kind can do it."""
        rates = device.rates
        return max(self.multiply_adds / rates.multiply_adds_per_ns, self.loaded_bytes / rates.shared_bytes_per_ns)
