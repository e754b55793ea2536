"""What is known of a problem before it is searched: it competes with what the search finds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping

from warpsmith.errors import BadArgument
from warpsmith.generator.device import Device
from warpsmith.generator.family import MAX_UNROLLED, Family
from warpsmith.generator.gate import Gate, IllegalConfig
from warpsmith.generator.problem import AUTO, Problem
from warpsmith.generator.program import Program
from warpsmith.generator.registry import defaults, likely_first
from warpsmith.generator.space import Config
from warpsmith.plans.lookup import find, known_configs
from warpsmith.store.location import StoreChain
from warpsmith.store.samples import Sample
from warpsmith.store.store import Store
from warpsmith.store.store_reader import Winners
from warpsmith.tuner.search.prior import Prior
from warpsmith.tuner.search.shipped_samples import shipped_samples

CARRIED = 8
"""Winners of the nearest stored problems that are tried before a search begins: with the answer and the defaults, about
a tenth of the default number of trials."""
PROPOSED = 10
"""Configs that a prior proposes, where its cross-check is passed."""
MOST_PARAMETERS = 40
"""Of a family for which a prior proposes. Pipelines of layers have 60, of which it would model all pairs: with 1,400
trials that took 13 s, before a search of 3 s. What is known of their stages says more."""
TIMED_AT_LEAST = 2
"""Of what is known, the first so many that are right have a time before a time limit ends a search."""

Key = tuple[str, Config]
"""A family's name and one of its configs: what tells the candidates of one problem apart."""


def present_answer(
    problem: Problem,
    device: Device,
    stores: StoreChain[Winners],
    families: Mapping[str, Family],
    method: str = AUTO,
) -> Program:
    """What `warpsmith.plan` answers now by `method`, or the default of the first of `families` where that is of another
    family, or nothing.
    """
    with contextlib.suppress(BadArgument):  # nothing answers what only a search may choose a family for
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
    problem: Problem,
    device: Device,
    stores: StoreChain[Winners],
    families: Mapping[str, Family],
    samples: Iterable[Sample],
    method: str = AUTO,
) -> tuple[Key, ...]:
    """What a search tries before anything else, the likeliest first, each of them once.

    The present `answer` comes first, then the winner of the nearest stored problem, what the `samples` of other
    problems propose, the default of every family, those of likely ones first, and the winners of the next nearest
    problems, each carried over to this problem. A default that the compiler would take seconds for is left to the
    search.
    """
    stored = [key for key in known_configs(problem, device, stores, 1 + CARRIED, method) if key[0] in families]
    carried = [key for key in stored if key != (answer.family, answer.config)]
    in_order = likely_first(families.values(), problem, device)
    legal = defaults(Gate(problem, device), [], tuple(in_order))
    quick = [(each.name, config) for each, config in legal if each.unrolled(problem, config) <= MAX_UNROLLED]
    proposed = _proposed(problem, device, families, samples)
    return tuple(dict.fromkeys([(answer.family, answer.config), *carried[:1], *proposed, *quick, *carried[1:]]))


def _proposed(
    problem: Problem, device: Device, families: Mapping[str, Family], samples: Iterable[Sample]
) -> tuple[Key, ...]:
    """By a prior that its cross-check trusts; nothing where a family has more than MOST_PARAMETERS."""
    gate = Gate(problem, device)
    spaces = [space for family in families.values() if (space := gate.space_if_able(family)) is not None]
    if any(len(space.parameters) > MOST_PARAMETERS for space in spaces):
        return ()
    # A cross-check on GPUs says nothing of what is known of the host.
    prior = Prior.fit(each for each in samples if each.device.kind is device.kind)
    is_trusted = prior is not None and prior.cross_check().is_passed
    return prior.first(problem, device, tuple(families.values()), PROPOSED) if prior and is_trusted else ()


def samples_of(store: Store, stores: StoreChain[Winners], operation: str) -> tuple[Sample, ...]:
    """What a prior is fitted to: the winners of an operation in all `stores`, a part of the trials in `store`, and the
    trials that come with the package.
    """
    shipped = (each for each in shipped_samples() if each.problem.operation == operation)
    return (*map(Sample.of, stores.answers(operation)), *store.samples(operation), *shipped)


def have_times(known: tuple[Key, ...], outcomes: Mapping[Key, bool]) -> bool:
    """Whether the first TIMED_AT_LEAST of `known` that are right have a time, or all of them were tried.

    Args:
        known: the likeliest first.
        outcomes: of what was tried, whether there is a time. One without is passed over for the next.
    """
    timed = 0
    for key in known:
        if key not in outcomes:
            return False
        timed += outcomes[key]
        if timed == TIMED_AT_LEAST:
            return True
    return True
