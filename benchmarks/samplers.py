"""Compares Optuna's samplers and warpsmith's on recorded spaces, from the same start. It needs no GPU.

    python benchmarks/samplers.py [TRIALS [SEEDS [SAMPLER ...]]]

It replays benchmarks/replay/*.jsonl.gz. `within 2%` is the number of trials until the best time is within 2% of the
exhaustive best. `above best` is the best time after all trials over the exhaustive best. Both are medians over the
seeds, and `worst` is the worst seed. `ms a trial` is the time of asking and telling, on one core.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from warpsmith.cli.output import print_table
from warpsmith.tuner.search.sampler_choice import SamplerChoice
from warpsmith.tuner.spaces.recording import Recording
from warpsmith.tuner.spaces.replay import replay_report

RECORDINGS = Path(__file__).parent / "replay"


def row(path: Path, sampler: SamplerChoice, trials: int, seeds: int) -> tuple[str, ...]:
    """Cells of one sampler on one recording."""
    recording = Recording.read(path).from_the_middle()
    began = time.process_time()
    report = replay_report(recording, seeds, trials, sampler=sampler)
    took_ms = (time.process_time() - began) * 1e3 / (seeds * report.trials)
    needed = report.search.median
    return (
        recording.family,
        str(sampler),
        f"> {trials}" if needed is None else str(needed),
        "-" if report.search.excess is None else f"{report.search.excess:.1%}",
        "-" if report.worst_excess is None else f"{report.worst_excess:.1%}",
        f"{took_ms:.1f}",
    )


def main(trials: str = "100", seeds: str = "10", *samplers: str) -> None:
    chosen = [SamplerChoice(name) for name in samplers] or list(SamplerChoice)
    rows = []
    for path in sorted(RECORDINGS.glob("*.jsonl.gz")):
        for sampler in chosen:
            rows.append(row(path, sampler, int(trials), int(seeds)))
            print(*rows[-1], file=sys.stderr, flush=True)
    print_table(("space", "sampler", "within 2%", "above best", "worst", "ms a trial"), rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
