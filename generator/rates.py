"""Data-sheet rates of a whole device per ns, which the cost models of the families use.

A model never uses a data-sheet rate as it is. It multiplies the rate by the share that its kernels reach: the rate
measured on the reference GPU over the reference's data-sheet rate, `SHARE = 2500 / REFERENCE.memory_bytes_per_ns`.
Latencies are clock cycles, since they scale with the clock; `cycles_ns` converts them to ns.
"""

from __future__ import annotations

import dataclasses

from warpsmith.generator.architectures import Capability, architecture_of
from warpsmith.generator.tensor_cores import TensorInstruction

LAUNCH_NS = 2500.0
"""Nanoseconds of a launch whose predecessor has to end first, until its blocks run (measured, H200)."""
_USUAL_CLOCK_MHZ, _USUAL_MEMORY_CLOCK_MHZ = 2000, 3200
"""Clocks of a device that reports none: the host, and some integrated GPUs."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rates:
    """Rates of a whole device per ns at its boost clock."""

    capability: Capability
    multiprocessors: int
    cycles_per_ns: float
    memory_bytes_per_ns: float
    """Bytes per ns between memory and L2."""
    l2_bytes_per_ns: float
    """Bytes per ns from L2 to all SMs."""
    shared_bytes_per_ns: float
    """Bytes per ns from the shared memory, or the L1, of all SMs."""
    multiply_adds_per_ns: float
    """float32 multiply-adds per ns."""
    launch_ns: float = LAUNCH_NS

    @classmethod
    def of(
        cls, capability: Capability, multiprocessors: int, clock_mhz: float, memory_clock_mhz: float, l2_bytes: int
    ) -> Rates:
        """Rates of a device from its architecture, clocks (0: the usual ones) and sizes."""
        architecture = architecture_of(capability)
        cycles_per_ns = (clock_mhz or _USUAL_CLOCK_MHZ) / 1000
        cycles = multiprocessors * cycles_per_ns
        transfers_per_ns = 2 * (memory_clock_mhz or _USUAL_MEMORY_CLOCK_MHZ) / 1000
        memory_bits = architecture.memory_bits_per_l2_mib * l2_bytes / 2**20
        return cls(
            capability=capability,
            multiprocessors=multiprocessors,
            cycles_per_ns=cycles_per_ns,
            memory_bytes_per_ns=transfers_per_ns * memory_bits / 8,
            l2_bytes_per_ns=architecture.l2_bytes_per_cycle * cycles,
            shared_bytes_per_ns=architecture.shared_bytes_per_cycle * cycles,
            multiply_adds_per_ns=architecture.multiply_adds_per_cycle * cycles,
        )

    def tensor_multiply_adds_per_ns(self, instruction: TensorInstruction) -> float:
        """Multiply-adds per ns by one tensor-core instruction; 0 if the device lacks it."""
        return instruction.per_cycle(self.capability) * self.multiprocessors * self.cycles_per_ns

    def cycles_ns(self, cycles: float) -> float:
        """Nanoseconds of `cycles` clock cycles."""
        return cycles / self.cycles_per_ns

    @property
    def cycle_ratio(self) -> float:
        """Length of a clock cycle relative to the reference's, by which measured latencies scale."""
        return REFERENCE.cycles_per_ns / self.cycles_per_ns

    def of_multiprocessor(self, clock_share: float = 1.0) -> Rates:
        """Rates of one SM while all are busy, at a share of the boost clock.

        Memory has a clock of its own, and each SM gets an equal part of its rate.
        """
        part = clock_share / self.multiprocessors
        return dataclasses.replace(
            self,
            multiprocessors=1,
            cycles_per_ns=self.cycles_per_ns * clock_share,
            memory_bytes_per_ns=self.memory_bytes_per_ns / self.multiprocessors,
            l2_bytes_per_ns=self.l2_bytes_per_ns * part,
            shared_bytes_per_ns=self.shared_bytes_per_ns * part,
            multiply_adds_per_ns=self.multiply_adds_per_ns * part,
        )


REFERENCE = Rates.of((9, 0), multiprocessors=132, clock_mhz=1980, memory_clock_mhz=3201, l2_bytes=60 * 2**20)
"""Rates of the H200 on which the models' figures were measured: the denominator of every measured share. The meaning of
a config depends on no device, so these rates also rank what all devices must agree on, such as sizes of Fourier
tiles."""
