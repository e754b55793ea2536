"""The progress display: correct numbers, the right stream, and no output if silence is requested."""

from __future__ import annotations

import dataclasses
import io
import re

import pytest
from rich.console import Console

from warpsmith.store.record import FailureKind
from warpsmith.tuner.progress import (
    PlainProgress,
    RichProgress,
    SilentProgress,
    Snapshot,
    estimate_time_left,
    format_failures,
    progress_for,
)
from warpsmith.units import format_duration, format_rate, format_share, format_time

BYTES = 680_000_000
COPY_NS = 150_000.0
EARLY = Snapshot(
    done=3,
    total=200,
    reused=0,
    best_ns=None,
    best="",
    failures={FailureKind.COMPILE: 3},
    elapsed_s=1.0,
    time_left_s=None,
)
HALF = Snapshot(
    done=87,
    total=200,
    reused=12,
    best_ns=160_000.0,
    best="sliding block_x=32 columns=4",
    failures={FailureKind.WRONG: 1, FailureKind.COMPILE: 3, FailureKind.TIMEOUT: 0},
    elapsed_s=30.0,
    time_left_s=45.2,
)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def plain(*snapshots: Snapshot, copy_ns: float | None = COPY_NS) -> list[str]:
    """The lines of a run with these updates, and a stop."""
    stream = io.StringIO()
    progress = PlainProgress(stream)
    progress.start("filter2d on H200", 200, BYTES, copy_ns)
    for snapshot in snapshots:
        progress.update(snapshot)
    progress.stop()
    return stream.getvalue().splitlines()


def rich(snapshot: Snapshot) -> str:
    """The last state of the live display, as text."""
    console = Console(file=Terminal(), force_terminal=True, width=100, record=True, legacy_windows=False)
    progress = RichProgress(console)
    progress.start("filter2d on H200 [sm_90]", 200, BYTES, COPY_NS)
    progress.update(snapshot)
    progress.stop()
    return console.export_text()


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (850.0, "0.850 us"),
        (1_234.0, "1.23 us"),
        (123_449.0, "123.4 us"),
        (999_900.0, "999.9 us"),
        (1_000_000.0, "1.00 ms"),
        (12_345_678.0, "12.3 ms"),
        (98_765_432_100.0, "98765.4 ms"),
    ],
)
def test_times_are_shown_in_us_below_a_millisecond(ns: float, text: str) -> None:
    assert format_time(ns) == text


def test_rates_are_decimal_gigabytes_a_second() -> None:
    assert format_rate(680_000_000, 160_000.0) == "4250.0 GB/s"
    assert format_rate(2**30, 1e9) == "1.07 GB/s"
    assert format_rate(1_000, 1e6) == "0.001 GB/s"


def test_a_share_of_copy_speed_may_exceed_one() -> None:
    assert format_share(150_000.0, 160_000.0) == "93.8%"
    assert format_share(150_000.0, 100_000.0) == "150.0%"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, "0:00"), (42.4, "0:42"), (59.7, "1:00"), (185.0, "3:05"), (3600.0, "1:00:00")]
)
def test_durations(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_failures_are_listed_by_kind_in_a_fixed_order_and_zeros_left_out() -> None:
    assert format_failures(HALF.failures) == "3 compile, 1 wrong"
    assert format_failures({}) == ""


@pytest.mark.parametrize(
    ("done", "reused", "elapsed_s", "limit_s", "left_s"),
    [
        pytest.param(10, 0, 20.0, None, 80.0, id="rate"),
        pytest.param(30, 20, 20.0, None, 40.0, id="reused trials cost no time"),
        pytest.param(10, 0, 20.0, 60.0, 40.0, id="the limit is sooner"),
        pytest.param(10, 0, 20.0, 600.0, 80.0, id="the trials are sooner"),
        pytest.param(0, 0, 5.0, 60.0, 55.0, id="only a limit"),
        pytest.param(20, 20, 5.0, None, None, id="nothing known"),
        pytest.param(10, 0, 70.0, 60.0, 0.0, id="past the limit"),
        pytest.param(50, 0, 70.0, None, 0.0, id="all done"),
    ],
)
def test_time_left(done: int, reused: int, elapsed_s: float, limit_s: float | None, left_s: float | None) -> None:
    assert estimate_time_left(done=done, reused=reused, total=50, elapsed_s=elapsed_s, limit_s=limit_s) == left_s


def test_plain_lines_tell_everything() -> None:
    assert plain(EARLY, HALF) == [
        "filter2d on H200: 200 trials",
        "[3/200] best none yet; failed 3 compile; 197 trials left",
        "[87/200] best 160.0 us 4250.0 GB/s 93.8% of copy speed; sliding block_x=32 columns=4; "
        "failed 3 compile, 1 wrong; 113 trials left, about 0:45",
    ]


def test_plain_lines_without_a_copy_time_claim_no_share() -> None:
    assert "4250.0 GB/s; sliding" in plain(HALF, copy_ns=None)[-1]


def test_plain_lines_come_when_the_best_improves_or_seconds_have_passed() -> None:
    def at(done: int, elapsed_s: float, best_ns: float) -> Snapshot:
        return dataclasses.replace(HALF, done=done, elapsed_s=elapsed_s, best_ns=best_ns)

    updates = [at(1, 0.1, 9e4), at(2, 0.2, 9e4), at(3, 0.3, 8e4), at(4, 5.2, 8e4), at(5, 5.4, 8e4), at(6, 6.0, 8e4)]
    # 2 brings nothing, 5 comes too soon, 6 is the last state.
    assert re.findall(r"^\[(\d+)/", "\n".join(plain(*updates)), re.MULTILINE) == ["1", "3", "5", "6"]


def test_a_last_state_that_was_shown_is_not_shown_again() -> None:
    assert len(plain(HALF)) == 2


def test_plain_lines_are_flushed_as_they_come() -> None:
    raw = io.BytesIO()
    progress = PlainProgress(io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8"))
    progress.start("filter2d", 200, BYTES, COPY_NS)
    progress.update(HALF)
    assert raw.getvalue().count(b"\n") == 2


def test_the_live_display_shows_the_numbers() -> None:
    text = rich(HALF)
    assert "filter2d on H200 [sm_90]" in text
    assert "87 of 200 trials" in text
    assert "113 trials left, about 0:45" in text
    assert "160.0 us  4250.0 GB/s  93.8% of copy speed" in text
    assert "sliding block_x=32 columns=4" in text
    assert "3 compile, 1 wrong" in text
    assert "12 stored trials" in text


def test_the_live_display_before_the_first_time() -> None:
    text = rich(EARLY)
    assert "none yet" in text
    assert "3 compile" in text
    assert "reused" not in text


def test_the_live_display_may_be_used_again_and_stopped_twice() -> None:
    console = Console(file=Terminal(), force_terminal=True, width=100, record=True, legacy_windows=False)
    progress = RichProgress(console)
    progress.stop()
    for title in ("first run", "second run"):
        progress.start(title, 200, BYTES, COPY_NS)
        progress.update(HALF)
        progress.stop()
        progress.stop()
    text = console.export_text()
    assert text.index("first run") < text.index("second run")


def test_the_live_display_leaves_standard_output_alone(capsys: pytest.CaptureFixture[str]) -> None:
    stream = Terminal()
    progress = RichProgress(Console(file=stream, force_terminal=True, width=100, legacy_windows=False))
    progress.start("filter2d", 200, BYTES, COPY_NS)
    print("a result")
    progress.stop()
    assert capsys.readouterr().out == "a result\n"
    assert "a result" not in stream.getvalue()


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    def written() -> str:
        stream = Terminal()
        progress = progress_for(stream, quiet=False)
        progress.start("filter2d", 200, BYTES, COPY_NS)
        progress.update(HALF)
        progress.stop()
        return stream.getvalue()

    green, cyan = "32m", "36m"
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert green in written()
    monkeypatch.setenv("NO_COLOR", "1")
    assert green not in written()
    assert cyan not in written()


def test_the_display_suits_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    assert isinstance(progress_for(Terminal(), quiet=False), RichProgress)
    assert isinstance(progress_for(Terminal(), quiet=True), SilentProgress)
    assert isinstance(progress_for(io.StringIO(), quiet=False), PlainProgress)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert isinstance(progress_for(io.StringIO(), quiet=False), PlainProgress)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(progress_for(Terminal(), quiet=False), PlainProgress)


def test_silent_progress_writes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    stream = Terminal()
    progress = progress_for(stream, quiet=True)
    progress.start("filter2d", 200, BYTES, COPY_NS)
    progress.update(HALF)
    progress.stop()
    assert stream.getvalue() == ""
    assert capfd.readouterr() == ("", "")
