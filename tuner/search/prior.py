"""What trials of other problems and devices say about the configs of this one, before any of them is timed."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from warpsmith.generator.device import Device
from warpsmith.generator.distances import between_devices
from warpsmith.generator.family import Family, Subject
from warpsmith.generator.gate import Gate
from warpsmith.generator.problem import Problem
from warpsmith.generator.space import Config, Space
from warpsmith.store.samples import Sample
from warpsmith.tuner.search.effects import Effects

SLOWEST = 1.5
"""A time longer than e^1.5 = 4.5 times the best of its problem counts as so many times; a failure too."""
LIKENESS = 4.0
"""Octaves (`Problem.distance`) at which a sample counts e times less."""
MOST_ROWS = 4000
"""Samples of one family that a model is fitted to, the nearest ones."""
CHECKED_ROWS = 800
"""The same in a cross-check, which fits some ten models: 0.4 s instead of 1 s with the samples of 33 problems."""
FIRST = 10
"""Configs that a cross-check takes from the front of the order."""
LEAST_CHECKED = 3
"""Problems with enough trials to be left out, from which on the cross-check decides."""
MOST_CHECKED = 8
"""Problems that are left out at most, spread over all: each takes some 0.1 s."""
LEAST_TRIALS = 2 * FIRST
"""Of a problem that is left out."""
UNKNOWN_FAMILY, FAMILY_WEIGHT = 0.15, 0.5
"""What a family of which nothing near is known counts as, in log time, and its weight in samples."""
NEAREST = 4
"""Winners of other problems that a proposal starts from, of each family."""
STEPS, DRAWN = 3, 100
"""Rounds of single changes, and random configs beside them, among which a proposal looks."""


@dataclasses.dataclass(frozen=True, slots=True)
class CrossCheck:
    """How good the orders are for problems that the model has not seen.

    By the mean of the first ones and not by the best of them: of the trials that a store keeps many are near the best,
    so that ten at random hold one that is within 1%, however wrong the order.
    """

    problems: int
    """That were left out, one after the other."""
    excess: float
    """The times of the FIRST configs in the order over the best, less 1: the geometric mean; 0 of no problems."""
    by_luck: float
    """The same of all configs, which is what a random order gives."""

    @property
    def is_passed(self) -> bool:
        """Whether the order is better than none on enough problems."""
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
        """The logarithm of its time over the best one, SLOWEST at most."""
        return SLOWEST if sample.time_ns is None else min(SLOWEST, math.log(sample.time_ns / self.best_ns))


class Prior:
    """An additive model of the logarithm of the time over a problem's best, near samples counting more.

    The configs' features are their values, each alone and in pairs, numbers also by their octave; what a value costs
    moves from problem to problem, so a model is fitted for each question. Pure: no clock, no environment; the same
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
        """A prior from samples; those of one problem on one device are compared with each other. None of no time."""
        groups = _grouped(samples)
        return cls(groups) if groups else None

    def cross_check(self) -> CrossCheck:
        """Leaves problems out, whatever the device, MOST_CHECKED of them, and orders their trials; computed once."""
        if self._check is None:
            self._check = _checked(self._groups)
        return self._check

    def order(self, problem: Problem, device: Device, family: str, configs: Sequence[Config]) -> list[Config]:
        """`configs` of one family, the likeliest to be fast first; as they are where the cross-check is not passed."""
        if not self.cross_check().is_passed:
            return list(configs)
        model = self._model(Subject(problem, device), family)
        return sorted(configs, key=model.predicted) if model is not None else list(configs)

    def first(
        self, problem: Problem, device: Device, families: Sequence[Family], count: int
    ) -> tuple[tuple[str, Config], ...]:
        """What to try first: names of families and legal configs, distinct, at most `count`, the likeliest first.

        In turns the likeliest by the model, found by local search over each space from the winners of the nearest
        problems and the family's own starts, and those winners themselves, which are known to be fast as a whole. Where
        the cross-check is not passed, the winners only.
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
        """Groups that are near enough to say something, with how far they are, the nearest first; never its own."""
        found = [
            (far, group)
            for group in self._groups
            if group.subject != here and (far := between(here, group.subject)) is not None
        ]
        return sorted(found, key=lambda pair: (pair[0], pair[1].subject.problem.key(), pair[1].subject.device.key()))

    def _model(self, here: Subject, family: str, rows: int = MOST_ROWS) -> Effects | None:
        """What values cost here, from the nearest `rows` samples of the family; None where there are none."""
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
        """The family's best over the best of all, in log time, as near problems have it."""
        total, weights = UNKNOWN_FAMILY * FAMILY_WEIGHT, FAMILY_WEIGHT
        for far, group in self._near(here):
            own = [group.excess(sample) for sample in group.samples if sample.family == family]
            if own:
                weight = math.exp(-far / LIKENESS)
                total, weights = total + weight * min(own), weights + weight
        return total / weights

    def _carried(self, gate: Gate, family: Family) -> dict[Config, float]:
        """The winners of the nearest problems that are of the family, legal here, and how far they come."""
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


def between(one: Subject, other: Subject) -> float | None:
    """How far apart two subjects are, in octaves of size; None where one says nothing of the other."""
    far = one.problem.distance(other.problem)
    if far is None or one.device.kind is not other.device.kind:
        return None
    return far + between_devices(one.device, other.device)


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
    """The `count` likeliest configs that single changes of the starts, and of the best of those, lead to."""
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
