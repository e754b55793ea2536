"""NVIDIA's architectures as data: limits, throughput and features by compute capability.

Adding a GPU is adding a row here (docs/guide/adding-a-gpu.md). A compute capability without a row has those of the
nearest lower one. Limits: CUDA programming guide, "Technical Specifications per Compute Capability"; float32 lanes: its
table "Throughput of Native Arithmetic Instructions". What NVIDIA does not publish says so beside the number.
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
"""Shared memory that a kernel may declare on every architecture; a launch must ask for more."""
THREAD_REGISTERS = 255
"""Registers that a thread may have on every architecture since compute capability 3.5."""


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """The most that a thread, a block and a multiprocessor may have."""

    shared_per_block_bytes: int
    shared_per_multiprocessor_bytes: int
    threads_per_multiprocessor: int
    blocks_per_multiprocessor: int
    reserved_shared_bytes: int = KIB
    """Shared memory of each block that the driver takes, beside the block's own."""
    static_shared_bytes: int = STATIC_SHARED_BYTES
    registers_per_thread: int = THREAD_REGISTERS
    registers_per_multiprocessor: int = 64 * KIB
    threads_per_block: int = 1024

    @classmethod
    def of(cls, shared_kib: int, threads: int, blocks: int) -> Limits:
        """Limits of an architecture whose driver takes 1 KiB of a multiprocessor's shared memory for each block."""
        return cls((shared_kib - 1) * KIB, shared_kib * KIB, threads, blocks)


@dataclasses.dataclass(frozen=True, slots=True)
class Architecture:
    """What all GPUs of one compute capability have in common."""

    limits: Limits
    multiply_adds_per_cycle: int
    """float32 multiply-adds of a multiprocessor."""
    l2_bytes_per_cycle: float
    """Bytes that a multiprocessor reads from L2 while all read. NVIDIA publishes it for 8.0 alone: 5120 for 108."""
    memory_bits_per_l2_mib: float
    """Width of the memory interface in bits for each MiB of L2: both come in the same partitions of a chip."""
    shared_bytes_per_cycle: int = 128
    """Bytes that a multiprocessor reads from shared memory, or from L1."""


def nearest(rows: Mapping[Capability, RowT], capability: Capability) -> RowT | None:
    """The row of the highest compute capability up to `capability`; None where all rows are of higher ones."""
    known = max((each for each in rows if each <= capability), default=None)
    return None if known is None else rows[known]


ARCHITECTURES: Mapping[Capability, Architecture] = {
    # limits (shared KiB, threads, blocks of a multiprocessor), float32 lanes, L2 bytes per cycle, memory bits per MiB
    # TU104: 16 slices of L2, 64 bytes each, an estimate; shared memory and L1 deliver 64 bytes.
    (7, 5): Architecture(Limits(64 * KIB, 64 * KIB, 1024, 16, reserved_shared_bytes=0), 64, 25.6, 64, 64),
    (8, 0): Architecture(Limits.of(164, 2048, 32), 64, 5120 / 108, 128),
    # GA102: 48 slices of L2, 64 bytes each, an estimate; Orin as that.
    (8, 6): Architecture(Limits.of(100, 1536, 16), 128, 36.6, 64),
    (8, 7): Architecture(Limits.of(164, 1536, 16), 128, 36.6, 64),
    # Ada and GeForce Blackwell: large and slow L2, an estimate. The 4090 has 384 bits for 72 MiB, the L40S for 96.
    (8, 9): Architecture(Limits.of(100, 1536, 24), 128, 20.0, 16 / 3),
    # As many slices as 8.0 for 132 multiprocessors; the H100 has 5120 bits for 50 MiB, the H200 6144 for 60.
    (9, 0): Architecture(Limits.of(228, 2048, 32), 128, 5120 / 132, 102.4),
    # L2 of 10.0 to 11.0: an estimate, as of 9.0. 8192 bits for 126 MiB; Thor has 256 for 32.
    (10, 0): Architecture(Limits.of(228, 2048, 32), 128, 5120 / 132, 8192 / 126),
    (10, 3): Architecture(Limits.of(228, 2048, 32), 128, 5120 / 132, 8192 / 126),
    (11, 0): Architecture(Limits.of(228, 1536, 24), 128, 5120 / 132, 8),
    (12, 0): Architecture(Limits.of(100, 1536, 24), 128, 20.0, 16 / 3),
    # GB10: LPDDR5X of 256 bits for 24 MiB.
    (12, 1): Architecture(Limits.of(100, 1536, 24), 128, 20.0, 32 / 3),
}


def architecture_of(capability: Capability) -> Architecture:
    """The architecture's row, or that of the nearest lower one known; the lowest of all for those below it."""
    found = nearest(ARCHITECTURES, capability)
    return ARCHITECTURES[min(ARCHITECTURES)] if found is None else found


@dataclasses.dataclass(frozen=True, slots=True)
class Feature:
    """Something that devices have from one compute capability on, and maybe up to another."""

    what: str
    """It, as the end of "needs compute capability 8.0, which has ..."."""
    first: Capability
    last: Capability | None = None

    def is_in(self, capability: Capability) -> bool:
        """Whether devices of a compute capability have it."""
        return self.first <= capability and (self.last is None or capability <= self.last)

    @property
    def why_not(self) -> str:
        """Why a device without it cannot run what needs it, in one line."""
        newer = " or newer" if self.last is None else ""
        return f"needs compute capability {self.first[0]}.{self.first[1]}{newer}, which has {self.what}"


ASYNC_COPIES = Feature("asynchronous copies to shared memory (cp.async)", (8, 0))
PAIR_CONVERSIONS = Feature("conversions of two float32 numbers at once (cvt.f16x2.f32)", (8, 0))
BULK_COPIES = Feature("bulk copies to shared memory (cp.async.bulk)", (9, 0))
