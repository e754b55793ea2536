"""How many trials the search needs on recorded spaces, beside drawing configs at random. Needs no GPU.

    python benchmarks/search_quality.py [FILE ...]

Replays benchmarks/replay/*.jsonl.gz where no file is named: 20 seeds each, half a second a seed. Trials are those until
the best time came within 2% of the exhaustive best, beside those of drawing configs at random; `above best` is the best
time after all trials of a search, a fifth of the space. The exit code is 1 where half the searches needed more than a
tenth of a space.
"""

from __future__ import annotations

import sys
from pathlib import Path

from warpsmith.errors import BadArgument
from warpsmith.tuner.replay import GOAL_SHARE, ReplayReport, replay_report

RECORDINGS = Path(__file__).parent / "replay"
HEAD = (
    "| recording | configs | failed | within 2% | best, us | median | share | p20 to p80 | random | p20 to p80 "
    "| above best | worst | random |"
)


def row(path: Path, report: ReplayReport) -> str:
    """One line of the table."""
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


def main(files: list[str]) -> int:
    """Prints the table; the exit code."""
    paths = [Path(file) for file in files] or sorted(RECORDINGS.glob("*.jsonl.gz"))
    if not paths:
        print(f"no recordings in {RECORDINGS}", file=sys.stderr)
        return 2
    print(HEAD)
    print("|---" * HEAD.count(" | ") + "|---|")
    missed = []
    for path in paths:
        try:
            report = replay_report(path)
        except BadArgument as error:
            print(error, file=sys.stderr)
            return 2
        print(row(path, report), flush=True)
        missed += [] if report.meets_goal else [path.name]
    if missed:
        print(f"more than {GOAL_SHARE:.0%} of the space: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
