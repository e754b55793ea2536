"""A short search for a problem whose defaults and starts have been timed already."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, wait

from conv2d_bench.candidates import Candidate
from conv2d_bench.tried import HOPELESS, Tried
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.tuner.search.competition import Competition
from warpsmith.tuner.search.family_search import FamilySearch
from warpsmith.tuner.workers.compile_pool import CompilePool

BUDGET = 400
"""Number of trials from which the competition derives its rungs. The time limit ends the search earlier."""
AHEAD = 2
"""Candidates being compiled, per compiler process."""


def search(problem: Conv2d, device: Device, pool: CompilePool, seed: int, tried: Tried, seconds: float) -> None:
    """Tries more configs of the families whose time is near the fastest, for `seconds` seconds.

    Args:
        problem: the problem.
        device: the device.
        pool: compiler processes.
        seed: random seed.
        tried: results so far; the new ones are added.
        seconds: duration of the search.
    """
    ends = time.monotonic() + seconds
    near = [name for name, ns in tried.by_family().items() if ns <= HOPELESS * tried.best_ns]
    families = {each.family.name: each.family for each, _ in tried.times if each.family.name in near}
    competition = _competition(problem, device, families, seed, tried, lambda: time.monotonic() > ends - 0.3 * seconds)
    on_their_way: list[Candidate] = []
    while (now := time.monotonic()) < ends:
        while len(on_their_way) < AHEAD * pool.processes and (asked := competition.ask()) is not None:
            family, config = families[asked[0]], asked[1]
            program = family.program(problem, config)
            on_their_way.append(Candidate(family, config, program, pool.submit(program)))
        if not on_their_way:
            return
        done, _ = wait([each.compiling for each in on_their_way], ends - now, FIRST_COMPLETED)
        for candidate in [each for each in on_their_way if each.compiling in done]:
            if time.monotonic() >= ends:
                break
            on_their_way.remove(candidate)
            competition.tell(candidate.family.name, candidate.config, tried.evaluate(candidate))
    for candidate in on_their_way:
        candidate.compiling.cancel()


def _competition(
    problem: Conv2d,
    device: Device,
    families: dict[str, Family],
    seed: int,
    tried: Tried,
    is_late: Callable[[], bool],
) -> Competition:
    searches = {
        name: FamilySearch(
            f"benchmark/{problem.key()}/{name}",
            family.space(problem, device),
            (family.default(problem, device), *family.starts(problem, device)),
            seed,
            [(each.config, ns) for each, ns in tried.times if each.family.name == name],
        )
        for name, family in families.items()
    }
    return Competition(searches, seed, BUDGET, is_late)
