"""Channels side by side (layout `btc`): a thread filters a vector of adjacent channels for adjacent outputs.

The lanes of a warp read adjacent channels of one sample, so that every access is contiguous. A thread loads each sample
of its windows once. With few taps it walks along the samples and keeps the sums in progress and all taps in registers;
with more it walks along the taps and keeps the samples of its outputs.

Source: the gather kernel of "Parallel filters", section 4.1, for many channels at once; the short causal convolutions
of state-space models, Gu and Dao 2023, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces".
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Iterator

from warpsmith.generator.architectures import MAX_GRID, STATIC_SHARED_BYTES, THREAD_REGISTERS
from warpsmith.generator.device import REFERENCE, Device
from warpsmith.generator.filter1d.constraints import channel_blocks
from warpsmith.generator.filter1d.defaults import OrderedFamily
from warpsmith.generator.filter1d.fields import SignalLayout
from warpsmith.generator.filter1d.gates import why_no_projection
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.registers_geometry import PAIRED, parts_of, vectors_of
from warpsmith.generator.filter1d.states import why_no_rows
from warpsmith.generator.filter1d.states_text import after_blocks, carry_launches
from warpsmith.generator.filter1d.text import (
    DEFAULT_REACH,
    Filter1dText,
    Weights,
    filter1d_arguments,
    filter1d_constants,
    pitches,
    weights_parameter,
    why_no_gradient,
)
from warpsmith.generator.pair_stores import pair_stores
from warpsmith.generator.problem import DType
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value, words

MAX_TAPS = 256
"""Most taps, which are added one after the other: the error of a sum of equal signs grows with their number."""
MAX_STRAIGHT = 4000
"""Most multiply-adds of a thread, which are all unrolled: past this ptxas takes tens of seconds."""
LIKELY_STRAIGHT = 2100
"""Most multiply-adds of a default, which the compiler takes 2 s for."""
OTHER_REGISTERS = 24
"""Registers besides samples, sums and taps, for addresses and the compiler."""
SHORT_TAPS = 8
"""Most taps with which a default has four channels a thread, which reads its taps from global memory. With 16 taps of
16 bits that took 2.3 to 6.7 times as long as from shared memory: the lanes of a warp read taps of channels that lie 128
bytes apart."""
FEW_TAPS = 4
"""Most taps with which a default has four channels a thread before a SiLU. With 5 to 8 taps and blocks
of four warps, four channels took 12 to 35% longer than two (H200, 8 signals of 8192 samples, 2048 channels)."""
LONG_TAPS = 40
"""Taps from which on a default has one channel a thread, so that 32 outputs fit its registers."""
MEMORY_SHARE = 3900 / REFERENCE.memory_bytes_per_ns
ISSUE_SHARE = 0.85
SCHEDULERS, WARP = 4, 32


class Walk(enum.StrEnum):
    """Order of a thread's multiply-adds."""

    SAMPLES = "samples"
    """Sample by sample: each is added to all outputs that need it, and an output is stored after its last sample."""
    TAPS = "taps"
    """Tap by tap: each is multiplied by the samples of all outputs, which the thread keeps in registers."""


@dataclasses.dataclass(frozen=True, slots=True)
class Filter1dChannelsGeometry:
    """Geometry of one config on one problem."""

    vector: int
    """Adjacent channels of a thread."""
    store_vector: int
    """Channels of one store."""
    outputs: int
    """Adjacent outputs of a thread."""
    columns: int
    """Threads of a block across the channels."""
    rows: int
    """Threads of a block along the signal."""
    channel_blocks: int
    """Blocks across the channels."""
    time_blocks: int
    """Blocks along a signal."""
    blocks: int
    window: int
    """Samples of the windows of a thread."""
    walk: Walk
    min_blocks: int
    are_all_channels: bool
    """True if every thread has channels."""

    @classmethod
    def of(cls, problem: Filter1d, config: Config) -> Filter1dChannelsGeometry:
        names = ("vector", "outputs", "block_columns", "block_rows")
        vector, outputs, columns, rows = (config.integer(name) for name in names)
        channel_blocks = -(-problem.channels // (vector * columns))
        time_blocks = -(-problem.result_length // (outputs * rows))
        return cls(
            vector=vector,
            store_vector=config.integer("store_vector"),
            outputs=outputs,
            columns=columns,
            rows=rows,
            channel_blocks=channel_blocks,
            time_blocks=time_blocks,
            blocks=channel_blocks * time_blocks * problem.batch,
            window=(outputs - 1) * problem.down + problem.taps,
            walk=Walk(config.text("walk")),
            min_blocks=config.integer("min_blocks"),
            are_all_channels=problem.channels % (vector * columns) == 0,
        )


class Filter1dChannels(OrderedFamily):
    """`filter1d` of signals whose channels lie side by side."""

    name = "filter1d_channels"
    default_reach = DEFAULT_REACH

    def why_not(self, problem: Filter1d, device: Device) -> str | None:
        if (reason := why_no_gradient(problem) or why_no_rows(problem) or why_no_projection(problem)) is not None:
            return reason
        if problem.layout is not SignalLayout.BTC:
            return "is for signals whose channels lie side by side (layout btc)"
        if problem.taps > MAX_TAPS:
            return f"is for filters of {MAX_TAPS} taps at the most; this one has {problem.taps}"
        if self.first_legal(problem, device) is None:
            return f"{problem.taps} taps and every {problem.down}-th output do not fit a thread's registers"
        return None

    def expected_ns(self, problem: Filter1d, device: Device) -> float | None:
        config = self.first_legal(problem, device)
        if config is None:
            return None
        geometry, rates = Filter1dChannelsGeometry.of(problem, config), device.rates
        multiply_adds = problem.tap_multiply_adds * problem.taps * geometry.outputs * geometry.vector
        issue = multiply_adds + 3 * geometry.vector * geometry.window + 4 * geometry.vector * geometry.outputs + 60
        warps = geometry.blocks * geometry.columns * geometry.rows / WARP / device.multiprocessors
        issued = rates.cycles_ns(max(1.0, warps) * issue / SCHEDULERS / ISSUE_SHARE)
        memory = problem.bytes / (MEMORY_SHARE * rates.memory_bytes_per_ns)
        launches = 1 + len(carry_launches(problem, self.name))
        return launches * rates.launch_ns + max(issued, memory) + 0.15 * min(issued, memory)

    def space(self, problem: Filter1d, device: Device) -> Space:
        return _space(problem, device)

    def candidates(self, problem: Filter1d, device: Device) -> Iterator[Config]:
        return _likely(problem, device)

    def unrolled(self, problem: Filter1d, config: Config) -> int:
        return _unrolled(problem, config.integer("outputs"), config.integer("vector"))

    def program(self, problem: Filter1d, config: Config) -> Program:
        geometry, weights = Filter1dChannelsGeometry.of(problem, config), Weights.of(config)
        source = render(
            "filter1d/channels.cu.jinja",
            p=Filter1dText.of(problem),
            g=geometry,
            config=config.key(),
            weights=weights.value,
            store=config.text("store"),
        )
        launch = Launch(
            entry=self.name,
            grid=(geometry.blocks + after_blocks(problem, geometry.columns * geometry.rows), 1, 1),
            block=(geometry.columns, geometry.rows, 1),
            arguments=filter1d_arguments(problem, weights),
            constants=filter1d_constants(weights),
        )
        return Program.of_source(self.name, config, source, (launch, *carry_launches(problem, self.name)))


def _unrolled(problem: Filter1d, outputs: int, vector: int) -> int:
    return problem.tap_multiply_adds * problem.taps * outputs * vector


@functools.lru_cache(maxsize=256)
def _space(problem: Filter1d, device: Device) -> Space:
    signal, result = problem.inputs[0], problem.output
    return Space(
        parameters=(
            weights_parameter(problem, (Weights.SHARED, Weights.GLOBAL)),
            Parameter("walk", words(Walk), "a thread's order: sample by sample, or tap by tap"),
            Parameter("vector", vectors_of(signal), "adjacent channels of a thread, one load"),
            Parameter("store_vector", vectors_of(result), "channels in one store"),
            Parameter("outputs", (1, 2, 4, 8, 16, 32, 64), "adjacent outputs of a thread"),
            Parameter("block_columns", (1, 2, 4, 8, 16, 32, 64, 128), "threads of a block across the channels"),
            Parameter("block_rows", (1, 2, 4, 8, 16, 32), "threads of a block along the signal"),
            Parameter("min_blocks", (0, 2, 4, 8), "blocks a multiprocessor must hold; 0 leaves it open"),
            Parameter("store", ("plain", "streaming"), "streaming marks the result as evicted first from L2"),
        ),
        constraints=(*_accesses(problem, device), *_resources(problem, device), *_blocks(problem, device)),
    )


def _accesses(problem: Filter1d, device: Device) -> tuple[Constraint, ...]:
    result, (pitch, out_pitch) = problem.output, pitches(problem)
    return (
        Constraint(
            f"a thread has whole vectors of the {problem.channels} channels, {pitch} elements apart",
            lambda vector: problem.channels % vector == 0 and pitch % vector == 0,
        ),
        Constraint(
            f"stores of results {out_pitch} elements apart are aligned only where their width divides that",
            lambda vector, store_vector: out_pitch % store_vector == 0 and vector % store_vector == 0,
        ),
        *pair_stores(result.dtype, device, "store_vector", PAIRED),
    )


def _resources(problem: Filter1d, device: Device) -> tuple[Constraint, ...]:
    parts, taps = parts_of(problem), problem.taps
    tap = 2 if problem.weights_dtype is DType.COMPLEX64 else 1
    own = problem.filters > 1

    def registers(walk: str, vector: int, outputs: int) -> int:
        if walk == Walk.SAMPLES:
            in_progress = min(outputs, -(-taps // problem.down))
            return vector * (parts * (in_progress + 1) + (tap * taps if own else 0)) + (0 if own else taps)
        return vector * (parts * (outputs + min((outputs - 1) * problem.down + 1, outputs * 2)) + (tap if own else 0))

    return (
        Constraint(
            f"at most {MAX_STRAIGHT} multiply-adds are unrolled",
            lambda vector, outputs: _unrolled(problem, outputs, vector) <= MAX_STRAIGHT,
        ),
        Constraint(
            f"samples, sums and taps of a thread must fit {THREAD_REGISTERS} registers, for {taps} taps",
            lambda walk, vector, outputs: registers(walk, vector, outputs) + OTHER_REGISTERS <= THREAD_REGISTERS,
        ),
        Constraint(
            f"the taps of a block must fit {STATIC_SHARED_BYTES >> 10} KiB of shared memory",
            lambda weights, vector, block_columns: (
                weights != Weights.SHARED
                or 4 * tap * taps * (vector * block_columns if own else 1) <= STATIC_SHARED_BYTES
            ),
        ),
        Constraint(
            f"the blocks asked for must fit the multiprocessor's {device.registers_per_multiprocessor} registers",
            lambda walk, vector, outputs, block_columns, block_rows, min_blocks: (
                min_blocks * block_columns * block_rows * (registers(walk, vector, outputs) + OTHER_REGISTERS)
                <= device.registers_per_multiprocessor
            ),
        ),
    )


def _blocks(problem: Filter1d, device: Device) -> tuple[Constraint, ...]:
    return (
        Constraint(
            "literal taps are those of one filter", lambda weights: weights != Weights.LITERAL or problem.filters == 1
        ),
        *channel_blocks(problem, device),
        Constraint(
            f"a thread with twice as many outputs as there are, {problem.result_length}, has outputs to spare",
            lambda outputs: outputs < 2 * problem.result_length,
        ),
        Constraint(
            "a grid has less than 2^31 blocks",
            lambda vector, outputs, block_columns, block_rows: (
                problem.batch
                * -(-problem.channels // (vector * block_columns))
                * -(-problem.result_length // (outputs * block_rows))
                <= MAX_GRID
            ),
        ),
    )


def _likely(problem: Filter1d, device: Device) -> Iterator[Config]:
    """Yields configs for the default, the likeliest first, legal or not.

    On an H200, 80 to 93 configs were timed for each of 16 problems of 2 to 65 taps. Few taps leave room for vectors of
    four channels; vectors of eight 16-bit channels take 9% longer with four taps. More taps need more outputs, which
    share the samples of their windows.
    """
    values = {each.name: each.values for each in _space(problem, device).parameters}
    is_short = problem.filters > 1 and problem.taps <= SHORT_TAPS
    order = (
        Weights.LITERAL,
        Weights.ARGUMENT,
        *((Weights.GLOBAL,) if is_short else ()),
        Weights.SHARED,
        Weights.GLOBAL,
    )
    places = [each.value for each in order if each.value in values["weights"]]
    result, (pitch, out_pitch) = problem.output, pitches(problem)
    four = SHORT_TAPS if problem.activation is None else FEW_TAPS
    most = max(1, (4 if problem.taps <= four else 2 if problem.taps <= LONG_TAPS else 1) // parts_of(problem))
    for weights in places:
        for walk in Walk:
            for vector in (each for each in (4, 2, 1) if each <= most):
                if problem.channels % vector or pitch % vector:
                    continue
                store = max(each for each in vectors_of(result) if out_pitch % each == 0 and vector % each == 0)
                for outputs in _outputs(problem, device, vector):
                    for min_blocks in (2, 0) if problem.taps <= SHORT_TAPS else (0,):
                        yield _config(problem, weights, walk, vector, store, outputs, min_blocks)


def _outputs(problem: Filter1d, device: Device, vector: int) -> Iterator[int]:
    """Yields numbers of outputs per thread: the most that leave enough threads, then fewer."""
    most = 8 if problem.taps <= 4 else 16 if problem.taps <= 16 else 32
    threads = problem.batch * problem.result_length * problem.channels // vector
    least = device.threads_per_multiprocessor // 2 * device.multiprocessors
    while most > 1 and (threads < most * least or _unrolled(problem, most, vector) > LIKELY_STRAIGHT):
        most //= 2
    while most >= 1:
        yield most
        most //= 2


def _config(
    problem: Filter1d, weights: str, walk: Walk, vector: int, store: int, outputs: int, min_blocks: int
) -> Config:
    needed = problem.channels // vector
    columns = next((each for each in (1, 2, 4, 8, 16, 32) if each >= needed), 32)
    chosen: dict[str, Value] = {
        "weights": weights,
        "walk": walk.value,
        "vector": vector,
        "store_vector": store,
        "outputs": outputs,
        "block_columns": columns,
        "block_rows": max(1, min((256 if SHORT_TAPS < problem.taps <= 2 * SHORT_TAPS else 128) // columns, 32)),
        "min_blocks": min_blocks,
        "store": "streaming",
    }
    return Config.of(chosen)
