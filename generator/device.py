"""What the generator knows of a device: plain numbers, so that no test needs a GPU."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

STATIC_SHARED_BYTES = 48 * 1024
"""Shared memory that a kernel may declare; more it must ask for (CUDA programming guide, technical specifications)."""


class DeviceKind(enum.StrEnum):
    """How a device runs a program."""

    CUDA = "cuda"
    """An NVIDIA GPU."""
    HOST = "host"
    """The CPU, running the same CUDA text through the host's C++ compiler."""


MOST_REGISTERS = 255
"""Of a thread."""


@dataclasses.dataclass(frozen=True, slots=True)
class Device:
    """One device, as plain data. Sizes in bytes, clocks in MHz."""

    name: str
    kind: DeviceKind
    compute_capability: tuple[int, int]
    multiprocessors: int
    """Streaming multiprocessors of a GPU; cores of a host."""
    l2_bytes: int
    memory_bytes: int
    shared_per_block_bytes: int
    shared_per_multiprocessor_bytes: int
    registers_per_multiprocessor: int
    threads_per_multiprocessor: int
    clock_mhz: int
    memory_clock_mhz: int

    @property
    def arch(self) -> str:
        """The compiler's name of the architecture, such as `sm_90`; `host` for the CPU."""
        if self.kind is DeviceKind.HOST:
            return "host"
        major, minor = self.compute_capability
        return f"sm_{major}{minor}"

    @property
    def why_no_warpgroups(self) -> str | None:
        """Why it has no products of warpgroups (wgmma), in one line; None where it has. The host device has its own."""
        if self.kind is DeviceKind.HOST or self.compute_capability == (9, 0):
            return None
        return "needs compute capability 9.0, whose warpgroups multiply matrices"

    @property
    def why_no_async_copies(self) -> str | None:
        """Why its threads have no asynchronous copies to shared memory (cp.async); None where they have them."""
        if self.kind is DeviceKind.HOST or self.compute_capability >= (8, 0):
            return None
        return "needs compute capability 8.0, whose threads copy to shared memory asynchronously"

    @property
    def converts_pairs(self) -> bool:
        """Whether one instruction makes two float16 numbers of two float32 ones (cvt.f16x2.f32)."""
        return self.kind is DeviceKind.HOST or self.compute_capability >= (8, 0)

    def thread_registers(self, threads: int) -> int:
        """That a thread may have where so many share a multiprocessor."""
        return min(MOST_REGISTERS, self.registers_per_multiprocessor // threads)

    def key(self) -> str:
        """What must match for a stored time to hold here.

        Never the name alone (one name is sold with different chips), never the compute capability
        alone (H100 and H200 share theirs). Memory is rounded to GiB, since drivers reserve a varying rest.
        """
        gib = round(self.memory_bytes / 2**30)
        name = self.name.replace(" ", "_")
        return f"{name}/{self.arch}/{self.multiprocessors}mp/l2={self.l2_bytes >> 10}K/{gib}GiB"

    def spec(self) -> dict[str, Any]:
        """The device as JSON values; `from_spec` reads it back."""
        return {**dataclasses.asdict(self), "compute_capability": list(self.compute_capability)}

    @classmethod
    def from_spec(cls, spec: dict[str, Any]) -> Device:
        major, minor = spec["compute_capability"]
        return cls(**{**spec, "kind": DeviceKind(spec["kind"]), "compute_capability": (major, minor)})


H200 = Device(
    name="NVIDIA H200",
    kind=DeviceKind.CUDA,
    compute_capability=(9, 0),
    multiprocessors=132,
    l2_bytes=60 * 2**20,
    memory_bytes=140 * 2**30,
    shared_per_block_bytes=227 * 1024,
    shared_per_multiprocessor_bytes=228 * 1024,
    registers_per_multiprocessor=65536,
    threads_per_multiprocessor=2048,
    clock_mhz=1980,
    memory_clock_mhz=3201,
)
"""A preset for tests and for exports from a machine without a GPU."""

A100 = Device(
    name="NVIDIA A100-SXM4-80GB",
    kind=DeviceKind.CUDA,
    compute_capability=(8, 0),
    multiprocessors=108,
    l2_bytes=40 * 2**20,
    memory_bytes=80 * 2**30,
    shared_per_block_bytes=163 * 1024,
    shared_per_multiprocessor_bytes=164 * 1024,
    registers_per_multiprocessor=65536,
    threads_per_multiprocessor=2048,
    clock_mhz=1410,
    memory_clock_mhz=1593,
)
"""A preset for tests: a GPU whose warps multiply matrices, and whose warpgroups do not."""

RTX_4090 = Device(
    name="NVIDIA GeForce RTX 4090",
    kind=DeviceKind.CUDA,
    compute_capability=(8, 9),
    multiprocessors=128,
    l2_bytes=72 * 2**20,
    memory_bytes=24 * 2**30,
    shared_per_block_bytes=99 * 1024,
    shared_per_multiprocessor_bytes=100 * 1024,
    registers_per_multiprocessor=65536,
    threads_per_multiprocessor=1536,
    clock_mhz=2520,
    memory_clock_mhz=10501,
)
"""A preset for tests: less shared memory, for fewer threads."""

T4 = Device(
    name="Tesla T4",
    kind=DeviceKind.CUDA,
    compute_capability=(7, 5),
    multiprocessors=40,
    l2_bytes=4 * 2**20,
    memory_bytes=15 * 2**30,
    shared_per_block_bytes=64 * 1024,
    shared_per_multiprocessor_bytes=64 * 1024,
    registers_per_multiprocessor=65536,
    threads_per_multiprocessor=1024,
    clock_mhz=1590,
    memory_clock_mhz=5001,
)
"""A preset for tests: no asynchronous copies, no bfloat16, the least shared memory and the fewest threads."""

A10 = Device(
    name="NVIDIA A10",
    kind=DeviceKind.CUDA,
    compute_capability=(8, 6),
    multiprocessors=72,
    l2_bytes=6 * 2**20,
    memory_bytes=22 * 2**30,
    shared_per_block_bytes=99 * 1024,
    shared_per_multiprocessor_bytes=100 * 1024,
    registers_per_multiprocessor=65536,
    threads_per_multiprocessor=1536,
    clock_mhz=1695,
    memory_clock_mhz=6251,
)
"""A preset for tests."""

ORIN = Device(
    name="Orin",
    kind=DeviceKind.CUDA,
    compute_capability=(8, 7),
    multiprocessors=16,
    l2_bytes=4 * 2**20,
    memory_bytes=61 * 2**30,
    shared_per_block_bytes=163 * 1024,
    shared_per_multiprocessor_bytes=164 * 1024,
    registers_per_multiprocessor=65536,
    threads_per_multiprocessor=1536,
    clock_mhz=1300,
    memory_clock_mhz=3199,
)
"""A preset for tests: the few multiprocessors of a Jetson AGX Orin."""

B200 = Device(
    name="NVIDIA B200",
    kind=DeviceKind.CUDA,
    compute_capability=(10, 0),
    multiprocessors=148,
    l2_bytes=126 * 2**20,
    memory_bytes=179 * 2**30,
    shared_per_block_bytes=227 * 1024,
    shared_per_multiprocessor_bytes=228 * 1024,
    registers_per_multiprocessor=65536,
    threads_per_multiprocessor=2048,
    clock_mhz=1965,
    memory_clock_mhz=3996,
)
"""A preset for tests: newer than Hopper, and without its wgmma."""

B300 = Device(
    name="NVIDIA B300",
    kind=DeviceKind.CUDA,
    compute_capability=(10, 3),
    multiprocessors=148,
    l2_bytes=126 * 2**20,
    memory_bytes=268 * 2**30,
    shared_per_block_bytes=227 * 1024,
    shared_per_multiprocessor_bytes=228 * 1024,
    registers_per_multiprocessor=65536,
    threads_per_multiprocessor=2048,
    clock_mhz=1920,
    memory_clock_mhz=3996,
)
"""A preset for tests."""

THOR = Device(
    name="NVIDIA Thor",
    kind=DeviceKind.CUDA,
    compute_capability=(11, 0),
    multiprocessors=20,
    l2_bytes=32 * 2**20,
    memory_bytes=122 * 2**30,
    shared_per_block_bytes=227 * 1024,
    shared_per_multiprocessor_bytes=228 * 1024,
    registers_per_multiprocessor=65536,
    threads_per_multiprocessor=1536,
    clock_mhz=1575,
    memory_clock_mhz=4266,
)
"""A preset for tests: a Jetson."""

RTX_5090 = Device(
    name="NVIDIA GeForce RTX 5090",
    kind=DeviceKind.CUDA,
    compute_capability=(12, 0),
    multiprocessors=170,
    l2_bytes=96 * 2**20,
    memory_bytes=31 * 2**30,
    shared_per_block_bytes=99 * 1024,
    shared_per_multiprocessor_bytes=100 * 1024,
    registers_per_multiprocessor=65536,
    threads_per_multiprocessor=1536,
    clock_mhz=2407,
    memory_clock_mhz=14001,
)
"""A preset for tests."""

HOST = Device(
    name="CPU",
    kind=DeviceKind.HOST,
    compute_capability=(0, 0),
    multiprocessors=2,
    l2_bytes=2**20,
    memory_bytes=8 * 2**30,
    shared_per_block_bytes=227 * 1024,
    shared_per_multiprocessor_bytes=227 * 1024,
    registers_per_multiprocessor=65536,
    threads_per_multiprocessor=2048,
    clock_mhz=0,
    memory_clock_mhz=0,
)
"""A preset for tests; `warpsmith.devices` reads the real one off the machine."""

PRESETS = {
    "t4": T4,
    "a100": A100,
    "a10": A10,
    "orin": ORIN,
    "rtx4090": RTX_4090,
    "h200": H200,
    "b200": B200,
    "b300": B300,
    "thor": THOR,
    "rtx5090": RTX_5090,
}
"""One GPU of each architecture from sm_75 on; limits as NVIDIA's programming guide has them, sizes from data sheets."""
