"""`warpsmith export`: what it refuses, keeps and writes."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders import SMALL, winner
from warpsmith.cli.app import run
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.filter2d import Filter2d
from warpsmith.plans.bundle import MANIFEST, load_bundle
from warpsmith.store import location, rows
from warpsmith.store.record import Record
from warpsmith.store.store import Store

WIDE = Filter2d(image=(64, 80), filter=(3, 3))
SHAPE = ("filter2d", "--image", "64x64", "--filter", "3x3")
HOST = DeviceRef.parse("host").device()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, made_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with `two.db`, which WARPSMITH_STORE names. No store is shipped."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(location, "shipped_store", lambda: Path("/none/cache.db"))
    monkeypatch.setenv(location.ENVIRONMENT_VARIABLE, "two.db")
    shutil.copy(made_file, "two.db")
    with Store.open("two.db", write=True) as store:
        for problem in (SMALL, WIDE):
            store.put_winner(winner(problem, device=HOST))
    return tmp_path


def files(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder: contents of files, None for folders."""
    found = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in found}


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str], folder: Path) -> Callable[..., str]:
    """Runs a command without and with --json, which must be refused alike and change no file; returns the line."""

    def call(code: int, *arguments: str) -> str:
        before = files(folder)
        assert run(list(arguments)) == code
        plain = capsys.readouterr()
        assert plain.out == ""
        assert run([*arguments, "--json"]) == code
        (line,) = plain.err.splitlines()
        told = line.removeprefix("warpsmith: error: ")
        assert json.loads(capsys.readouterr().out) == {"error": told, "exit_code": code}
        assert files(folder) == before
        return told

    return call


Refused = Callable[..., str]


class TestWords:
    def test_neither_all_nor_an_operation(self, refused: Refused) -> None:
        assert "--all, or an operation with its shape" in refused(2, "export")
        assert "--all, or an operation with its shape" in refused(2, "export", "--out", "b")

    def test_both(self, refused: Refused) -> None:
        assert "not both" in refused(2, "export", "--all", "--out", "b", *SHAPE)
        assert "--all" in refused(2, "export", *SHAPE, "--out", "b", "--all")

    def test_no_folder(self, refused: Refused) -> None:
        assert "--out DIR" in refused(2, "export", "--all")
        assert "--out DIR" in refused(2, "export", *SHAPE)

    @pytest.mark.parametrize("arch", ["nonsense", "sm90", "sm_9", "compute_90", ""])
    @pytest.mark.parametrize("what", [("--all",), SHAPE])
    def test_architecture(self, refused: Refused, arch: str, what: tuple[str, ...]) -> None:
        line = refused(2, "export", *what, "--out", "b", "--arch", arch)
        assert line == f"unknown architecture {arch!r}; name it as in sm_90"

    def test_shape(self, refused: Refused) -> None:
        wrong = ("filter2d", "--image", "64", "--filter", "3x3")
        assert "--image must be ROWSxCOLUMNS" in refused(2, "export", *wrong, "--out", "b")
        assert "No such command 'fft3d'" in refused(2, "export", "fft3d", "--out", "b")

    @pytest.mark.parametrize(
        "arguments",
        [
            ("export", "--out", "b", *SHAPE),
            ("export", *SHAPE, "--out", "b"),
            ("export", "--out", "elsewhere", *SHAPE, "--out", "b"),
            ("export", "--store", "two.db", "--out", "b", *SHAPE),
            ("export", *SHAPE, "--store", "two.db", "--out", "b"),
        ],
    )
    def test_options_stand_on_either_side(
        self, document: Callable[..., Any], folder: Path, arguments: tuple[str, ...]
    ) -> None:
        assert document(*arguments) == {"folder": "b", "kernels": 1, "cubins": 0, "skipped": []}
        assert load_bundle(folder / "b").problems == (SMALL,)
        assert not (folder / "elsewhere").exists()

    def test_json_may_stand_before_the_operation(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["export", "--json", "--out", "b", *SHAPE]) == 0
        assert json.loads(capsys.readouterr().out)["kernels"] == 1


class TestStored:
    def test_one_problem_reads_its_own_records_alone(
        self, document: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        parsed, parse = list[str](), rows.record_of

        def counted(row: rows.Row) -> Record:
            parsed.append(row["problem_key"])
            return parse(row)

        monkeypatch.setattr(rows, "record_of", counted)
        assert document("export", *SHAPE, "--out", "b")["kernels"] == 1
        assert parsed == [SMALL.key()]

    def test_all(self, document: Callable[..., Any], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert document("export", "--all", "--out", "b")["kernels"] == 2
        assert set(load_bundle(folder / "b").problems) == {SMALL, WIDE}
        assert run(["export", "--all", "--out", "c"]) == 0
        assert capsys.readouterr().out == "bundle    c\nkernels   2\ncubins    0\n"
        assert files(folder / "b") == files(folder / "c")

    def test_nothing(self, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv(location.ENVIRONMENT_VARIABLE)
        assert "run `warpsmith tune` first" in refused(3, "export", "--all", "--out", "b")
        assert "run `warpsmith tune` first" in refused(3, "export", *SHAPE, "--out", "b")

    def test_not_this_problem(self, refused: Refused) -> None:
        line = refused(3, "export", *SHAPE, "--border", "wrap", "--out", "b")
        assert line.startswith(
            "nothing is stored for filter2d image=64x64 filter=3x3 planes=1 dtype=float32 border=wrap"
        )

    @pytest.mark.parametrize("change", [{"fingerprint": "older"}, {"family": "filter2d_gone"}])
    def test_only_what_this_version_no_longer_generates(self, refused: Refused, change: dict[str, str]) -> None:
        old = winner(SMALL, device=HOST)
        with Store.open("old.db", write=True) as store:
            store.put_winner(dataclasses.replace(old, trial=dataclasses.replace(old.trial, **change)))  # type: ignore[arg-type]
        line = refused(3, "export", "--all", "--out", "b", "--store", "old.db")
        assert "this version generates another kernel; tune again" in line

    def test_some_that_this_version_no_longer_generates(self, document: Callable[..., Any], folder: Path) -> None:
        old = winner(SMALL, device=HOST)
        with Store.open("two.db", write=True) as store:
            store.put_winner(dataclasses.replace(old, trial=dataclasses.replace(old.trial, fingerprint="older")))
        report = document("export", "--all", "--out", "b")
        assert report["kernels"] == 1
        assert report["skipped"] == [f"{SMALL.key()}: this version generates another kernel; tune again"]
        assert load_bundle(folder / "b").problems == (WIDE,)


class TestFolder:
    @pytest.mark.parametrize("out", ["two.db", "two.db/b", "/proc/none/b", "/proc/b"])
    def test_that_cannot_be_written(self, refused: Refused, out: str) -> None:
        line = refused(1, "export", "--all", "--out", out)
        assert line.startswith(f"cannot write the bundle {out}: ")
        assert line.endswith("; choose another folder")

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("thesis.tex", b"ten years of work"),
            (MANIFEST, b'{"name": "my web app", "icons": []}'),
            (MANIFEST, b'{"format": "kernel-tuner", "kernels": []}'),
            (MANIFEST, b"[]"),
            (MANIFEST, b"\xff\xfe"),
        ],
    )
    def test_of_something_else(self, refused: Refused, folder: Path, name: str, content: bytes) -> None:
        (folder / "mine").mkdir()
        (folder / "mine" / name).write_bytes(content)
        line = refused(1, "export", "--all", "--out", "mine")
        assert line == "mine holds other files; export to an empty folder"

    def test_that_is_empty(self, document: Callable[..., Any], folder: Path) -> None:
        (folder / "b" / "kernels").mkdir(parents=True)  # as a killed export leaves it
        assert document("export", "--all", "--out", "b")["kernels"] == 2
        load_bundle(folder / "b")

    def test_below_folders_that_are_missing(self, document: Callable[..., Any], folder: Path) -> None:
        document("export", "--all", "--out", "x/y/z")
        assert len(load_bundle(folder / "x/y/z").problems) == 2
