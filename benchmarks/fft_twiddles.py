"""Twiddle factors loaded from memory beside computed ones, in tuned Fourier transforms.

    usage: python benchmarks/fft_twiddles.py [--device D] [--store FILE] [--trials N] [--seed S] [--size N|NxN ...]
                                             [--kind c2c|r2c ...] [--batch B|fill ...] [--json]

fbfft (Vasilache et al. 2014), section 5.2, gains 15% for 16 points and 20% for 32 by loading what it otherwise
computes. Here `twiddles` is a parameter of the families `fft_warp` and `fft_block`: `table` loads all factors,
`powers` some of them and multiplies, `computed` loads none. For each of the three a search tries N configs of each
family with that value, beginning with the stored answer and the family's default, changed as little as that needs. All
are verified. The fastest of each family and value then take turns, in CUDA graphs on a GPU, beside a copy of as many
bytes.

`gain` is how much longer a family's fastest config with computed factors takes than its fastest one that loads some.
`fill` is as many transforms as have signals of 256 MiB (on the host 4 MiB). Small batches stay in L2.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import warpsmith as ws
from warpsmith.cli.operations.fft_bench import default_norm, filled
from warpsmith.cli.options import sizes
from warpsmith.cli.output import print_table
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.fft.text import Twiddles
from warpsmith.generator.space import Config
from warpsmith.plans.lookup import look_up
from warpsmith.plans.match import Match
from warpsmith.store.conditions import Cached
from warpsmith.store.record import COPY, Failure, Timing
from warpsmith.tuner.evaluate.evaluator import Evaluator, Workshop
from warpsmith.tuner.evaluate.outcomes import Contender
from warpsmith.tuner.evaluate.timing_policy import Launching, TimingPolicy
from warpsmith.tuner.search.family_search import FamilySearch
from warpsmith.tuner.workers.deadlines import Deadlines

SIZES = ("8", "16", "32", "64", "128", "256", "16x16", "32x32")
KINDS = ("c2c", "r2c")
FILL = "fill"
BATCHES = (str(2**10), str(2**14), FILL)
PAPER_PERCENT = {16: 15.0, 32: 20.0}
"""Gains of section 5.2 of fbfft, by the points of an axis."""
PARAMETER = "twiddles"
AHEAD, NEAR = 4, 1.1
"""Configs that are compiled at once, and the largest ratio to the fastest time at which neighbours are tried."""
HEADER = ("kind", "n", "batch", "L2", "family", *(f"{each} us" for each in Twiddles), "copy us", "gain", "fbfft")


@dataclasses.dataclass(frozen=True)
class Fastest:
    """The fastest config of a family with one source of twiddles, timed in turns with those of the others."""

    config: str
    tried: int
    """Configs of the family with this source that were tried."""
    timing: Timing


@dataclasses.dataclass(frozen=True)
class Row:
    """One transform by one family."""

    problem: ws.Fft
    family: str
    fastest: Mapping[Twiddles, Fastest]
    copy: Timing

    @property
    def gain_percent(self) -> float | None:
        """Percent by which computed factors take longer than loaded ones; None without both."""
        times = {each: found.timing.median_ns for each, found in self.fastest.items()}
        computed = times.pop(Twiddles.COMPUTED, None)
        return None if computed is None or not times else 100 * (computed / min(times.values()) - 1)

    @property
    def paper_percent(self) -> float | None:
        return PAPER_PERCENT.get(self.problem.size[-1])


def problems(options: argparse.Namespace, kind_of_device: DeviceKind) -> Iterator[ws.Fft]:
    """Unscaled forward transforms of all kinds, sizes and batches."""
    for kind in options.kind or KINDS:
        norm = ws.Norm(default_norm(kind, inverse=False))
        for text in options.size or SIZES:
            problem = ws.Fft(sizes(text, "--size"), kind=ws.Kind(kind), norm=norm)
            for batch in options.batch or BATCHES:
                yield (
                    filled(problem, kind_of_device) if batch == FILL else dataclasses.replace(problem, batch=int(batch))
                )


def search(
    evaluator: Evaluator, family: Family, twiddles: Twiddles, match: Match, trials: int, seed: int
) -> tuple[Contender | None, int]:
    """The fastest right config of a family with one source of twiddles, and the number of configs that were tried."""
    space = evaluator.gate.space(family).narrowed({PARAMETER: (twiddles.value,)})
    firsts = [evaluator.gate.default(family)]
    if match.program.family == family.name:
        firsts.insert(0, match.program.config)
    near = [config for config in (space.like(each.values()) for each in firsts) if config is not None]
    if not near:
        return None, 0
    searched = FamilySearch(f"twiddles/{evaluator.problem.key()}/{family.name}/{twiddles}", space, near, seed)
    best: Contender | None = None
    while searched.tried < trials:
        asked = list(proposals(searched, min(AHEAD, trials - searched.tried), trials))
        if not asked:
            break
        for config, contender in tried(evaluator, family, asked, best):
            if isinstance(contender, Failure):
                searched.tell(config, None)
                continue
            searched.tell(config, contender.measurement.timing.median_ns)
            if best is None or contender.measurement.timing.median_ns < best.measurement.timing.median_ns:
                best = contender
    return best, searched.tried


def proposals(searched: FamilySearch, count: int, trials: int) -> Iterator[Config]:
    """New configs; in the second half of the trials neighbours of the fastest ones, as long as there are any."""
    for _ in range(count):
        config = None
        if searched.best_ns is not None and 2 * searched.tried >= trials:
            config = searched.ask_beside(NEAR * searched.best_ns)
        config = config or searched.ask()
        if config is not None:
            yield config


def tried(
    evaluator: Evaluator, family: Family, configs: list[Config], best: Contender | None
) -> Iterator[tuple[Config, Contender | Failure]]:
    """Each config with its verified and timed program, or its failure. All are compiled at once."""
    best_ns = None if best is None else best.measurement.timing.median_ns
    programs = [evaluator.program(family.name, config) for config in configs]
    for config, program, compiling in [
        (config, program, evaluator.compile(program)) for config, program in zip(configs, programs, strict=True)
    ]:
        compiled = compiling.result()
        if isinstance(compiled, Failure):
            yield config, compiled
            continue
        outcome = evaluator.bench.evaluate(program, compiled, best_ns).outcome
        yield config, outcome if isinstance(outcome, Failure) else Contender(program, compiled.binaries, outcome)


def rows_of(problem: ws.Fft, device: DeviceRef, options: argparse.Namespace, workshop: Workshop) -> Iterator[Row]:
    """The rows of a transform, all timed in the same turns; none, after a line that says why, if that fails."""
    model = device.device()
    match = look_up(problem, model, options.store)
    graphs = {} if model.kind is DeviceKind.HOST else {"launching": Launching.GRAPH}
    policy = TimingPolicy.for_kind(model.kind, **graphs)
    given = (problem, device, None, CompilerChoice.AUTO, options.seed, Deadlines())
    best: dict[tuple[str, Twiddles], Contender] = {}
    counts: dict[tuple[str, Twiddles], int] = {}
    with Evaluator.open(*given, sanitize=False, policy=policy, workshop=workshop) as evaluator:
        for family in evaluator.families.values():
            space = evaluator.gate.space_if_able(family)
            if space is None or PARAMETER not in {each.name for each in space.parameters}:
                continue
            for twiddles in Twiddles:
                place = family.name, twiddles
                found, counts[place] = search(evaluator, family, twiddles, match, options.trials, options.seed)
                if found is not None:
                    best[place] = found
        beside = evaluator.bench.side_by_side(tuple(best.values()), peers=False) if best else None
    if beside is None or isinstance(beside, Failure):
        print(f"{problem.key()}: {beside.message if beside else 'no config is right'}", file=sys.stderr)
        return
    (copy,) = (each.timing for each in beside.baselines if each.name == COPY)
    fastest: dict[str, dict[Twiddles, Fastest]] = {}
    for (place, contender), timing in zip(best.items(), beside.ours, strict=True):
        name, twiddles = place
        made = Fastest(contender.program.config.key(), counts[place], timing)
        fastest.setdefault(name, {})[twiddles] = made
    for name, found_of_family in fastest.items():
        yield Row(problem, name, found_of_family, copy)


def cells(row: Row) -> tuple[str, ...]:
    times = (
        "-" if found is None else f"{found.timing.median_ns / 1e3:.2f}"
        for found in (row.fastest.get(each) for each in Twiddles)
    )
    percents = ("-" if each is None else f"{each:+.1f}%" for each in (row.gain_percent, row.paper_percent))
    what = (str(row.problem.kind), "x".join(map(str, row.problem.size)), str(row.problem.batch))
    return (
        *what,
        "cold" if Cached.COLD in row.copy.policy else "warm",
        row.family,
        *times,
        f"{row.copy.median_ns / 1e3:.2f}",
        *percents,
    )


def document(row: Row) -> dict[str, Any]:
    return {
        "problem": row.problem.key(),
        "family": row.family,
        "fastest": {str(each): dataclasses.asdict(found) for each, found in row.fastest.items()},
        "copy": dataclasses.asdict(row.copy),
        "gain_percent": row.gain_percent,
        "paper_percent": row.paper_percent,
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--store", default=None)
    parser.add_argument("--trials", type=int, default=20, help="configs of each family and value; default 20")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", action="append", help=f"default {', '.join(SIZES)}")
    parser.add_argument("--kind", action="append", choices=KINDS, help="default both")
    parser.add_argument("--batch", action="append", help=f"a number or {FILL}; default {', '.join(BATCHES)}")
    parser.add_argument("--json", action="store_true", help="one JSON object for each transform and family")
    options = parser.parse_args(arguments)
    device = DeviceRef.parse(options.device)
    compiler, rows = device.compiler(CompilerChoice.AUTO, sanitize=False), []
    with Workshop.open(compiler, Deadlines()) as workshop:
        for problem in problems(options, device.kind):
            for row in rows_of(problem, device, options, workshop):
                rows.append(row)
                line = json.dumps(document(row)) if options.json else " ".join(cells(row))
                print(line, file=sys.stdout if options.json else sys.stderr, flush=True)
    if not options.json:
        conditions = dict.fromkeys(each.copy.policy.split(", ", 2)[2] for each in rows)
        print(f"{device.device().name}; medians, {' or '.join(conditions)}\n")
        print_table(HEADER, map(cells, rows))


if __name__ == "__main__":
    main()
