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
from warpsmith.generator.device import REFERENCE, Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.filter1d.fields import SignalLayout
from warpsmith.generator.filter1d.gradients_text import (
    FOLDED,
    MAX_TAPS,
    PAIRED,
    SUMS,
    Fold,
    GradientsText,
    operand_pointers,
    pitches,
    why_no_gradients_of,
)
from warpsmith.generator.filter1d.plain_family import CHAIN
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.pair_stores import pair_stores
from warpsmith.generator.program import Launch, Pointer, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

OTHER_REGISTERS = 30
"""Registers besides samples, gradients, taps and sums, for addresses and the compiler."""
UNROLLED_TAPS = 8
"""Most taps of which the outputs before a segment are unrolled, with all their loads in flight."""
MAX_STRAIGHT = 4000
"""Most multiply-adds of a turn of the loop, which are all unrolled."""
MEMORY_SHARE = 3500 / REFERENCE.memory_bytes_per_ns
SCHEDULERS, WARP, ISSUE_SHARE = 4, 32, 0.8


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


class Filter1dGradientsChannels(Family[Filter1d]):
    """Gradients of signals whose channels lie side by side."""

    name = "filter1d_gradients_channels"

    def why_not(self, problem: Filter1d, device: Device) -> str | None:
        if (reason := why_no_gradients_of(problem)) is not None:
            return reason
        if problem.layout is not SignalLayout.BTC:
            return "is for signals whose channels lie side by side (layout btc)"
        if problem.taps > MAX_TAPS:
            return f"is for filters of {MAX_TAPS} taps at the most; this one has {problem.taps}"
        if _default(problem, device) is None:
            return f"{problem.taps} taps and {problem.channels} channels do not fit registers and a grid"
        return None

    def is_likely(self, problem: Filter1d, device: Device) -> bool:
        return device.kind is DeviceKind.CUDA and self.why_not(problem, device) is None

    def expected_ns(self, problem: Filter1d, device: Device) -> float | None:
        if _default(problem, device) is None:
            return None
        outputs, rates = problem.rows * problem.result_length, device.rates
        each = problem.multiply_adds / outputs + 16
        issued = rates.cycles_ns(outputs * each / WARP / device.multiprocessors / SCHEDULERS / ISSUE_SHARE)
        return 2 * rates.launch_ns + max(problem.bytes / (MEMORY_SHARE * rates.memory_bytes_per_ns), issued)

    def space(self, problem: Filter1d, device: Device) -> Space:
        return _space(problem, device)

    def default(self, problem: Filter1d, device: Device) -> Config:
        config = _default(problem, device)
        if config is None:
            raise ValueError(f"{self.name} has no config for {problem.key()}; ask why_not first")
        return config

    def unrolled(self, problem: Filter1d, config: Config) -> int:
        return _unrolled(problem, config.integer("vector"), config.integer("ahead"))

    def program(self, problem: Filter1d, config: Config) -> Program:
        geometry, gives_weights = GradientsChannelsGeometry.of(problem, config), problem.pass_.gives_weights
        fold = Fold.of(problem, problem.batch * geometry.blocks_along) if gives_weights else None
        source = render(
            "filter1d/gradients_channels.cu.jinja",
            p=GradientsText.of(problem),
            g=geometry,
            fold=fold,
            config=config.key(),
            store=config.text("store"),
        )
        arguments = [each for each in operand_pointers(problem) if each.buffer not in FOLDED]
        arguments += [Pointer(SUMS)] if gives_weights else []
        block = (geometry.columns, geometry.rows, 1)
        launches = [Launch(self.name, (geometry.blocks, 1, 1), block, tuple(arguments))]
        if fold is not None:
            launches.append(fold.launch(self.name, problem))
        workspaces = () if fold is None else (fold.workspace,)
        return Program.of_source(self.name, config, source, tuple(launches), workspaces)


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
            Parameter("segment", (16, 32, 48, 64, 96, 128, 192, 256), "samples of a thread"),
            Parameter("block_columns", (1, 2, 4, 8, 16, 32, 64, 128), "threads of a block across the channels"),
            Parameter("block_rows", (1, 2, 4, 8, 16, 32), "threads of a block along the signal"),
            Parameter("min_blocks", (0, 1, 2, 3, 4, 5, 6, 8), "blocks a multiprocessor must hold; 0 leaves it open"),
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
    threads = device.threads_per_multiprocessor
    return (
        Constraint(
            f"a segment has whole turns of the loop, and at most {CHAIN} products are added one after the other",
            lambda ahead, segment: segment % ahead == 0 and segment <= CHAIN,
        ),
        Constraint(
            "a block has 32 to 512 threads: more leave the multiprocessor no choice",
            lambda block_columns, block_rows: 32 <= block_columns * block_rows <= 512,
        ),
        Constraint(
            f"a multiprocessor holds {threads} threads",
            lambda block_columns, block_rows, min_blocks: min_blocks * block_columns * block_rows <= threads,
        ),
        Constraint(
            f"a block wider than twice the {problem.channels} channels is a narrower one",
            lambda vector, block_columns: block_columns == 1 or vector * block_columns < 2 * problem.channels,
        ),
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


@functools.lru_cache(maxsize=256)
def _default(problem: Filter1d, device: Device) -> Config | None:
    """The likeliest legal config; None if no config is legal."""
    return next(filter(_space(problem, device).contains, _likely(problem, device)), None)


def _likely(problem: Filter1d, device: Device) -> Iterator[Config]:
    """Yields configs for the default, the likeliest first, legal or not."""
    most = 4 if problem.taps <= 4 else 2 if problem.taps <= 8 else 1
    for vector in (each for each in (4, 2, 1) if each <= most and problem.channels % each == 0):
        for segment in _segments(problem, device, vector):
            for ahead in (8, 4, 2, 1):
                yield _config(problem, vector, segment, ahead)


def _segments(problem: Filter1d, device: Device, vector: int) -> Iterator[int]:
    """Yields lengths of segments: the longest that leave enough threads, then shorter ones."""
    segment = 128
    threads = problem.batch * problem.signal * problem.channels // vector
    least = device.threads_per_multiprocessor * device.multiprocessors
    while segment > 16 and threads < segment * least:
        segment //= 2
    while segment >= 16:
        yield segment
        segment //= 2


def _config(problem: Filter1d, vector: int, segment: int, ahead: int) -> Config:
    needed = problem.channels // vector
    columns = next((each for each in (1, 2, 4, 8, 16, 32) if each >= needed), 32)
    chosen: dict[str, Value] = {
        "vector": vector,
        "ahead": ahead,
        "segment": segment,
        "block_columns": columns,
        "block_rows": min(128 // columns, 32),
        "min_blocks": 0,
        "store": "streaming",
    }
    return Config.of(chosen)
