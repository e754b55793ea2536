"""Two long signals with each other in parts, by each of the document's methods: pairs of blocks, divisions, intervals.

The signal and the taps are cut into blocks, and a pair of blocks adds to one interval of their convolution:

- `blocks`: one block of taps after the other filters the whole signal by overlap-discard, and the results accumulate.
- `space`: all pairs, tap by tap.
- `pairs`: the spectra of all blocks are made once, and each product of two is transformed back.
- `divisions`: the products of all pairs of an interval are added before one inverse transform.

Intervals of one division do not overlap. The divisions of the last three ways are added one after the other, in a
launch each, or made together in buffers of their own, which a last launch adds. Sums have the same bits in every run.
Pairs that reach no output are never computed. `filter1d_lags` is the first way by transforms, with its accumulation
moved before the inverse.

Two blocks of one real signal are the real and the imaginary part of a line: blocks i and i + L2 / L1 of the signal,
and j and j - 1 of the taps, since the pairs (i, j) and (i + L2 / L1, j - 1) reach one interval. The real part of their
convolution, with the second block of taps negative, is the sum of both pairs.

A NaN spreads over its interval, so a problem must allow that: `nonfinite="any"`.

Source: "Parallel filters", section 4.3, convolution in parts.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from warpsmith.generator.architectures import MAX_GRID, STATIC_SHARED_BYTES
from warpsmith.generator.device import Device
from warpsmith.generator.filter1d.defaults import RankedFamily
from warpsmith.generator.filter1d.fields import SignalLayout
from warpsmith.generator.filter1d.lags_geometry import lines_of
from warpsmith.generator.filter1d.parts_geometry import (
    NO_LINES,
    THREADS,
    Accumulation,
    Filter1dPartsGeometry,
    Way,
    divisions_of,
)
from warpsmith.generator.filter1d.parts_model import expected_ns
from warpsmith.generator.filter1d.parts_text import PartsText
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.text import Filter1dText, Weights, count_type, is_strict, why_no_epilogue
from warpsmith.generator.problem import Accuracy, DType
from warpsmith.generator.program import Argument, Launch, Pointer, Program, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value, words
from warpsmith.generator.tiles.lines import points_of, radices_of
from warpsmith.generator.tiles.space import INSTRUCTIONS
from warpsmith.generator.tiles.tile import COMPLEX_BYTES

BLOCKS = (64, 96, 128, 256, 512, 1024, 2048, 4096)
"""Elements of blocks of the signal, and of the taps."""
RADICES = (NO_LINES, "32x8", "8x8x8", "16x8x8", "16x8x16", "16x16x16", "32x16x16")
"""Points of lines: the first pass has no more items than threads, one for each item of the last pass."""
MOST_RATIO = 4
"""Largest ratio of both blocks; there is a division, and perhaps a launch, for each block of the ratio and one more."""
OTHER_REGISTERS = 30
"""Registers of a thread besides its points of a line and its sums."""
MOST_BYTES = 1 << 33
"""Most bytes of a workspace."""


class Filter1dParts(RankedFamily):
    """`filter1d` of two long signals by pairs of their blocks."""

    name = "filter1d_parts"

    def why_not(self, problem: Filter1d, device: Device) -> str | None:
        if (reason := why_no_epilogue(problem)) is not None:
            return reason
        if problem.layout is not SignalLayout.BCT:
            return "loads samples of a channel that lie side by side: layout bct"
        if problem.accuracy is not Accuracy.SIGNALWISE:
            return "has errors relative to the whole signal: accuracy signalwise"
        if is_strict(problem):
            return "spreads a NaN over an interval of the result: nonfinite any"
        if not _ranked(problem, device):
            return f"grids and workspaces do not fit {problem.rows} channels of {problem.result_length} outputs"
        return None

    def ranked(self, problem: Filter1d, device: Device) -> tuple[tuple[float, Config], ...]:
        return _ranked(problem, device)

    def space(self, problem: Filter1d, device: Device) -> Space:
        return _space(problem, device)

    def starts(self, problem: Filter1d, device: Device) -> tuple[Config, ...]:
        """The likeliest configs of each way."""
        found: dict[str, list[Config]] = {}
        for _, config in _ranked(problem, device)[1:]:
            found.setdefault(config.text("way"), []).append(config)
        return tuple(config for configs in found.values() for config in configs[:3])

    def unrolled(self, problem: Filter1d, config: Config) -> int:
        copies = config.integer("taps_block") // config.integer("signal_block") + 1
        if config.text("radices") == NO_LINES:
            own = Filter1dPartsGeometry.of(problem, config).own
            return 4 * own * (copies if config.text("accumulation") == Accumulation.SEQUENTIAL else 1)
        inverse = sum(INSTRUCTIONS[radix] for radix in radices_of(config.text("radices")))
        return inverse * (1 + (copies if config.text("accumulation") == Accumulation.SEQUENTIAL else 1))

    def program(self, problem: Filter1d, config: Config) -> Program:
        geometry = Filter1dPartsGeometry.of(problem, config)
        source = render(
            "filter1d/parts.cu.jinja",
            p=Filter1dText.of(problem),
            g=PartsText.of(geometry.lines, geometry.twiddles) if geometry.lines else None,
            at=geometry,
            config=config.key(),
            adding=THREADS,
            count=count_type(problem.output.size, THREADS),
        )
        launches = tuple(_launches(self.name, problem, geometry))
        workspaces = [
            Workspace("spectra", COMPLEX_BYTES * geometry.points * geometry.spectrum_lines) if geometry.lines else None,
            Workspace("buffers", geometry.number_bytes * geometry.buffer_elements)
            if geometry.buffer_elements
            else None,
        ]
        return Program.of_source(self.name, config, source, launches, tuple(filter(None, workspaces)))


def _launches(name: str, problem: Filter1d, geometry: Filter1dPartsGeometry) -> Iterator[Launch]:
    taps: tuple[Argument, ...] = () if problem.weights is not None else (Pointer("weights"),)
    shared = geometry.shared_bytes if geometry.lines else 0
    given: tuple[Argument, ...] = (Pointer("signal"), *taps)

    def launch(entry: str, blocks: int, arguments: tuple[Argument, ...]) -> Launch:
        return Launch(entry, (blocks, 1, 1), (geometry.threads, 1, 1), arguments, shared)

    if geometry.way is Way.BLOCKS:
        yield launch(name, geometry.rows * geometry.groups, (Pointer("signal"), Pointer("result"), *taps))
        return
    if geometry.lines:
        spectra = Pointer("spectra")
        yield launch(f"{name}_spectra", geometry.spectrum_lines, (Pointer("signal"), spectra, *taps))
        given = (spectra,)
    if geometry.accumulation is Accumulation.BUFFERS:
        buffers = Pointer("buffers")
        yield launch(name, geometry.rows * geometry.intervals, (*given, buffers))
        blocks = -(-problem.output.size // THREADS)
        yield Launch.of_blocks(f"{name}_add", blocks, THREADS, (buffers, Pointer("result")))
        return
    for part in geometry.parts:
        yield launch(f"{name}_{part.division}", geometry.rows * len(part.numbers), (*given, Pointer("result")))


def _accumulations(problem: Filter1d) -> tuple[Accumulation, ...]:
    """Ways of adding that do not round partial sums to the result's type."""
    is_wide = problem.output_dtype in (DType.FLOAT32, DType.COMPLEX64)
    return tuple(each for each in Accumulation if is_wide or each is not Accumulation.SEQUENTIAL)


@functools.lru_cache(maxsize=256)
def _space(problem: Filter1d, device: Device) -> Space:
    return Space(
        parameters=(
            Parameter("weights", words((Weights.GLOBAL,)), "where the kernel finds the taps"),
            Parameter("way", words(Way), "pairs of blocks in space or by transforms, and the inverses of these"),
            Parameter("accumulation", words(_accumulations(problem)), "how sums that reach one output are added"),
            Parameter("signal_block", BLOCKS, "samples of a block"),
            Parameter("taps_block", BLOCKS, "taps of a block"),
            Parameter("radices", RADICES, "points of a line, as radices of passes; none without transforms"),
        ),
        constraints=(*_shapes(problem), *_resources(problem, device)),
    )


def _shapes(problem: Filter1d) -> tuple[Constraint, ...]:
    return (
        Constraint(
            "blocks of the signal divide those of the taps, so that a pair reaches one interval of one division",
            lambda way, signal_block, taps_block: way == Way.BLOCKS or taps_block % signal_block == 0,
        ),
        Constraint(
            f"blocks of the taps are at most {MOST_RATIO} times as long",
            lambda way, signal_block, taps_block: way == Way.BLOCKS or taps_block <= MOST_RATIO * signal_block,
        ),
        Constraint(
            "sums stay in registers in way blocks, and only there",
            lambda way, accumulation: (way == Way.BLOCKS) == (accumulation == Accumulation.REGISTERS),
        ),
        Constraint(
            "lines are for ways with transforms, and have half to all of their points in both blocks",
            lambda way, signal_block, taps_block, radices: (
                signal_block + taps_block <= points_of(radices) < 2 * (signal_block + taps_block)
                if Way(way).transforms and radices != NO_LINES
                else not Way(way).transforms and radices == NO_LINES
            ),
        ),
        Constraint(
            f"blocks have use for {problem.signal} samples and {problem.taps} taps",
            lambda signal_block, taps_block: (
                (signal_block < 2 * problem.signal or signal_block == BLOCKS[0])
                and (taps_block < 2 * problem.taps or taps_block <= max(BLOCKS[0], signal_block))
            ),
        ),
    )


def _resources(problem: Filter1d, device: Device) -> tuple[Constraint, ...]:
    limit, registers = device.shared_per_block_bytes, device.registers_per_multiprocessor
    number = COMPLEX_BYTES if problem.dtype is DType.COMPLEX64 else COMPLEX_BYTES // 2

    def fits(way: str, signal_block: int, taps_block: int, radices: str) -> bool:
        if radices != NO_LINES:
            lines = lines_of(radices_of(radices), 1)
            first, *_, last = radices_of(radices)
            kept = first * number // 4 if way == Way.PAIRS else 0  # sums of pairs, beside a transform
            needed = 2 * max(first, 2 * last) + kept + OTHER_REGISTERS
            return lines.shared_bytes <= limit and lines.threads * needed <= registers
        factors = taps_block if way == Way.BLOCKS else signal_block
        sums = signal_block if way == Way.BLOCKS else signal_block + taps_block
        return number * (-(-sums // THREADS) * THREADS + 2 * factors) <= min(limit, STATIC_SHARED_BYTES)

    def are_countable(way: str, signal_block: int, taps_block: int, radices: str) -> bool:
        blocks = problem.rows * -(-problem.result_length * problem.down // signal_block)
        if way == Way.BLOCKS or taps_block % signal_block:
            return blocks <= MAX_GRID
        made = divisions_of(problem, signal_block, taps_block)
        intervals = problem.rows * made.count * ((made.end - made.begin) // made.step + 2)
        lines = problem.rows * made.first_blocks + problem.filters * (made.second_blocks + 1)
        points = 0 if radices == NO_LINES else points_of(radices)
        sizes = number * intervals * made.step, COMPLEX_BYTES * lines * points
        return max(intervals, lines, problem.output.size // THREADS + 1) <= MAX_GRID and max(sizes) <= MOST_BYTES

    return (
        Constraint(
            f"lines fit {limit} bytes of shared memory and {registers} registers, and blocks without lines too", fits
        ),
        Constraint(
            f"a grid has at most {MAX_GRID} blocks and a workspace {MOST_BYTES} bytes, for {problem.rows} channels",
            are_countable,
        ),
    )


@functools.lru_cache(maxsize=64)
def _ranked(problem: Filter1d, device: Device) -> tuple[tuple[float, Config], ...]:
    """Likely configs with their expected times in ns, the fastest first."""
    space, found = _space(problem, device), []
    for config in filter(space.contains, _configs()):
        geometry = Filter1dPartsGeometry.of(problem, config)
        found.append((expected_ns(problem, geometry, device), config))
    return tuple(sorted(found, key=lambda each: (each[0], each[1].key())))


def _configs() -> Iterator[Config]:
    """Yields configs of each way, legal or not."""
    for way in Way:
        ways = (Accumulation.REGISTERS,) if way is Way.BLOCKS else (Accumulation.SEQUENTIAL, Accumulation.BUFFERS)
        for radices in RADICES[1:] if way.transforms else (NO_LINES,):
            for block in (points_of(radices) // 2,) if way.transforms else (64, 256, 1024):
                for each in ways:
                    yield _config(way, each, block, radices)


def _config(way: Way, accumulation: Accumulation, block: int, radices: str) -> Config:
    values: dict[str, Value] = {
        "weights": Weights.GLOBAL.value,
        "way": way.value,
        "accumulation": accumulation.value,
        "signal_block": block,
        "taps_block": block,
        "radices": radices,
    }
    return Config.of(values)
