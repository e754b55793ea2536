"""Work without any extra: bundles, plans of stored problems, queries; messages that name the extra needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import exhaustive
import warpsmith as ws
from builders import winner
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import MissingExtra
from warpsmith.extras import Extra, missing, require
from warpsmith.generator.registry import families_for
from warpsmith.store.store import Store

PROBLEM = ws.Filter2d(image=(64, 64), filter=(3, 3), border="reflect")
ASKED = ("filter2d", "--image", "64x64", "--filter", "3x3", "--border", "symmetric", "--device", "host")

BLOCK = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"sqlalchemy", "alembic", "optuna", "psycopg", "cuda", "pycuda", "torch", "cupy"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
"""

PLAN = """
import numpy as np
import warpsmith as ws
from warpsmith.errors import MissingExtra
from warpsmith.store.store_chain import open_for_reading

problem = ws.Filter2d(image=(64, 64), filter=(3, 3), border="reflect")
x = np.random.default_rng(0).standard_normal((64, 64), dtype=np.float32)
w = np.arange(9, dtype=np.float32).reshape(3, 3)
padded = np.pad(x, 1, mode="symmetric")
expected = sum(w[r, c] * padded[r : r + 64, c : c + 64] for r in range(3) for c in range(3))
stored = ws.plan(problem, device="host", store="a.db")
of_bundle = ws.load_bundle("bundle").plan(problem, device="host")
for plan in (stored, of_bundle):
    assert plan.match.kind == "exact"
    np.testing.assert_allclose(plan(x, w), expected, atol=1e-4)
with open_for_reading(None) as stores:
    shipped = stores.records("filter2d")
assert len(shipped) > 10
assert ws.query(shipped[0].problem, device="host").kind == "default"
try:
    ws.tune(problem, device="host")
except MissingExtra as error:
    print(error)
"""

COMMAND = "from warpsmith.cli import main; main()"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder with a store of one winner of the host, and its bundle."""
    device = DeviceRef.parse("host").device()
    with Store.open(str(tmp_path / "a.db"), write=True) as store:
        store.put_winner(winner(PROBLEM, device=device, family=families_for(PROBLEM, device)[0]))
    ws.export([PROBLEM], tmp_path / "bundle", store=str(tmp_path / "a.db"))
    return tmp_path


def light(folder: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a process that cannot import what the extras bring, without the user's store."""
    return subprocess.run(
        [sys.executable, "-c", BLOCK + code, *arguments],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "WARPSMITH_STORE"}
        | {"XDG_DATA_HOME": str(folder / "data")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_bundles_and_stored_plans_run(folder: Path) -> None:
    ran = light(folder, PLAN)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == 'tuning needs sqlalchemy: pip install "warpsmith[tune]"\n'


def test_query_and_report(folder: Path) -> None:
    asked = light(folder, COMMAND, "query", *ASKED, "--store", "a.db", "--json")
    assert asked.returncode == 0, asked.stderr
    assert json.loads(asked.stdout)["match"] == "exact"
    nothing = light(folder, COMMAND, "query", *ASKED)
    assert nothing.returncode == 3, nothing.stderr
    told = light(folder, COMMAND, "report", "--store", "a.db", "--json")
    assert PROBLEM.spec() in [record["problem"] for record in json.loads(told.stdout)["records"]]
    bundle = light(folder, COMMAND, "export", *ASKED[:-2], "--store", "a.db", "--out", "again")
    assert bundle.returncode == 0, bundle.stderr


def test_help_lists_every_command_and_says_what_is_not_installed(folder: Path) -> None:
    listed = light(folder, COMMAND, "--help")
    assert listed.returncode == 0, listed.stderr
    assert all(f" {name} " in listed.stdout for name in ("tune", "query", "export", "explain", "probe", "db", "doctor"))
    assert listed.stdout.count("Not installed: needs the extra tune.") == 4


@exhaustive.one_in(2)
@pytest.mark.parametrize("command", [("tune", *ASKED), ("explain", *ASKED), ("db", "ls"), ("tune",)])
def test_commands_of_the_tuner_name_their_extra(folder: Path, command: tuple[str, ...]) -> None:
    told = f'warpsmith {command[0]} needs sqlalchemy: pip install "warpsmith[tune]"'
    refused = light(folder, COMMAND, *command)
    assert (refused.returncode, refused.stdout, refused.stderr) == (1, "", f"warpsmith: error: {told}\n")
    refused = light(folder, COMMAND, *command, "--json")
    assert refused.returncode == 1
    assert json.loads(refused.stdout) == {"error": told, "exit_code": 1}


def test_a_server_names_its_extra(folder: Path) -> None:
    refused = light(folder, COMMAND, "query", *ASKED, "--store", "postgresql://me:secret@host/db")
    assert refused.returncode == 1
    (line,) = refused.stderr.splitlines()
    assert 'pip install "warpsmith[postgres]"' in line
    assert "secret" not in line


def test_doctor_goes_without_and_names_the_extras(folder: Path) -> None:
    looked = light(folder, COMMAND, "doctor", "--json")
    document = json.loads(looked.stdout)
    findings = {each["name"]: each for each in document["findings"]}
    assert findings["stores"]["good"], findings
    for extra in Extra:
        assert not findings[f"extra {extra}"]["good"]
        assert f'pip install "warpsmith[{extra}]"' in findings[f"extra {extra}"]["told"]


@pytest.mark.parametrize("extra", [Extra.TUNE, Extra.POSTGRES, Extra.CUDA])
def test_the_tests_have_what_they_need(extra: Extra) -> None:
    """The extra `test` brings these, so that no test is left out for want of a package."""
    assert missing(extra) is None


def test_an_extra_that_is_there_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing(Extra.TUNE) is None
    require(Extra.TUNE, "tuning")
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert missing(Extra.TUNE) == "optuna"
    with pytest.raises(MissingExtra, match=r'tuning needs optuna: pip install "warpsmith\[tune\]"'):
        require(Extra.TUNE, "tuning")
