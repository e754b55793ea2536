"""Short filters in registers: a thread computes adjacent outputs and reads each sample of their windows once.

Source: the gather kernel of "Parallel filters", section 4.1, with the register blocking of Iandola et al. 2013 in one
dimension. A tile in shared memory, laid out without bank conflicts, serves filters whose windows overlap much.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from warpsmith.generator.architectures import MAX_GRID, STATIC_SHARED_BYTES, THREAD_REGISTERS
from warpsmith.generator.device import Device
from warpsmith.generator.filter1d.constraints import aligned_rows
from warpsmith.generator.filter1d.defaults import OrderedFamily
from warpsmith.generator.filter1d.fields import SignalLayout
from warpsmith.generator.filter1d.gates import why_no_projection
from warpsmith.generator.filter1d.plain_family import CHAIN
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.registers_defaults import likely
from warpsmith.generator.filter1d.registers_geometry import (
    PAIRED,
    Exchange,
    Filter1dRegistersGeometry,
    MemoryPath,
    lanes_of,
    padding_of,
    parts_of,
    vectors_of,
)
from warpsmith.generator.filter1d.registers_model import expected_ns
from warpsmith.generator.filter1d.states import why_no_rows
from warpsmith.generator.filter1d.states_text import after_blocks, carry_launches
from warpsmith.generator.filter1d.text import (
    DEFAULT_REACH,
    Filter1dText,
    Weights,
    filter1d_arguments,
    filter1d_constants,
    weights_parameter,
    why_no_gradient,
)
from warpsmith.generator.pair_stores import pair_stores
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, words

MAX_TAPS = 2048
"""Most taps: transforms need fewer operations for longer filters, by far."""
MAX_STRAIGHT = 4000
"""Most multiply-adds without a loop: past this ptxas takes tens of seconds."""
GLOBAL_TAPS = 32
"""Most taps that each thread reads from global memory for itself, into registers."""
OTHER_REGISTERS = 24
"""Registers besides samples and sums, for addresses, taps and the compiler."""


class Filter1dRegisters(OrderedFamily):
    """`filter1d` with adjacent outputs of a thread in registers."""

    name = "filter1d_registers"
    default_reach = DEFAULT_REACH

    def why_not(self, problem: Filter1d, device: Device) -> str | None:
        if (reason := why_no_gradient(problem) or why_no_rows(problem) or why_no_projection(problem)) is not None:
            return reason
        if problem.packed is not None and problem.taps > GLOBAL_TAPS:
            return f"packs sequences for filters of {GLOBAL_TAPS} taps at the most; this one has {problem.taps}"
        if problem.layout is not SignalLayout.BCT:
            return "is for signals whose samples lie side by side (layout bct)"
        if problem.taps > MAX_TAPS:
            return f"is for filters of {MAX_TAPS} taps at the most; this one has {problem.taps}"
        if self.first_legal(problem, device) is None:
            windows = f"windows of {problem.taps} taps, {problem.down} samples apart"
            return f"registers, shared memory and a grid do not fit {windows}, of {problem.rows} channels"
        return None

    def expected_ns(self, problem: Filter1d, device: Device) -> float | None:
        config = self.first_legal(problem, device)
        if config is None:
            return None
        return expected_ns(problem, config, device) + len(carry_launches(problem, self.name)) * device.rates.launch_ns

    def space(self, problem: Filter1d, device: Device) -> Space:
        return _space(problem, device)

    def candidates(self, problem: Filter1d, device: Device) -> Iterator[Config]:
        return likely(problem, device, self.space(problem, device))

    def unrolled(self, problem: Filter1d, config: Config) -> int:
        outputs, turn = config.integer("outputs"), config.integer("turn")
        taps = problem.taps if not turn or problem.taps < turn else turn + problem.taps % turn
        return problem.tap_multiply_adds * outputs * taps

    def program(self, problem: Filter1d, config: Config) -> Program:
        geometry, weights = Filter1dRegistersGeometry.of(problem, config), Weights.of(config)
        source = render(
            "filter1d/registers.cu.jinja",
            p=Filter1dText.of(problem),
            g=geometry,
            config=config.key(),
            weights=weights.value,
            exchange=config.text("exchange") == Exchange.SHARED,
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


@functools.lru_cache(maxsize=256)
def _space(problem: Filter1d, device: Device) -> Space:
    signal, result = problem.inputs[0], problem.output
    return Space(
        parameters=(
            Parameter("path", words(MemoryPath), "how samples come from the signal to a thread"),
            weights_parameter(problem, (Weights.SHARED, Weights.GLOBAL)),
            Parameter("outputs", (1, 2, 4, 8, 16, 32), "adjacent outputs of a thread"),
            Parameter("load_vector", vectors_of(signal), "samples in one load from global memory"),
            Parameter("store_vector", vectors_of(result), "outputs in one store"),
            Parameter("turn", (0, 16, 32, 64), "taps in one turn of the loop; 0 unrolls all"),
            Parameter("block_columns", (32, 64, 128, 256, 512), "threads of a block along the signal"),
            Parameter("block_rows", (1, 2, 4, 8, 16), "channels of a block"),
            Parameter("exchange", words(Exchange), "whether threads store their own outputs, or exchange them first"),
            Parameter("min_blocks", (0, 2, 4, 8), "blocks a multiprocessor must hold; 0 leaves it open"),
            Parameter("store", ("plain", "streaming"), "streaming marks the result as evicted first from L2"),
        ),
        constraints=(
            *_accesses(problem, device),
            *_loops(problem),
            *_resources(problem, device),
            *_blocks(problem),
            *_sequences(problem),
        ),
    )


def _accesses(problem: Filter1d, device: Device) -> tuple[Constraint, ...]:
    return (
        *aligned_rows(problem),
        Constraint(
            "windows of a thread begin at one place of a load",
            lambda path, outputs, load_vector: path != MemoryPath.GLOBAL or outputs * problem.down % load_vector == 0,
        ),
        Constraint(
            "tiles of a block begin at one place of a load",
            lambda outputs, load_vector, block_columns: outputs * block_columns * problem.down % load_vector == 0,
        ),
        Constraint(
            "stores are aligned only where their width divides the outputs of a thread",
            lambda outputs, store_vector: outputs % store_vector == 0,
        ),
        *pair_stores(problem.output_dtype, device, "store_vector", PAIRED),
        Constraint(
            "outputs are exchanged through a tile, if a thread has several",
            lambda path, outputs, exchange: exchange == Exchange.DIRECT or (path == MemoryPath.SHARED and outputs > 1),
        ),
    )


def _loops(problem: Filter1d) -> tuple[Constraint, ...]:
    each = problem.tap_multiply_adds
    return (
        Constraint(
            "a loop over taps reads a tile, by whole parts of threads",
            lambda path, outputs, turn: (
                turn == 0 or (path == MemoryPath.SHARED and turn % (outputs * problem.down) == 0)
            ),
        ),
        Constraint(
            f"a loop has two turns at least; the filter has {problem.taps} taps",
            lambda turn: turn == 0 or 2 * turn <= problem.taps,
        ),
        Constraint(
            f"at most {MAX_STRAIGHT} multiply-adds are unrolled",
            lambda outputs, turn: (
                (turn + problem.taps % turn if turn else problem.taps) * outputs * each <= MAX_STRAIGHT
            ),
        ),
        Constraint(
            f"a thread reads up to {GLOBAL_TAPS} taps from global memory for itself",
            lambda weights: weights != Weights.GLOBAL or problem.taps <= GLOBAL_TAPS,
        ),
        Constraint(
            "literal taps are unrolled, or they would be read from memory",
            lambda weights, turn: weights != Weights.LITERAL or (turn == 0 and problem.filters == 1),
        ),
    )


def _resources(problem: Filter1d, device: Device) -> tuple[Constraint, ...]:
    parts, taps, threads = parts_of(problem), problem.taps, device.threads_per_multiprocessor
    tap = 8 if problem.weights_dtype == "complex64" else 4

    def registers(path: str, outputs: int, turn: int) -> int:
        """Registers of a thread. Straight code reads a tile as it goes on, so that only part of a window is live."""
        reach = (outputs - 1) * problem.down
        live = reach + (turn or 16) if path == MemoryPath.SHARED else reach + taps
        sums = outputs * (2 if taps > CHAIN else 1)
        return parts * (sums + live) + OTHER_REGISTERS

    def tile(outputs: int, block_columns: int) -> int:
        stride = outputs * problem.down
        samples = stride * block_columns + taps + 32
        return (samples // stride + 1) * (stride + max(padding_of(problem, outputs), lanes_of(problem, outputs)))

    def shared(path: str, weights: str, outputs: int, block_columns: int, block_rows: int) -> int:
        tiles = 4 * parts * tile(outputs, block_columns) if path == MemoryPath.SHARED else 0
        return block_rows * (tiles + (tap * (taps + 3) if weights == Weights.SHARED else 0))

    return (
        Constraint(
            f"samples and sums of a thread must fit {THREAD_REGISTERS} registers, for {taps} taps",
            lambda path, outputs, turn: registers(path, outputs, turn) <= THREAD_REGISTERS,
        ),
        Constraint(
            f"tiles and taps of a block must fit {STATIC_SHARED_BYTES >> 10} KiB of shared memory",
            lambda path, weights, outputs, block_columns, block_rows: (
                shared(path, weights, outputs, block_columns, block_rows) <= STATIC_SHARED_BYTES
            ),
        ),
        Constraint(
            "a block has 32 to 512 threads: more leave the multiprocessor no choice",
            lambda block_columns, block_rows: block_columns * block_rows <= 512,
        ),
        Constraint(
            f"a multiprocessor holds {threads} threads",
            lambda block_columns, block_rows, min_blocks: min_blocks * block_columns * block_rows <= threads,
        ),
        Constraint(
            f"the blocks asked for must fit the multiprocessor's {device.registers_per_multiprocessor} registers",
            lambda path, outputs, turn, block_columns, block_rows, min_blocks: (
                min_blocks * block_columns * block_rows * registers(path, outputs, turn)
                <= device.registers_per_multiprocessor
            ),
        ),
    )


def _blocks(problem: Filter1d) -> tuple[Constraint, ...]:
    return (
        Constraint(
            f"a block wider than twice the {problem.result_length} outputs of a channel is a narrower one",
            lambda outputs, block_columns: block_columns == 32 or outputs * block_columns < 2 * problem.result_length,
        ),
        Constraint(
            f"a block has no more channels than there are, {problem.rows}",
            lambda block_rows: block_rows <= problem.rows,
        ),
        Constraint(
            "a grid has less than 2^31 blocks",
            lambda outputs, block_columns, block_rows: (
                -(-problem.result_length // (outputs * block_columns)) * -(-problem.rows // block_rows) <= MAX_GRID
            ),
        ),
    )


def _sequences(problem: Filter1d) -> tuple[Constraint, ...]:
    if problem.packed is None:
        return ()
    why = "windows of several sequences lie in a thread's registers, from global memory"
    return (Constraint(why, lambda path: path == MemoryPath.GLOBAL),)
