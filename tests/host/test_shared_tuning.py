"""Whole tuning runs that share one PostgreSQL server: they try nothing twice, and soon replace a lost tuner."""

from __future__ import annotations

import collections
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest

import forking
from paths import TESTS, python_path
from policies import TIME_BRIEFLY
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter2d import Filter2d
from warpsmith.store.contents import check_store
from warpsmith.store.record import Failure, Measurement, Trial
from warpsmith.store.store import Store

HOST = DeviceRef(DeviceKind.HOST)
PROBLEM = Filter2d(image=(24, 32), filter=(3, 3))
PATIENCE_S = 120.0
TAKES_A_WHILE = "if (blockIdx.x == 0 && threadIdx.x == 0 && threadIdx.y == 0) usleep(10000);"
"""A kernel of about a third of a second in the thirty runs of a verification and its timing. It sleeps, so that other
tests have the cores meanwhile.
"""

# Logs the candidates that a tuner runs and the reason why it lost the server. May shorten the wait for dead tuners.
NOTES = f"""
{TIME_BRIEFLY}
import os, pathlib, sys
from warpsmith.store import database
from warpsmith.tuner.run import sharing
from warpsmith.tuner.run import search_loop
sharing.DEAD_ROUNDS = int(os.environ.get("DEAD_ROUNDS", sharing.DEAD_ROUNDS))
kept = search_loop.Journal.keep
def note(*words):
    with open(os.environ["NOTES"], "a") as notes:
        print(*words, file=notes)
def keep(journal, trial):
    note("tried", trial.config.integer("n"))
    kept(journal, trial)
search_loop.Journal.keep = keep
class ServerLost(database.ServerLost):
    def __init__(self, *told):
        super().__init__(*told)
        note("lost", *told)
database.ServerLost = ServerLost
"""


@pytest.fixture
def start(start_at: Callable[..., Any], database_with_store: str, tmp_path: Any) -> Callable[..., Any]:
    """Starts tuners at the server: `start("name", range(5))`. Each logs the candidates that it tries under its name.

    With `hurry`, they wait 6 s for a silent tuner instead of 20 s.
    """

    def call(name: str, numbers: range, *, hurry: bool = False, **others: Any) -> Any:
        environment = {"NOTES": str(tmp_path / name)} | ({"DEAD_ROUNDS": "24"} if hurry else {})
        return start_at(database_with_store, numbers, prelude=NOTES, environment=environment, **others)

    return call


@pytest.fixture
def noted(tmp_path: Any) -> Callable[[str, str], list[str]]:
    """Returns the rest of each line of a tuner's notes that begins with a given word."""

    def call(name: str, word: str) -> list[str]:
        notes = tmp_path / name
        lines = [line.split() for line in notes.read_text().splitlines()] if notes.exists() else []
        return [" ".join(rest) for first, *rest in lines if first == word]

    return call


@pytest.fixture
def tried_by(noted: Callable[[str, str], list[str]]) -> Callable[[str], list[int]]:
    """Returns the numbers that a tuner has tried."""
    return lambda name: [int(number) for number in noted(name, "tried")]


def stored(location: str) -> dict[int, Trial]:
    """Trials of an existing store by number. Fails if one is stored twice."""
    with Store.open(location, write=False) as store:
        trials = store.trials(PROBLEM, HOST.device())
        assert check_store(store) == ()
    found = {trial.config.integer("n"): trial for trial in trials}
    assert len(found) == len(trials)
    return found


def claimed(server: Any, location: str) -> int:
    """Number of claims in the store."""
    return int(server.execute("SELECT count(*) FROM warpsmith_claims", location.rpartition("/")[2])[0][0])


def await_that(condition: Callable[[], object], *tuners: Any) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        for each in tuners:
            each.check_that_it_runs()
        assert time.monotonic() < give_up
        time.sleep(0.02)


def check_winner(location: str, told: Iterable[Any]) -> None:
    """Checks that the stored winner is right and in one of the reports."""
    with Store.open(location, write=False) as store:
        record = store.winner(PROBLEM.key(), HOST.device().key())
    assert record is not None
    assert isinstance(record.trial.outcome, Measurement)
    assert record.trial.outcome.max_error <= 1e-6
    assert record.trial.config.integer("n") in [each["winner"] for each in told]


def test_several_share_one_study_and_try_nothing_twice(
    start: Callable[..., Any], tried_by: Callable[[str], list[int]], database_with_store: str
) -> None:
    names = [f"tuner {number}" for number in range(3)]
    numbers = range(15)
    faults = {**dict.fromkeys(numbers, TAKES_A_WHILE), 3: "sums[f] += 1.0f;"}  # so that there is work left for each
    running = [start(name, numbers, faults=faults) for name in names]
    told = [each.report() for each in running]
    tried = collections.Counter(number for name in names for number in tried_by(name))
    assert tried == collections.Counter(numbers)
    assert all(tried_by(name) for name in names)
    found = stored(database_with_store)
    assert set(found) == set(numbers)
    with Store.open(database_with_store, write=False) as store:
        assert store.tuners.beats() == {}
    assert [number for number, trial in found.items() if isinstance(trial.outcome, Failure)] == [3]
    for each, name in zip(told, names, strict=True):
        assert each["tried"] + each["reused"] == len(numbers)
        assert each["others"] + each["reused"] == len(numbers) - len(tried_by(name))
        assert each["failures"] == {"wrong": 1}
    check_winner(database_with_store, told)


def test_what_a_killed_one_had_claimed_is_taken_over(
    start: Callable[..., Any], tried_by: Callable[[str], list[int]], database_with_store: str, postgresql: Any
) -> None:
    numbers = range(16)
    faults = dict.fromkeys(numbers, TAKES_A_WHILE)
    victim = start("victim", numbers, faults=faults)
    await_that(lambda: tried_by("victim") and stored(database_with_store), victim)

    def is_stopped_with_claims() -> bool:
        """Stops the victim, unless it is between two trials."""
        os.kill(victim.pid, signal.SIGSTOP)
        if claimed(postgresql, database_with_store):
            return True
        os.kill(victim.pid, signal.SIGCONT)
        return False

    await_that(is_stopped_with_claims, victim)
    victim.kill()
    assert claimed(postgresql, database_with_store) > 0
    heir = start("heir", numbers, faults=faults, hurry=True).report()
    found = stored(database_with_store)
    assert set(found) == set(numbers)
    # The victim's last trials may not have reached the store when it was killed.
    assert set(numbers) - set(tried_by("victim")) <= set(tried_by("heir"))
    assert heir["reused"] > 0
    assert claimed(postgresql, database_with_store) == 0
    check_winner(database_with_store, [heir])


def test_one_that_was_stopped_for_long_takes_part_again(
    start: Callable[..., Any], tried_by: Callable[[str], list[int]], database_with_store: str
) -> None:
    numbers = range(20)
    faults = dict.fromkeys(numbers, TAKES_A_WHILE)
    sleeper, other = (start(name, numbers, faults=faults, hurry=True) for name in ("sleeper", "other"))
    await_that(lambda: tried_by("sleeper") and tried_by("other"), sleeper, other)
    os.kill(sleeper.pid, signal.SIGSTOP)
    with Store.open(database_with_store, write=False) as store:
        await_that(lambda: len(store.tuners.beats()) == 1, other)
        os.kill(sleeper.pid, signal.SIGCONT)
    told = [sleeper.report(), other.report()]
    assert set(stored(database_with_store)) == set(numbers)
    check_winner(database_with_store, told)


def test_a_server_that_stops_and_comes_back_is_waited_for(
    start: Callable[..., Any],
    noted: Callable[[str, str], list[str]],
    tried_by: Callable[[str], list[int]],
    database_with_store: str,
    postgresql: Any,
) -> None:
    numbers = range(16)
    # Longer than the 0.1 s that the server takes to stop. Otherwise both tuners may have tried all they had claimed.
    faults = dict.fromkeys(numbers, TAKES_A_WHILE * 4)
    names = ("one", "two")
    running = [start(name, numbers, faults=faults) for name in names]
    await_that(lambda: all(map(tried_by, names)), *running)
    postgresql.stop()
    before = sum(map(len, map(tried_by, names)))
    # Meanwhile, the tuners try what they claimed before.
    await_that(lambda: sum(map(len, map(tried_by, names))) > before, *running)
    # The first may see a connection that broke in mid-transaction, which has another message.
    await_that(lambda: all("no server answers" in " ".join(noted(name, "lost")) for name in names), *running)
    postgresql.start()
    told = [each.report() for each in running]
    assert set(stored(database_with_store)) == set(numbers)
    assert all("waiting for it" in each["warnings"] for each in told)
    tried = collections.Counter(number for name in names for number in tried_by(name))
    assert set(tried) == set(numbers)
    assert max(tried.values()) == 1
    check_winner(database_with_store, told)


def test_a_list_of_problems_is_tuned_by_machines_together(database: str, tmp_path: Any) -> None:
    sizes = [[24, 32], [24, 40]]
    (tmp_path / "problems.json").write_text(
        json.dumps([{"operation": "filter2d", "image": size, "filter": [3, 3]} for size in sizes])
    )
    imports = "import sys; from policies import time_briefly; from short_turns import shorten"
    text = f"{imports}; from warpsmith.cli.app import run; shorten(); time_briefly(); run(sys.argv[1:])"
    command = [sys.executable, "-c", text, "tune", "--from", "problems.json", "--time-limit", "8s", "--json"]
    options = ["--device", "host", "--store", database.replace("@", ":secret@")]
    running = [
        forking.popen(
            [*command, *options, "--seed", str(seed)],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": python_path(TESTS)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in range(2)
    ]
    documents = [json.loads(each.communicate(timeout=PATIENCE_S)[0]) for each in running]
    assert [document["store"] for document in documents] == [database.replace("@", ":***@")] * 2
    told = [document["problems"] for document in documents]
    with Store.open(database, write=False) as store:
        assert store.tuners.beats() == {}
        for number, size in enumerate(sizes):
            problem = Filter2d(image=tuple(size), filter=(3, 3))
            trials = store.trials(problem, HOST.device())
            assert len({(trial.family, trial.config) for trial in trials}) == len(trials) > 0
            assert store.winner(problem.key(), HOST.device().key()) is not None
            # Each also knows the other's trials up to its own last turn.
            assert max(each[number]["trials"] for each in told) == len(trials)
            assert len(store.runs.of(problem, HOST.device())) == sum(each[number]["turns"] for each in told)
