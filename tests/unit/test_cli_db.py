"""`warpsmith db`: contents of stores, and transfer between stores."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders import LARGE, SMALL, failure, generated, winner
from warpsmith.cli.app import run
from warpsmith.generator.presets import H200
from warpsmith.store import location
from warpsmith.store.contents import contents_of
from warpsmith.store.record import FailureKind
from warpsmith.store.store import Store


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, made_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with `a.db`: two winners and two trials. No store is shipped."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(location, "shipped_store", lambda: Path("/none/cache.db"))
    shutil.copy(made_file, "a.db")
    with Store.open("a.db", write=True) as store:
        other = dataclasses.replace(
            generated(SMALL, failure(FailureKind.WRONG, "7 differ")), fingerprint="another text"
        )
        store.add_trials(SMALL, H200, [other])
        for record in (winner(SMALL, 5.0), winner(LARGE, 50.0)):
            store.add_trials(record.problem, record.device, [record.trial])
            store.put_winner(record)
    return tmp_path


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """Output of a command that succeeds, by lines."""

    def call(*arguments: str) -> list[str]:
        assert run(list(arguments)) == 0
        shown = capsys.readouterr()
        assert shown.err == ""
        return shown.out.splitlines()

    return call


def test_store_of_the_environment_is_asked(document: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(location.ENVIRONMENT_VARIABLE, "a.db")
    assert len(document("db", "ls")["winners"]) == 2


def test_check_of_sound_stores(document: Callable[..., Any], lines: Callable[..., list[str]]) -> None:
    assert document("db", "check", "--store", "a.db") == {"stores": {"a.db": []}}
    assert lines("db", "check", "--store", "a.db") == ["good      a.db"]


NOTHING = {
    "trials_added": 0,
    "winners_added": 0,
    "winners_replaced": 0,
    "winners_kept": 0,
    "runs_added": 0,
    "ceilings_added": 0,
    "poisoned_added": 0,
    "runners_up_added": 0,
}
"""Output of a merge that changes nothing."""


class TestMerge:
    def test_takes_over_what_is_new_or_faster(self, document: Callable[..., Any]) -> None:
        with Store.open("b.db", write=True) as other:
            other.put_winner(winner(SMALL, 4.0))
            other.put_winner(winner(LARGE, 60.0))
        report = document("db", "merge", "b.db", "--store", "a.db")
        assert report == {**NOTHING, "winners_replaced": 1, "winners_kept": 1}
        with Store.open("a.db", write=False) as merged:
            assert merged.records() == (winner(LARGE, 50.0), winner(SMALL, 4.0))

    def test_makes_the_store_that_is_missing(self, document: Callable[..., Any]) -> None:
        assert document("db", "merge", "a.db", "--store", "new/b.db")["winners_added"] == 2
        with Store.open("new/b.db", write=False) as merged, Store.open("a.db", write=False) as given:
            assert contents_of(merged) == contents_of(given)


class TestExportAndImport:
    @pytest.fixture
    def exported(self, lines: Callable[..., list[str]]) -> list[str]:
        """The lines of `a.db`."""
        lines("db", "export", "a.jsonl", "--store", "a.db")
        return Path("a.jsonl").read_text().splitlines()

    def test_carry_a_store(self, document: Callable[..., Any], lines: Callable[..., list[str]]) -> None:
        assert document("db", "export", "a.jsonl", "--store", "a.db") == {"file": "a.jsonl", "lines": 6}
        assert lines("db", "import", "a.jsonl", "--store", "b.db")[0] == "trials added 3"
        with Store.open("a.db", write=False) as given, Store.open("b.db", write=False) as taken:
            assert contents_of(taken) == contents_of(given)
        again = document("db", "import", "a.jsonl", "--store", "b.db")
        assert again == {**NOTHING, "winners_kept": 2}

    @pytest.mark.parametrize("number", range(6))
    def test_bad_line_imports_nothing(
        self, refusal: Callable[..., str], exported: list[str], folder: Path, number: int
    ) -> None:
        exported[number] = exported[number][:-1]
        Path("a.jsonl").write_text("\n".join(exported))
        with Store.open("b.db", write=True) as target:
            target.put_winner(winner(SMALL, 9.0))
        before = Path("b.db").read_bytes()
        line = self._import_refused(refusal, "b.db")
        assert line.startswith(f"a.jsonl, line {number + 1}: ")
        assert line.endswith("nothing was imported")
        assert Path("b.db").read_bytes() == before
        assert self._import_refused(refusal, "new.db") == line
        assert not (folder / "new.db").exists()

    def _import_refused(self, refusal: Callable[..., str], store: str) -> str:
        return refusal(1, "db", "import", "a.jsonl", "--store", store)

    def test_lines_that_are_missing_import_nothing(
        self, refusal: Callable[..., str], exported: list[str], folder: Path
    ) -> None:
        Path("a.jsonl").write_text("\n".join(exported[:-1]))
        assert "holds 1 of the 2 winners" in self._import_refused(refusal, "new.db")
        assert not (folder / "new.db").exists()

    @pytest.mark.parametrize(
        ("content", "code", "why"),
        [
            (b"\x89PNG\r\n\x1a\n\xff", 2, "not text in UTF-8"),
            (b"", 1, "is empty"),
            (b"[]\n", 1, "line 1: it is no JSON object"),
            (None, 2, "No such file"),
        ],
    )
    def test_file_of_another_kind(
        self, refusal: Callable[..., str], folder: Path, content: bytes | None, code: int, why: str
    ) -> None:
        if content is not None:
            Path("x").write_bytes(content)
        assert why in refusal(code, "db", "import", "x", "--store", "new.db")
        assert not (folder / "new.db").exists()

    @pytest.mark.parametrize("name", ["a.db/x", "/proc/none/x", "."])
    def test_place_that_cannot_be_written(self, refusal: Callable[..., str], name: str) -> None:
        line = refusal(1, "db", "export", name, "--store", "a.db")
        assert line.startswith(f"cannot write {name}: ")

    @pytest.mark.parametrize("name", ["a.db", "./a.db", "link.db"])
    @pytest.mark.parametrize("store", ["a.db", "sqlite:///a.db"])
    def test_store_is_not_overwritten_by_its_own_lines(
        self, refusal: Callable[..., str], name: str, store: str
    ) -> None:
        Path("link.db").symlink_to("a.db")
        before = Path("a.db").read_bytes()
        assert "is the store itself" in refusal(2, "db", "export", name, "--store", store)
        assert Path("a.db").read_bytes() == before

    def test_full_disk_keeps_the_earlier_file(
        self, refusal: Callable[..., str], folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        Path("a.jsonl").write_text("earlier")
        before = set(folder.iterdir())

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "replace", full)
        line = refusal(1, "db", "export", "a.jsonl", "--store", "a.db")
        assert line.startswith("cannot write a.jsonl: No space left on device")
        assert Path("a.jsonl").read_text() == "earlier"
        assert set(folder.iterdir()) == before

    def test_pipe_is_written_to_not_replaced(self, lines: Callable[..., list[str]]) -> None:
        os.mkfifo("pipe")
        reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
        assert lines("db", "export", "pipe", "--store", "a.db") == ["written   pipe, 6 lines"]
        with os.fdopen(reader) as pipe:
            assert json.loads(pipe.readline())["format"] == "warpsmith-store"
        assert Path("pipe").is_fifo()
