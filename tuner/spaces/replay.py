"""Replays: the search as it is, told recorded times instead of measured ones; how many trials it needs, beside luck.

Source of the method: the simulation mode of Kernel Tuner, Willemsen, van Nieuwpoort and van Werkhoven 2025, "Tuning the
tuner: introducing hyperparameter optimization for auto-tuning".
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from warpsmith.errors import BadArgument
from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.generator.space import Config
from warpsmith.store.record import FailureKind
from warpsmith.tuner.search.family_search import FamilySearch
from warpsmith.tuner.search.sampler_choice import SamplerChoice
from warpsmith.tuner.spaces.recording import Recording

Asked = TypeVar("Asked")

AHEAD = 30
"""Asks that are out before the first is told, as compilers that run ahead make it."""
NEAR = 1.02
"""Times the exhaustive best: what counts as having found it."""
GOAL_SHARE = 0.1
"""The share of a space within which half the searches are to come NEAR."""
SEEDS = 20
PARTS = (0.5, 0.2, 0.8)
"""The parts of the searches that `Trials` tells of."""
TRIALS_SHARE = 0.2
"""The share of a space that a replay tries where no number is given: enough to see by how much a goal is missed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Replayed:
    """One replayed search."""

    seed: int
    best_ns: tuple[float, ...]
    """The best time so far after each trial, in ns; infinite before the first success."""
    needed: int | None
    """Trials until the best was NEAR the exhaustive best; None where it never was."""


@dataclasses.dataclass(frozen=True, slots=True)
class Trials:
    """Trials needed to come NEAR the exhaustive best, by nearest rank; None where more than were tried."""

    median: int | None
    p20: int | None
    p80: int | None
    excess: float | None
    """The median of the best times after all trials, over the exhaustive best, less 1; None where it is no time."""


@dataclasses.dataclass(frozen=True, slots=True)
class ReplayReport:
    """How the search does on a recording, beside drawing configs at random."""

    problem: Problem
    device: Device
    family: str
    created: str
    """When it was recorded: UTC, ISO 8601."""
    environment: Mapping[str, str]
    size: int
    """Recorded configs."""
    failures: Mapping[FailureKind, int]
    near: int
    """Configs NEAR the best, itself among them."""
    best: Config
    best_ns: float
    sampler: SamplerChoice
    seeds: int
    trials: int
    """Configs that each search tried."""
    ahead: int
    search: Trials
    worst_excess: float | None
    """The worst seed's best time after all trials, over the exhaustive best, less 1; None where it has none."""
    by_luck: Trials
    """The same of configs drawn at random: computed from the recording, not sampled."""

    @property
    def share(self) -> float | None:
        """The median of the trials needed, as a share of the space."""
        return None if self.search.median is None else self.search.median / self.size

    @property
    def meets_goal(self) -> bool:
        """Whether half the searches came NEAR within GOAL_SHARE of the space."""
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


def asked_ahead(ask: Callable[[], Asked | None], ahead: int) -> Iterator[Asked]:
    """What `ask` gives, until it gives None, each once `ahead` are out: it is to be told before the next is taken."""
    out: deque[Asked] = deque()
    while True:
        while len(out) < ahead and (asked := ask()) is not None:
            out.append(asked)
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

    The search is the real one, and sees what it would see of a real space with these configs. Against the family's
    whole space three things differ, since a small space is listed: its random configs are all equally likely, it can be
    exhausted, and the last few are taken in a seeded order.

    Args:
        recording: the space and its times.
        seed: of the search.
        trials: configs to try; fewer where the space has fewer.
        ahead: asks that are out before the first is told.
        sampler: which sampler proposes.
    """
    name = f"replay of {recording.family}"
    search = FamilySearch(name, recording.space, [recording.default], seed, sampler=sampler)
    best_ns: list[float] = []
    for config in itertools.islice(asked_ahead(search.ask, ahead), trials):
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
    """Replays the search on a recording, with the seeds from 0 on; a second or two a seed.

    Args:
        recording: the space and its times.
        seeds: searches, 1 or more.
        trials: configs that each tries, 1 or more; None for TRIALS_SHARE of the space.
        ahead: asks that are out before the first is told, 1 or more.
        sampler: which sampler proposes.

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
    """What `trials` configs drawn at random, none twice, come to; in closed form."""
    times = [*recording.times_ns.values(), *[math.inf] * (len(recording.outcomes) - len(recording.times_ns))]
    near = sum(time_ns <= NEAR * times[0] for time_ns in times)
    needed = [_draws(len(times), near, part) for part in PARTS]
    # The best of n draws is the k-th fastest or faster as likely as one of the k fastest is among the n.
    rank = next(rank for rank in range(1, len(times) + 1) if _draws(len(times), rank, 0.5) <= trials)
    median, p20, p80 = (draws if draws <= trials else None for draws in needed)
    return Trials(median, p20, p80, _finite(times[rank - 1] / times[0] - 1))


def _draws(size: int, wanted: int, part: float) -> int:
    """Draws without repeats from `size` things until one of `wanted` is among them with probability `part`."""
    missed, draws = 1.0, 0
    while missed > 1 - part + 1e-9:  # rounding
        missed *= (size - wanted - draws) / (size - draws)
        draws += 1
    return draws


def _ranked(needed: Sequence[float], part: float) -> int | None:
    """The value at a part of a sorted sequence, by nearest rank."""
    value = needed[math.ceil(part * len(needed)) - 1]
    return None if value == math.inf else int(value)


def _finite(value: float) -> float | None:
    return None if value == math.inf else value
