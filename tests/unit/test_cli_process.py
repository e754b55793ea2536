"""The command line as a process: real exit codes, help, version, closed pipes."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from warpsmith.cli import app
from warpsmith.cli.app import run
from warpsmith.generator.registry import FAMILIES

SHAPE = ("filter2d", "--image", "64x64", "--filter", "3x3")
PROBLEM = ("--image", "--filter", "--planes", "--dtype", "--border", "--cval", "--weights")
HELP = """
import json, sys
from warpsmith.cli.app import run
assert run(["--help"]) == 0
print(json.dumps([*sys.modules]))
"""
LOOK = ("--device", "--store", "--json")
VERSION = f"warpsmith {importlib.metadata.version('warpsmith')}\n"


def warpsmith(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `python -m warpsmith` in `folder`."""
    command = [sys.executable, "-m", "warpsmith", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("db", "ls"), 0),
        (("query", *SHAPE, "--store", "typo.db"), 1),
        (("query", *SHAPE, "--border", "torus"), 2),
        (("query", *SHAPE, "--device", "host", "--cval", "7", "--border", "constant"), 3),
    ],
)
def test_exit_codes(tmp_path: Path, arguments: tuple[str, ...], code: int) -> None:
    ran = warpsmith(tmp_path, *arguments, "--json")
    assert ran.returncode == code
    assert json.loads(ran.stdout).get("exit_code", 0) == code
    assert len(ran.stderr.splitlines()) == (code > 0)
    assert list(tmp_path.iterdir()) == []


def test_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = warpsmith(tmp_path, "--version")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, VERSION, "")
    assert run(["--version", "tune"]) == 0
    assert capsys.readouterr().out == VERSION


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("", ("tune", "query", "export", "bench", "verify", "explain", "report", "probe", "db", "doctor", "--version")),
        ("tune", ("filter2d",)),
        (
            "tune filter2d",
            (
                *PROBLEM,
                *LOOK,
                "--trials",
                "--time-limit",
                "--effort",
                "--seed",
                "--compiler",
                "--l2",
                "--launch",
                "--drop",
                "--sanitize",
            ),
        ),
        ("query filter2d", (*PROBLEM, *LOOK)),
        ("export", ("filter2d", "--all", "--out", "--arch", "--store", "--json")),
        ("export filter2d", (*PROBLEM, "--out", "--arch", "--store", "--json")),
        ("bench filter2d", ("--image", "--filter", "--border", "--seed", *LOOK)),
        ("bench fft", ("--size", "--batch", "--kind", "--norm", "--seed", "--save", "--plot", *LOOK)),
        ("verify filter2d", (*PROBLEM, *LOOK, "--seed", "--sanitize")),
        ("explain filter2d", (*PROBLEM, *LOOK, "--top", "--source")),
        ("report", ("--store", "--json")),
        ("tune", ("--from", "--replay", "--time-limit", "--device", "--store", "--json", "filter2d")),
        ("db", ("ls", "show", "prune", "merge", "import", "export", "check")),
        ("db prune", ("--stale", "--keep-trials", "--poisoned", "--operation", "--device-key", "--yes", "--store")),
        ("db ls", ("--store", "--json")),
        ("db show", ("WORDS", "--store", "--json")),
        ("db merge", ("STORE", "--store", "--json")),
        ("db import", ("FILE", "--store", "--json")),
        ("db export", ("--format", "--out", "--store", "--json")),
        ("db check", ("--times", "--sample", "--device", "--store", "--json")),
        ("doctor", ("--store", "--json")),
    ],
)
def test_help(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run([*command.split(), "--help"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown.out)  # colours, which some environments force
    assert f"Usage: warpsmith {command}".rstrip() in text
    assert set(words) <= set(re.findall(r"[\w-]+", text))


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("", ("tune", "query", "export", "bench", "verify", "space", "explain", "report", "probe", "db", "doctor")),
        ("db", ("ls", "show", "check", "prune", "merge", "import", "export")),
    ],
)
def test_help_lists_commands_in_the_order_of_their_use(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str, names: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run([*command.split(), "--help"]) == 0
    text = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert tuple(re.findall(r"^│ (\w+) ", text, re.MULTILINE)) == names


@pytest.mark.parametrize("arguments", [("db", "ls", "--json"), ("explain", *SHAPE, "--device", "host", "--json")])
def test_reader_that_has_seen_enough_is_no_failure(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "warpsmith", *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == ""
    assert process.wait() == 0


def test_a_warning_is_one_line_and_names_no_source() -> None:
    text = (
        "import sys, warnings\n"
        "from warpsmith.cli import app\n"
        "app._invoke = lambda _: warnings.warn('the server\\nis away', stacklevel=2) or 0\n"
        "sys.exit(app.run([]))\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "warning: the server is away\n")


def test_the_help_text_has_each_command_s_own_line() -> None:
    """`app.COMMANDS` has the lines, so that the help text imports no command."""
    whole = typer.main.get_command(app.build(app.COMMANDS))
    assert isinstance(whole, TyperGroup)
    lines = {name: each.get_short_help_str(1000) for name, each in whole.commands.items()}
    assert lines == app.COMMANDS


def test_the_help_text_imports_no_family_and_no_command() -> None:
    found = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, check=True)
    loaded = set(json.loads(found.stdout.splitlines()[-1]))
    assert "warpsmith.cli.app" in loaded
    assert not {f"warpsmith.cli.{name}" for name in app.COMMANDS} & loaded
    assert not {type(family).__module__ for family in FAMILIES} & loaded
    assert not {"numpy", "optuna", "sqlalchemy"} & loaded
