"""Progress of one tuning run: a live display on a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Protocol, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from warpsmith.store.record import FailureKind
from warpsmith.units import format_duration, format_rate, format_share, format_time

LINE_EVERY_S = 5.0
"""Seconds of tuning between two plain lines while the best time does not improve."""
REDRAW_S = 0.1
"""Seconds of tuning between two redraws of a live display, which take 3 ms each."""


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """Progress of a run at one moment."""

    done: int
    """Number of trials that count towards `total`: measured, failed and reused alike."""
    total: int
    """Number of trials after which the run ends."""
    reused: int
    """Number of trials in `done` that a store had already."""
    best_ns: float | None
    """Nanoseconds of the shortest verified time so far; None before the first."""
    best: str
    """Family and config of the best; empty before the first."""
    failures: Mapping[FailureKind, int]
    elapsed_s: float
    time_left_s: float | None
    """Result of `estimate_time_left`; None if nothing is known yet."""


class Progress(Protocol):
    """Progress display. The tuner calls `start` once per run, `update` after each trial, and `stop` at the end in any
    case.
    """

    def start(self, title: str, total: int, bytes_moved: int, copy_ns: float | None) -> None:
        """Announces a run.

        Args:
            title: problem and device, one line.
            total: number of trials after which the run ends.
            bytes_moved: the problem's algorithmic bytes, for the rate.
            copy_ns: time in ns that the device takes to copy as many bytes; None if it was not measured.
        """

    def update(self, snapshot: Snapshot) -> None:
        """Shows the current state of the run."""

    def stop(self) -> None:
        """Ends the display and leaves its last state on the screen. Does nothing if none was started."""


def progress_for(stream: TextIO, quiet: bool) -> Progress:
    """The display that suits `stream`, usually standard error: standard output is for results."""
    if quiet:
        return SilentProgress()
    console = Console(file=stream)
    # The stream itself is queried: rich treats FORCE_COLOR as a terminal, and would move the cursor in a log file.
    if stream.isatty() and not console.is_dumb_terminal:
        return RichProgress(console)
    return PlainProgress(stream)


class SilentProgress:
    """Shows nothing."""

    def start(self, title: str, total: int, bytes_moved: int, copy_ns: float | None) -> None:
        pass

    def update(self, snapshot: Snapshot) -> None:
        pass

    def stop(self) -> None:
        pass


class PlainProgress:
    """Plain lines for logs and pipes: one when the best time improves, else one every LINE_EVERY_S seconds of
    tuning.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._scale = _Scale(bytes_moved=0, copy_ns=None)
        self._printed: Snapshot | None = None
        self._latest: Snapshot | None = None

    def start(self, title: str, total: int, bytes_moved: int, copy_ns: float | None) -> None:
        self._scale = _Scale(bytes_moved, copy_ns)
        self._printed = self._latest = None
        self._write(f"{title}: {total} trials")

    def update(self, snapshot: Snapshot) -> None:
        self._latest = snapshot
        if self._is_news(snapshot):
            self._show(snapshot)

    def stop(self) -> None:
        if self._latest is not None and self._latest != self._printed:
            self._show(self._latest)

    def _is_news(self, snapshot: Snapshot) -> bool:
        if self._printed is None or snapshot.best_ns != self._printed.best_ns:
            return True
        return snapshot.elapsed_s - self._printed.elapsed_s >= LINE_EVERY_S

    def _show(self, snapshot: Snapshot) -> None:
        best = f"best {' '.join(_best_of(snapshot, self._scale))}"
        failed = f"failed {failures}" if (failures := format_failures(snapshot.failures)) else ""
        parts = (f"[{snapshot.done}/{snapshot.total}] {best}", snapshot.best, failed, _left(snapshot))
        self._write("; ".join(part for part in parts if part))
        self._printed = snapshot

    def _write(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()


class RichProgress:
    """Live display: a bar, the best so far, failures by kind. Rich chooses the colours, so NO_COLOR is honoured."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._latest: Snapshot | None = None
        self._drawn_s = -math.inf
        """Seconds of tuning at the last redraw."""
        self._title = ""
        self._scale = _Scale(bytes_moved=0, copy_ns=None)

    def start(self, title: str, total: int, bytes_moved: int, copy_ns: float | None) -> None:
        self._title = title
        self._scale = _Scale(bytes_moved, copy_ns)
        # There is no refresh thread: a fork while it holds the console's lock would leave the child waiting for ever.
        # Standard output stays unchanged, since rich would redirect what is printed there to standard error.
        self._live = Live(
            Group(Text(title, style="bold"), Text(f"{total} trials", style="dim")),
            console=self._console,
            auto_refresh=False,
            redirect_stdout=False,
        )
        self._live.start(refresh=True)

    def update(self, snapshot: Snapshot) -> None:
        self._latest = snapshot
        if self._live is not None and snapshot.elapsed_s - self._drawn_s >= REDRAW_S:
            self._drawn_s = snapshot.elapsed_s
            self._live.update(self._render(snapshot), refresh=True)

    def stop(self) -> None:
        if self._live is not None:
            if self._latest is not None:
                self._live.update(self._render(self._latest), refresh=True)
            self._live.stop()
            self._live = None

    def _render(self, snapshot: Snapshot) -> Group:
        bar = Table.grid(padding=(0, 2))
        bar.add_row(
            ProgressBar(total=snapshot.total, completed=snapshot.done, width=30),
            Text(f"{snapshot.done} of {snapshot.total} trials"),
            Text(_left(snapshot), style="cyan"),
        )
        facts = Table.grid(padding=(0, 2))
        best = "  ".join(_best_of(snapshot, self._scale))
        facts.add_row(Text("best", style="dim"), Text(best, style="bold green" if snapshot.best else "dim"))
        if snapshot.best:
            facts.add_row("", Text(snapshot.best))
        if failures := format_failures(snapshot.failures):
            facts.add_row(Text("failed", style="dim"), Text(failures, style="yellow"))
        if snapshot.reused:
            facts.add_row(Text("reused", style="dim"), Text(f"{snapshot.reused} stored trials"))
        return Group(Text(self._title, style="bold"), bar, facts)


@dataclasses.dataclass(frozen=True, slots=True)
class _Scale:
    """Reference values for a time."""

    bytes_moved: int
    copy_ns: float | None


def _best_of(snapshot: Snapshot, scale: _Scale) -> list[str]:
    if snapshot.best_ns is None:
        return ["none yet"]
    facts = [format_time(snapshot.best_ns), format_rate(scale.bytes_moved, snapshot.best_ns)]
    if scale.copy_ns is not None:
        facts.append(f"{format_share(scale.copy_ns, snapshot.best_ns)} of copy speed")
    return facts


def _left(snapshot: Snapshot) -> str:
    left = snapshot.total - snapshot.done
    trials = f"{left} trial{'s' * (left != 1)} left"
    if snapshot.time_left_s is None:
        return trials
    return f"{trials}, about {format_duration(snapshot.time_left_s)}"


def estimate_time_left(*, done: int, reused: int, total: int, elapsed_s: float, limit_s: float | None) -> float | None:
    """Seconds until all trials are done at the rate so far, or until the time limit, whichever is sooner.

    Args:
        done: trials that count towards `total`, including reused ones.
        reused: trials of `done` that cost no time and so do not affect the rate.
        total: trials after which the run ends.
        elapsed_s: seconds since the run began.
        limit_s: seconds that the run may take; None for no limit.

    Returns:
        None if neither a rate nor a limit is known.
    """
    bounds = []
    if limit_s is not None:
        bounds.append(limit_s - elapsed_s)
    if done > reused:
        bounds.append((total - done) * elapsed_s / (done - reused))
    return max(min(bounds), 0.0) if bounds else None


def format_failures(failures: Mapping[FailureKind, int]) -> str:
    """Failures by kind as text, in the order of a candidate's steps: `3 compile, 1 wrong`."""
    return ", ".join(f"{failures[kind]} {kind}" for kind in FailureKind if failures.get(kind))
