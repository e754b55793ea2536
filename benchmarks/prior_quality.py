"""Quality of the first ten trials if a store knows other problems, compared with a whole search without that knowledge.

    python benchmarks/prior_quality.py record FILE [--device auto] [--trials 400] [--seconds 500] [--problems N]
    python benchmarks/prior_quality.py propose FILE [--device auto] [--seconds 500]
    python benchmarks/prior_quality.py replay FILE [FILE ...]
    python benchmarks/prior_quality.py ship FILE [FILE ...]

`record` searches each of 45 problems with up to 400 trials. Then, leaving out one problem at a time, it fits a prior to
all the others' trials and measures the ten configs that the prior proposes. It takes at most the given seconds and a
few to end: problems that do not fit are left out. Every trial is written to FILE (.jsonl.gz).

`propose` measures the ten of each problem again, or for the first time in a recording that `short_searches.py` wrote.

`ship` puts a part of the trials into the package, for every user's first search.

`replay` needs no GPU. For each problem it prints the best of the ten over the best of the search: measured, if FILE has
those ten, and once more for ten that the current prior picks from the search's trials. The exit code is 1 if the median
of the measured ratios is above 1.03.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import gzip
import itertools
import json
import math
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import warpsmith as ws
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.errors import BadArgument, CompileError, DeviceError
from warpsmith.files import write_whole
from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.registry import families_for
from warpsmith.generator.space import Config
from warpsmith.store.trials import Sample
from warpsmith.tuner.costs import Ledger
from warpsmith.tuner.evaluate.evaluator import Evaluator
from warpsmith.tuner.run.flow import Flow, FlowCallbacks
from warpsmith.tuner.search.family_search import FamilySearch
from warpsmith.tuner.search.known import SHIPPED, write_samples
from warpsmith.tuner.search.prior import Prior
from warpsmith.tuner.workers.deadlines import Deadlines

FORMAT, VERSION = "warpsmith prior recording", 1
TEN = 10
GOAL = 1.03
TRIED_ALIKE = 8
"""Trials of each family, after which only families within RIVAL of the fastest continue."""
RIVAL = 1.3
READY_AT_ONCE = 3
"""Problems whose data and references are prepared while the configs of another are timed."""
PRIOR_SHARE = 0.3
"""Fraction of the time for the ten trials of each problem."""

Phase = str
SEARCH, PROPOSED = "search", "prior"
Line = tuple[int, Phase, Sample]


def problems() -> Iterator[Problem]:
    """Yields 45 small problems, of which no two differ only in size: filters, types, borders, transforms."""
    for taps in (2, 3, 4, 5, 7, 9, 11, 13, 15):
        yield ws.Filter2d(image=(2048, 2048), filter=(taps, taps))
    for taps, dtype in itertools.product((3, 5, 9), ("float16", "uint8")):
        yield ws.Filter2d(image=(2160, 3840), filter=(taps, taps), dtype=dtype)
    for taps, border in itertools.product((3, 7, 11), ("symmetric", "wrap")):
        yield ws.Filter2d(image=(1080, 1920), filter=(taps, taps), border=border)
    yield ws.Filter2d(image=(512, 512), filter=(9, 9), planes=16, border="wrap")
    yield ws.Filter2d(image=(1080, 1920), filter=(5, 5), channels=3, dtype="uint8")
    yield ws.Filter2d(image=(1080, 1920), filter=(5, 5), filters=4)
    yield ws.Filter2d(image=(2048, 2048), filter=(7, 7), weights=(1.0,) * 49)
    for points, kind in itertools.product((16, 60, 64, 100, 128, 243, 256), ("r2c", "c2c")):
        yield ws.Fft(size=(points,), batch=2**22 // points, kind=kind)
    for points, kind in itertools.product((16, 32, 64), ("r2c", "c2r")):
        yield ws.Fft(size=(points, points), batch=2**21 // points**2, kind=kind)


def tiny() -> Iterator[Problem]:
    """A few problems for the host device, whose times are a CPU's."""
    for taps in (2, 3, 4, 5):
        yield ws.Filter2d(image=(96, 128), filter=(taps, taps))
    for points in (16, 20):
        yield ws.Fft(size=(points,), batch=64)


class Asking(FlowCallbacks):
    """Programs that a function returns, each fully sampled."""

    def __init__(self, ask: Callable[[], Program | None]) -> None:
        self._ask = ask

    def next(self) -> Program | None:
        return self._ask()


def measured(
    problem: Problem, ref: DeviceRef, ask: Callable[[Evaluator], Callable[[], Program | None]], total: int
) -> Iterator[tuple[str, Config, float | None]]:
    """Measures the programs that `ask` proposes for an evaluator, and yields their times."""
    able = families_for(problem, ref.device())
    with (
        Evaluator.open(problem, ref, able, CompilerChoice.AUTO, 0, Deadlines(), sanitize=False) as evaluator,
        Flow(evaluator, Asking(ask(evaluator)), Ledger(), total) as flow,
    ):
        for trial in flow.trials(lambda: None):
            yield trial.family, trial.config, trial.median_ns


def searched(
    problem: Problem, ref: DeviceRef, trials: int, deadline: float
) -> Iterator[tuple[str, Config, float | None]]:
    """Searches all families in turns; slow families get only a few trials."""
    device = ref.device()
    able = families_for(problem, device)
    searches = {
        each.name: FamilySearch(
            f"prior {each.name}",
            each.space(problem, device),
            [each.default(problem, device), *each.starts(problem, device)],
            0,
        )
        for each in able
    }
    asked: list[str] = []

    def rivals() -> list[str]:
        best = min((each.best_ns or math.inf for each in searches.values()), default=math.inf)
        return [
            name
            for name, each in searches.items()
            if each.tried < TRIED_ALIKE or (each.best_ns or math.inf) <= RIVAL * best or best == math.inf
        ]

    def ask(evaluator: Evaluator) -> Callable[[], Program | None]:
        def next_program() -> Program | None:
            if len(asked) >= trials or time.monotonic() > deadline:
                return None
            for name in sorted(rivals(), key=asked.count):
                if (config := searches[name].ask()) is not None:
                    asked.append(name)
                    return evaluator.program(name, config)
            return None

        return next_program

    for family, config, time_ns in measured(problem, ref, ask, trials):
        searches[family].tell(config, time_ns)
        yield family, config, time_ns


def proposed(problem: Problem, ref: DeviceRef, samples: Sequence[Sample]) -> Iterator[tuple[str, Config, float | None]]:
    """Measures the first proposals of a prior that does not know the problem."""
    device = ref.device()
    others = [
        sample for sample in samples if sample.problem != problem and sample.problem.operation == problem.operation
    ]
    if (prior := Prior.fit(others)) is None:
        return
    firsts = iter(prior.first(problem, device, families_for(problem, device), TEN))

    def ask(evaluator: Evaluator) -> Callable[[], Program | None]:
        return lambda: next((evaluator.program(family, config) for family, config in firsts), None)

    yield from measured(problem, ref, ask, TEN)


def record(path: Path, ref: DeviceRef, chosen: Sequence[Problem], trials: int, seconds: float) -> None:
    """Searches all problems and writes the file, with the results so far if time runs out."""
    device, start = ref.device(), time.monotonic()
    lines: list[Line] = []
    last_search = start + seconds * (1 - PRIOR_SHARE)

    def keep(number: int, phase: Phase, outcomes: Iterator[tuple[str, Config, float | None]]) -> None:
        problem = chosen[number]
        try:
            for family, config, time_ns in outcomes:
                lines.append((number, phase, Sample(problem, device, family, config, time_ns)))
        except (BadArgument, CompileError, DeviceError) as error:
            print(f"{problem.key()}: {error}", file=sys.stderr)

    for number, problem in enumerate(chosen):
        share = (last_search - time.monotonic()) / (len(chosen) - number)
        if share > 0:
            keep(number, SEARCH, searched(problem, ref, trials, time.monotonic() + share))
            print(f"{time.monotonic() - start:5.0f} s  {len(lines)} trials  {problem.key()}", flush=True)
    propose(path, ref, chosen, lines, start + seconds)


def propose(path: Path, ref: DeviceRef, chosen: Sequence[Problem], lines: list[Line], deadline: float) -> None:
    """Measures the proposals for each problem of a prior from the other problems' trials, and writes the file."""
    samples = [sample for _, phase, sample in lines if phase == SEARCH]

    def of(number: int) -> list[Line]:
        if time.monotonic() > deadline:
            return []
        problem = chosen[number]
        try:
            found = list(proposed(problem, ref, samples))
        except (BadArgument, CompileError, DeviceError) as error:
            print(f"{problem.key()}: {error}", file=sys.stderr)
            return []
        print(f"{len(found)} proposed for {problem.key()}", flush=True)
        return [
            (number, PROPOSED, Sample(problem, ref.device(), family, config, time_ns))
            for family, config, time_ns in found
        ]

    with concurrent.futures.ThreadPoolExecutor(READY_AT_ONCE) as pool:
        for more in pool.map(of, range(len(chosen))):
            lines = [*lines, *more]
    write(path, ref.device(), chosen, lines)


def write(path: Path, device: Device, chosen: Sequence[Problem], lines: Sequence[Line]) -> None:
    """Writes compressed JSON lines: a header, then one trial per line."""
    header = {
        "format": FORMAT,
        "version": VERSION,
        "device": device.spec(),
        "problems": [[problem.operation, problem.spec()] for problem in chosen],
    }
    rows: list[Any] = [header]
    rows += [[number, phase, each.family, each.config.values(), each.time_ns] for number, phase, each in lines]
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    write_whole(path, gzip.compress(text.encode(), mtime=0))


def read(path: Path) -> list[Line]:
    """Reads a file of `write`. Raises BadArgument."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            header, *rows = map(json.loads, file)
        if (header["format"], header["version"]) != (FORMAT, VERSION):
            raise BadArgument(f"{path} is no recording of this version")
        device = Device.from_spec(header["device"])
        known = [Problem.from_spec(operation, spec) for operation, spec in header["problems"]]
        return [
            (number, phase, Sample(known[number], device, family, Config.of(values), time_ns))
            for number, phase, family, values, time_ns in rows
        ]
    except (OSError, EOFError, ValueError, LookupError, TypeError) as error:
        raise BadArgument(f"{path} is no recording that can be read: {error}") from None


def best_ns(samples: Sequence[Sample]) -> float:
    """Shortest time; infinite if there is none."""
    return min((sample.time_ns for sample in samples if sample.time_ns is not None), default=math.inf)


def picked(members: Sequence[Sample], others: Sequence[Sample]) -> list[Sample]:
    """The ten trials of a search that a prior from `others` takes first, with an equal share for each family."""
    prior = Prior.fit(others)
    by_family: dict[str, dict[Config, Sample]] = defaultdict(dict)
    for sample in members:
        by_family[sample.family][sample.config] = sample
    if prior is None:
        return []
    subject = members[0]
    orders = [
        [known[config] for config in prior.order(subject.problem, subject.device, family, list(known))]
        for family, known in sorted(by_family.items())
    ]
    turns = itertools.zip_longest(*orders)
    return [sample for sample in itertools.chain.from_iterable(turns) if sample is not None][:TEN]


def replay(lines: Sequence[Line]) -> list[float]:
    """Prints a line for each problem and returns the measured ratios."""
    searches, tens = defaultdict(list), defaultdict(list)
    for number, phase, sample in lines:
        (searches if phase == SEARCH else tens)[number].append(sample)
    ratios, from_recorded = [], []
    print("| problem | trials | best of the search, us | measured ten | ten of those recorded |\n|---|---|---|---|---|")
    for number, members in searches.items():
        problem, best = members[0].problem, best_ns(members)
        if best == math.inf:
            continue
        others = [
            each
            for other, known in searches.items()
            for each in known
            if other != number and each.problem.operation == problem.operation
        ]
        ten, again = best_ns(tens[number]) / best, best_ns(picked(members, others)) / best
        ratios += [ten] if ten < math.inf else []
        from_recorded += [again] if again < math.inf else []
        print(f"| {problem.key()} | {len(members)} | {best / 1e3:.2f} | {ten:.3f} | {again:.3f} |")
    for name, found in (("measured", ratios), ("of those recorded", from_recorded)):
        if found:
            print(f"{name}: median {statistics.median(found):.3f} over {len(found)} problems, worst {max(found):.3f}")
    for operation in ("filter2d", "fft"):
        known = [
            each for each in itertools.chain.from_iterable(searches.values()) if each.problem.operation == operation
        ]
        if prior := Prior.fit(known):
            print(f"{operation}: {prior.check()}")
    return ratios


def main() -> int:
    """Runs the command line and returns the exit code."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    to_record, to_replay = commands.add_parser("record"), commands.add_parser("replay")
    commands.add_parser("ship").add_argument("file", type=Path, nargs="+")
    to_propose = commands.add_parser("propose")
    to_propose.add_argument("file", type=Path)
    to_propose.add_argument("--device", default="auto")
    to_propose.add_argument("--seconds", type=float, default=500.0)
    to_record.add_argument("file", type=Path)
    to_record.add_argument("--device", default="auto")
    to_record.add_argument("--trials", type=int, default=400)
    to_record.add_argument("--seconds", type=float, default=500.0)
    to_record.add_argument("--problems", type=int, default=None, help="so many only")
    to_record.add_argument("--tiny", action="store_true", help="a handful of problems for the host device")
    to_replay.add_argument("file", type=Path, nargs="+")
    arguments = parser.parse_args()
    try:
        if arguments.command == "record":
            chosen = list(tiny() if arguments.tiny else problems())[: arguments.problems]
            ref = DeviceRef.parse(arguments.device)
            record(arguments.file, ref, chosen, arguments.trials, arguments.seconds)
            return 0
        if arguments.command == "ship":
            lines = list(itertools.chain.from_iterable(map(read, arguments.file)))
            write_samples(SHIPPED, (sample for _, _, sample in lines))
            return 0
        if arguments.command == "propose":
            lines = [line for line in read(arguments.file) if line[1] == SEARCH]
            known = {number: sample.problem for number, _, sample in lines}
            chosen = [known[number] for number in sorted(known)]
            lines = [(chosen.index(sample.problem), phase, sample) for _, phase, sample in lines]
            deadline = time.monotonic() + arguments.seconds
            propose(arguments.file, DeviceRef.parse(arguments.device), chosen, lines, deadline)
            return 0
        ratios = list(itertools.chain.from_iterable(replay(read(path)) for path in arguments.file))
    except BadArgument as error:
        print(error, file=sys.stderr)
        return 2
    return 1 if ratios and statistics.median(ratios) > GOAL else 0


if __name__ == "__main__":
    sys.exit(main())
