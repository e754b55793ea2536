"""Prior of a search: predictions for configs of a problem from trials of other problems and devices."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from warpsmith.generator.device import Device
from warpsmith.generator.family import Family, Subject
from warpsmith.generator.gate import Gate
from warpsmith.generator.problem import Problem
from warpsmith.generator.space import Config, Space
from warpsmith.store.samples import Sample
from warpsmith.tuner.search.effects import Effects

SLOWEST = 1.5
"""Cap on the logarithm of a time over the best of its problem: e^1.5 = 4.5 times. A failure counts as this too."""
LIKENESS = 4.0
"""Distance in octaves (`Problem.distance`) at which the weight of a sample falls by a factor e."""
MOST_ROWS = 4000
"""Largest number of samples of one family that a model is fitted to; the nearest ones are used."""
CHECKED_ROWS = 800
"""Largest number of samples in a cross-check, which fits some ten models: 0.4 s instead of 1 s with the samples of 33
problems.
"""
FIRST = 10
"""Number of configs at the front of an order that a cross-check rates."""
LEAST_CHECKED = 3
"""Least number of checked problem-family pairs for the cross-check to pass."""
MOST_CHECKED = 8
"""Largest number of problems that are left out, spread over all: each takes some 0.1 s."""
LEAST_TRIALS = 2 * FIRST
"""Least number of trials of a problem that is left out, and of each family checked in it."""
UNKNOWN_FAMILY, FAMILY_WEIGHT = 0.15, 0.5
"""Log time over the best that a family counts as if nothing near it is known, and the weight of this, in samples."""
NEAREST = 4
"""Number of winners of other problems that a proposal starts from, per family."""
STEPS, DRAWN = 3, 100
"""Number of rounds of single changes, and of random configs added to the starts, in the search for a proposal."""


@dataclasses.dataclass(frozen=True, slots=True)
class CrossCheck:
    """Quality of the prior's orders for problems that its model has not seen.

    It rates the mean of the first configs instead of the best of them. Many of the trials that a store keeps are near
    the best, so that even ten at random contain one within 1%, however wrong the order.
    """

    problems: int
    """Number of problem-family pairs that were left out, one after the other."""
    excess: float
    """Geometric mean of the times of the FIRST configs in the order over the best, less 1; 0 if nothing was checked."""
    by_luck: float
    """Geometric mean of the times of all configs over the best, less 1, which a random order gives."""

    @property
    def is_passed(self) -> bool:
        """True if the order beats a random one on enough problems."""
        return self.problems >= LEAST_CHECKED and self.excess < self.by_luck

    def __str__(self) -> str:
        if self.problems < LEAST_CHECKED:
            return f"{self.problems} problems have trials enough to check the prior; {LEAST_CHECKED} are needed"
        told = "used" if self.is_passed else "not used"
        return (
            f"{told}: of {self.problems} problems left out, the first {FIRST} configs are {self.excess:.1%} above the "
            f"best, {self.by_luck:.1%} in a random order"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class _Group:
    """All samples of one problem on one device."""

    subject: Subject
    samples: tuple[Sample, ...]
    best_ns: float

    def excess(self, sample: Sample) -> float:
        """Logarithm of the sample's time over the best one, at most SLOWEST."""
        return SLOWEST if sample.time_ns is None else min(SLOWEST, math.log(sample.time_ns / self.best_ns))


class Prior:
    """Additive model of the log time over a problem's best, with greater weights for nearer samples.

    The features of a config are its values, alone and in pairs; numbers also count by their octave. A value's cost
    varies from problem to problem, so each question fits its own model. Pure: no clock, no environment; the same
    samples give the same answers.

    Source: additive models with shrinkage as in `Additive`; learning across tasks by weights of likeness, Wistuba,
    Schilling and Schmidt-Thieme 2018, "Scalable Gaussian process-based transfer surrogates for hyperparameter
    optimization".
    """

    def __init__(self, groups: Sequence[_Group]) -> None:
        self._groups = tuple(groups)
        self._check: CrossCheck | None = None

    @classmethod
    def fit(cls, samples: Iterable[Sample]) -> Prior | None:
        """Creates a prior from samples, comparing those of one problem on one device. None if no sample has a time."""
        groups = _grouped(samples)
        return cls(groups) if groups else None

    def cross_check(self) -> CrossCheck:
        """Leaves up to MOST_CHECKED problems out, on all devices, and rates the order of their trials. Computed
        once.
        """
        if self._check is None:
            self._check = _checked(self._groups)
        return self._check

    def order(self, problem: Problem, device: Device, family: str, configs: Sequence[Config]) -> list[Config]:
        """Sorts `configs` of one family, those likely to be fast first. The order stays if the cross-check fails."""
        if not self.cross_check().is_passed:
            return list(configs)
        model = self._model(Subject(problem, device), family)
        return sorted(configs, key=model.predicted) if model is not None else list(configs)

    def first(
        self, problem: Problem, device: Device, families: Sequence[Family], count: int
    ) -> tuple[tuple[str, Config], ...]:
        """Configs to try first: at most `count` distinct pairs of family name and legal config, likeliest first.

        They alternate between the configs that the model ranks first and the winners of the nearest problems, which are
        known to be fast as a whole. The former come from a local search over each space, which starts from these
        winners and from the family's own starts. If the cross-check fails, only the winners are returned.
        """
        here, gate = Subject(problem, device), Gate(problem, device)
        near: dict[tuple[str, Config], float] = {}
        likely: dict[tuple[str, Config], float] = {}
        is_trusted = self.cross_check().is_passed
        for family in families:
            if (space := gate.space_if_able(family)) is None:
                continue
            carried = self._carried(gate, family)
            near |= {(family.name, config): far for config, far in carried.items()}
            if is_trusted and (model := self._model(here, family.name)) is not None:
                offset = self._family_excess(here, family.name)
                for config in _climbed(here, space, [*carried, *gate.starts(family)], model, count):
                    likely[family.name, config] = offset + model.predicted(config)
        in_turns = itertools.zip_longest(sorted(likely, key=likely.__getitem__), sorted(near, key=near.__getitem__))
        distinct = dict.fromkeys(each for pair in in_turns for each in pair if each is not None)
        return tuple(distinct)[:count]

    def _near(self, here: Subject) -> list[tuple[float, _Group]]:
        """Groups near enough to be used, nearest first, each with its distance; never the subject's own group."""
        found = [
            (far, group)
            for group in self._groups
            if group.subject != here and (far := here.distance(group.subject)) is not None
        ]
        return sorted(found, key=lambda pair: (pair[0], pair[1].subject.problem.key(), pair[1].subject.device.key()))

    def _model(self, here: Subject, family: str, rows: int = MOST_ROWS) -> Effects | None:
        """Model fitted to the nearest `rows` samples of the family; None if there are none."""
        configs: list[Config] = []
        excesses, weights = [], []
        for far, group in self._near(here):
            weight = math.exp(-far / LIKENESS)
            for sample in group.samples:
                if sample.family == family and len(configs) < rows:
                    configs.append(sample.config)
                    excesses.append(group.excess(sample))
                    weights.append(weight)
        return Effects.fit(configs, excesses, weights) if configs else None

    def _family_excess(self, here: Subject, family: str) -> float:
        """Log time of the family's best over the overall best, averaged over near problems."""
        total, weights = UNKNOWN_FAMILY * FAMILY_WEIGHT, FAMILY_WEIGHT
        for far, group in self._near(here):
            own = [group.excess(sample) for sample in group.samples if sample.family == family]
            if own:
                weight = math.exp(-far / LIKENESS)
                total, weights = total + weight * min(own), weights + weight
        return total / weights

    def _carried(self, gate: Gate, family: Family) -> dict[Config, float]:
        """Winners of the nearest problems that are of the family, adapted and legal here, each with its distance."""
        found: dict[Config, float] = {}
        for far, group in self._near(Subject(gate.problem, gate.device)):
            best = next(sample for sample in group.samples if sample.time_ns == group.best_ns)
            if best.family == family.name:
                config = gate.carried(family, best.config, group.subject)
                if config is not None:
                    found.setdefault(config, far)
            if len(found) == NEAREST:
                break
        return found


def _grouped(samples: Iterable[Sample]) -> list[_Group]:
    by_subject: dict[tuple[str, str], list[Sample]] = defaultdict(list)
    for sample in samples:
        by_subject[sample.problem.key(), sample.device.key()].append(sample)
    groups = []
    for _, members in sorted(by_subject.items()):
        times = [sample.time_ns for sample in members if sample.time_ns is not None]
        if times:
            groups.append(_Group(Subject(members[0].problem, members[0].device), tuple(members), min(times)))
    return groups


def _checked(groups: Sequence[_Group]) -> CrossCheck:
    excesses, by_luck = [], []
    checkable = [group for group in groups if len(group.samples) >= LEAST_TRIALS]
    for group in checkable[:: max(1, math.ceil(len(checkable) / MOST_CHECKED))]:
        others = Prior([each for each in groups if each.subject.problem != group.subject.problem])
        for family, members in _by_family(group).items():
            if len(members) < LEAST_TRIALS:
                continue
            model = others._model(group.subject, family, CHECKED_ROWS)
            if model is None:
                continue
            predicted = sorted(members, key=lambda sample: model.predicted(sample.config))
            best = min(map(group.excess, members))
            excesses.append(statistics.fmean(map(group.excess, predicted[:FIRST])) - best)
            by_luck.append(statistics.fmean(map(group.excess, members)) - best)
    if not excesses:
        return CrossCheck(0, 0.0, 0.0)
    mean, luck = (math.expm1(sum(each) / len(each)) for each in (excesses, by_luck))
    return CrossCheck(len(excesses), mean, luck)


def _by_family(group: _Group) -> Mapping[str, list[Sample]]:
    found: dict[str, list[Sample]] = defaultdict(list)
    for sample in group.samples:
        found[sample.family].append(sample)
    return found


def _climbed(here: Subject, space: Space, starts: Iterable[Config], model: Effects, count: int) -> list[Config]:
    """The `count` configs that the model ranks first, reached by single changes from the starts and from the best
    found.
    """
    rng = random.Random(here.problem.key())
    drawn = (space.drawn(rng) for _ in range(DRAWN))
    pool = {config: model.predicted(config) for config in [*starts, *drawn] if config is not None}
    looked_at: set[Config] = set()
    for _ in range(STEPS):
        best = sorted(pool, key=pool.__getitem__)[: max(NEAREST, count // 2)]
        for config in best:
            if config not in looked_at:
                looked_at.add(config)
                pool |= {each: model.predicted(each) for each in space.neighbours(config) if each not in pool}
    return sorted(pool, key=pool.__getitem__)[:count]
