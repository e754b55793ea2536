"""How a search with a budget ends on a recorded space: with the best there is, and with its single changes tried."""

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
    """Where one search ended."""

    winner: Config
    """Of the finalists, by the times that the search was told, the fastest by the recorded ones."""
    excess: float
    """Its recorded time over the exhaustive best, less 1."""
    untried: int
    """Configs that differ from it in one parameter and were not tried."""

    @property
    def is_tied(self) -> bool:
        """Whether it cannot be told from the exhaustive best."""
        return self.excess <= TIE


def ending(recording: Recording, seed: int, budget: int, noise: float = 0.0, ahead: int = AHEAD) -> SearchEnd | None:
    """Runs a search with a budget on a recorded space; None where nothing that it tried has a time.

    Args:
        recording: the space and its times.
        seed: of the search, and of the noise.
        budget: configs to try, 1 or more; what is on its way beyond them is given up, as in a tuning run.
        noise: the standard deviation of the logarithm of what is told, of normal deviates around the recorded times.
        ahead: asks that are out before the first is told.
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
    """Those that a tuning run would time again."""
    ranked = sorted(told, key=lambda each: each[0])
    fastest_ns = ranked[0][0]
    return [config for place, (time_ns, config) in enumerate(ranked) if is_finalist(place, time_ns, fastest_ns)]
