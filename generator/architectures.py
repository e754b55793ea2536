"""NVIDIA's architectures as data: limits, throughput and features by compute capability.

A new GPU is a new row here (docs/guide/adding-a-gpu.md). A compute capability without a row has the row of the nearest
lower one. Source of limits: CUDA programming guide, "Technical Specifications per Compute Capability"; of float32
lanes: its table "Throughput of Native Arithmetic Instructions". A comment marks each number that NVIDIA does not
publish.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TypeVar

Capability = tuple[int, int]
"""A compute capability, such as (9, 0)."""
RowT = TypeVar("RowT")

KIB = 1024
STATIC_SHARED_BYTES = 48 * KIB
"""Most static shared memory of a kernel on every architecture; a kernel with more needs dynamic shared memory."""
THREAD_REGISTERS = 255
"""Most registers of a thread on every architecture since compute capability 3.5."""
PARAMETER_BYTES = 32764
"""Bytes of the largest kernel parameter block on compute capability 7.0 and later (CUDA programming guide, function
parameters)."""
MAX_GRID = 2**31 - 1
"""Most blocks along the first axis of a grid."""


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Limits per thread, per block and per SM."""

    shared_per_block_bytes: int
    shared_per_multiprocessor_bytes: int
    threads_per_multiprocessor: int
    blocks_per_multiprocessor: int
    reserved_shared_bytes: int = KIB
    """Bytes of an SM's shared memory that the driver takes for each resident block, besides the block's own."""
    static_shared_bytes: int = STATIC_SHARED_BYTES
    registers_per_thread: int = THREAD_REGISTERS
    registers_per_multiprocessor: int = 64 * KIB
    threads_per_block: int = 1024

    @classmethod
    def of(cls, shared_kib: int, threads: int, blocks: int) -> Limits:
        """Limits of an architecture whose driver takes 1 KiB of an SM's shared memory for each block."""
        return cls((shared_kib - 1) * KIB, shared_kib * KIB, threads, blocks)


@dataclasses.dataclass(frozen=True, slots=True)
class Architecture:
    """Properties that all GPUs of one compute capability share."""

    limits: Limits
    multiply_adds_per_cycle: int
    """float32 multiply-adds per cycle per SM."""
    l2_bytes_per_cycle: float
    """L2 bytes per cycle per SM while all SMs read. NVIDIA publishes it for 8.0 alone: 5120 for 108 SMs."""
    memory_bits_per_l2_mib: float
    """Bits of the memory interface per MiB of L2: both come in the same partitions of a chip."""
    shared_bytes_per_cycle: int = 128
    """Bytes per cycle per SM from shared memory or L1."""


def nearest(rows: Mapping[Capability, RowT], capability: Capability) -> RowT | None:
    """The row of the highest compute capability up to `capability`; None if all rows have higher ones."""
    known = max((each for each in rows if each <= capability), default=None)
    return None if known is None else rows[known]


ARCHITECTURES: Mapping[Capability, Architecture] = {
    # limits (shared KiB, threads and blocks per SM), float32 lanes, L2 bytes per cycle, memory bits per MiB of L2
    # TU104: 16 slices of L2, 64 bytes each, an estimate; shared memory and L1 deliver 64 bytes per cycle.
    (7, 5): Architecture(Limits(64 * KIB, 64 * KIB, 1024, 16, reserved_shared_bytes=0), 64, 25.6, 64, 64),
    (8, 0): Architecture(Limits.of(164, 2048, 32), 64, 5120 / 108, 128),
    # GA102: 48 slices of L2, 64 bytes each, an estimate; Orin has the same values.
    (8, 6): Architecture(Limits.of(100, 1536, 16), 128, 36.6, 64),
    (8, 7): Architecture(Limits.of(164, 1536, 16), 128, 36.6, 64),
    # Ada and GeForce Blackwell: large and slow L2, an estimate. The 4090 has 384 bits for 72 MiB, the L40S for 96.
    (8, 9): Architecture(Limits.of(100, 1536, 24), 128, 20.0, 16 / 3),
    # Slices as on 8.0, for 132 SMs; the H100 has 5120 bits for 50 MiB, the H200 6144 for 60.
    (9, 0): Architecture(Limits.of(228, 2048, 32), 128, 5120 / 132, 102.4),
    # L2 rate of 10.0 to 11.0: an estimate, that of 9.0. 8192 bits for 126 MiB; Thor has 256 for 32.
    (10, 0): Architecture(Limits.of(228, 2048, 32), 128, 5120 / 132, 8192 / 126),
    (10, 3): Architecture(Limits.of(228, 2048, 32), 128, 5120 / 132, 8192 / 126),
    (11, 0): Architecture(Limits.of(228, 1536, 24), 128, 5120 / 132, 8),
    (12, 0): Architecture(Limits.of(100, 1536, 24), 128, 20.0, 16 / 3),
    # GB10: LPDDR5X of 256 bits for 24 MiB.
    (12, 1): Architecture(Limits.of(100, 1536, 24), 128, 20.0, 32 / 3),
}


def architecture_of(capability: Capability) -> Architecture:
    """The row of a compute capability, or of the nearest lower one; the lowest row for all capabilities below it."""
    found = nearest(ARCHITECTURES, capability)
    return ARCHITECTURES[min(ARCHITECTURES)] if found is None else found


@dataclasses.dataclass(frozen=True, slots=True)
class Feature:
    """A feature of devices from compute capability `first` on; up to `last`, if that is not None."""

    what: str
    """Name of the feature, as the end of "needs compute capability 8.0, which has ..."."""
    first: Capability
    last: Capability | None = None

    def is_in(self, capability: Capability) -> bool:
        """True if devices of a compute capability have the feature."""
        return self.first <= capability and (self.last is None or capability <= self.last)

    @property
    def why_not(self) -> str:
        """The reason, in one line, that a family gives for a device without the feature."""
        newer = " or newer" if self.last is None else ""
        return f"needs compute capability {self.first[0]}.{self.first[1]}{newer}, which has {self.what}"


ASYNC_COPIES = Feature("asynchronous copies to shared memory (cp.async)", (8, 0))
PAIR_CONVERSIONS = Feature("conversions of two float32 numbers at once (cvt.f16x2.f32)", (8, 0))
BULK_COPIES = Feature("bulk copies to shared memory (cp.async.bulk)", (9, 0))
