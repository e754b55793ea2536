"""Long filters by transforms of blocks in shared memory: overlap-discard in one kernel.

A thread block transforms a line, multiplies it by the filter's spectrum, transforms it back and stores the outputs that
no wrapped sample touches. A first launch makes the spectrum, by the same passes; a plan with bound weights makes it
once. Two consecutive blocks of a channel, or a block's even and odd samples, are the real and the imaginary part of a
line. Two channels never share one, so that neither scale nor NaN reaches another channel.

An FFT's error is relative to its whole block, so a problem must allow `accuracy="signalwise"`. Outputs that are not
finite are summed again from their windows alone.

Source: "Parallel filters", section 4.3, overlap-discard; Stockham 1966, "High-speed convolution and correlation".
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from warpsmith.generator.architectures import MAX_GRID
from warpsmith.generator.device import Device
from warpsmith.generator.fft.text import Packing, Twiddles
from warpsmith.generator.filter1d.defaults import RankedFamily
from warpsmith.generator.filter1d.fft_geometry import (
    Filter1dFftGeometry,
    lines_of,
    packings,
    samples_of,
    span_of,
    step_of,
)
from warpsmith.generator.filter1d.fft_model import LineShape, expected_ns, shapes_of, sizes_for, ways_of
from warpsmith.generator.filter1d.fft_text import Filter1dFftText
from warpsmith.generator.filter1d.fields import SignalLayout
from warpsmith.generator.filter1d.gates import why_no_projection
from warpsmith.generator.filter1d.plain_family import CHAIN
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.states import why_no_state
from warpsmith.generator.filter1d.text import (
    DEFAULT_REACH,
    Filter1dText,
    Weights,
    gate_arguments,
    is_strict,
    why_no_gradient,
)
from warpsmith.generator.problem import Accuracy
from warpsmith.generator.program import Argument, Launch, Pointer, Program, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value, words
from warpsmith.generator.tiles.lines import points_of, radices_of, text_of
from warpsmith.generator.tiles.space import INSTRUCTIONS

THREADS = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
LINES = (1, 2, 4, 8, 16, 32)
MIN_BLOCKS = (0, 1, 2, 3, 4, 6, 8, 12, 16)
LEAST_TAPS = 17
"""Least taps of a filter: fewer take less time as sums, whatever the device."""
START_SIZES = 5
"""Sizes of lines that a search begins with, the default's included."""
_CHANGES: tuple[dict[str, Value], ...] = (
    {"twiddles": Twiddles.POWERS.value},
    {"twiddles": Twiddles.TABLE.value},
    {"store": "streaming"},
    {"min_blocks": 0},
    {"min_blocks": 2},
    {"min_blocks": 4},
    {"min_blocks": 8},
)
"""Changes to the default config that are worth a try."""
OTHER_REGISTERS = 26
"""Registers of a thread besides those that hold its points."""
MOST_SPECTRA = 1 << 32
"""Most bytes of all filters' spectra."""


class Filter1dFft(RankedFamily):
    """`filter1d` by FFTs of blocks."""

    name = "filter1d_fft"
    default_reach = DEFAULT_REACH

    def why_not(self, problem: Filter1d, device: Device) -> str | None:
        if (reason := why_no_gradient(problem) or why_no_state(problem) or why_no_projection(problem)) is not None:
            return reason
        if problem.accuracy is not Accuracy.SIGNALWISE:
            return "has errors relative to the whole signal: accuracy signalwise"
        if problem.taps < LEAST_TAPS:
            return f"a filter of fewer than {LEAST_TAPS} taps costs less tap by tap"
        if not any(sizes_for(problem, packing, device) for packing in packings(problem)):
            shared = device.shared_per_block_bytes
            return f"no block of samples for {problem.taps} taps fits {shared} bytes of shared memory"
        if not _ranked(problem, device):
            return f"a grid and workspaces do not fit {problem.rows} channels and {problem.filters} filters"
        return None

    def ranked(self, problem: Filter1d, device: Device) -> tuple[tuple[float, Config], ...]:
        return _ranked(problem, device)

    def space(self, problem: Filter1d, device: Device) -> Space:
        return _space(problem, device)

    def starts(self, problem: Filter1d, device: Device) -> tuple[Config, ...]:
        """Configs of the likeliest sizes, and the default with fewer registers, other twiddles and other stores."""
        space, default = self.space(problem, device), self.default(problem, device)
        changed = [Config.of({**default.values(), **change}) for change in _CHANGES]
        found = [config for _, config in _ranked(problem, device)[1:START_SIZES]] + changed
        return tuple(each for each in found if space.contains(each))

    def unrolled(self, problem: Filter1d, config: Config) -> int:
        """Half of the text's transforms of registers: NVRTC takes 1 s for four times 32x32x16 points."""
        return 2 * sum(INSTRUCTIONS[radix] for radix in radices_of(config.text("radices")))

    def program(self, problem: Filter1d, config: Config) -> Program:
        geometry = Filter1dFftGeometry.of(problem, config)
        source = render(
            "filter1d/fft.cu.jinja",
            p=Filter1dText.of(problem),
            g=Filter1dFftText(geometry),
            at=geometry,
            config=config.key(),
            strict=is_strict(problem),
            chained=CHAIN if problem.taps > CHAIN else 0,
        )
        threads, shared = geometry.lines.threads, geometry.lines.shared_bytes
        taps: tuple[Argument, ...] = () if problem.weights is not None else (Pointer("weights"),)
        bias: tuple[Argument, ...] = (Pointer("bias"),) if problem.bias else ()
        spectra = Pointer("spectra")
        copied = (Pointer("taps"),) if taps and is_strict(problem) else ()
        samples = (Pointer("signal"), Pointer("result"), spectra, *copied, *bias, *gate_arguments(problem))

        def launch(entry: str, blocks: int, arguments: tuple[Argument, ...]) -> Launch:
            return Launch(entry, (blocks, 1, 1), (threads, 1, 1), arguments, shared)

        launches = (
            launch(f"{self.name}_spectrum", geometry.spectrum_blocks, (spectra, *taps, *copied)),
            launch(self.name, geometry.blocks, samples),
        )
        copies = (Workspace("taps", problem.operands[1].nbytes, holds=("weights",)),) if copied else ()
        workspaces = (Workspace("spectra", geometry.spectrum_bytes, holds=("weights",)), *copies)
        return Program.of_source(self.name, config, source, launches, workspaces)


@functools.lru_cache(maxsize=256)
def _space(problem: Filter1d, device: Device) -> Space:
    radices = {
        text_of(way): None
        for packing in packings(problem)
        for points in sizes_for(problem, packing, device)
        for way in ways_of(points)
    }
    return Space(
        parameters=(
            Parameter("weights", words((Weights.GLOBAL,)), "where the spectrum's kernel finds the taps"),
            Parameter("packing", words(packings(problem)), "blocks of a channel as complex lines"),
            Parameter("radices", tuple(radices), "points of a line, as radices in the order of passes"),
            Parameter("lines", LINES, "lines of a thread block"),
            Parameter("threads", THREADS, "threads of a block"),
            Parameter("min_blocks", MIN_BLOCKS, "blocks a multiprocessor must hold; 0 leaves it open"),
            Parameter("twiddles", (Twiddles.TABLE.value, Twiddles.POWERS.value), "from memory, or some as products"),
            Parameter("store", ("plain", "streaming"), "streaming marks the result as evicted first from L2"),
        ),
        constraints=(*_sizes(problem, device), *_resources(problem, device)),
    )


def _sizes(problem: Filter1d, device: Device) -> tuple[Constraint, ...]:
    def legal(packing: str, radices: str) -> bool:
        return points_of(radices) in sizes_for(problem, Packing(packing), device)

    def are_countable(packing: str, radices: str, lines: int) -> bool:
        row_lines = _row_lines(problem, packing, radices)
        if problem.layout is SignalLayout.BTC:
            return problem.batch * -(-problem.channels // lines) * row_lines <= MAX_GRID
        return problem.rows * row_lines + lines <= MAX_GRID

    def items(packing: str, radices: str) -> bool:
        last = radices_of(radices)[-1]
        return packing != Packing.HALF or (last % 2 == 0 and points_of(radices) // last % 2 == 0)

    return (
        Constraint(f"blocks have outputs for {problem.taps} taps, every {problem.down}-th of them is kept", legal),
        Constraint("frequencies k and -k lie in two items of the last pass, in pairs", items),
        Constraint(
            f"a grid has less than 2^31 blocks, and a kernel counts lines in 32 bits, of {problem.rows} channels",
            are_countable,
        ),
        Constraint(
            f"spectra of {problem.filters} filters take at most {MOST_SPECTRA} bytes",
            lambda packing, radices: (
                8 * problem.filters * samples_of(points_of(radices), Packing(packing)) <= MOST_SPECTRA
            ),
        ),
        Constraint(
            f"twice as many lines of a thread block as there are, of {problem.rows} channels, are idle",
            lambda packing, radices, lines: lines == 1 or lines < 2 * _most_lines(problem, packing, radices),
        ),
    )


def _most_lines(problem: Filter1d, packing: str, radices: str) -> int:
    """Lines that a thread block may have work for."""
    if problem.layout is SignalLayout.BTC:
        return problem.channels
    return problem.rows * _row_lines(problem, packing, radices)


def _row_lines(problem: Filter1d, packing: str, radices: str) -> int:
    """Lines of a row; a block without outputs counts as one with a single one, since a search asks about any values."""
    made = Packing(packing)
    step = step_of(problem, points_of(radices), made) * (2 if made is Packing.PAIR else 1)
    return -(-span_of(problem) // max(1, step))


def _shared_bytes(problem: Filter1d, radices: str, lines: int) -> int:
    is_btc = problem.layout is SignalLayout.BTC
    return lines_of(radices_of(radices), lines, is_btc, 0).shared_bytes


def _resources(problem: Filter1d, device: Device) -> tuple[Constraint, ...]:
    limit, whole = device.shared_per_block_bytes, device.shared_per_multiprocessor_bytes
    registers, threads_limit = device.registers_per_multiprocessor, device.threads_per_multiprocessor
    reserved = device.limits.reserved_shared_bytes
    return (
        Constraint(
            f"lines of a block fit {limit} bytes of shared memory",
            lambda radices, lines: _shared_bytes(problem, radices, lines) <= limit,
        ),
        Constraint(
            "threads have work in the pass that has most",
            lambda radices, lines, threads: threads <= max(32, lines * points_of(radices) // min(radices_of(radices))),
        ),
        Constraint(
            f"a multiprocessor holds {threads_limit} threads and {whole} bytes of shared memory",
            lambda radices, lines, threads, min_blocks: (
                min_blocks * threads <= threads_limit
                and (min_blocks <= 1 or min_blocks * (_shared_bytes(problem, radices, lines) + reserved) <= whole)
            ),
        ),
        Constraint(
            f"a thread's points and {OTHER_REGISTERS} registers fit {registers} of a multiprocessor",
            lambda packing, radices, threads, min_blocks: (
                registers_of(packing, radices) * max(1, min_blocks) * threads <= registers
            ),
        ),
    )


def registers_of(packing: str, radices: str) -> int:
    """Registers that a thread needs, as a guess."""
    factors = radices_of(radices)
    return 2 * max(*factors, 2 * factors[-1] if packing == Packing.HALF else 0) + OTHER_REGISTERS


@functools.lru_cache(maxsize=64)
def _ranked(problem: Filter1d, device: Device) -> tuple[tuple[float, Config], ...]:
    """A legal config of each shape with its expected time in ns, the fastest first."""
    space, found = _space(problem, device), []
    for packing in packings(problem):
        for shape in shapes_of(problem, packing):
            config = next(filter(space.contains, _configs(packing, shape)), None)
            if config is not None:
                geometry = Filter1dFftGeometry.of(problem, config)
                found.append((expected_ns(problem, geometry, shape.cycles, device), config))
    return tuple(sorted(found, key=lambda each: (each[0], each[1].key())))


def _configs(packing: Packing, shape: LineShape) -> Iterator[Config]:
    """Yields configs of a shape, the likeliest first, legal or not."""
    values: dict[str, Value] = {
        "weights": Weights.GLOBAL.value,
        "packing": packing.value,
        "radices": text_of(shape.radices),
        "min_blocks": shape.min_blocks,
        "twiddles": shape.twiddles.value,
        "store": "plain",
    }
    yield Config.of({**values, "lines": shape.lines, "threads": shape.threads})
    lines = shape.lines // 2
    while lines:
        yield Config.of(
            {**values, "lines": lines, "threads": max(32, shape.threads * lines // shape.lines), "min_blocks": 0}
        )
        lines //= 2
