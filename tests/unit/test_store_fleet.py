"""Several tuner processes at one store: everything is tried, nothing twice, even if one is killed."""

from __future__ import annotations

import collections
import signal
import subprocess
import sys

import forking
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import H200
from warpsmith.store.contents import check_store
from warpsmith.store.store import Store

PROBLEM = Filter2d(image=(64, 64), filter=(3, 3))
COUNT = 120

DEAD_AFTER_S = 6.0
"""A hundred times as long as a tuner's turn here takes: enough where a machine is busy with other things."""

TUNER = """
import random, sys, time
from warpsmith.generator.presets import H200
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.space import Config
from warpsmith.store.tuners import Claim
from warpsmith.store.record import Failure, FailureKind, Trial
from warpsmith.store.store import Store

location, name, count, dead_after_s, stalls_after = sys.argv[1:]
problem = Filter2d(image=(64, 64), filter=(3, 3))
everything = [Claim("plain", Config.of({"n": n}), f"f{n}", "g++ 12.2.0") for n in range(int(count))]
rng, changed, granted_before = random.Random(name), {}, 0

def say(*words):
    print(*words, flush=True)

with Store.open(location, write=True) as store:
    tuner = store.tuners.register(name)
    last_id, stored = 0, set()
    while True:
        store.tuners.beat(tuner)
        last_id, news = store.trials_since(problem, H200, last_id)
        stored |= {trial.config for trial in news}
        missing = [claim for claim in everything if claim.config not in stored]
        if not missing:
            break
        now, beats = time.monotonic(), store.tuners.beats()
        for other, count in beats.items():
            if changed.get(other, (None,))[0] != count:
                changed[other] = count, now
            elif now - changed[other][1] > float(dead_after_s):
                say("struck", store.tuners.strike(other))
        granted = store.tuners.claim(problem, H200, tuner, rng.sample(missing, min(5, len(missing)))).mine
        say("granted", *(claim.config.integer("n") for claim in granted))
        granted_before += len(granted)
        if granted_before > int(stalls_after) and granted:
            say("stalls")
            time.sleep(600)
        for claim in granted:
            outcome = Failure(FailureKind.COMPILE, name)
            trial = Trial(claim.family, claim.config, claim.fingerprint, outcome, claim.compiler)
            store.add_trials(problem, H200, [trial])
        if not granted:
            time.sleep(0.05)
    store.tuners.strike(tuner)
"""


def start(
    location: str, name: str, stalls_after: int = COUNT, dead_after_s: float = DEAD_AFTER_S
) -> subprocess.Popen[str]:
    arguments = [location, name, str(COUNT), str(dead_after_s), str(stalls_after)]
    return forking.popen(
        [sys.executable, "-c", TUNER, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def granted(lines: list[str]) -> list[int]:
    """The numbers in what a tuner said that it was granted."""
    return [int(number) for line in lines if line.startswith("granted") for number in line.split()[1:]]


def finish(tuner: subprocess.Popen[str]) -> list[str]:
    """Everything a tuner printed until its end."""
    said, errors = tuner.communicate(timeout=120)
    assert tuner.returncode == 0, errors
    return said.splitlines()


def tried_by(location: str) -> dict[int, str]:
    """Tuner that stored each number; asserts that each is stored once."""
    with Store.open(location, write=False) as store:
        trials = store.trials(PROBLEM, H200)
        assert store.tuners.beats() == {}
        assert check_store(store) == ()
    found = {trial.config.integer("n"): trial.outcome.message for trial in trials}  # type: ignore[union-attr]
    assert len(found) == len(trials)
    return found


def test_everything_is_tried_and_nothing_twice(location: str) -> None:
    names = [f"tuner {number}" for number in range(3)]
    running = [start(location, name, dead_after_s=10 * DEAD_AFTER_S) for name in names]
    said = dict(zip(names, map(finish, running), strict=True))
    assert sorted(number for lines in said.values() for number in granted(lines)) == list(range(COUNT))
    assert not any(line.startswith("struck") for lines in said.values() for line in lines)
    assert tried_by(location) == {number: name for name in names for number in granted(said[name])}


def test_a_killed_tuner_holds_nothing_back(location: str) -> None:
    victim = start(location, "victim", stalls_after=12)
    assert victim.stdout is not None
    # It holds its last claim before the others start: they could leave nothing for it to claim.
    heard = []
    while "stalls\n" not in heard:
        heard.append(victim.stdout.readline())
        assert heard[-1], "the victim ended by itself"
    others = [start(location, f"tuner {number}") for number in range(2)]
    victim.send_signal(signal.SIGKILL)
    victim.communicate(timeout=60)
    said = [line for other in others for line in finish(other)]

    held = set(granted(heard[-2:]))
    assert held
    times = collections.Counter(granted(heard) + granted(said))
    assert times == {number: 2 if number in held else 1 for number in range(COUNT)}
    assert "struck victim" in said
    assert not {number for number, name in tried_by(location).items() if name == "victim"} & held
