"""Every legal config compiles for its device's architecture, and its kernels can be launched there.

NVRTC needs no GPU. A kernel is too large for a device if its threads need more registers, or its block more shared
memory, than the device has.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Iterator

from candidates import Candidate, candidates
from problems import WHOLE
from warpsmith.devices.compiler import Binary
from warpsmith.devices.cuda.compiler import NvrtcCompiler
from warpsmith.errors import CompileError
from warpsmith.generator.device import Device
from warpsmith.generator.presets import PRESETS
from warpsmith.generator.steps import Compilation, Launch

WARP_REGISTERS = 256
"""Registers of a warp are allocated in multiples of this."""


def cases(seed: int, count: int) -> Iterator[Candidate]:
    """`count` candidates for the presets, one of each architecture."""
    return candidates(random.Random(seed), count, WHOLE, tuple(PRESETS.values()))


def check(case: Candidate) -> str | None:
    """The first kernel that does not compile or cannot be launched, in one line; None if there is none."""
    device, program = case.question.device, case.program
    try:
        binaries = {name: _compiled(device.arch, unit) for name, unit in program.compilations().items()}
    except CompileError as error:
        return f"{case.family.name} on {device.arch}: {error}"
    told = (_why_not(launch, binaries[launch.unit], device) for launch in program.launches)
    why = next((each for each in told if each is not None), None)
    return None if why is None else f"{case.family.name} on {device.arch}: {why}"


parse = Candidate.parse


@functools.lru_cache(maxsize=1000)
def _compiled(arch: str, unit: Compilation) -> Binary:
    return NvrtcCompiler(arch).compile(unit)


def _why_not(launch: Launch, binary: Binary, device: Device) -> str | None:
    usage, threads = binary.usage(launch.entry), math.prod(launch.block)
    if usage.registers is None or usage.shared_bytes is None:
        return f"the compiler does not tell what {launch.entry} takes"
    per_warp = math.ceil(32 * usage.registers / WARP_REGISTERS) * WARP_REGISTERS
    registers = math.ceil(threads / 32) * per_warp
    if threads > 1024 or registers > device.registers_per_multiprocessor:
        return f"{launch.entry} has {threads} threads of {usage.registers} registers each"
    shared = usage.shared_bytes + launch.shared_bytes
    if shared > device.shared_per_block_bytes:
        return f"{launch.entry} takes {shared} bytes of shared memory of {device.shared_per_block_bytes}"
    return None
