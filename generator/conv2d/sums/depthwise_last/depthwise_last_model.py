"""Reads, instructions and vectors of channels that both sides of `conv2d_depthwise_last` count."""

from __future__ import annotations

import dataclasses
import functools

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.sums.depthwise.depthwise_model import (
    TURN_BYTES,
)
from warpsmith.generator.problem import DType

NAME = "conv2d_depthwise_last"
FLOAT_BYTES = 4
CHECK_INSTRUCTIONS = 2
"""Instructions per vector of pixels that may lie outside of the image, beside one for each 8 bytes that are zeroed
then.
"""
STAGE_INSTRUCTIONS = 14
"""Instructions per weight that is copied to shared memory."""
ROW_INSTRUCTIONS = 12
"""Instructions per row of pixels: its bounds check, its address, and the wait for it."""
OTHER_INSTRUCTIONS = 80
"""Instructions per thread to find its strip and the strip's address."""
STRIP_INSTRUCTIONS = 40
"""Instructions per strip of wgrad to find the strip and its address."""
ADD_INSTRUCTIONS = 5
"""Instructions per sum of a thread to add up the sums of a block."""
SPLIT_NS = 35.0
"""Nanoseconds per partial sum that the last kernel of wgrad reads, several of them at a time."""
VECTORS = (1, 2, 4, 8)
VECTOR_BYTES = 16
"""Most bytes that a thread reads at once."""
WARP = 32


@dataclasses.dataclass(frozen=True, slots=True)
class Reads:
    """What a thread reads and multiplies, in each of its channels; padding counts too."""

    rows: int
    """Rows of pixels."""
    pixels: int
    checked: int
    """Pixels that lie outside of the image for some threads, so that each thread checks them."""
    weights: int
    """Weights read from shared memory."""
    products: int


@functools.lru_cache(maxsize=4096)  # a ranking of configs asks for the same few again and again
def met(taps: int, spread: int, multiple: int, steps: int) -> int:
    """Number of source rows, or columns, that some of `taps` reads for `steps` steps of a phase.

    Args:
        taps, spread: number of taps, and source rows from one to the next.
        multiple: source rows from one step to the next.
        steps: steps of the phase.
    """
    return len({step * multiple + tap * spread for step in range(steps) for tap in range(taps)})


def load_instructions(vector: int, dtype: DType) -> int:
    """Instructions per vector of pixels until its numbers are in registers."""
    return 1 if dtype is DType.FLOAT32 else 1 + vector


def pixel_instructions(reads: Reads, vector: int, dtype: DType) -> int:
    """Instructions for all pixels."""
    checks = reads.checked * (CHECK_INSTRUCTIONS + -(-vector * dtype.itemsize // 8))
    return reads.pixels * load_instructions(vector, dtype) + checks


def load_turns(vector: int, lanes: int, itemsize: int) -> float:
    """Turns of L1 for a load of a warp: for its bytes, or for the lines that they lie in, of which it looks up two."""
    return max(WARP * vector * itemsize / TURN_BYTES, WARP / lanes / 2, 1.0)


def vectors_of(layer: Conv2d) -> tuple[int, ...]:
    """Possible numbers of channels per thread: a thread reads them as one vector, and every pixel consists of whole
    vectors.

    There are up to four float32 channels or up to eight 16-bit channels. Operands begin at multiples of 16 bytes.
    """
    channels = layer.input[1]
    return tuple(each for each in VECTORS if each * layer.dtype.itemsize <= VECTOR_BYTES and channels % each == 0)
