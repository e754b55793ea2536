"""Shared parts of the commands of `warpsmith bench`: measuring rows, and showing them as a table, JSON and a plot."""

from __future__ import annotations

import dataclasses
import json as json_module
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from warpsmith.cli.options import seconds
from warpsmith.cli.output import check_writable, print_facts, print_json, print_table, save_file
from warpsmith.cli.verdicts import copy_share, left_out_facts, peer_cell, summary
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import WarpsmithError
from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem, member
from warpsmith.generator.program import Program
from warpsmith.plans.lookup import look_up
from warpsmith.plans.match import Match
from warpsmith.store.conditions import conditions_key
from warpsmith.store.record import COPY, BaselineVerdict, fastest_library, verdict_of
from warpsmith.tuner.evaluate.timing import Sustained
from warpsmith.tuner.finals.compare import Comparison, compare
from warpsmith.tuner.plots import REMEDY, ImageFormat, PlotLine, can_plot, plot_comparison
from warpsmith.units import format_rate, format_time

SaveOption = Annotated[
    Path | None, typer.Option("--save", metavar="FILE", help="Also write the JSON document to this file.")
]
PlotOption = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Plot times over sizes, as .svg or .png.")
]

SustainedOption = Annotated[
    str | None,
    typer.Option(
        "--sustained",
        metavar="TIME",
        help="Run each winner for so long as well, such as 30s, and tell its time at the end and the clocks then.",
    ),
]


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """A problem whose answer is to be timed."""

    problem: Problem
    labels: Mapping[str, str]
    """First columns of the table, which distinguish the row from others. The size comes first."""
    own: Mapping[str, Program] = dataclasses.field(default_factory=dict)
    """Further programs of this package to time beside the answer, by name."""

    @property
    def size(self) -> str:
        """Size as text."""
        return next(iter(self.labels.values()))


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """An answer and everything that ran beside it."""

    subject: Subject
    match: Match
    comparison: Comparison
    device: Device

    @property
    def ours(self) -> float:
        """Nanoseconds, median."""
        return self.comparison.ours.median_ns

    @property
    def times(self) -> dict[str, float]:
        """Nanoseconds of each baseline, by name."""
        return {baseline.name: baseline.timing.median_ns for baseline in self.comparison.baselines}

    @property
    def rivals(self) -> dict[str, float]:
        """Nanoseconds of each other library, by name."""
        return {name: ns for name, ns in self.times.items() if name != COPY and name not in self.subject.own}

    @property
    def verdicts(self) -> tuple[BaselineVerdict, ...]:
        """Comparisons with the copy and the other libraries."""
        beside = [each for each in self.comparison.baselines if each.name not in self.subject.own]
        return tuple(verdict_of(self.comparison.ours, each, self.subject.problem, self.device) for each in beside)

    @property
    def speed_up(self) -> float | None:
        """Speed-up over the fastest other library that was timed under the same conditions; None if there is none."""
        fastest = fastest_library(self.verdicts)
        return None if fastest is None else fastest.speed_up

    def document(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "problem": self.subject.problem.spec(),
            "problem_key": self.subject.problem.key(),
            "match": str(self.match.kind),
            "family": self.match.program.family,
            "config": self.match.program.config.values(),
            "conditions": conditions_key(self.comparison.ours.policy),
            "verdict": summary(self.verdicts),
            "verdicts": [verdict.spec() for verdict in self.verdicts],
            **dataclasses.asdict(self.comparison),
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A column of the table: its header and the text of its cell for a row."""

    header: str
    cell: Callable[[Row], str]


FOUND = Column("match", lambda row: str(row.match.kind))
TIME = Column("time", lambda row: format_time(row.ours))
RATE = Column("GB/s", lambda row: format_rate(row.subject.problem.bytes, row.ours).removesuffix(" GB/s"))
COPY_TIME = Column("copy", lambda row: format_time(row.times[COPY]))
COPY_SHARE = Column("% of copy", lambda row: copy_share(row.verdicts) or "-")
FASTEST_PEER = Column("fastest peer", lambda row: peer_cell(row.verdicts))
ERROR = Column("largest error", lambda row: f"{row.comparison.measurement.max_error:.1e}")


SUSTAINED = Column("sustained", lambda row: _sustained(row.comparison.sustained))


def _sustained(sustained: Sustained | None) -> str:
    """Text such as `205.1 us at 1755 MHz`, with the lowest clock seen."""
    if sustained is None:
        return "-"
    clock = "" if sustained.clock_mhz is None else f" at {sustained.clock_mhz[0]} MHz"
    return f"{format_time(sustained.median_ns)}{clock}"


def peer_column(name: str) -> Column:
    """Column with the times of one other library."""
    return Column(name, lambda row: format_time(row.times[name]) if name in row.times else "-")


@dataclasses.dataclass(frozen=True, slots=True)
class Results:
    """The rows of one run on one device."""

    device: Device
    workload: str
    """Description of what the rows have in common."""
    rows: tuple[Row, ...]

    @property
    def peers(self) -> list[str]:
        """The other libraries that were timed beside any row."""
        return list(dict.fromkeys(name for row in self.rows for name in row.rivals))

    def print_comparison(self, columns: Sequence[Column]) -> None:
        """Prints the device, the conditions and a Markdown table, ready for docs/lab/."""
        facts = ", ".join(f"{name} {value}" for name, value in self.rows[0].comparison.environment.items())
        print(f"{self.device.name}, {facts}")
        conditions = dict.fromkeys(conditions_key(row.comparison.ours.policy) for row in self.rows)
        print(f"{self.workload}; medians, taken in turns, {' or '.join(conditions)}")
        if sustained := next((row.comparison.sustained for row in self.rows if row.comparison.sustained), None):
            print(f"sustained: the median over the last half of {sustained.seconds:.1f} s, with the lowest clock seen")
            columns = [*columns, SUSTAINED]
        print()
        header = [*self.rows[0].subject.labels, *(column.header for column in columns)]
        cells = ([*row.subject.labels.values(), *(column.cell(row) for column in columns)] for row in self.rows)
        print_table(header, cells)
        if left_out := dict.fromkeys(each for row in self.rows for each in row.comparison.left_out):
            print()
            print_facts(left_out_facts(left_out))

    def plot(self, x_label: str, image: ImageFormat) -> bytes:
        """Plot of times over sizes."""
        own = dict.fromkeys(name for row in self.rows for name in row.subject.own)
        lines = [PlotLine("warpsmith", tuple((place, row.ours) for place, row in enumerate(self.rows)))]
        lines += [self._line(name) for name in (*self.peers, *own)]
        title = f"{self.workload}, {self.device.name}"
        sizes = [row.subject.size for row in self.rows]
        return plot_comparison(title, x_label, sizes, lines, self._line(COPY), image)

    def _line(self, name: str) -> PlotLine:
        return PlotLine(
            name, tuple((place, row.times[name]) for place, row in enumerate(self.rows) if name in row.times)
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Output:
    """Destinations of the results. Raises WarpsmithError if a file cannot be written, before minutes of measuring."""

    save: Path | None
    plot: Path | None
    json: bool

    def __post_init__(self) -> None:
        for file in (self.save, self.plot):
            if file is not None:
                check_writable(file)
        if self.plot is not None:
            if not can_plot():
                raise WarpsmithError(REMEDY)
            _ = _format_of(self.plot)

    def write(self, results: Results, x_label: str, show: Callable[[Results], None]) -> None:
        """Saves the JSON document, prints it or calls `show`, and draws the plot."""
        document = {"device": results.device.spec(), "rows": [row.document() for row in results.rows]}
        if self.save is not None:
            save_file(self.save, json_module.dumps(document, indent=1) + "\n")
        if self.json:
            print_json(document)
        else:
            show(results)
        if self.plot is not None:
            save_file(self.plot, results.plot(x_label, _format_of(self.plot)))


def _format_of(plot: Path) -> ImageFormat:
    return member(ImageFormat, plot.suffix.removeprefix(".").lower(), "kind of plot")


def measure(
    subjects: Sequence[Subject], ref: DeviceRef, store: str | None, seed: int, sustained: str | None = None
) -> tuple[Row, ...]:
    """Times the stored answer of each subject. All are looked up first, so that a missing one ends the run at once.

    `sustained` is how long each then runs alone, such as `30s`. Raises BadArgument if it is no duration.
    """
    device, longer = ref.device(), None if sustained is None else seconds(sustained)
    matches = [look_up(subject.problem, device, store) for subject in subjects]
    return tuple(
        Row(subject, match, compare(subject.problem, match.program, ref, seed, subject.own, longer), device)
        for subject, match in zip(subjects, matches, strict=True)
    )
