"""`warpsmith db prune`: lists what would be removed, and removes it with --yes."""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders import LARGE, SMALL, failure, generated, record
from warpsmith.cli import db_prune
from warpsmith.cli.app import run
from warpsmith.errors import StoreError
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.space import Config
from warpsmith.store import location
from warpsmith.store.contents import check_store, subjects_of
from warpsmith.store.record import FailureKind, Trial
from warpsmith.store.store import Store

GOOD, SLOW = generated(SMALL, 5.0), generated(SMALL, 50.0, compiler="nvcc")
CRASHED = dataclasses.replace(GOOD, compiler="nvrtc 12.0", outcome=failure(FailureKind.CRASH, "signal 11"))
OLD_TEXT = dataclasses.replace(GOOD, fingerprint="of an earlier text")
NO_SUCH_FAMILY = dataclasses.replace(GOOD, family="filter2d_gone")
NO_SUCH_CONFIG = dataclasses.replace(GOOD, config=Config.of({"gone": 1}))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, made_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with `a.db`. No store is shipped."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(location, "shipped_store", lambda: Path("/none/cache.db"))
    shutil.copy(made_file, "a.db")
    with Store.open("a.db", write=True) as store:
        store.add_trials(SMALL, H200, (GOOD, SLOW, OLD_TEXT, NO_SUCH_FAMILY, NO_SUCH_CONFIG, CRASHED))
        store.add_trials(SMALL, HOST, (CRASHED,))
        old = dataclasses.replace(generated(LARGE, 9.0), fingerprint="old")
        for won in (record(SMALL, GOOD), record(LARGE, old)):
            store.put_winner(won)
        store.runs.add(SMALL, H200, {"seed": 1})
    return tmp_path


@pytest.fixture
def pruned(document: Callable[..., Any]) -> Callable[..., Any]:
    """Output of `db prune` of `a.db`."""
    return lambda *arguments: document("db", "prune", *arguments, "--store", "a.db")


def kept() -> tuple[Trial, ...]:
    with Store.open("a.db", write=False) as store:
        assert check_store(store) == ()
        return store.trials(SMALL, H200)


def counted(document: dict[str, Any]) -> dict[tuple[str, str], int]:
    return {(each["problem_key"], each["device_key"]): each["count"] for each in document["trials"]}


EVERY = {
    "keep": ("--keep-trials", "1"),
    "stale": ("--stale",),
    "poisoned": ("--poisoned",),
    "device": ("--device-key", H200.key()),
    "operation": ("--operation", "filter2d"),
}


@pytest.mark.parametrize("way", EVERY)
def test_nothing_goes_without_yes(pruned: Callable[..., Any], way: str) -> None:
    before = Path("a.db").read_bytes()
    told = pruned(*EVERY[way])
    assert told["removed"] is False
    assert told["store"] == "a.db"
    assert told["trials"]
    assert pruned(*EVERY[way], "--dry-run") == told
    assert Path("a.db").read_bytes() == before
    assert pruned(*EVERY[way], "--yes") == {**told, "removed": True}
    assert Path("a.db").read_bytes() != before


def test_keep_trials(pruned: Callable[..., Any]) -> None:
    told = pruned("--keep-trials", "2", "--yes")
    assert counted(told) == {(SMALL.key(), H200.key()): 3}
    assert told["winners"] == []
    # Among equal times, family, config and text decide; GOOD and SLOW are the winner's own program.
    assert set(kept()) == {GOOD, SLOW, NO_SUCH_FAMILY}


def test_stale(pruned: Callable[..., Any]) -> None:
    told = pruned("--stale", "--yes")
    assert counted(told) == {(SMALL.key(), H200.key()): 3}
    assert told["winners"] == [{"problem_key": LARGE.key(), "device_key": H200.key()}]
    assert kept() == (GOOD, SLOW, CRASHED)


def test_stale_within_a_device(pruned: Callable[..., Any]) -> None:
    told = pruned("--stale", "--device-key", HOST.key())
    assert (told["trials"], told["winners"]) == ([], [])


def test_poisoned(pruned: Callable[..., Any]) -> None:
    told = pruned("--poisoned", "--device-key", H200.key(), "--yes")
    assert (told["poisoned"], counted(told)) == (1, {(SMALL.key(), H200.key()): 1})
    with Store.open("a.db", write=False) as store:
        assert store.poisoned(H200) == {}
        assert len(store.poisoned(HOST)) == 1
    assert CRASHED not in kept()


def test_a_device(pruned: Callable[..., Any]) -> None:
    told = pruned("--device-key", H200.key(), "--yes")
    assert (counted(told), len(told["winners"])) == ({(SMALL.key(), H200.key()): 6}, 2)
    assert (told["runs"], told["poisoned"]) == (1, 1)
    with Store.open("a.db", write=False) as store:
        assert subjects_of(store) == ((SMALL, HOST),)


def test_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["db", "prune", "--stale", "--keep-trials", "0", "--store", "a.db"]) == 0
    assert (
        capsys.readouterr().out.splitlines()
        == [
            "to remove 4 of 7 trials, 1 of 2 winners, 0 of 1 runs, 0 of 2 poisoned programs",
            "from      a.db",
            f"          {SMALL.key()} on {H200.key()}: 4 trials",
            f"          {LARGE.key()} on {H200.key()}: 0 trials, its winner",
            "note      nothing was removed; add --yes to remove it",
        ]
        or sorted([SMALL.key(), LARGE.key()])[0] == LARGE.key()
    )


def test_the_file_shrinks(capsys: pytest.CaptureFixture[str]) -> None:
    with Store.open("a.db", write=True) as store:
        for device in (H200, HOST):
            long = [dataclasses.replace(GOOD, compiler="x" * 20_000 + str(number)) for number in range(100)]
            store.add_trials(SMALL, device, long)
    before = Path("a.db").stat().st_size
    assert run(["db", "prune", "--device-key", HOST.key(), "--yes", "--store", "a.db"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("removed   101 of 207 trials")
    freed = re.fullmatch(r"freed     (\d+\.\d) MB", told[-1])
    assert freed is not None
    assert float(freed[1]) == pytest.approx((before - Path("a.db").stat().st_size) / 1e6, abs=0.1)
    assert float(freed[1]) > 2


def test_what_went_is_told_where_the_file_cannot_shrink(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Store) -> int:
        raise StoreError("the disk of a.db is full")

    monkeypatch.setattr(db_prune, "compact_store", fail)
    assert run(["db", "prune", "--stale", "--yes", "--store", "a.db"]) == 1
    shown = capsys.readouterr()
    assert shown.out.startswith("removed   3 of 7 trials, 1 of 2 winners")
    assert shown.err == "warpsmith: error: the disk of a.db is full\n"
    assert kept() == (GOOD, SLOW, CRASHED)


def test_a_long_look_tells_how_far_it_is(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(db_prune, "LINE_EVERY_S", 0.0)
    assert run(["db", "prune", "--stale", "--store", "a.db", "--json"]) == 0
    told = capsys.readouterr().err.splitlines()
    # CRASHED and SLOW ran the text of GOOD, on the host too.
    assert told == [f"generated {done} of 6 kernels again" for done in range(1, 7)]


class TestRefusals:
    @pytest.mark.parametrize(
        ("code", "arguments", "why"),
        [
            (2, (), "name what to remove: --keep-trials N"),
            (2, ("--yes",), "name what to remove"),
            (2, ("--keep-trials", "-1"), "greater than or equal to 0"),
            (2, ("--keep-trials", "all"), "a valid integer"),
            (2, ("--operation", "dct"), "choose one of filter2d, fft"),
            (3, ("--device-key", "NVIDIA_H100", "--yes"), H200.key()),
            (3, ("--stale", "--device-key", "NVIDIA_H100"), HOST.key()),
        ],
    )
    def test_are_one_line(
        self, capsys: pytest.CaptureFixture[str], code: int, arguments: tuple[str, ...], why: str
    ) -> None:
        before = Path("a.db").read_bytes()
        assert run(["db", "prune", *arguments, "--store", "a.db"]) == code
        shown = capsys.readouterr()
        (line,) = shown.err.splitlines()
        assert why in line
        assert shown.out == ""
        assert Path("a.db").read_bytes() == before

    def test_a_store_that_is_not_there_is_not_made(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        assert run(["db", "prune", "--stale", "--yes", "--store", "none.db"]) == 1
        assert "there is no store at none.db" in capsys.readouterr().err
        assert [each.name for each in folder.iterdir()] == ["a.db"]
