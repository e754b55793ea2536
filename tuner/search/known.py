"""Configs that are known before a problem is searched and tried first, and the shipped trials behind them."""

from __future__ import annotations

import contextlib
import functools
import gzip
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from warpsmith.errors import BadArgument
from warpsmith.files import write_whole
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.gate import Gate, IllegalConfig
from warpsmith.generator.pipeline import Pipeline
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.ranking import defaults, likely_first
from warpsmith.generator.selection import EVERYTHING, Selection
from warpsmith.generator.space import Config
from warpsmith.plans.lookup import find, known_configs
from warpsmith.store.store import Store
from warpsmith.store.store_chain import StoreChain
from warpsmith.store.store_reader import Winners
from warpsmith.store.trials import FASTEST, OTHERS, Sample, stored_samples
from warpsmith.tuner.search.prior import Prior

FORMAT, VERSION = "warpsmith samples", 1
SHIPPED = Path(__file__).with_name("shipped_samples.jsonl.gz")


@functools.cache
def shipped_samples() -> tuple[Sample, ...]:
    """The samples in SHIPPED: some 80 per problem, measured on an H200. Reading them takes 60 ms, once per process."""
    return read_samples(SHIPPED)


def read_samples(path: Path) -> tuple[Sample, ...]:
    """Reads a file of `write_samples`. Raises BadArgument if it cannot be read or has another format."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            header, *rows = map(json.loads, file)
        if (header["format"], header["version"]) != (FORMAT, VERSION):
            raise BadArgument(f"{path} holds no samples of this version")
        subjects = [
            (Problem.from_spec(operation, spec), Device.from_spec(device))
            for operation, spec, device in header["subjects"]
        ]
        return tuple(
            Sample(problem, device, family, Config.of(values), time_ns)
            for (problem, device), family, values, time_ns in ((subjects[number], *rest) for number, *rest in rows)
        )
    except (OSError, EOFError, ValueError, LookupError, TypeError) as error:
        raise BadArgument(f"{path} holds no samples that can be read: {error}") from None


def write_samples(path: Path, samples: Iterable[Sample]) -> None:
    """Writes, for each problem on a device, its FASTEST samples and OTHERS spread over the rest, as JSON lines."""
    by_subject: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        by_subject.setdefault((sample.problem.key(), sample.device.key()), []).append(sample)
    members = [by_subject[key] for key in sorted(by_subject)]
    header: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "subjects": [[of[0].problem.operation, of[0].problem.spec(), of[0].device.spec()] for of in members],
    }
    kept = itertools.chain.from_iterable(
        ([number, each.family, each.config.values(), each.time_ns] for each in _kept(of))
        for number, of in enumerate(members)
    )
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in (header, *kept))
    write_whole(path, gzip.compress(text.encode(), mtime=0))


def _kept(members: Sequence[Sample]) -> list[Sample]:
    """The fastest samples, then others at equal distances in order of time, failures last."""
    ordered = sorted(members, key=lambda each: (each.time_ns is None, each.time_ns or 0.0))
    rest = ordered[FASTEST:]
    return ordered[:FASTEST] + rest[:: max(1, -(-len(rest) // OTHERS))]


CARRIED = 8
"""Number of winners of the nearest stored problems that are tried before a search begins. With the present answer and
the defaults they are about a tenth of the default number of trials.
"""
PROPOSED = 10
"""Number of configs that a prior proposes, if it passes its cross-check."""
MOST_PARAMETERS = 40
"""Largest number of parameters of a family for which a prior proposes. Pipelines of layers have 60, and the prior would
model all pairs: with 1,400 trials that took 13 s, before a search of 3 s. Trials of their stages say more.
"""
TIMED_AT_LEAST = 2
"""Number of correct known configs that are timed before a time limit may end a search."""

Key = tuple[str, Config]
"""Family name and config, which identify a candidate of one problem."""


class Known:
    """Candidates to try first, likeliest first and each once. Each is made when an iteration first reaches it, since a
    family's default takes milliseconds. Not thread-safe, except that other threads may read `made`.

    Args:
        candidates: makes the candidates, which may repeat.
    """

    def __init__(self, candidates: Iterable[Key] = ()) -> None:
        self._coming = iter(candidates)
        self.made: list[Key] = []
        """Candidates that an iteration has reached."""

    def __iter__(self) -> Iterator[Key]:
        for place in itertools.count():
            while place == len(self.made):
                if (new := next(self._coming, None)) is None:
                    return
                if new not in self.made:
                    self.made.append(new)
            yield self.made[place]


def present_answer(
    problem: Problem,
    device: Device,
    stores: StoreChain[Winners],
    families: Mapping[str, Family],
    selection: Selection = EVERYTHING,
) -> Program:
    """The program that `warpsmith.plan` returns now for a selection. If there is none, or its family is not in
    `families`, the first legal default of `families`.
    """
    with contextlib.suppress(BadArgument):  # only a search may choose a family for the method
        program = find(problem, device, stores, selection).program
        if program.family in families:
            return program
    gate = Gate(problem, device, selection.pins)
    reasons: list[str] = []
    for family, config in defaults(gate, reasons, tuple(families.values())):
        try:
            return gate.program(family, config)
        except IllegalConfig as refused:
            reasons.append(str(refused))
    raise BadArgument(f"no kernel family of {', '.join(families)} has a legal default: {'; '.join(reasons)}")


def known_first(
    answer: Program,
    gate: Gate,
    stores: StoreChain[Winners],
    families: Mapping[str, Family],
    samples: Iterable[Sample],
    selection: Selection = EVERYTHING,
) -> Iterator[Key]:
    """Candidates that a search tries first, likeliest first. The stores are read at once.

    The order is: the present `answer`; the winner of the nearest stored problem; the proposals of a prior fitted to
    `samples` of other problems; the default of every family, likely families first; the winners of the next nearest
    problems. Winners are adapted to this problem. A default that would take seconds to compile is left to the search.
    """
    stored = known_configs(gate.problem, gate.device, stores, 1 + CARRIED, selection)
    carried = [key for key in stored if key[0] in families and key != (answer.family, answer.config)]
    later = _not_stored(gate, families, samples)
    return itertools.chain([(answer.family, answer.config)], carried[:1], later, carried[1:])


def _not_stored(gate: Gate, families: Mapping[str, Family], samples: Iterable[Sample]) -> Iterator[Key]:
    """Yields the proposals of a prior, then the default of every family, likely families first."""
    yield from _proposed(gate, families, samples)
    in_order = likely_first(families.values(), gate.problem, gate.device)
    for family, config in defaults(gate, [], tuple(in_order)):
        if not family.is_long(gate.problem, config):
            yield family.name, config


def _proposed(gate: Gate, families: Mapping[str, Family], samples: Iterable[Sample]) -> tuple[Key, ...]:
    """Proposals of a prior that passes its cross-check; none if a family has more than MOST_PARAMETERS parameters."""
    # Pipelines first: they have the most parameters, and one such space is enough.
    in_order = sorted(families.values(), key=lambda family: not isinstance(family, Pipeline))
    spaces = (space for family in in_order if (space := gate.space_if_able(family)) is not None)
    if any(len(space.names) > MOST_PARAMETERS for space in spaces):
        return ()
    # A cross-check on GPUs is not valid for host samples.
    prior = Prior.fit(each for each in samples if each.device.kind is gate.device.kind)
    is_trusted = prior is not None and prior.check().is_passed
    return prior.first(gate.problem, gate.device, tuple(families.values()), PROPOSED) if prior and is_trusted else ()


def samples_of(store: Store, stores: StoreChain[Winners], operation: str) -> tuple[Sample, ...]:
    """Samples to fit a prior to: the winners of an operation in all `stores`, a part of the trials in `store`, and the
    trials shipped with the package.
    """
    shipped = (each for each in shipped_samples() if each.problem.operation == operation)
    return (*map(Sample.of, stores.answers(operation)), *stored_samples(store.database, operation), *shipped)


def have_times(known: Iterable[Key], outcomes: Mapping[Key, bool]) -> bool:
    """True if the first TIMED_AT_LEAST correct entries of `known` have a time, or all of `known` were tried.

    Args:
        known: candidates, likeliest first.
        outcomes: for each tried candidate, whether it has a time. One without a time is skipped.
    """
    timed = 0
    for key in known:
        if key not in outcomes:
            return False
        timed += outcomes[key]
        if timed == TIMED_AT_LEAST:
            return True
    return True
