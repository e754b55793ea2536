"""Replays of the search on recorded times: how many trials it needs, compared with random draws.

Source of the method: the simulation mode of Kernel Tuner, Willemsen, van Nieuwpoort and van Werkhoven 2025, "Tuning the
tuner: introducing hyperparameter optimization for auto-tuning"."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from warpsmith.errors import BadArgument
from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.generator.space import Config
from warpsmith.store.record import FailureKind
from warpsmith.tuner.finals.choose import TIE
from warpsmith.tuner.finals.finalists import is_finalist
from warpsmith.tuner.search.competition import Competition
from warpsmith.tuner.search.family_search import FamilySearch
from warpsmith.tuner.search.sampler_choice import SamplerChoice
from warpsmith.tuner.spaces.recording import Recording

Candidate = TypeVar("Candidate")

AHEAD = 30
"""Number of asks before the first tell, as with compilers that run ahead."""
NEAR = 1.02
"""Ratio to the exhaustive best time up to which a config counts as having found it."""
GOAL_SHARE = 0.1
"""Share of a space within which half the searches should come NEAR."""
SEEDS = 20
PARTS = (0.5, 0.2, 0.8)
"""Quantiles of the searches that `Trials` reports."""
TRIALS_SHARE = 0.2
"""Share of a space that a replay tries if no number is given: enough to see by how much the goal is missed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Replayed:
    seed: int
    best_ns: tuple[float, ...]
    """Best time in ns after each trial; infinite before the first success."""
    needed: int | None
    """Number of trials until the best was NEAR the exhaustive best; None if it never was."""


@dataclasses.dataclass(frozen=True, slots=True)
class Trials:
    """Numbers of trials needed to come NEAR the exhaustive best, by nearest rank; None if more than were tried."""

    median: int | None
    p20: int | None
    p80: int | None
    excess: float | None
    """Median of the best times after all trials, over the exhaustive best, less 1; None if that has no time."""


@dataclasses.dataclass(frozen=True, slots=True)
class ReplayReport:
    """Result of the search on a recording, compared with random draws."""

    problem: Problem
    device: Device
    family: str
    created: str
    """UTC time of the recording, ISO 8601."""
    environment: Mapping[str, str]
    size: int
    """Number of recorded configs."""
    failures: Mapping[FailureKind, int]
    near: int
    """Number of configs NEAR the best, including the best."""
    best: Config
    best_ns: float
    sampler: SamplerChoice
    seeds: int
    trials: int
    """Number of configs that each search tried."""
    ahead: int
    search: Trials
    worst_excess: float | None
    """Best time of the worst seed after all trials, over the exhaustive best, less 1; None if it has no time."""
    by_luck: Trials
    """Result of random draws, computed from the recording and not sampled."""

    @property
    def share(self) -> float | None:
        """Median number of trials needed, as a share of the space."""
        return None if self.search.median is None else self.search.median / self.size

    @property
    def meets_goal(self) -> bool:
        """True if half the searches came NEAR within GOAL_SHARE of the space."""
        return self.share is not None and self.share <= GOAL_SHARE

    def spec(self) -> dict[str, Any]:
        """The report as JSON values, times in ns."""
        return {
            **{field.name: getattr(self, field.name) for field in dataclasses.fields(self)},
            "problem": self.problem.spec(),
            "problem_key": self.problem.key(),
            "operation": self.problem.operation,
            "device": self.device.spec(),
            "environment": dict(self.environment),
            "failures": {str(kind): count for kind, count in self.failures.items()},
            "best": self.best.values(),
            "search": dataclasses.asdict(self.search),
            "by_luck": dataclasses.asdict(self.by_luck),
            "share": self.share,
            "meets_goal": self.meets_goal,
        }


def ask_ahead(ask: Callable[[], Candidate | None], ahead: int) -> Iterator[Candidate]:
    """Yields the results of `ask` until it returns None, keeping up to `ahead` of them outstanding. The caller tells
    each one before it takes the next.
    """
    out: deque[Candidate] = deque()
    while True:
        while len(out) < ahead and (candidate := ask()) is not None:
            out.append(candidate)
        if not out:
            return
        yield out.popleft()


def replay(
    recording: Recording,
    seed: int,
    trials: int,
    ahead: int = AHEAD,
    sampler: SamplerChoice = SamplerChoice.ADDITIVE,
) -> Replayed:
    """Runs the search of one family on a recorded space.

    The search is the real one and sees what it would see of a real space with these configs. Three things differ from
    the family's whole space, because a small space is listed: random configs are all equally likely, the space can be
    exhausted, and the last few configs are taken in a seeded order.

    Args:
        recording: the space and its times.
        seed: seed of the search.
        trials: number of configs to try; fewer if the space has fewer.
        ahead: number of asks before the first tell.
        sampler: sampler that proposes.
    """
    name = f"replay of {recording.family}"
    search = FamilySearch(name, recording.space, [recording.default], seed, sampler=sampler)
    best_ns: list[float] = []
    for config in itertools.islice(ask_ahead(search.ask, ahead), trials):
        time_ns = recording.times_ns.get(config)
        search.tell(config, time_ns)
        best_ns.append(min(best_ns[-1] if best_ns else math.inf, math.inf if time_ns is None else time_ns))
    near_ns = NEAR * recording.best_ns
    needed = next((trial for trial, best in enumerate(best_ns, start=1) if best <= near_ns), None)
    return Replayed(seed, tuple(best_ns), needed)


def replay_report(
    recording: Recording,
    seeds: int = SEEDS,
    trials: int | None = None,
    ahead: int = AHEAD,
    sampler: SamplerChoice = SamplerChoice.ADDITIVE,
) -> ReplayReport:
    """Replays the search on a recording, with the seeds from 0 on. One seed takes a second or two.

    Args:
        recording: the space and its times.
        seeds: number of searches, 1 or more.
        trials: number of configs that each search tries, 1 or more; None for TRIALS_SHARE of the space.
        ahead: number of asks before the first tell, 1 or more.
        sampler: sampler that proposes.

    Raises:
        BadArgument: a number is below 1.
    """
    for name, number in (("seeds", seeds), ("trials", trials), ("asks ahead", ahead)):
        if number is not None and number < 1:
            raise BadArgument(f"{name} must be 1 or more; got {number}")
    size, best_ns = len(recording.outcomes), recording.best_ns
    tried = min(size, math.ceil(TRIALS_SHARE * size) if trials is None else trials)
    runs = [replay(recording, seed, tried, ahead, sampler) for seed in range(seeds)]
    excesses = sorted(run.best_ns[-1] / best_ns - 1 for run in runs)
    by_rank = sorted(math.inf if run.needed is None else run.needed for run in runs)
    median, p20, p80 = (_ranked(by_rank, part) for part in PARTS)
    return ReplayReport(
        problem=recording.problem,
        device=recording.device,
        family=recording.family,
        created=recording.created,
        environment=recording.environment,
        size=size,
        failures=Counter(each for each in recording.outcomes.values() if isinstance(each, FailureKind)),
        near=sum(time_ns <= NEAR * best_ns for time_ns in recording.times_ns.values()),
        best=recording.best,
        best_ns=best_ns,
        sampler=sampler,
        seeds=seeds,
        trials=tried,
        ahead=ahead,
        search=Trials(median, p20, p80, _finite(excesses[math.ceil(0.5 * seeds) - 1])),
        worst_excess=_finite(excesses[-1]),
        by_luck=by_luck(recording, tried),
    )


def by_luck(recording: Recording, trials: int) -> Trials:
    """Result of `trials` random draws without repeats, in closed form."""
    times = [*recording.times_ns.values(), *[math.inf] * (len(recording.outcomes) - len(recording.times_ns))]
    near = sum(time_ns <= NEAR * times[0] for time_ns in times)
    needed = [_draws(len(times), near, part) for part in PARTS]
    # The probability that the best of n draws is at least as fast as the k-th fastest equals the probability that one
    # of the k fastest is drawn.
    rank = next(rank for rank in range(1, len(times) + 1) if _draws(len(times), rank, 0.5) <= trials)
    median, p20, p80 = (draws if draws <= trials else None for draws in needed)
    return Trials(median, p20, p80, _finite(times[rank - 1] / times[0] - 1))


def _draws(size: int, wanted: int, part: float) -> int:
    """Number of draws without repeats from `size` items after which one of `wanted` items is drawn with probability
    `part`.
    """
    missed, draws = 1.0, 0
    while missed > 1 - part + 1e-9:  # rounding
        missed *= (size - wanted - draws) / (size - draws)
        draws += 1
    return draws


def _ranked(needed: Sequence[float], part: float) -> int | None:
    """Quantile `part` of a sorted sequence, by nearest rank; None if it is infinite."""
    value = needed[math.ceil(part * len(needed)) - 1]
    return None if value == math.inf else int(value)


def _finite(value: float) -> float | None:
    return None if value == math.inf else value


@dataclasses.dataclass(frozen=True, slots=True)
class SearchEnd:
    """Result of one search."""

    winner: Config
    """Finalist with the shortest recorded time; the finalists are chosen by the times told to the search."""
    excess: float
    """Its recorded time over the exhaustive best, less 1."""
    untried: int
    """Number of untried configs that differ from it in one parameter."""

    @property
    def is_tied(self) -> bool:
        """True if its time ties with the exhaustive best."""
        return self.excess <= TIE


def ending(recording: Recording, seed: int, budget: int, noise: float = 0.0, ahead: int = AHEAD) -> SearchEnd | None:
    """Runs a search with a budget on a recorded space; None if no config that it tried has a time.

    Args:
        recording: the space and its times.
        seed: seed of the search and of the noise.
        budget: number of configs to try, 1 or more; asks outstanding at the end are given up, as in a tuning run.
        noise: standard deviation of the normal noise added to the logarithm of the recorded times.
        ahead: number of asks before the first tell.
    """
    name = recording.family
    family = FamilySearch(f"ending of {name}", recording.space, [recording.default], seed)
    search = Competition({name: family}, seed, budget)
    deviates = random.Random(f"{seed} noise")
    tried: set[Config] = set()
    timed: list[tuple[float, Config]] = []
    for _, config in itertools.islice(ask_ahead(search.ask, ahead), budget):
        tried.add(config)
        time_ns = recording.times_ns.get(config)
        if time_ns is not None:
            time_ns *= math.exp(deviates.gauss(0.0, noise))
            timed.append((time_ns, config))
        search.tell(name, config, time_ns)
    if not timed:
        return None
    winner = min(_finalists(timed), key=recording.times_ns.__getitem__)
    untried = sum(config not in tried for config in recording.space.neighbours(winner))
    return SearchEnd(winner, recording.times_ns[winner] / recording.best_ns - 1, untried)


def _finalists(timed: list[tuple[float, Config]]) -> list[Config]:
    """The configs that a tuning run would time again."""
    ranked = sorted(timed, key=lambda each: each[0])
    fastest_ns = ranked[0][0]
    return [config for place, (time_ns, config) in enumerate(ranked) if is_finalist(place, time_ns, fastest_ns)]
