"""Number of trials that the search needs on recorded spaces, compared with random configs. It needs no GPU.

    python benchmarks/search_quality.py [FILE ...]

It replays benchmarks/replay/*.jsonl.gz if no file is named: 20 seeds each, half a second per seed. Trials count until
the best time is within 2% of the exhaustive best, for the search and for random configs. `above best` is the best time
after all trials of a search, a fifth of the space. The exit code is 1 if half the searches need more than a tenth of a
space.

A second table has searches that begin at the config of the median time instead of the family's default, which may be
among the best. The exit code depends on it too.

A third table shows how searches with a budget end: how many find the exhaustive best, or a config within its tie band,
and how many have tried every config that differs from their winner in one parameter. It uses exact times, and times
with a standard deviation of 0.5%.
"""

from __future__ import annotations

import sys
from pathlib import Path

from warpsmith.errors import BadArgument
from warpsmith.tuner.spaces.recording import Recording
from warpsmith.tuner.spaces.replay import GOAL_SHARE, SEEDS, ReplayReport, ending, replay_report

RECORDINGS = Path(__file__).parent / "replay"
HEAD = (
    "| recording | configs | failed | within 2% | best, us | median | share | p20 to p80 | random | p20 to p80 "
    "| above best | worst | random |"
)

ENDS = "| recording | trials | noise | tie with the best | every change tried | mean above best | worst |"
BUDGETS = (100, 150, 300)
NOISES = (0.0, 0.005)


def row(path: Path, report: ReplayReport) -> str:
    """One line of the first or second table."""
    search, luck = report.search, report.by_luck

    def trials(number: int | None) -> str:
        return f"> {report.trials}" if number is None else str(number)

    def percent(part: float | None) -> str:
        return "-" if part is None else f"{part:.1%}"

    cells = (
        path.name.removesuffix(".jsonl.gz"),
        str(report.size),
        str(sum(report.failures.values())),
        str(report.near),
        f"{report.best_ns / 1000:.2f}",
        trials(search.median),
        percent(report.share),
        f"{trials(search.p20)} to {trials(search.p80)}",
        trials(luck.median),
        f"{trials(luck.p20)} to {trials(luck.p80)}",
        percent(search.excess),
        percent(report.worst_excess),
        percent(luck.excess),
    )
    return f"| {' | '.join(cells)} |"


def end_row(path: Path, recording: Recording, budget: int, noise: float) -> str:
    """One line of the third table."""
    ends = [ending(recording, seed, budget, noise) for seed in range(SEEDS)]
    known = [end for end in ends if end is not None]
    cells = (
        path.name.removesuffix(".jsonl.gz"),
        str(budget),
        f"{noise:.1%}",
        f"{sum(end.is_tied for end in known)} of {SEEDS}",
        f"{sum(end.untried == 0 for end in known)} of {SEEDS}",
        f"{sum(end.excess for end in known) / len(known):.2%}" if known else "-",
        f"{max(end.excess for end in known):.2%}" if known else "-",
    )
    return f"| {' | '.join(cells)} |"


def print_head(head: str) -> None:
    """Prints a table's first two lines."""
    print(head)
    print("|---" * head.count(" | ") + "|---|")


def print_reports(recordings: dict[Path, Recording]) -> list[str]:
    """Prints the first or second table and returns the names of the recordings that miss the goal."""
    print_head(HEAD)
    missed = []
    for path, recording in recordings.items():
        report = replay_report(recording)
        print(row(path, report), flush=True)
        missed += [] if report.meets_goal else [path.name]
    return missed


def print_ends(recordings: dict[Path, Recording]) -> None:
    """Prints the third table."""
    print_head(ENDS)
    for path, recording in recordings.items():
        for budget in BUDGETS:
            for noise in NOISES:
                print(end_row(path, recording, budget, noise), flush=True)


def main(files: list[str]) -> int:
    """Prints the tables and returns the exit code."""
    paths = [Path(file) for file in files] or sorted(RECORDINGS.glob("*.jsonl.gz"))
    if not paths:
        print(f"no recordings in {RECORDINGS}", file=sys.stderr)
        return 2
    try:
        recordings = {path: Recording.read(path) for path in paths}
    except BadArgument as error:
        print(error, file=sys.stderr)
        return 2
    missed = print_reports(recordings)
    print("\nFrom the config of the median time:\n")
    missed += print_reports({path: recording.from_the_middle() for path, recording in recordings.items()})
    print("\nEnds:\n")
    print_ends(recordings)
    if missed:
        print(f"more than {GOAL_SHARE:.0%} of the space: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
