"""Streams with low latency: short chunks of a signal through a long filter, whose taps come in partitions.

The outputs of a chunk need its samples and the taps - 1 before it, which the carried state holds. Thread blocks share
the partitions of the filter: each transforms the samples under its partitions, multiplies them by the partitions'
spectra, adds the products and transforms the sum back. A second launch adds the sums of all blocks, in a fixed order,
and writes the new samples into a circular state. A first launch makes the spectra; a plan with bound weights runs it
once.

The partitioned convolution of the literature keeps the spectra of earlier blocks in a delay line. Here a chunk's length
is not bound to that of a partition, so that 32 samples may use partitions of a thousand taps, and the samples are
transformed again: a GPU has the arithmetic, and a line of spectra has at least twice the bytes of the samples.

Source: Gardner 1995, "Efficient convolution without input-output delay"; Wefers 2015, "Partitioned convolution
algorithms for real-time auralization", chapter 5; "Parallel filters", section 4.3, overlap-discard.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from warpsmith.generator.architectures import MAX_GRID
from warpsmith.generator.device import Device
from warpsmith.generator.fft.text import Twiddles
from warpsmith.generator.filter1d.defaults import GpuFamily
from warpsmith.generator.filter1d.fft_model import SIZES, ways_of
from warpsmith.generator.filter1d.fft_text import Filter1dFftText
from warpsmith.generator.filter1d.fields import SignalLayout, SignalState
from warpsmith.generator.filter1d.gates import why_no_gates
from warpsmith.generator.filter1d.partitioned_geometry import (
    PartitionedGeometry,
    lines_of_filter,
    part_taps,
    writes_ring,
)
from warpsmith.generator.filter1d.partitioned_model import SHAPES, PartitionedShape, chunk_ns, spectra_ns
from warpsmith.generator.filter1d.plain_family import CHAIN
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.states import why_no_rows
from warpsmith.generator.filter1d.states_text import carry_launches
from warpsmith.generator.filter1d.text import DEFAULT_REACH, Filter1dText, Weights, is_strict, why_no_gradient
from warpsmith.generator.problem import Accuracy
from warpsmith.generator.program import Argument, Launch, Pointer, Program, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value, words
from warpsmith.generator.tiles.lines import axis_of, points_of, radices_of, span, text_of
from warpsmith.generator.tiles.space import INSTRUCTIONS, resident

THREADS = (32, 64, 128, 256, 512, 1024)
BLOCK_LINES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
LEAST_TAPS = 129
"""Least taps of a filter: fewer take less time as sums."""
USEFUL = 4
"""Points of a line, in taps and samples of the problem, beyond which a longer line has no use."""
OTHER_REGISTERS = 30
"""Registers of a thread besides those that hold its points and sums."""
MOST_BYTES = 1 << 32
"""Most bytes of the spectra, and of the sums."""
START_SHAPES = 6
"""Shapes that a search begins with, the default's included."""
SERIAL_LANE = 32
"""Lanes of the warp that adds an output's window again."""


class Filter1dPartitioned(GpuFamily):
    """`filter1d` of chunks by partitions of the filter."""

    name = "filter1d_partitioned"
    default_reach = DEFAULT_REACH

    def why_not(self, problem: Filter1d, device: Device) -> str | None:
        if (reason := why_no_gradient(problem) or why_no_gates(problem)) is not None:
            return reason
        if problem.packed is not None or problem.state is not SignalState.CARRIED:
            return "filters chunks of a stream: state carried, and no packed sequences"
        if (reason := _why_not_these_states(problem)) is not None:
            return reason
        if problem.accuracy is not Accuracy.SIGNALWISE:
            return "has errors relative to the whole signal: accuracy signalwise"
        if problem.taps < LEAST_TAPS:
            return f"a filter of fewer than {LEAST_TAPS} taps costs less tap by tap"
        if not _sizes(problem, device):
            return f"no line that fits shared memory has room for chunks of {problem.signal} samples"
        if not _ranked(problem, device):
            return f"a grid and workspaces do not fit {problem.rows} channels and {problem.filters} filters"
        return None

    def expected_ns(self, problem: Filter1d, device: Device) -> float | None:
        ranked = _ranked(problem, device)
        if not ranked:
            return None
        chunk, cycles, config = ranked[0]
        return chunk + spectra_ns(PartitionedGeometry.of(problem, config), cycles, device)

    def space(self, problem: Filter1d, device: Device) -> Space:
        return _space(problem, device)

    def default(self, problem: Filter1d, device: Device) -> Config:
        ranked = _ranked(problem, device)
        if not ranked:
            raise ValueError(f"{self.name} has no config for {problem.key()}; ask why_not first")
        return ranked[0][2]

    def starts(self, problem: Filter1d, device: Device) -> tuple[Config, ...]:
        """The likeliest configs of other shapes, and the default with other twiddles and loads."""
        space, default = self.space(problem, device), self.default(problem, device)
        best: dict[Value, Config] = {}
        for _, _, config in _ranked(problem, device):
            best.setdefault(config.text("radices"), config)
        changed = [
            Config.of({**default.values(), "twiddles": each.value, "factors": factors})
            for each in Twiddles
            for factors in ("late", "early")
        ]
        found = [*list(best.values())[1:START_SHAPES], *changed]
        return tuple(each for each in dict.fromkeys(found) if each != default and space.contains(each))

    def unrolled(self, problem: Filter1d, config: Config) -> int:
        """Half of the text's transforms of registers, as in `filter1d_fft`."""
        return 2 * sum(INSTRUCTIONS[radix] for radix in radices_of(config.text("radices")))

    def program(self, problem: Filter1d, config: Config) -> Program:
        geometry, strict = PartitionedGeometry.of(problem, config), is_strict(problem)
        source = render(
            "filter1d/partitioned.cu.jinja",
            p=Filter1dText.of(problem),
            g=Filter1dFftText(geometry),
            at=geometry,
            config=config.key(),
            strict=strict,
            stores_ring=writes_ring(problem),
            chained=CHAIN if problem.taps > CHAIN * SERIAL_LANE else 0,
        )
        return Program.of_source(
            self.name,
            config,
            source,
            _launches(self.name, problem, geometry),
            (
                Workspace("spectra", geometry.spectrum_bytes, holds=("weights",)),
                Workspace("sums", geometry.sum_bytes),
            ),
        )


def _launches(family: str, problem: Filter1d, geometry: PartitionedGeometry) -> tuple[Launch, ...]:
    def pointers(*names: str | None) -> tuple[Argument, ...]:
        return tuple(Pointer(name) for name in names if name is not None)

    weights = None if problem.weights is not None else "weights"
    position = "positions" if problem.circular else None
    threads, shared = (geometry.lines.threads, 1, 1), geometry.lines.shared_bytes
    spectra, sums = pointers("spectra", weights), pointers("signal", "state", position, "spectra", "sums")
    reads_state = is_strict(problem) or writes_ring(problem)
    finish = pointers(
        "sums",
        "result",
        *(("signal", "state", position) if reads_state else ()),
        weights if is_strict(problem) else None,
        "bias" if problem.bias else None,
    )
    finishing = geometry.rows * geometry.row_blocks
    launches = (
        Launch(f"{family}_spectra", (geometry.filters * geometry.line_count, 1, 1), threads, spectra, shared),
        Launch(family, (geometry.blocks, 1, 1), threads, sums, shared),
        Launch.of_blocks(f"{family}_finish", finishing, geometry.finish_threads, finish),
    )
    return launches if writes_ring(problem) else (*launches, *carry_launches(problem, family))


def _why_not_these_states(problem: Filter1d) -> str | None:
    if problem.state_rows is not None:
        return why_no_rows(problem)
    if problem.layout is SignalLayout.BTC:
        return "filters channels whose samples lie side by side: layout bct"
    return None


@functools.lru_cache(maxsize=256)
def _sizes(problem: Filter1d, device: Device) -> tuple[int, ...]:
    """Points of lines that have a partition; the smallest alone if none is useful.

    A partition has at least a third as many taps as the chunk has samples: with fewer, most points are the chunk's.
    """
    legal = [each for each in SIZES if ways_of(each) and 3 * part_taps(each, problem.signal) >= problem.signal]
    fitting = [each for each in legal if resident(span(axis_of(ways_of(each)[0], 1)), device)]
    useful = [each for each in fitting if each <= USEFUL * (problem.taps + problem.signal)]
    return tuple(useful or fitting[:1])


@functools.lru_cache(maxsize=256)
def _space(problem: Filter1d, device: Device) -> Space:
    radices = {text_of(way): None for points in _sizes(problem, device) for way in ways_of(points)}
    radices |= {text_of(shape.radices): None for shape in _shapes(problem, device)}
    return Space(
        parameters=(
            Parameter("weights", words((Weights.GLOBAL,)), "where the spectra's kernel finds the taps"),
            Parameter("radices", tuple(radices), "points of a line, as radices in the order of passes"),
            Parameter("threads", THREADS, "threads of a block"),
            Parameter("block_lines", BLOCK_LINES, "lines of a filter whose products a thread block adds"),
            Parameter("factors", ("late", "early"), "spectra loaded when they are used, or before the transform"),
            Parameter("twiddles", (Twiddles.TABLE.value, Twiddles.POWERS.value), "from memory, or some as products"),
        ),
        constraints=_constraints(problem, device),
    )


def _shapes(problem: Filter1d, device: Device) -> tuple[PartitionedShape, ...]:
    sizes = _sizes(problem, device)
    return tuple(each for each in SHAPES if points_of(text_of(each.radices)) in sizes)


def _constraints(problem: Filter1d, device: Device) -> tuple[Constraint, ...]:
    limit, registers = device.shared_per_block_bytes, device.registers_per_multiprocessor

    def lines(radices: str) -> int:
        return lines_of_filter(problem, points_of(radices))

    def fits_workspaces(radices: str, block_lines: int) -> bool:
        blocks = problem.rows * -(-lines(radices) // block_lines)
        spectra = 8 * problem.filters * lines(radices) * points_of(radices)
        sums = blocks * problem.signal * (8 if problem.dtype.itemsize == 8 else 4)
        return max(spectra, sums) <= MOST_BYTES and blocks <= MAX_GRID

    return (
        Constraint(
            f"lines of a partition fit {limit} bytes of shared memory",
            lambda radices: 8 * span(axis_of(radices_of(radices), 1, True)) <= limit,
        ),
        Constraint(
            "each transform of the last pass has a thread, which adds its frequencies",
            lambda radices, threads: threads >= points_of(radices) // radices_of(radices)[-1],
        ),
        Constraint(
            "threads have work in the pass that has most",
            lambda radices, threads: threads <= max(32, points_of(radices) // min(radices_of(radices))),
        ),
        Constraint(
            f"a thread's points, its sums and {OTHER_REGISTERS} registers fit {registers} of a multiprocessor",
            lambda radices, threads, factors: registers_of(radices, factors) * threads <= registers,
        ),
        Constraint(
            f"a thread block has lines of the {problem.taps} taps",
            lambda radices, block_lines: block_lines == 1 or block_lines <= lines(radices),
        ),
        Constraint(f"spectra and sums take at most {MOST_BYTES} bytes, and a grid has less than 2^31", fits_workspaces),
    )


def registers_of(radices: str, factors: str) -> int:
    """Registers that a thread needs, as a guess: points of a pass, sums of the last one, and its factors if early."""
    steps = radices_of(radices)
    return 2 * (max(steps) + steps[-1] * (2 if factors == "early" else 1)) + OTHER_REGISTERS


@functools.lru_cache(maxsize=64)
def _ranked(problem: Filter1d, device: Device) -> tuple[tuple[float, float, Config], ...]:
    """Expected time of a chunk in ns, cycles of a point, and config, of each legal shape, the fastest first."""
    space, found = _space(problem, device), []
    for shape in _shapes(problem, device):
        for config in filter(space.contains, _configs(problem, shape, device)):
            geometry = PartitionedGeometry.of(problem, config)
            found.append((chunk_ns(problem, geometry, shape.cycles, device), shape.cycles, config))
    return tuple(sorted(found, key=lambda each: (each[0], each[2].key())))


def _configs(problem: Filter1d, shape: PartitionedShape, device: Device) -> Iterator[Config]:
    """Yields configs of a shape, legal or not.

    Early loads of factors take registers: they save 1 us of 8 unless thread blocks of one line fill all SMs twice.
    """
    radices = text_of(shape.radices)
    lines = lines_of_filter(problem, points_of(radices))
    has_room = registers_of(radices, "early") * shape.threads <= device.registers_per_multiprocessor
    for block_lines in BLOCK_LINES:
        is_full = block_lines == 1 and problem.rows * lines > 2 * device.multiprocessors
        yield Config.of(
            {
                "weights": Weights.GLOBAL.value,
                "radices": radices,
                "threads": shape.threads,
                "block_lines": block_lines,
                "factors": "early" if has_room and not is_full else "late",
                "twiddles": shape.twiddles.value,
            }
        )
