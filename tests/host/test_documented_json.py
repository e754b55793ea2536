"""The page about JSON documents lists exactly the members that the commands print."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from warpsmith.cli.app import run

PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "json.md"
SHAPE = ("filter2d", "--image", "24x32", "--filter", "3x3")
ON_HOST = (*SHAPE, "--device", "host")


@pytest.fixture(scope="module")
def documented() -> dict[str, set[str]]:
    """Members of each document, by the heading of their table."""
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return {section.splitlines()[0]: set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) for section in sections}


def test_members_of_every_document(
    documented: dict[str, set[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("list.json").write_text('[{"operation": "filter2d", "image": [24, 32], "filter": [3, 3]}]')
    commands = {
        "tune": ("tune", *ON_HOST, "--trials", "2"),
        "query": ("query", *ON_HOST),
        "space": ("space", *ON_HOST),
        "explain": ("explain", *ON_HOST),
        "verify": ("verify", *ON_HOST),
        "export": ("export", "--out", "bundle", *SHAPE),
        "bench": ("bench", *ON_HOST),
        "report": ("report",),
        "db ls": ("db", "ls"),
        "db show": ("db", "show", *SHAPE),
        "db check": ("db", "check", "--times", "--sample", "1", "--device", "host"),
        "db prune": ("db", "prune", "--stale"),
        "db export": ("db", "export", "lines.jsonl"),
        "db merge": ("db", "import", "lines.jsonl"),
        "doctor": ("doctor",),
        "tune --from": ("tune", "--from", "list.json", "--device", "host", "--time-limit", "1"),
    }
    on_a_gpu = {"probe", "bench memory"}  # tests/unit/test_probe.py, test_memory_probe.py
    assert documented.keys() == {*commands, "A record", *on_a_gpu}
    for heading, arguments in commands.items():
        printed = _printed(arguments, capfd)
        assert printed.keys() == documented[heading], f"{PAGE.name}: ## {heading}"
        if heading == "query":
            assert printed["record"].keys() == documented["A record"], f"{PAGE.name}: ## A record"


def _printed(arguments: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> Any:
    capfd.readouterr()
    code = run([*arguments, "--json"])
    shown = capfd.readouterr()
    assert code == 0 or arguments[1] == "check", shown.err  # a time may have changed
    return json.loads(shown.out)
