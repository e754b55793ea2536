"""Filters beyond shared memory: overlap-discard by FFTs of four steps in one persistent launch.

A block of up to 2^26 samples is a matrix in a workspace. Jobs transform its columns, then its rows, which they multiply
by the filter's and transform back, then its columns back. Thread blocks take jobs in one order, in which the jobs of
several blocks of samples alternate, and wait for the jobs that theirs depend on. Few matrices are at work at a time,
whatever the size of the problem, and most of their traffic stays in L2.

Real samples m and m + n of a block of 2 n are one complex number of a negacyclic transform, so that no frequency needs
a partner and a block needs no other block. Two channels never share a matrix.

An FFT's error is relative to its whole block, so a problem must allow `accuracy="signalwise"`. A last launch sums
outputs that are not finite again, from their windows alone.

Source: "Parallel filters", section 4.3, overlap-discard; Bailey 1990, "FFTs in external or hierarchical memory", the
four steps; Nussbaumer 1982, "Fast Fourier transform and convolution algorithms", negacyclic convolution.
"""

from __future__ import annotations

import functools

from warpsmith.generator.device import Device
from warpsmith.generator.fft.text import Twiddles
from warpsmith.generator.filter1d.defaults import RankedFamily
from warpsmith.generator.filter1d.fft_long_geometry import Filter1dFftLongGeometry
from warpsmith.generator.filter1d.fft_long_model import expected_ns, shapes_for
from warpsmith.generator.filter1d.fft_long_parameters import Spectra
from warpsmith.generator.filter1d.fft_long_space import WORK_BYTES, configs, long_space
from warpsmith.generator.filter1d.fft_long_text import Filter1dFftLongText
from warpsmith.generator.filter1d.gates import why_no_gates
from warpsmith.generator.filter1d.plain_family import CHAIN
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.states import why_no_state
from warpsmith.generator.filter1d.text import DEFAULT_REACH, Filter1dText, is_strict, why_no_gradient
from warpsmith.generator.problem import Accuracy
from warpsmith.generator.program import Argument, Launch, Pointer, Program, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Space, Value
from warpsmith.generator.steps import PROGRESS, begin_launch
from warpsmith.generator.tiles.lines import radices_of
from warpsmith.generator.tiles.space import INSTRUCTIONS

LEAST_TAPS = 129
"""Least taps of a filter: the one-kernel family is faster for fewer, whatever the device."""
LIKELY_TAPS = 4096
"""Least taps with which the family may answer without a search."""
_CHANGES: tuple[dict[str, Value], ...] = (
    {"spectra": Spectra.FIRST.value},
    {"spectra": Spectra.WITH.value},
    {"twiddles": Twiddles.TABLE.value},
    {"store": "plain"},
    {"lag": 0},
    {"lag": 1},
    {"lag": 2},
    {"lag": 4},
    {"width": 8},
    {"height": 1},
    {"height": 2},
    {"threads": 128},
)
"""Changes to the default config that are worth a try."""


class Filter1dFftLong(RankedFamily):
    """`filter1d` by FFTs of blocks that do not fit shared memory."""

    name = "filter1d_fft_long"
    default_reach = DEFAULT_REACH

    def why_not(self, problem: Filter1d, device: Device) -> str | None:
        if (reason := why_no_gradient(problem) or why_no_state(problem) or why_no_gates(problem)) is not None:
            return reason
        if problem.accuracy is not Accuracy.SIGNALWISE:
            return "has errors relative to the whole signal: accuracy signalwise"
        if problem.taps < LEAST_TAPS:
            return f"a filter of fewer than {LEAST_TAPS} taps needs no block beyond shared memory"
        if not shapes_for(problem):
            return f"no block of samples has outputs for {problem.taps} taps, {problem.down} apart"
        if not _ranked(problem, device):
            return (
                f"no matrices for {problem.rows} channels and {problem.filters} filters of {problem.taps} taps fit "
                f"{device.shared_per_block_bytes} bytes of shared memory and workspaces of {WORK_BYTES} bytes"
            )
        return None

    def is_likely(self, problem: Filter1d, device: Device) -> bool:
        return problem.taps >= LIKELY_TAPS and super().is_likely(problem, device)

    def ranked(self, problem: Filter1d, device: Device) -> tuple[tuple[float, Config], ...]:
        return _ranked(problem, device)

    def space(self, problem: Filter1d, device: Device) -> Space:
        return long_space(problem, device)

    def starts(self, problem: Filter1d, device: Device) -> tuple[Config, ...]:
        """Configs of the likeliest shapes, and the default with other spectra, twiddles, lags and tiles."""
        space, default = self.space(problem, device), self.default(problem, device)
        held: tuple[dict[str, Value], ...] = tuple(
            {"min_blocks": blocks, "blocks": blocks * device.multiprocessors} for blocks in (2, 3, 4)
        )
        changed = [Config.of({**default.values(), **change}) for change in (*held, *_CHANGES)]
        found = [config for _, config in _ranked(problem, device)[1:5]] + changed
        return tuple(dict.fromkeys(each for each in found if each != default and space.contains(each)))

    def unrolled(self, problem: Filter1d, config: Config) -> int:
        """The text has transforms of columns four times, and of rows three or four times."""
        names = ("columns", "rows")
        return 4 * sum(INSTRUCTIONS[radix] for name in names for radix in radices_of(config.text(name)))

    def program(self, problem: Filter1d, config: Config) -> Program:
        geometry = Filter1dFftLongGeometry.of(problem, config)
        source = render(
            "filter1d/fft_long.cu.jinja",
            p=Filter1dText.of(problem),
            g=Filter1dFftLongText(geometry),
            at=geometry,
            config=config.key(),
            strict=is_strict(problem),
            chained=CHAIN if problem.taps > CHAIN else 0,
            copies=_copies_taps(problem, geometry),
        )
        spectra = (Workspace("spectra", geometry.spectrum_bytes, holds=("weights",)),)
        taps = (Workspace("taps", problem.operands[1].nbytes, holds=("weights",)),)
        workspaces = (
            *(spectra if geometry.are_made_once else ()),
            *(taps if _copies_taps(problem, geometry) else ()),
            Workspace("work", geometry.work_bytes),
            Workspace(PROGRESS, geometry.progress_bytes),
        )
        return Program.of_source(self.name, config, source, _launches(problem, geometry), workspaces)


def _copies_taps(problem: Filter1d, geometry: Filter1dFftLongGeometry) -> bool:
    """True if repairs read a copy of the taps, which is made with the spectra: bound weights then need neither."""
    return is_strict(problem) and geometry.are_made_once and problem.weights is None


def _launches(problem: Filter1d, geometry: Filter1dFftLongGeometry) -> tuple[Launch, ...]:
    """Two launches for the filters' spectra if these are made first, one that resets counters, the filter, repairs."""
    name, threads = Filter1dFftLong.name, geometry.columns.threads
    signal, result, work, spectra, progress = map(Pointer, ("signal", "result", "work", "spectra", PROGRESS))
    taps: tuple[Argument, ...] = () if problem.weights is not None else (Pointer("weights"),)
    bias: tuple[Argument, ...] = (Pointer("bias"),) if problem.bias else ()

    def launch(entry: str, blocks: int, arguments: tuple[Argument, ...], shared: int) -> Launch:
        return Launch(f"{name}{entry}", (blocks, 1, 1), (threads, 1, 1), arguments, shared)

    copy = (Pointer("taps"),) if _copies_taps(problem, geometry) else ()
    jobs = geometry.filters * geometry.column_jobs, geometry.filters * geometry.row_jobs
    made_first = (
        launch("_columns", jobs[0], (spectra, *taps, *copy), geometry.columns.shared_bytes),
        launch("_rows", jobs[1], (spectra,), geometry.rows.shared_bytes),
    )
    repair = launch("_repair", geometry.thread_blocks, (signal, result, progress, *(copy or taps), *bias), 0)
    given = (spectra,) if geometry.are_made_once else taps
    blocks = min(geometry.thread_blocks, geometry.jobs)
    return (
        *(made_first if geometry.are_made_once else ()),
        begin_launch(name, threads),
        launch("", blocks, (signal, result, work, progress, *given, *bias), geometry.shared_bytes),
        *((repair,) if is_strict(problem) else ()),
    )


@functools.lru_cache(maxsize=64)
def _ranked(problem: Filter1d, device: Device) -> tuple[tuple[float, Config], ...]:
    """A legal config of each shape with its expected time in ns, the fastest first."""
    space, found = long_space(problem, device), []
    for shape in shapes_for(problem):
        config = next(filter(space.contains, configs(problem, shape, device)), None)
        if config is not None:
            found.append((expected_ns(problem, Filter1dFftLongGeometry.of(problem, config), device), config))
    return tuple(sorted(found, key=lambda each: (each[0], each[1].key())))
