"""Decoding: one or a few new samples of each channel, with a state that is moved on in the same launch.

A thread has the same channels of one or several signals: it reads their state and the new samples, which are all that
a window of a few samples needs, and writes the results and the state. No other thread reads or writes that state, so
that it may change in place.

Source: the update of the short convolution in Gu and Dao 2023, "Mamba: Linear-Time Sequence Modeling with Selective
State Spaces".
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

from warpsmith.generator.architectures import MAX_GRID
from warpsmith.generator.device import Device
from warpsmith.generator.filter1d.defaults import OrderedFamily
from warpsmith.generator.filter1d.fields import SignalLayout, SignalState
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.registers_geometry import PAIRED, parts_of, vectors_of
from warpsmith.generator.filter1d.states import state_width
from warpsmith.generator.filter1d.text import Filter1dText, Weights, count_type, filter1d_arguments, pitches
from warpsmith.generator.pair_stores import stores_pairs
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

MAX_SAMPLES = 8
"""Most new samples of a channel: more are no decoding, and other families share their windows."""
MAX_TAPS = 64
MAX_SHIFTED = 64
"""Most samples of a state that is shifted: each passes through a register."""
MAX_REGISTERS = 160
"""Samples, taps and sums of a thread, each counted as a register."""
MAX_VECTOR = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Filter1dStepGeometry:
    """Geometry of one config on one problem."""

    vector: int
    """Adjacent channels of a thread."""
    rows: int
    """Signals of a thread."""
    threads: int
    store_vector: int
    held: int
    """Samples of a channel that a thread reads from the state: all, to shift them, or the taps - 1 newest of a ring."""
    blocks: int
    count: str
    """C++ type that counts the threads."""

    @classmethod
    def of(cls, problem: Filter1d, config: Config) -> Filter1dStepGeometry:
        vector, rows, threads = (config.integer(name) for name in ("vector", "rows", "threads"))
        items = problem.channels // vector * -(-problem.batch // rows)
        return cls(
            vector=vector,
            rows=rows,
            threads=threads,
            store_vector=config.integer("store_vector"),
            held=_held(problem),
            blocks=-(-items // threads),
            count=count_type(items, threads),
        )


class Filter1dStep(OrderedFamily):
    """`filter1d` of a few new samples behind a carried state."""

    name = "filter1d_step"

    def why_not(self, problem: Filter1d, device: Device) -> str | None:
        if problem.state is not SignalState.CARRIED or problem.packed is not None:
            return "is for signals whose state is carried"
        if problem.signal > MAX_SAMPLES or problem.result_length != problem.signal:
            return f"is for {MAX_SAMPLES} new samples at the most, each with an output"
        if problem.taps > MAX_TAPS:
            return f"is for filters of {MAX_TAPS} taps at the most; this one has {problem.taps}"
        if not problem.circular and state_width(problem) > MAX_SHIFTED:
            return f"shifts {MAX_SHIFTED} samples of a state at the most; a longer one must be circular"
        if problem.layout is SignalLayout.BCT and not (problem.pitch is None and problem.result_pitch is None):
            return "is for channels without gaps between them"
        return (
            None
            if self.first_legal(problem, device) is not None
            else "samples and taps do not fit a thread's registers"
        )

    def space(self, problem: Filter1d, device: Device) -> Space:
        return _space(problem, device)

    def candidates(self, problem: Filter1d, device: Device) -> Iterator[Config]:
        return _likely(problem, device)

    def unrolled(self, problem: Filter1d, config: Config) -> int:
        return (
            problem.tap_multiply_adds
            * problem.taps
            * problem.signal
            * config.integer("vector")
            * config.integer("rows")
        )

    def program(self, problem: Filter1d, config: Config) -> Program:
        geometry, weights = Filter1dStepGeometry.of(problem, config), Weights.GLOBAL
        source = render(
            "filter1d/step.cu.jinja",
            p=Filter1dText.of(problem),
            g=geometry,
            config=config.key(),
            weights=weights.value,
        )
        arguments = filter1d_arguments(problem, weights)
        launch = Launch.of_blocks(self.name, geometry.blocks, geometry.threads, arguments)
        return Program.of_source(self.name, config, source, (launch,))


def _held(problem: Filter1d) -> int:
    return problem.taps - 1 if problem.circular else state_width(problem)


def _registers(problem: Filter1d, vector: int, rows: int) -> int:
    """Registers of a thread; a tap is counted once for each channel."""
    parts = parts_of(problem)
    return vector * (rows * parts * (_held(problem) + 2 * problem.signal) + parts * problem.taps)


@functools.lru_cache(maxsize=256)
def _space(problem: Filter1d, device: Device) -> Space:
    result = problem.output
    is_btc = problem.layout is SignalLayout.BTC
    pitch, out_pitch = pitches(problem)
    run = 1 if is_btc else problem.signal
    most = MAX_REGISTERS
    return Space(
        parameters=(
            Parameter(
                "vector", tuple(each for each in (1, 2, 4, 8) if each <= MAX_VECTOR), "adjacent channels of a thread"
            ),
            Parameter("store_vector", vectors_of(result), "results in one store"),
            Parameter("rows", (1, 2, 4, 8), "signals of a thread, which reads its taps once"),
            Parameter("threads", (32, 64, 128, 256), "threads of a block"),
            Parameter("weights", (Weights.GLOBAL.value,), "taps are read from global memory"),
        ),
        constraints=(
            Constraint(
                f"a thread has whole vectors of the {problem.channels} channels",
                lambda vector: (
                    problem.channels % vector == 0 and (not is_btc or (pitch % vector == 0 and out_pitch % vector == 0))
                ),
            ),
            Constraint(
                f"stores are aligned only where their width divides a thread's {run} results of each channel",
                lambda vector, store_vector: vector * run % store_vector == 0,
            ),
            Constraint(
                f"results of {result.dtype} are stored one by one on a device that converts no pairs",
                lambda store_vector: store_vector == 1 or stores_pairs(result.dtype, device, PAIRED),
            ),
            Constraint(
                f"a thread has no more signals than there are, {problem.batch}", lambda rows: rows <= problem.batch
            ),
            Constraint(
                f"samples, taps and sums of a thread must fit {most} registers, for {problem.taps} taps",
                lambda vector, rows: vector * rows == 1 or _registers(problem, vector, rows) <= most,
            ),
            Constraint(
                "a grid has less than 2^31 blocks",
                lambda vector, rows, threads: (
                    problem.channels // vector * -(-problem.batch // rows) // threads < MAX_GRID
                ),
            ),
        ),
    )


def _likely(problem: Filter1d, device: Device) -> Iterator[Config]:
    """Yields configs for the default, the likeliest first, legal or not.

    On an H200, 15 to 36 configs were timed for each of 16 problems of 10,240 channels and 1 to 256 signals. Four
    channels of layout `bct` take 27% longer than two with 256 signals: their states of three samples are 24 bytes
    apart, and each access of a warp then touches three times as many sectors as it moves.
    """
    result, is_btc = problem.output, problem.layout is SignalLayout.BTC
    run = 1 if is_btc else problem.signal
    enough = device.multiprocessors * device.threads_per_multiprocessor // 8
    is_wide = is_btc and problem.channels // 4 * problem.batch >= enough
    for vector in (4, 2, 1) if is_wide else (2, 1):
        widest = max(each for each in vectors_of(result) if vector * run % each == 0)
        store = widest if stores_pairs(result.dtype, device, PAIRED) else 1
        chosen: dict[str, Value] = {"vector": vector, "store_vector": store, "rows": 1, "threads": 128}
        yield Config.of({**chosen, "weights": Weights.GLOBAL.value})
