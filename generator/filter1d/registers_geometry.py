"""Geometry of `filter1d_registers`: the parts of a signal that blocks and threads read, and where a tile holds them."""

from __future__ import annotations

import dataclasses
import enum

from warpsmith.generator.filter1d.plain_family import CHAIN
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.text import Weights
from warpsmith.generator.problem import DType, Operand
from warpsmith.generator.space import Config

LDS_NUMBERS = 4
"""float32 numbers of the widest access to shared memory."""
PAIRED = (DType.FLOAT16, DType.BFLOAT16)
"""Types of outputs that kernels with several outputs in a store convert in pairs."""


class MemoryPath(enum.StrEnum):
    """Path of samples from the signal to a thread."""

    GLOBAL = "global"
    """Straight from global memory, each thread its whole window."""
    SHARED = "shared"
    """Through a tile in shared memory, in float32, which the block fills from registers."""


class Exchange(enum.StrEnum):
    """Path of outputs from the threads to the result."""

    DIRECT = "direct"
    """Each thread stores its own outputs."""
    SHARED = "shared"
    """Threads exchange outputs through the tile, so that the stores of a warp are contiguous."""


def parts_of(problem: Filter1d) -> int:
    """float32 numbers of one sample in registers: two for complex samples."""
    return 2 if problem.dtype is DType.COMPLEX64 else 1


def vectors_of(operand: Operand) -> tuple[int, ...]:
    """Elements of one access, up to 16 bytes."""
    return tuple(lanes for lanes in (1, 2, 4, 8, 16) if lanes * operand.dtype.itemsize <= 16)


def lanes_of(problem: Filter1d, outputs: int) -> int:
    """Samples of one access to shared memory of a thread with so many outputs."""
    return min(LDS_NUMBERS // parts_of(problem), outputs * problem.down & -(outputs * problem.down))


def padding_of(problem: Filter1d, outputs: int) -> int:
    """Samples between the parts of a tile that belong to two threads. Threads then begin an odd number of 16-byte
    vectors apart, so that the accesses of eight threads together use all 32 banks.
    """
    parts = parts_of(problem)
    numbers = outputs * problem.down * parts
    return LDS_NUMBERS // parts if numbers % (2 * LDS_NUMBERS) == 0 else 0


@dataclasses.dataclass(frozen=True, slots=True)
class Filter1dRegistersGeometry:
    """Geometry of one config on one problem. Lengths are in samples or outputs of one channel."""

    path: MemoryPath
    outputs: int
    """Adjacent outputs of a thread."""
    columns: int
    """Threads of a block along the signal."""
    rows: int
    """Channels of a block."""
    row_blocks: int
    """Blocks of a channel."""
    groups: int
    """Groups of `rows` channels."""
    is_ragged: bool
    """True if the last group has fewer channels than others."""
    load_vector: int
    """Samples of one load from global memory."""
    store_vector: int
    """Outputs of one store."""
    turn: int
    """Taps of one turn of the loop; 0 if all taps are unrolled."""
    turns: int
    rest: int
    """Taps after the last whole turn."""
    chain: int
    """Taps that are added one after the other, if there are more of them; 0 if there are not."""
    lanes: int
    """Samples of one load of a window: from global memory, or from the tile."""
    skipped: int
    """Samples that the aligned loads of a window read before its first sample."""
    ahead: int
    """Samples in registers before a turn."""
    window: int
    """Samples in registers at most."""
    tile_lead: int
    """Samples that a tile begins before the block's first window, so that its loads are aligned."""
    tile: int
    """Samples of a tile, in whole loads."""
    thread_stride: int
    """Samples from a thread's part of the tile to the next one, without padding."""
    padding: int
    """Samples of padding behind each thread's part of the tile."""
    result_padding: int
    """Outputs of padding behind each thread's outputs when they are exchanged."""
    shared: int
    """Samples of shared memory for the tile of a channel, padding included."""
    min_blocks: int

    @classmethod
    def of(cls, problem: Filter1d, config: Config) -> Filter1dRegistersGeometry:
        names = ("outputs", "block_columns", "block_rows", "load_vector", "turn")
        outputs, columns, rows, load_vector, turn = (config.integer(name) for name in names)
        path, lead = MemoryPath(config.text("path")), problem.first_lag % load_vector
        is_tiled = path is MemoryPath.SHARED
        lanes = lanes_of(problem, outputs) if is_tiled else load_vector
        skipped, taps = lead % lanes, problem.taps
        turns, rest = divmod(taps, turn) if turn else (0, taps)
        ahead = _whole(skipped + problem.down * (outputs - 1), lanes)
        stride = outputs * problem.down
        padding = padding_of(problem, outputs) if is_tiled else 0
        # Whole loads of the block, and whole loads of its last thread's window.
        tile = _whole(lead + problem.down * (outputs * columns - 1) + taps, max(load_vector, lanes))
        result_padding = LDS_NUMBERS // parts_of(problem) if outputs * parts_of(problem) % 8 == 0 else 0
        return cls(
            path=path,
            outputs=outputs,
            columns=columns,
            rows=rows,
            row_blocks=-(-problem.result_length // (outputs * columns)),
            groups=-(-problem.rows // rows),
            is_ragged=problem.rows % rows != 0,
            load_vector=load_vector,
            store_vector=config.integer("store_vector"),
            turn=turn,
            turns=turns,
            rest=rest,
            chain=CHAIN if taps > CHAIN else 0,
            lanes=lanes,
            skipped=skipped,
            ahead=ahead,
            window=ahead + turn if turns else _whole(skipped + stride - problem.down + taps, lanes),
            tile_lead=lead,
            tile=tile,
            thread_stride=stride,
            padding=padding,
            result_padding=result_padding,
            shared=max(-(-tile // stride) * (stride + padding), columns * (outputs + result_padding)),
            min_blocks=config.integer("min_blocks"),
        )

    @property
    def is_steady(self) -> bool:
        """True if a thread's loads into a tile lie whole parts of threads apart, so that their places differ by
        constants.
        """
        apart = self.columns * self.load_vector % self.thread_stride == 0
        return apart and 0 in (self.thread_stride % self.load_vector, self.load_vector % self.thread_stride)

    @property
    def row_type(self) -> str:
        """C++ type that counts the channels of all groups."""
        return "unsigned" if self.rows * self.groups <= 2**32 else "unsigned long long"

    @property
    def blocks(self) -> int:
        return self.row_blocks * self.groups

    def shared_bytes(self, problem: Filter1d, weights: Weights) -> int:
        """Bytes of shared memory: the tiles of all channels, and their taps."""
        tiles = self.rows * self.shared * parts_of(problem) * 4 if self.path is MemoryPath.SHARED else 0
        tap = 8 if problem.weights_dtype is DType.COMPLEX64 else 4
        return tiles + (self.rows * _whole(problem.taps, 4) * tap if weights is Weights.SHARED else 0)


def _whole(samples: int, lanes: int) -> int:
    """Samples of the whole vectors that hold `samples` samples."""
    return -(-samples // lanes) * lanes
