"""Simulated end of a search with a budget on a recorded space: how good its winner is, and which single changes it left
untried.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import random

from warpsmith.generator.space import Config
from warpsmith.tuner.finals.choose import TIE
from warpsmith.tuner.finals.finalists import is_finalist
from warpsmith.tuner.search.competition import Competition
from warpsmith.tuner.search.family_search import FamilySearch
from warpsmith.tuner.spaces.recording import Recording
from warpsmith.tuner.spaces.replay import AHEAD, asked_ahead


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
    told: list[tuple[float, Config]] = []
    for _, config in itertools.islice(asked_ahead(search.ask, ahead), budget):
        tried.add(config)
        time_ns = recording.times_ns.get(config)
        if time_ns is not None:
            time_ns *= math.exp(deviates.gauss(0.0, noise))
            told.append((time_ns, config))
        search.tell(name, config, time_ns)
    if not told:
        return None
    winner = min(_finalists(told), key=recording.times_ns.__getitem__)
    untried = sum(config not in tried for config in recording.space.neighbours(winner))
    return SearchEnd(winner, recording.times_ns[winner] / recording.best_ns - 1, untried)


def _finalists(told: list[tuple[float, Config]]) -> list[Config]:
    """The configs that a tuning run would time again."""
    ranked = sorted(told, key=lambda each: each[0])
    fastest_ns = ranked[0][0]
    return [config for place, (time_ns, config) in enumerate(ranked) if is_finalist(place, time_ns, fastest_ns)]
