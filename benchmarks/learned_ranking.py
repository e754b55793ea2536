"""Whether an order of families learned from stored times beats the models' order for problems that nobody tuned.

    python benchmarks/learned_ranking.py [STORE ...] [--networks RESULTS.jsonl ...] [--defaults]
    python benchmarks/learned_ranking.py --configs

A look-up without a stored winner answers by the likely family with the least expected time. Here each problem is left
out in turn, with its layer in all passes, batches and types, with its device, or with both. Corrections of the models,
learned from the rest, name a family, and what it loses against the fastest stored likely family is compared with what
the models' own choice loses. The interval is that of a paired bootstrap over layers: of log(learned / modelled), so
that an order is better where its upper end is below 0. A learned order is worth shipping for a kind of problems only if
it is better by every way of leaving out.

STORE is the shipped store by default. Its times, and those of trials, count where this version generates the program
that was measured. `--networks` adds the times of defaults that `networks.py measure` wrote, which are what an answer
without a search takes; `--defaults` counts only such times of the stores. It needs no GPU and takes two minutes for
the shipped store.

`--configs` compares the default config of the family that answers with the one that the search's prior puts first,
among the shipped trials of each problem; the prior knows other problems alone. It takes half a minute.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ranking_bench.cases import Case, measured_cases, stored_cases
from ranking_bench.check import LeftOut, Loss, Outcome, better, by_kind, compared, errors_of, outcomes, ways_of
from ranking_bench.configs import FirstConfigs, first_configs
from ranking_bench.corrections import CORRECTIONS, LEARNED

from warpsmith.cli.output import print_table
from warpsmith.errors import WarpsmithError
from warpsmith.store.location import shipped_store
from warpsmith.tuner.search.known import shipped_samples

TOLD_EVERY = 50
"""Number of problems between two lines of progress."""


def cases_of(given: argparse.Namespace) -> Iterator[Case]:
    """Yields the cases of all stores and results."""
    for store in given.stores or [str(shipped_store())]:
        yield from stored_cases(store, defaults=given.defaults)
    for results in given.networks:
        yield from measured_cases(results)


def print_counts(cases: Sequence[Case]) -> None:
    """Prints how many problems can be judged, and why the others cannot."""
    judged = [case for case in cases if len(case.timed) > 1]
    strange = [case for case in judged if case.first != case.timed[0].family]
    times, uncounted = sum(len(case.timed) for case in judged), sum(case.uncounted for case in cases)
    print(
        f"{len(cases)} problems; {len(judged)} have times of two likely families or more, {times} in all; the models' "
        f"first family has no time in {len(strange)} of these; {uncounted} times do not count"
    )


def print_losses(how: LeftOut, found: Sequence[Outcome]) -> None:
    """Prints the losses of all orders: a line for each kind of problems of which one order missed a fastest family."""
    rows, faultless = [], 0
    for kind, own in by_kind(found).items():
        if not any(each.modelled or any(each.learned.values()) for each in own):
            faultless += len(own)
            continue
        modelled = Loss.of([each.modelled for each in own])
        layers = len({each.layer for each in own})
        cells = [kind, f"{len(own)}, {layers}", str(modelled)]
        for name in LEARNED:
            beside = compared(own, name)
            ends = f"{100 * beside.least:+.1f} to {100 * beside.most:+.1f}"
            cells.append(f"{beside.learned} ({ends})")
        rows.append(cells)
    print(f"\nleft out: {how}; right, mean loss, 95% quantile (interval of the difference, %)\n")
    print_table(("kind", "problems, layers", "models", *LEARNED), rows)
    print(f"\nevery order names the fastest family of all {faultless} problems of the other kinds")


def print_errors(cases: Sequence[Case]) -> None:
    """Prints, for each family, how far its model is from the stored times, before and after corrections."""
    families = sorted({each.family for case in cases for each in case.timed if each.expected_ns})
    rows = []
    for family in families:
        own = errors_of(cases, family)
        cells = [family, str(len(own)), f"{math.exp(sum(own) / len(own)):.2f}", f"{_root_mean_square(own):.2f}"]
        cells += [f"{_root_mean_square(errors_of(cases, family, each)):.2f}" for each in CORRECTIONS.values()]
        rows.append(cells)
    print("\nlog of stored over expected time, root mean square, other layers known\n")
    print_table(("family", "times", "mean of stored / expected", "model", *CORRECTIONS), rows)


def _root_mean_square(logs: Sequence[float]) -> float:
    return math.sqrt(sum(log * log for log in logs) / len(logs))


def print_configs(found: Sequence[FirstConfigs]) -> None:
    """Prints what defaults and the prior's first configs lose, by operation."""
    rows = []
    for operation in sorted({each.operation for each in found}):
        own = [each for each in found if each.operation == operation]
        believed = sum(each.is_believed for each in own)
        losses = (Loss.of(logs) for logs in ([each.default for each in own], [each.by_prior for each in own]))
        rows.append((operation, str(len(own)), *map(str, losses), str(believed)))
    header = ("operation", "problems", "default: best, mean loss, 95% quantile", "first by the prior", "prior believed")
    print_table(header, rows)


def print_verdict(checked: Mapping[LeftOut, Sequence[Outcome]]) -> None:
    """Prints where a learned order is better by every way of leaving out."""
    found = [f"{kind} by {order}" for kind, order in better(checked, LEARNED)]
    print(f"\na learned order is better for: {'; '.join(found) or 'no kind of problems'}")


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stores", nargs="*", metavar="STORE")
    parser.add_argument("--networks", nargs="+", type=Path, default=[], metavar="RESULTS.jsonl")
    parser.add_argument("--defaults", action="store_true")
    parser.add_argument("--configs", action="store_true")
    given = parser.parse_args(words)
    if given.configs:
        print_configs(list(first_configs(shipped_samples())))
        return 0
    cases: list[Case] = []
    try:
        for number, case in enumerate(cases_of(given), 1):
            cases.append(case)
            if number % TOLD_EVERY == 0:
                print(f"{number} problems read", file=sys.stderr, flush=True)
    except WarpsmithError as error:
        print(f"learned_ranking.py: error: {error}", file=sys.stderr)
        return 1
    print_counts(cases)
    checked = {how: found for how in ways_of(cases) if (found := outcomes(cases, how, LEARNED))}
    for how, found in checked.items():
        print_losses(how, found)
    print_errors(cases)
    print_verdict(checked)
    return 0


if __name__ == "__main__":
    sys.exit(main())
