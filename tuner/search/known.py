"""Configs that are known before a problem is searched and that are tried first."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping

from warpsmith.errors import BadArgument
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.gate import Gate, IllegalConfig
from warpsmith.generator.pipeline import Pipeline
from warpsmith.generator.problem import AUTO, Problem
from warpsmith.generator.program import Program
from warpsmith.generator.ranking import defaults, likely_first
from warpsmith.generator.space import Config
from warpsmith.plans.lookup import find, known_configs
from warpsmith.store.location import StoreChain
from warpsmith.store.samples import Sample
from warpsmith.store.store import Store
from warpsmith.store.store_reader import Winners
from warpsmith.tuner.search.prior import Prior
from warpsmith.tuner.search.shipped_samples import shipped_samples

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
    method: str = AUTO,
) -> Program:
    """The program that `warpsmith.plan` returns now by `method`. If there is none, or its family is not in `families`,
    the first legal default of `families`.
    """
    with contextlib.suppress(BadArgument):  # only a search may choose a family for the method
        program = find(problem, device, stores, method).program
        if program.family in families:
            return program
    gate = Gate(problem, device)
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
    method: str = AUTO,
) -> Iterator[Key]:
    """Candidates that a search tries first, likeliest first. The stores are read at once.

    The order is: the present `answer`; the winner of the nearest stored problem; the proposals of a prior fitted to
    `samples` of other problems; the default of every family, likely families first; the winners of the next nearest
    problems. Winners are adapted to this problem. A default that would take seconds to compile is left to the search.
    """
    stored = known_configs(gate.problem, gate.device, stores, 1 + CARRIED, method)
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
    if any(len(space.parameters) > MOST_PARAMETERS for space in spaces):
        return ()
    # A cross-check on GPUs is not valid for host samples.
    prior = Prior.fit(each for each in samples if each.device.kind is gate.device.kind)
    is_trusted = prior is not None and prior.cross_check().is_passed
    return prior.first(gate.problem, gate.device, tuple(families.values()), PROPOSED) if prior and is_trusted else ()


def samples_of(store: Store, stores: StoreChain[Winners], operation: str) -> tuple[Sample, ...]:
    """Samples to fit a prior to: the winners of an operation in all `stores`, a part of the trials in `store`, and the
    trials shipped with the package.
    """
    shipped = (each for each in shipped_samples() if each.problem.operation == operation)
    return (*map(Sample.of, stores.answers(operation)), *store.samples(operation), *shipped)


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
