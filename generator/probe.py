"""Micro-kernels that measure a device's ceilings, and the work of each, from `templates/probe/`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from warpsmith.generator.ceilings import TENSOR_CEILINGS
from warpsmith.generator.device import Device
from warpsmith.generator.program import Launch, Pointer, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config
from warpsmith.generator.tensor_cores import WARPGROUP, TensorInstruction

LOOPS = 8192
"""Turns of most kernels' loops: each takes 0.1 to 1 ms on all GPUs since 2018."""
LEAST_COPIED_BYTES = 2**29
LAUNCHES = 200
"""Launches of the empty kernel in one sample."""
DATA = "data"
TIMES = ("launch_ns", "barrier_ns")
"""Ceilings that are times in ns; the other measured ones are rates per ns."""
THREADS, CHAINS = 256, 16
"""Threads of a block, and independent sums of a thread that does arithmetic."""
_COPY_LOADS, _L2_LOADS, _WGMMA_COLUMNS, _VECTOR_BYTES = 4, 8, 256, 16


@dataclasses.dataclass(frozen=True, slots=True)
class Microkernel:
    """One kernel of a probe."""

    name: str
    """Field of `Ceilings` that it measures, or name of a `MemoryAccess`."""
    launch: Launch
    work: float
    """Bytes or multiply-adds of a launch, or its barriers; 1 for a launch itself."""
    launches: int = 1
    """Launches in one sample."""

    def ceiling_of(self, sample_ns: float) -> float:
        """The figure for the time of one sample: a rate per ns, or ns for a launch or a barrier."""
        each_ns = sample_ns / (self.launches * self.work)
        return each_ns if self.name in TIMES else 1 / each_ns


@dataclasses.dataclass(frozen=True, slots=True)
class Probe:
    """The micro-kernels of one device, in one program."""

    program: Program
    kernels: tuple[Microkernel, ...]
    data_bytes: int
    """Size of the one buffer, DATA, whose words are the bits of random float32 numbers of [0.1, 0.9)."""

    @classmethod
    def of(cls, device: Device, loops: int = LOOPS) -> Probe:
        """The kernels for the instructions that the device has. `loops` is fewer for an emulated device."""
        instructions = {
            name: each for name, each in TENSOR_CEILINGS.items() if device.tensor_instruction(each.operand, each.warps)
        }
        blocks, grid_work = _blocks_of_multiprocessor(device, instructions), _work_of_turn(instructions)
        grid_work = {name: work * blocks[name] * device.multiprocessors for name, work in grid_work.items()}
        turns = {name: max(1, round(loops * _TURNS.get(name, 1))) for name in blocks}
        turns["memory_bytes_per_ns"] = max(1, copied_bytes(device) // grid_work["memory_bytes_per_ns"])
        work = {name: turns[name] * each for name, each in grid_work.items()} | {"launch_ns": 1}
        work["barrier_ns"] = turns["barrier_ns"]
        copied, in_l2 = work["memory_bytes_per_ns"], l2_bytes(device)
        arguments = {"memory_bytes_per_ns": (Pointer(DATA), Pointer(DATA, copied // 2))}
        kernels = []
        for name, count in blocks.items():
            given = arguments.get(name, (Pointer(DATA),))
            launch = Launch.of_blocks(_entry(name), count * device.multiprocessors, THREADS, given)
            kernels.append(Microkernel(name, launch, work[name], LAUNCHES if name == "launch_ns" else 1))
        source = _source(blocks, turns, in_l2 // _VECTOR_BYTES, instructions)
        program = Program.of_source("probe", Config.of({}), source, tuple(each.launch for each in kernels))
        return cls(program, tuple(kernels), max(copied, in_l2))


Instructions = Mapping[str, TensorInstruction]
"""Tensor-core instructions by the field of `Ceilings` that measures them."""


def _source(blocks: Mapping[str, int], turns: Mapping[str, int], l2_vectors: int, instructions: Instructions) -> str:
    return render(
        "probe/microkernels.cu.jinja",
        threads=THREADS,
        blocks=blocks,
        entry=_entry,
        turns=turns,
        copy_loads=_COPY_LOADS,
        l2_vectors=l2_vectors,
        l2_loads=_L2_LOADS,
        chains=CHAINS,
        mma={name: each for name, each in instructions.items() if each.warps != WARPGROUP},
        has_wgmma="wgmma_f16_per_ns" in instructions,
        wgmma_columns=_WGMMA_COLUMNS,
    )


def _work_of_turn(instructions: Instructions) -> dict[str, int]:
    """Bytes or multiply-adds of a block in one turn of its loop."""
    return {
        "memory_bytes_per_ns": 2 * _COPY_LOADS * _VECTOR_BYTES * THREADS,
        "l2_bytes_per_ns": _L2_LOADS * _VECTOR_BYTES * THREADS,
        "shared_bytes_per_ns": _VECTOR_BYTES * THREADS,
        "multiply_adds_per_ns": CHAINS * THREADS,
        **{name: _multiply_adds(each.shape, each.warps) for name, each in instructions.items()},
    }


_TURNS: Mapping[str, float] = {"l2_bytes_per_ns": 1 / 64, "wgmma_f16_per_ns": 1 / 8}
"""Turns of a kernel's loop for each one asked for, where it is not one."""


def _blocks_of_multiprocessor(device: Device, instructions: Instructions) -> dict[str, int]:
    """Blocks per SM of each kernel, all of them resident: a rest of blocks would leave SMs idle at the end."""
    most = device.threads_per_multiprocessor // THREADS
    return {
        "memory_bytes_per_ns": most,
        "l2_bytes_per_ns": most,
        "shared_bytes_per_ns": most,
        "multiply_adds_per_ns": min(4, most),
        **{name: 1 if each.warps == WARPGROUP else 2 for name, each in instructions.items()},
        "launch_ns": 1,
        "barrier_ns": 1,
    }


def copied_bytes(device: Device) -> int:
    """Bytes read and written by the copy: many times L2, and no more than an eighth of the memory."""
    wanted = max(LEAST_COPIED_BYTES, 16 * device.l2_bytes)
    return min(wanted, device.memory_bytes // 8)


def l2_bytes(device: Device) -> int:
    """Bytes that stay in L2, a power of two: each half of a split L2 keeps a copy of what the other half has."""
    return 1 << max(device.l2_bytes // 4, 2**16).bit_length() - 1


def _multiply_adds(shape: tuple[int, int, int], warps: int) -> int:
    """Multiply-adds of a block in a turn: 8 instructions by each warp, 4 by each warpgroup."""
    m, n, k = shape
    return (THREADS // 32 // warps) * (4 if warps == WARPGROUP else 8) * m * n * k


def _entry(ceiling: str) -> str:
    return "probe_" + ceiling.removesuffix("_ns").removesuffix("_per")
