"""Prior of a search: predictions for configs of a problem from trials of other problems and devices.

The model is a ridge regression of the cost of parameter values, alone and in pairs, for configs of several spaces.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import random
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from warpsmith.generator.device import Device
from warpsmith.generator.family import Family, Subject
from warpsmith.generator.gate import Gate
from warpsmith.generator.problem import Problem
from warpsmith.generator.space import Config, Space, Value
from warpsmith.store.trials import Sample

Numbers = npt.NDArray[np.float64]
Feature = tuple[tuple[str, Value], ...]
"""One parameter with its value or the octave of its value, or a pair of these."""

RIDGE, PAIR_RIDGE = 1.0, 8.0
"""Ridge weights, in samples, that pull effects to 0: of a single value, and of a pair of values, of which there are far
more.
"""
SWEEPS = 4
"""Passes over all parameters."""


class Effects:
    """The logarithm of a time as a sum over the features of a config. Immutable after fitting.

    It is fitted by weighted ridge regression, one set of features after the other (backfitting, Hastie and Tibshirani
    1986, "Generalized additive models", section 3), so that finer features explain only what coarser ones do not.
    """

    def __init__(self, mean: float, costs: dict[Feature, float]) -> None:
        self._mean, self._costs = mean, costs

    @classmethod
    def fit(cls, configs: Sequence[Config], outcomes: Sequence[float], weights: Sequence[float]) -> Effects:
        """Fits the effects to outcomes, one per config. The configs may come from several spaces of a family.

        Raises ValueError if there is no config.
        """
        if not configs:
            raise ValueError("effects need a config at the least")
        weight, rest = np.array(weights), np.array(outcomes)
        mean = float((weight * rest).sum() / weight.sum())
        rest = rest - mean
        columns = [_Column(slot, rows) for slot, rows in _slots(configs).items()]
        for _ in range(SWEEPS):
            for column in columns:
                column.improve(weight, rest)
        return cls(mean, {feature: cost for column in columns for feature, cost in column.costs()})

    def predicted(self, config: Config) -> float:
        """The expected outcome; features that were never seen add nothing."""
        costs = self._costs
        return self._mean + sum(costs.get(feature, 0.0) for feature in features(config))


class _Column:
    """One feature slot, such as `columns` or `columns` and `path`, with the feature that each config has in it."""

    def __init__(self, slot: tuple[str, ...], rows: list[tuple[int, Feature]]) -> None:
        names = sorted({feature for _, feature in rows}, key=repr)
        place = {feature: number for number, feature in enumerate(names)}
        self._features = names
        self._at = np.array([row for row, _ in rows])
        self._places = np.array([place[feature] for _, feature in rows])
        self._cost = np.zeros(len(names))
        self._ridge = PAIR_RIDGE if len(slot) == 2 else RIDGE

    def improve(self, weight: Numbers, rest: Numbers) -> None:
        """Refits the costs to the residual `rest`, and subtracts their change from it."""
        here = weight[self._at]
        total = np.bincount(self._places, here, len(self._cost))
        pull = np.bincount(self._places, here * rest[self._at], len(self._cost))
        change = (pull - self._ridge * self._cost) / (total + self._ridge)
        self._cost += change
        rest[self._at] -= change[self._places]

    def costs(self) -> Iterable[tuple[Feature, float]]:
        return zip(self._features, self._cost.tolist(), strict=True)


@functools.lru_cache(maxsize=1 << 14)
def features(config: Config) -> tuple[Feature, ...]:
    """Each value; each number's octave; each pair of values, with numbers replaced by their octaves.

    The result is cached: a cross-check fits models to the same samples eight times, which would cost a tenth of a
    second each.
    """
    coarse = [(name, _octave(value)) for name, value in config.items]
    alone: list[Feature] = []
    for item, rough in zip(config.items, coarse, strict=True):
        alone.append((item,))
        if rough[1] != item[1]:
            alone.append(((f"{rough[0]}~", rough[1]),))
    return (*alone, *itertools.combinations(coarse, 2))


@functools.lru_cache(maxsize=1 << 14)
def _parameters(config: Config) -> tuple[tuple[str, ...], ...]:
    """Names of the parameters that each feature of `features(config)` covers."""
    return tuple(tuple(name for name, _ in feature) for feature in features(config))


def _slots(configs: Sequence[Config]) -> dict[tuple[str, ...], list[tuple[int, Feature]]]:
    """Features grouped by the parameters that they cover, single values before pairs, with the rows that have them."""
    found: defaultdict[tuple[str, ...], list[tuple[int, Feature]]] = defaultdict(list)
    for row, config in enumerate(configs):
        for slot, feature in zip(_parameters(config), features(config), strict=True):
            found[slot].append((row, feature))
    # Order: octaves, values, pairs. What a coarser feature explains is not left to a finer one.
    return dict(sorted(found.items(), key=lambda slot: (len(slot[0]), not slot[0][0].endswith("~"), slot[0])))


def _octave(value: Value) -> Value:
    return f"2^{round(math.log2(value + 1))}" if isinstance(value, int) and value >= 0 else value


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
class PriorCheck:
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
        state = "used" if self.is_passed else "not used"
        return (
            f"{state}: of {self.problems} problems left out, the first {FIRST} configs are {self.excess:.1%} above the "
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
        self._check: PriorCheck | None = None

    @classmethod
    def fit(cls, samples: Iterable[Sample]) -> Prior | None:
        """Creates a prior from samples, comparing those of one problem on one device. None if no sample has a time."""
        groups = _grouped(samples)
        return cls(groups) if groups else None

    def check(self) -> PriorCheck:
        """Leaves up to MOST_CHECKED problems out, on all devices, and rates the order of their trials. Computed
        once.
        """
        if self._check is None:
            self._check = _checked(self._groups)
        return self._check

    def order(self, problem: Problem, device: Device, family: str, configs: Sequence[Config]) -> list[Config]:
        """Sorts `configs` of one family, those likely to be fast first. The order stays if the cross-check fails."""
        if not self.check().is_passed:
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
        is_trusted = self.check().is_passed
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


def _checked(groups: Sequence[_Group]) -> PriorCheck:
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
        return PriorCheck(0, 0.0, 0.0)
    mean, luck = (math.expm1(sum(each) / len(each)) for each in (excesses, by_luck))
    return PriorCheck(len(excesses), mean, luck)


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
    expanded: set[Config] = set()
    for _ in range(STEPS):
        best = sorted(pool, key=pool.__getitem__)[: max(NEAREST, count // 2)]
        for config in best:
            if config not in expanded:
                expanded.add(config)
                pool |= {each: model.predicted(each) for each in space.neighbours(config) if each not in pool}
    return sorted(pool, key=pool.__getitem__)[:count]
