"""Tuning of many problems under one time limit: time goes where it is expected to gain the most."""

from __future__ import annotations

import dataclasses
import json
import math
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument, CompileError, MissingExtra, WarpsmithError
from warpsmith.generator.problem import Problem
from warpsmith.store.record import Trial
from warpsmith.store.store import Store
from warpsmith.tuner.evaluate.evaluator import common_device
from warpsmith.tuner.evaluate.probe import probe_before_search
from warpsmith.tuner.faults import NEVER_CONTAINED, failure_of
from warpsmith.tuner.finals.choose import TuningFailed
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.progress import Progress
from warpsmith.tuner.run.session import tune

LEAST_S = 7.0
"""Least seconds of search per turn. Opening a device and computing a float64 reference come on top, and take up to
three seconds on an H200 with 16 cores.
"""
MANY = 1_000_000
"""Number of trials of a problem that only the time limits."""


@dataclasses.dataclass(frozen=True, slots=True)
class ProblemStanding:
    problem: Problem
    turns: int
    trials: int
    """Number of trials in the store."""
    best_ns: float | None
    gain: float
    """Logarithm of the factor by which the second half of the last turn's trials improved on all before them."""
    failure: str | None
    """Reason why its last turn ended without a winner."""

    def spec(self) -> dict[str, Any]:
        """The standing as JSON values."""
        return {**dataclasses.asdict(self), "problem": self.problem.spec(), "problem_key": self.problem.key()}


def read_problems(path: Path) -> tuple[Problem, ...]:
    """Reads problems from a JSON file: a list of objects, each with an `operation` and the fields of its problem.

    Raises BadArgument if the file cannot be read or holds something else; the message says which entry is wrong.
    """
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadArgument(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise BadArgument(f"{path} is not valid JSON: {error}") from None
    except RecursionError:
        raise BadArgument(f"{path} is nested too deeply to be a list of problems") from None
    if not isinstance(entries, list) or not entries:
        raise BadArgument(f'{path} must hold a list of problems, such as [{{"operation": "filter2d", ...}}]')
    return tuple(dict.fromkeys(_problem(path, number, entry) for number, entry in enumerate(entries, start=1)))


def _problem(path: Path, number: int, entry: Any) -> Problem:
    if not isinstance(entry, dict) or not isinstance(entry.get("operation"), str):
        raise BadArgument(f"{path}, problem {number}: it must be an object that names its operation")
    fields = {name: value for name, value in entry.items() if name != "operation"}
    try:
        return Problem.from_spec(entry["operation"], fields)
    except (BadArgument, TypeError, ValueError, LookupError, AttributeError, RecursionError) as error:
        raise BadArgument(f"{path}, problem {number}: {error}") from None


def tune_all(
    problems: Sequence[Problem],
    devices: tuple[DeviceRef, ...],
    store: Store,
    options: TuneOptions,
    progress: Progress,
) -> tuple[ProblemStanding, ...]:
    """Tunes problems in rounds until `options.time_limit_s` has passed; each keeps its winner in the store.

    The first round takes half the time and gives every problem an equal turn. A search's own limit excludes its
    preparation and finals, so their duration in the last turn is subtracted from the next turn's limit. Each later
    round takes half of the time left, for the half of the problems whose last turn gained the most; the last round
    takes all of it. A turn continues from the stored trials, and so does another command with the same list. A problem
    that fails leaves its time to the others.

    Machines that share a store on a server each tune the whole list, each in an order of its own, so that they rarely
    work on the same problem; when they do, they share the search. Returns the standings in the order of `problems`.

    Raises:
        BadArgument: there is no time limit.
        DeviceError: a device is not there, or the devices differ.
        CompileError, StoreError: there is no compiler; the store failed.
        KeyboardInterrupt: Ctrl-C; stored trials are kept.

    Source: Jamieson and Talwalkar 2016, arXiv 1502.07943, here over problems instead of configs.
    """
    if options.time_limit_s is None:
        raise BadArgument("a list of problems needs a time limit, such as --time-limit 2h")
    _ = common_device(devices)  # a missing device would fail all problems
    probe_before_search(devices[0], store)
    end = time.monotonic() + options.time_limit_s
    standings = {problem: ProblemStanding(problem, 0, 0, None, math.inf, None) for problem in problems}
    playing = list(problems)
    if store.database.server_url is not None:
        random.SystemRandom().shuffle(playing)
    apart_s = 0.0
    while playing and (left := end - time.monotonic()) > 0:
        round_end = time.monotonic() + (left if len(playing) == 1 else left / 2)
        for place, problem in enumerate(playing):
            if (start := time.monotonic()) >= end:
                break
            share = (round_end - start) / (len(playing) - place)
            limit = min(max(LEAST_S, share - apart_s), end - start)
            mine = dataclasses.replace(options, trials=MANY, time_limit_s=limit)
            standings[problem] = _turn(standings[problem], devices, store, mine, progress)
            apart_s = max(0.0, time.monotonic() - start - limit)
        ranked = sorted(playing, key=lambda problem: -standings[problem].gain)
        hopeful = [problem for problem in ranked if standings[problem].failure is None]
        playing = hopeful[: max(1, len(playing) // 2)]
    return tuple(standings[problem] for problem in problems)


def _turn(
    before: ProblemStanding, devices: tuple[DeviceRef, ...], store: Store, options: TuneOptions, progress: Progress
) -> ProblemStanding:
    """Runs one problem's turn. Errors that would fail every problem are raised; others become this problem's
    failure.
    """
    problem = before.problem
    try:
        report = tune(problem, devices, store, options, progress)
    except (*NEVER_CONTAINED, CompileError, MissingExtra):
        raise
    except Exception as error:
        reason = str(error) if isinstance(error, TuningFailed) else failure_of(error).message
        return dataclasses.replace(before, turns=before.turns + 1, gain=0.0, failure=reason)
    if report.interrupted:
        raise KeyboardInterrupt
    trials = store.trials(problem, devices[0].device())
    best_ns = None
    if report.record is not None:
        best_ns = report.record.trial.median_ns
        trials = tuple(trial for trial in trials if trial.is_under(report.record.conditions))
    # An exhausted space has nothing left to gain.
    gain = gain_of(trials, report.tried) if report.tried else 0.0
    return ProblemStanding(problem, before.turns + 1, len(trials), best_ns, gain, None)


def gain_of(trials: Sequence[Trial], recent: int) -> float:
    """Logarithm of the best time before the second half of the last `recent` trials over the best time of all."""
    times = [math.inf if trial.median_ns is None else trial.median_ns for trial in trials]
    best, earlier = min(times, default=math.inf), min(times[: len(times) - recent // 2], default=math.inf)
    if best == math.inf:
        return 0.0
    return math.inf if earlier == math.inf else math.log(earlier / best)


class ProblemListFailed(WarpsmithError):
    """No problem has a winner."""
