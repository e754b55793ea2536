"""Micro-kernels that measure every level of a GPU's memory, from `templates/probe/memory.cu.jinja`.

Source: Iandola et al. 2013, section 2.2 and table 2, which has the bandwidth of global memory and of shared memory and
the fill rate of the texture cache. The other rows are what the section says of strides, constant memory and registers.
"""

from __future__ import annotations

import dataclasses
import enum
import random
from collections.abc import Mapping

from warpsmith.generator.device import Device, Rates
from warpsmith.generator.probe import CHAINS, DATA, LOOPS, THREADS, Microkernel, Probe, copied_bytes, l2_bytes
from warpsmith.generator.problem import DType
from warpsmith.generator.program import Argument, Launch, Pointer, Program, Texture
from warpsmith.generator.render import float_literal, render
from warpsmith.generator.space import Config

TEXELS_PER_CYCLE = 4
"""Filtered texels per cycle per SM on every supported architecture: an SM has four texture units (NVIDIA's
whitepapers). Words that are fetched by their index from linear memory pass no filter: they came at 7.9 per cycle and
SM (H200)."""
CONSTANTS = 512
"""float32 numbers in constant memory: 2 KiB, eight times what Hopper's compiler keeps in uniform registers."""
SMALL_BYTES = 2**15
"""Bytes that kernels use which stay in L1, at most."""
_SEED = 0
_LINE_BYTES, _WORD_BYTES, _BANKS, _ROW_TEXELS = 128, 4, 32, 32


class Level(enum.StrEnum):
    """A level of the memory hierarchy."""

    GLOBAL = "global memory"
    L2 = "L2"
    L1 = "L1"
    TEXTURE = "texture cache"
    SHARED = "shared memory"
    CONSTANT = "constant memory"
    REGISTERS = "registers"


class Kernel(enum.StrEnum):
    """A kernel of the template."""

    READ = "read"
    WRITE = "write"
    COPY = "copy"
    L2 = "l2"
    L1 = "l1"
    TEXTURE_LINE = "texture_line"
    TEXTURE_ROWS = "texture_rows"
    SHARED = "shared"
    CONSTANT = "constant"
    CONSTANT_LOAD = "constant_load"
    REGISTERS = "registers"


_LEVELS = {
    Kernel.READ: Level.GLOBAL,
    Kernel.WRITE: Level.GLOBAL,
    Kernel.COPY: Level.GLOBAL,
    Kernel.L2: Level.L2,
    Kernel.L1: Level.L1,
    Kernel.TEXTURE_LINE: Level.TEXTURE,
    Kernel.TEXTURE_ROWS: Level.TEXTURE,
    Kernel.SHARED: Level.SHARED,
    Kernel.CONSTANT: Level.CONSTANT,
    Kernel.CONSTANT_LOAD: Level.CONSTANT,
    Kernel.REGISTERS: Level.REGISTERS,
}
_VECTORS = {4: "float", 8: "float2", 16: "float4"}


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryAccess:
    """One way to reach a level of memory: one kernel, and one row of the table."""

    kernel: Kernel
    what: str
    """What threads do, for people."""
    width_bytes: int = 16
    """Bytes that one thread moves with one instruction; 16 of a multiply-add's four registers."""
    stride: int = 1
    """Distance between the data of neighbouring threads, in units of `width_bytes`."""
    loop_part: float = 1.0
    """Share of the loads of a thread that are asked for; global memory is passed once, whatever is asked for."""

    @property
    def name(self) -> str:
        """Name in JSON, and end of the kernel's name."""
        stride = f"_stride_{self.stride}" if self.stride > 1 else ""
        return f"{self.kernel}_{self.width_bytes}{stride}"

    @property
    def level(self) -> Level:
        return _LEVELS[self.kernel]

    @property
    def vector(self) -> str:
        """CUDA type of what a thread moves at once."""
        return _VECTORS[self.width_bytes]

    @property
    def is_stream(self) -> bool:
        """True if the kernel passes a large part of the memory once."""
        return self.level is Level.GLOBAL

    @property
    def step(self) -> int:
        """Distance between the loads of two turns that hit L1, in units of `width_bytes`: one cache line."""
        return _LINE_BYTES // self.width_bytes

    @property
    def shared_count(self) -> int:
        """Data in shared memory: of a block, or of a warp whose lanes are `stride` words apart; and of two turns."""
        return (THREADS if self.stride == 1 else _BANKS * self.stride) + 2 * self.loads

    @property
    def loads(self) -> int:
        """Instructions of one thread in one turn that move data; the loads of a copy count, and not its stores.

        Of global memory eight are in flight, or four of 16 bytes: a thread of a full SM has no more registers.
        """
        match self.kernel:
            case Kernel.READ | Kernel.WRITE | Kernel.COPY:
                return 4 if self.width_bytes == 16 else 8
            case Kernel.L2:
                return 8
            case Kernel.CONSTANT:
                return CONSTANTS
            case Kernel.REGISTERS:
                return 8 * CHAINS
        return 16

    @property
    def turn_bytes(self) -> int:
        """Bytes that one thread moves in one turn."""
        return (2 if self.kernel is Kernel.COPY else 1) * self.loads * self.width_bytes

    def texels_per_ns(self, bytes_per_ns: float) -> float | None:
        """Texels per ns at a rate in bytes per ns; None for levels without texels."""
        return bytes_per_ns / self.width_bytes if self.level is Level.TEXTURE else None

    def peak_bytes_per_ns(self, rates: Rates) -> float | None:
        """Rate of the level by the data sheet, whatever the stride; None if no data sheet has it.

        A multiply-add reads three registers of 4 bytes and writes one, or reads one number of constant memory.
        """
        match self.kernel:
            case Kernel.READ | Kernel.WRITE | Kernel.COPY:
                return rates.memory_bytes_per_ns
            case Kernel.L2:
                return rates.l2_bytes_per_ns
            case Kernel.L1 | Kernel.SHARED:
                return rates.shared_bytes_per_ns
            case Kernel.TEXTURE_ROWS:
                return TEXELS_PER_CYCLE * self.width_bytes * rates.multiprocessors * rates.cycles_per_ns
            case Kernel.CONSTANT | Kernel.REGISTERS:
                return self.width_bytes * rates.multiply_adds_per_ns
            case Kernel.CONSTANT_LOAD | Kernel.TEXTURE_LINE:
                return None


ACCESSES = (
    *(MemoryAccess(Kernel.READ, "read", width) for width in _VECTORS),
    *(MemoryAccess(Kernel.WRITE, "write", width) for width in _VECTORS),
    *(MemoryAccess(Kernel.COPY, "copy", width) for width in _VECTORS),
    *(MemoryAccess(Kernel.READ, f"read, stride {stride}", 4, stride) for stride in (2, 4, 8, 32)),
    MemoryAccess(Kernel.L2, "read", 16, loop_part=1 / 8),
    MemoryAccess(Kernel.L1, "read", 4),
    MemoryAccess(Kernel.L1, "read", 16),
    *(MemoryAccess(Kernel.TEXTURE_LINE, "tex1Dfetch", width, loop_part=1 / 4) for width in (4, 16)),
    *(MemoryAccess(Kernel.TEXTURE_ROWS, "tex2D", width, loop_part=1 / 4) for width in (4, 16)),
    MemoryAccess(Kernel.SHARED, "read", 4),
    MemoryAccess(Kernel.SHARED, "read", 16),
    MemoryAccess(Kernel.SHARED, "read, 2-way bank conflicts", 4, 2),
    MemoryAccess(Kernel.SHARED, "read, 32-way bank conflicts", 4, 32, loop_part=1 / 8),
    MemoryAccess(Kernel.CONSTANT_LOAD, "read, one address for all lanes", 4, loop_part=1 / 4),
    MemoryAccess(Kernel.CONSTANT_LOAD, "read, one address for all lanes", 8, loop_part=1 / 4),
    MemoryAccess(Kernel.CONSTANT, "operand of a multiply-add", 4, loop_part=16),
    MemoryAccess(Kernel.REGISTERS, "operands of a multiply-add: 3 read, 1 written", 16, loop_part=16),
)
"""Rows of the table, from the slowest level to the fastest."""


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryProbe:
    """The kernels of all accesses, for one device."""

    probe: Probe
    accesses: Mapping[str, MemoryAccess]
    """Access of each kernel by its name."""

    @classmethod
    def of(cls, device: Device, loops: int = LOOPS) -> MemoryProbe:
        """Kernels that fill the device. `loops` is fewer for an emulated device."""
        blocks = {each.name: _blocks(each, device) for each in ACCESSES}
        threads = {name: THREADS * count * device.multiprocessors for name, count in blocks.items()}
        reaches = {each.name: threads[each.name] * each.turn_bytes * each.stride for each in ACCESSES}
        turns = {
            each.name: max(1, copied_bytes(device) // reaches[each.name] if each.is_stream else _turns(each, loops))
            for each in ACCESSES
        }
        kernels = tuple(
            Microkernel(
                each.name,
                Launch.of_blocks(
                    entry_of(each),
                    blocks[each.name] * device.multiprocessors,
                    THREADS,
                    _arguments(each, turns[each.name] * reaches[each.name]),
                ),
                threads[each.name] * turns[each.name] * each.turn_bytes,
            )
            for each in ACCESSES
        )
        source = _source(blocks, turns, l2_bytes(device) // 16)
        program = Program.of_source("memory_probe", Config.of({}), source, tuple(each.launch for each in kernels))
        streamed = max(turns[each.name] * reaches[each.name] for each in ACCESSES if each.is_stream)
        probe = Probe(program, kernels, max(streamed, l2_bytes(device), SMALL_BYTES))
        return cls(probe, {each.name: each for each in ACCESSES})


WARM_UP = MemoryAccess(Kernel.REGISTERS, "", 16).name
"""Kernel that runs before the first sample: arithmetic."""


def entry_of(access: MemoryAccess) -> str:
    """Name of the kernel in the text."""
    return f"memory_{access.name}"


def _blocks(access: MemoryAccess, device: Device) -> int:
    """Blocks per SM, all of them resident; arithmetic needs registers for its chains and has independent sums."""
    most = device.threads_per_multiprocessor // THREADS
    return min(3, most) if access.kernel in (Kernel.CONSTANT, Kernel.REGISTERS) else most


def _turns(access: MemoryAccess, loops: int) -> int:
    return round(loops * access.loop_part / access.loads)


def _arguments(access: MemoryAccess, streamed_bytes: int) -> tuple[Argument, ...]:
    """Arguments after the data's: the second half of the memory for a copy, a texture object for texels."""
    channels = access.width_bytes // _WORD_BYTES
    texels = SMALL_BYTES // access.width_bytes
    match access.kernel:
        case Kernel.COPY:
            return (Pointer(DATA), Pointer(DATA, streamed_bytes // 2))
        case Kernel.TEXTURE_LINE:
            return (Pointer(DATA), Texture(DATA, DType.FLOAT32, texels, channels=channels))
        case Kernel.TEXTURE_ROWS:
            pitch_bytes, rows = _ROW_TEXELS * access.width_bytes, texels // _ROW_TEXELS
            return (
                Pointer(DATA),
                Texture(DATA, DType.FLOAT32, _ROW_TEXELS, rows, pitch_bytes, channels),
            )
    return (Pointer(DATA),)


def _source(blocks: Mapping[str, int], turns: Mapping[str, int], l2_vectors: int) -> str:
    numbers = random.Random(_SEED)
    return render(
        "probe/memory.cu.jinja",
        accesses=ACCESSES,
        threads=THREADS,
        blocks=blocks,
        entry=entry_of,
        turns=turns,
        l2_vectors=l2_vectors,
        chains=CHAINS,
        row_texels=_ROW_TEXELS,
        constants=[float_literal(round(numbers.uniform(0.1, 0.9), 6)) for _ in range(CONSTANTS)],
    )
