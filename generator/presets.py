"""One GPU of each architecture, and the host device, as plain data for tests and exports on machines without a GPU.

Sizes and clocks are the driver's numbers, which data sheets round. Limits are the architecture's.
"""

from __future__ import annotations

from warpsmith.generator.architectures import KIB, Capability, architecture_of
from warpsmith.generator.device import REFERENCE, Device, DeviceKind


def _gpu(
    name: str,
    capability: Capability,
    multiprocessors: int,
    l2_mib: int,
    memory_gib: int,
    clock_mhz: int,
    memory_clock_mhz: int,
) -> Device:
    limits = architecture_of(capability).limits
    return Device(
        name=name,
        kind=DeviceKind.CUDA,
        compute_capability=capability,
        multiprocessors=multiprocessors,
        l2_bytes=l2_mib * 2**20,
        memory_bytes=memory_gib * 2**30,
        shared_per_block_bytes=limits.shared_per_block_bytes,
        shared_per_multiprocessor_bytes=limits.shared_per_multiprocessor_bytes,
        registers_per_multiprocessor=limits.registers_per_multiprocessor,
        threads_per_multiprocessor=limits.threads_per_multiprocessor,
        clock_mhz=clock_mhz,
        memory_clock_mhz=memory_clock_mhz,
    )


PRESETS = {
    #                     name, capability, multiprocessors, L2 MiB, memory GiB, clock MHz, memory clock MHz
    "t4": _gpu("Tesla T4", (7, 5), 40, 4, 15, 1590, 5001),
    "a100": _gpu("NVIDIA A100-SXM4-80GB", (8, 0), 108, 40, 80, 1410, 1593),
    "a10": _gpu("NVIDIA A10", (8, 6), 72, 6, 22, 1695, 6251),
    "orin": _gpu("Orin", (8, 7), 16, 4, 61, 1300, 3199),
    "rtx4090": _gpu("NVIDIA GeForce RTX 4090", (8, 9), 128, 72, 24, 2520, 10501),
    "h200": _gpu("NVIDIA H200", (9, 0), 132, 60, 140, 1980, 3201),
    "b200": _gpu("NVIDIA B200", (10, 0), 148, 126, 179, 1965, 3996),
    "b300": _gpu("NVIDIA B300", (10, 3), 148, 126, 268, 1920, 3996),
    "thor": _gpu("NVIDIA Thor", (11, 0), 20, 32, 122, 1575, 4266),
    "rtx5090": _gpu("NVIDIA GeForce RTX 5090", (12, 0), 170, 96, 31, 2407, 14001),
    "gb10": _gpu("NVIDIA GB10", (12, 1), 48, 24, 119, 2418, 4266),
}
"""A GPU of each architecture of `architectures.ARCHITECTURES`, by a short name."""

T4, A100, A10, ORIN, RTX_4090 = (PRESETS[name] for name in ("t4", "a100", "a10", "orin", "rtx4090"))
H200, B200, B300, THOR = (PRESETS[name] for name in ("h200", "b200", "b300", "thor"))
RTX_5090, GB10 = PRESETS["rtx5090"], PRESETS["gb10"]

_HOST_LIMITS = architecture_of(REFERENCE.capability).limits
HOST = Device(
    name="CPU",
    kind=DeviceKind.HOST,
    compute_capability=(0, 0),
    multiprocessors=2,
    l2_bytes=2**20,
    memory_bytes=8 * 2**30,
    shared_per_block_bytes=_HOST_LIMITS.shared_per_block_bytes,
    shared_per_multiprocessor_bytes=_HOST_LIMITS.shared_per_multiprocessor_bytes - KIB,  # nothing is reserved there
    registers_per_multiprocessor=_HOST_LIMITS.registers_per_multiprocessor,
    threads_per_multiprocessor=_HOST_LIMITS.threads_per_multiprocessor,
    clock_mhz=0,
    memory_clock_mhz=0,
)
"""A host device of no machine in particular; `warpsmith.devices` detects the real one."""
