"""Gradients of `filter1d` of channels side by side (layout `btc`), for few taps: one pass over memory.

The lanes of a warp have adjacent channels, so that every access is contiguous. A thread walks along a segment of the
signal and loads each sample and each gradient of an output once. It keeps the last ones in registers, the sums of the
weights' gradient too, and stores the gradient of a sample with the last output whose window has it. A block writes one
partial sum of each tap and channel; a small second kernel adds these up in a fixed order.

Source: the gather kernel of "Parallel filters", section 4.1, for three sums at once; the backward pass of the causal
convolutions of Gu and Dao 2023, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces".
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

from warpsmith.generator.architectures import MAX_GRID, STATIC_SHARED_BYTES, THREAD_REGISTERS
from warpsmith.generator.device import REFERENCE, Device
from warpsmith.generator.filter1d.constraints import channel_blocks
from warpsmith.generator.filter1d.defaults import OrderedFamily
from warpsmith.generator.filter1d.fields import SignalLayout
from warpsmith.generator.filter1d.gradients_text import (
    MAX_TAPS,
    PAIRED,
    Fold,
    GradientsText,
    expected_pass_ns,
    pass_arguments,
    pass_program,
    why_no_gradients_of,
)
from warpsmith.generator.filter1d.plain_family import CHAIN
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.text import pitches
from warpsmith.generator.pair_stores import pair_stores
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

OTHER_REGISTERS = 30
"""Registers besides samples, gradients, taps and sums, for addresses and the compiler."""
LIGHT_TAPS = 4
"""Most taps of which a thread's registers leave room for more loads in flight, or more threads."""
UNROLLED_TAPS = 8
"""Most taps of which the outputs before a segment are unrolled, with all their loads in flight."""
SEGMENTS = tuple(range(16, CHAIN + 1, 8))
MAX_STRAIGHT = 4000
"""Most multiply-adds of a turn of the loop, which are all unrolled."""
MEMORY_SHARE = 3500 / REFERENCE.memory_bytes_per_ns


@dataclasses.dataclass(frozen=True, slots=True)
class GradientsChannelsGeometry:
    """Geometry of one config on one problem."""

    vector: int
    """Adjacent channels of a thread, one load."""
    segment: int
    """Samples of a thread."""
    ahead: int
    """Samples and gradients of a channel whose loads are in flight."""
    columns: int
    rows: int
    channel_blocks: int
    blocks_along: int
    blocks: int
    min_blocks: int
    are_all_channels: bool
    """True if every thread has channels."""
    is_long: bool
    """True if the outputs before a segment are a loop of their own: unrolled, they would be most of the code."""

    @classmethod
    def of(cls, problem: Filter1d, config: Config) -> GradientsChannelsGeometry:
        names = ("vector", "segment", "block_columns", "block_rows")
        vector, segment, columns, rows = (config.integer(name) for name in names)
        channel_blocks = -(-problem.channels // (vector * columns))
        blocks_along = -(-problem.signal // (segment * rows))
        return cls(
            vector=vector,
            segment=segment,
            ahead=config.integer("ahead"),
            columns=columns,
            rows=rows,
            channel_blocks=channel_blocks,
            blocks_along=blocks_along,
            blocks=channel_blocks * blocks_along * problem.batch,
            min_blocks=config.integer("min_blocks"),
            are_all_channels=problem.channels % (vector * columns) == 0,
            is_long=problem.taps > UNROLLED_TAPS,
        )


class Filter1dGradientsChannels(OrderedFamily):
    """Gradients of signals whose channels lie side by side."""

    name = "filter1d_gradients_channels"

    def why_not(self, problem: Filter1d, device: Device) -> str | None:
        if (reason := why_no_gradients_of(problem)) is not None:
            return reason
        if problem.layout is not SignalLayout.BTC:
            return "is for signals whose channels lie side by side (layout btc)"
        if problem.taps > MAX_TAPS:
            return f"is for filters of {MAX_TAPS} taps at the most; this one has {problem.taps}"
        if self.first_legal(problem, device) is None:
            return f"{problem.taps} taps and {problem.channels} channels do not fit registers and a grid"
        return None

    def expected_ns(self, problem: Filter1d, device: Device) -> float | None:
        if self.first_legal(problem, device) is None:
            return None
        return expected_pass_ns(problem, device, 16, MEMORY_SHARE)

    def space(self, problem: Filter1d, device: Device) -> Space:
        return _space(problem, device)

    def candidates(self, problem: Filter1d, device: Device) -> Iterator[Config]:
        return _likely(problem, device)

    def unrolled(self, problem: Filter1d, config: Config) -> int:
        return _unrolled(problem, config.integer("vector"), config.integer("ahead"))

    def program(self, problem: Filter1d, config: Config) -> Program:
        geometry = GradientsChannelsGeometry.of(problem, config)
        fold = Fold.of(problem, problem.batch * geometry.blocks_along) if problem.pass_.gives_weights else None
        source = render(
            "filter1d/gradients_channels.cu.jinja",
            p=GradientsText.of(problem),
            g=geometry,
            fold=fold,
            config=config.key(),
            store=config.text("store"),
        )
        block = (geometry.columns, geometry.rows, 1)
        launch = Launch(self.name, (geometry.blocks, 1, 1), block, pass_arguments(problem))
        return pass_program(problem, config, source, launch, fold)


def _unrolled(problem: Filter1d, vector: int, ahead: int) -> int:
    sums = problem.pass_.gives_signal + problem.pass_.gives_weights + (problem.activation is not None)
    before = problem.taps - 1 if problem.taps <= UNROLLED_TAPS else 1
    return 2 * sums * problem.taps * vector * (ahead + before)  # at the ends of a signal, and inside of it


@functools.lru_cache(maxsize=256)
def _space(problem: Filter1d, device: Device) -> Space:
    size = max(problem.dtype.itemsize, problem.output_dtype.itemsize)
    paired = pair_stores(problem.dtype, device, "vector", PAIRED) if problem.pass_.gives_signal else ()
    return Space(
        parameters=(
            Parameter("vector", tuple(n for n in (8, 4, 2, 1) if n * size <= 16), "adjacent channels of a thread"),
            Parameter("ahead", (1, 2, 4, 8, 16), "samples and gradients of a channel in flight"),
            Parameter("segment", SEGMENTS, "samples of a thread"),
            Parameter("block_columns", (1, 2, 4, 8, 16, 32, 64, 128), "threads of a block across the channels"),
            Parameter("block_rows", (1, 2, 4, 8, 16, 32), "threads of a block along the signal"),
            Parameter("min_blocks", (0, 1, 2, 3, 4, 5, 6, 7, 8), "blocks a multiprocessor must hold; 0 leaves it open"),
            Parameter("store", ("plain", "streaming"), "streaming marks the result as evicted first from L2"),
        ),
        constraints=(*paired, *_resources(problem, device), *_blocks(problem, device)),
    )


def _resources(problem: Filter1d, device: Device) -> tuple[Constraint, ...]:
    taps, items, (pitch, gradient_pitch) = problem.taps, problem.taps + problem.bias, pitches(problem)
    gives_weights = problem.pass_.gives_weights
    reads_signal = gives_weights or problem.activation is not None

    def registers(vector: int, ahead: int) -> int:
        kept = (taps if reads_signal else 0) + (taps if problem.pass_.gives_signal else 1)
        raw = -(-(problem.dtype.itemsize * reads_signal + problem.output_dtype.itemsize) * vector * ahead // 4)
        weights = taps * (vector if problem.filters > 1 else 1) if "weights" in problem.from_host else 0
        weights *= 1 if problem.activation is None else 2
        return vector * (kept + (items if gives_weights else 0)) + weights + raw + OTHER_REGISTERS

    return (
        Constraint(
            f"vectors of the {problem.channels} channels are aligned, {pitch} and {gradient_pitch} elements apart",
            lambda vector: not any(each % vector for each in (problem.channels, pitch, gradient_pitch)),
        ),
        Constraint(
            f"at most {MAX_STRAIGHT} multiply-adds are unrolled",
            lambda vector, ahead: _unrolled(problem, vector, ahead) <= MAX_STRAIGHT,
        ),
        Constraint(
            f"samples, gradients, taps and sums of a thread must fit {THREAD_REGISTERS} registers, for {taps} taps",
            lambda vector, ahead: registers(vector, ahead) <= THREAD_REGISTERS,
        ),
        Constraint(
            f"the blocks asked for must fit the multiprocessor's {device.registers_per_multiprocessor} registers",
            lambda vector, ahead, block_columns, block_rows, min_blocks: (
                min_blocks * block_columns * block_rows * registers(vector, ahead)
                <= device.registers_per_multiprocessor
            ),
        ),
        Constraint(
            f"the sums of a block's rows must fit {STATIC_SHARED_BYTES >> 10} KiB of shared memory",
            lambda vector, block_columns, block_rows: (
                not gives_weights or 4 * items * vector * block_columns * block_rows <= STATIC_SHARED_BYTES
            ),
        ),
    )


def _blocks(problem: Filter1d, device: Device) -> tuple[Constraint, ...]:
    return (
        Constraint(
            f"a segment has whole turns of the loop, and at most {CHAIN} products are added one after the other",
            lambda ahead, segment: segment % ahead == 0 and segment <= CHAIN,
        ),
        *channel_blocks(problem, device),
        Constraint(
            f"a segment twice as long as the signal, {problem.signal}, is a shorter one",
            lambda segment: segment == 16 or segment < 2 * problem.signal,
        ),
        Constraint(
            "a grid has less than 2^31 blocks",
            lambda vector, segment, block_columns, block_rows: (
                problem.batch
                * -(-problem.channels // (vector * block_columns))
                * -(-problem.signal // (segment * block_rows))
                <= MAX_GRID
            ),
        ),
    )


def _likely(problem: Filter1d, device: Device) -> Iterator[Config]:
    """Yields configs for the default, the likeliest first, legal or not.

    On an H200, 36 to 73 configs were timed for each of 12 problems of 2 to 32 taps. Two channels a thread leave
    registers for enough threads. Short segments end together, long ones read less twice; where a sample has 2048
    channels of 16 bits, segments of 64 or 128 samples took 1.2 times as long as those of 56: a block's rows then read
    memory a power of 2 apart. An activation leaves room for fewer loads in flight, unless it asks for fewer threads.
    """
    is_activated, is_wide = problem.activation is not None, problem.dtype.itemsize == 4
    for vector in (2, 1) if problem.taps <= UNROLLED_TAPS else (1,):
        for segment in _segments(problem, device, vector):
            if problem.taps <= LIGHT_TAPS and (is_wide or not is_activated):
                yield _config(problem, vector, min(segment, 48), 16, 0)
            if problem.taps <= LIGHT_TAPS and is_activated:
                yield _config(problem, vector, segment, 8, 5)
            for ahead in (8, 4, 2, 1):
                yield _config(problem, vector, segment, ahead, 0)


def _segments(problem: Filter1d, device: Device, vector: int) -> Iterator[int]:
    """Yields lengths of segments: the longest that leave enough threads, then shorter ones."""
    threads = problem.batch * problem.signal * problem.channels // vector
    least = device.threads_per_multiprocessor // 2 * device.multiprocessors
    lengths = (56, 32, 16) if problem.taps <= UNROLLED_TAPS else (120, 56, 32, 16)
    yield from (each for each in lengths if threads >= each * least)
    yield 16


def _config(problem: Filter1d, vector: int, segment: int, ahead: int, min_blocks: int) -> Config:
    needed = problem.channels // vector
    columns = next((each for each in (1, 2, 4, 8, 16, 32) if each >= needed), 32)
    chosen: dict[str, Value] = {
        "vector": vector,
        "ahead": ahead,
        "segment": segment,
        "block_columns": columns,
        "block_rows": min((256 if ahead == 16 else 128) // columns, 32),
        "min_blocks": min_blocks,
        "store": "streaming",
    }
    return Config.of(chosen)
