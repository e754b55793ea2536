"""Sweeps of small design spaces on the CPU, through the command line; and the tables and plot of `bench`."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import forking
from paths import TESTS, python_path
from policies import COMMAND_LINE
from warpsmith.cli.app import run
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.registry import FAMILIES
from warpsmith.generator.space import Space
from warpsmith.store.record import Failure, FailureKind, Measurement
from warpsmith.tuner.evaluate.outcomes import Evaluated
from warpsmith.tuner.progress import SilentProgress
from warpsmith.tuner.spaces.regions import plan_sweep
from warpsmith.tuner.spaces.sweep import sweep

HOST = DeviceRef(DeviceKind.HOST)
PROBLEM = Filter2d(image=(4, 40), filter=(3, 3))
"""A problem with two rows of outputs, so that few tiles are worth trying."""
SWEEP = ("bench", "filter2d", "--image", "4x40", "--filter", "3x3", "--device", "host", "--sweep")
FILES = {"sweep.json", "sweep.md", "sweep.svg", "sweep.png"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits families to tiles of 1 or 2 rows, with every path, because compiling takes half a second per config."""

    def narrow(space: Callable[..., Space]) -> Callable[..., Space]:
        def narrowed(*arguments: object) -> Space:
            whole = space(*arguments)
            tiles = {"rows": (1, 2), "columns": (1,)}
            parameters = (
                dataclasses.replace(each, values=tiles.get(each.name, each.values)) for each in whole.parameters
            )
            return Space(tuple(parameters), whole.constraints)

        return narrowed

    for family in map(type, FAMILIES):
        monkeypatch.setattr(family, "space", narrow(family.space))


def written(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def lines_in(file: Path) -> set[str]:
    """Identifiers of the lines that a plot draws."""
    return {name for each in ElementTree.parse(file).iter() if (name := each.get("id", "")).startswith("line-")}


@pytest.mark.usefixtures("small_tiles", "compile_quickly")
def test_a_sweep_visits_every_cell_and_writes_everything(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plans = plan_sweep(PROBLEM, HOST.device(), 1, 0)
    assert run([*SWEEP, "--trials", str(len(plans) + 1)]) == 0
    out = folder / "sweep-3x3"
    assert written(out) == FILES

    answer = json.loads((out / "sweep.json").read_text())
    assert answer["problem_key"] == PROBLEM.key()
    assert answer["tried"] == len(plans) + 1
    assert answer["configs"] == sum(plan.size for plan in plans)
    assert answer["interrupted"] is False
    regions = [(region["family"], region["path"], region["rows"], region["columns"]) for region in answer["cells"]]
    assert regions == [(each.region.family, each.region.path, each.region.rows, each.region.columns) for each in plans]
    for region in answer["cells"]:
        assert region["trials"]
        assert region["failures"] == {}
        assert all(0 <= trial["measurement"]["max_error"] <= 1e-6 for trial in region["trials"])

    text = (out / "sweep.md").read_text()
    printed = capsys.readouterr().out
    table = [line for line in printed.splitlines() if line.startswith("|")]
    assert "\n".join(table) in text
    assert len({line.count("|") for line in table}) == 1
    paths = {(each.region.family, each.region.path) for each in plans}
    names = {line.split("|")[1].strip() for line in table[2:]}
    assert len(names) == len(paths)
    assert f"{len(plans) + 1} of {answer['configs']} configs tried" in printed
    expected = {"line-" + re.sub(r"\W", "-", name) for name in names}
    assert lines_in(out / "sweep.svg") == {*expected, "line-copy"}


def test_ctrl_c_keeps_what_was_measured(folder: Path) -> None:
    command = [sys.executable, "-c", COMMAND_LINE, *SWEEP, "--trials", "2000", "--out", "kept", "--json"]
    environment = os.environ | {"PYTHONPATH": python_path(TESTS)}
    process = forking.popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert any(line.startswith("[") for line in process.stderr)  # until something was measured
    os.kill(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    answer = json.loads(output)
    assert answer["interrupted"] is True
    assert 0 < answer["tried"] < answer["configs"]
    assert answer["tried"] == sum(len(region["trials"]) for region in answer["cells"])
    assert written(folder / "kept") == FILES
    assert "; interrupted" in (folder / "kept" / "sweep.md").read_text()
    assert json.loads((folder / "kept" / "sweep.json").read_text())["tried"] == answer["tried"]


@pytest.mark.usefixtures("small_tiles")
def test_ctrl_c_before_anything_was_measured_writes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("warpsmith.tuner.evaluate.bench.Bench.evaluate", interrupted)
    assert run([*SWEEP, "--trials", "1"]) == 1
    assert "warpsmith: error: interrupted\n" in capsys.readouterr().err
    assert written(folder / "sweep-3x3") == set()


def test_failures_are_counted_and_cost_nothing_else(planted: Any) -> None:
    family = planted("none", "wrong", "does-not-compile", "crashes")
    plans = plan_sweep(PROBLEM, HOST.device(), 4, 0, (family,))
    swept = sweep(PROBLEM, HOST, plans, 0, SilentProgress(), (family,))
    (region,) = swept.regions
    assert region.failures == {FailureKind.WRONG: 1, FailureKind.COMPILE: 1, FailureKind.CRASH: 1}
    assert (swept.tried, swept.right) == (4, 1)
    assert region.best is not None
    assert region.best.config.text("fault") == "none"
    assert isinstance(region.best.outcome, Measurement)
    assert swept.copy is not None


@pytest.mark.usefixtures("small_tiles")
def test_where_nothing_is_right_the_reasons_are_kept(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = Evaluated(Failure(FailureKind.WRONG, "7 differ"), 0.0, 0.0, 0.0)
    monkeypatch.setattr("warpsmith.tuner.evaluate.bench.Bench.evaluate", lambda *_: wrong)
    assert run([*SWEEP, "--trials", "1"]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("warpsmith: error: none of ")
    assert error.endswith("configs is correct; sweep-3x3/sweep.json says why")
    assert written(folder / "sweep-3x3") == {"sweep.json", "sweep.md"}
    assert "7 differ" in (folder / "sweep-3x3" / "sweep.json").read_text()


@pytest.mark.usefixtures("small_tiles")
def test_without_matplotlib_the_tables_are_there_and_the_plot_is_not(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpsmith.tuner.plots.find_spec", lambda _: None)
    assert run([*SWEEP, "--trials", "1"]) == 0
    line, *_ = capsys.readouterr().err.splitlines()  # before anything is measured
    assert line == 'warpsmith: the plot is left out; a plot needs Matplotlib: pip install "warpsmith[plots]"'
    assert written(folder / "sweep-3x3") == {"sweep.json", "sweep.md"}
    assert "svg" not in (folder / "sweep-3x3" / "sweep.md").read_text()


class TestBench:
    SIZES = ("bench", "filter2d", "--image", "16x40", "--filter", "2x2", "--filter", "3x3", "--device", "host")

    def test_plots_one_line_a_library(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        pytest.importorskip("scipy")
        assert run([*self.SIZES, "--plot", "sizes.svg"]) == 0
        (scipy,) = lines_in(folder / "sizes.svg") - {"line-warpsmith", "line-global-only", "line-copy"}
        assert scipy.startswith("line-scipy")
        *_, rule, two, three = capsys.readouterr().out.splitlines()
        assert rule.count("|") == two.count("|") == three.count("|")
        regions = [region.strip() for region in three.strip("|").split("|")]
        assert (regions[0], regions[1], regions[2]) == ("3x3", "global to register", "filter2d_window")
        outputs, shape = regions[3].split(" ", 1)
        rows, columns = map(int, shape.strip("()").split(" x "))
        assert int(outputs) == rows * columns > 1
        assert "scipy" in regions[4]
        assert regions[5].endswith("x")
        assert regions[6].endswith("%")

    def test_times_the_simplest_kernel_in_the_same_run(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run([*self.SIZES, "--planes", "2", "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)["rows"]
        assert [row["problem"]["planes"] for row in rows] == [2, 2]
        for row in rows:
            times = {baseline["name"]: baseline["timing"] for baseline in row["baselines"]}
            assert times["global only"]["policy"].endswith("in turns, warm caches")

    def test_leaves_out_a_simplest_kernel_that_is_wrong(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from warpsmith.tuner.evaluate.bench import Bench

        evaluate = Bench.evaluate

        def wrong_where_plain(self: Bench, program: Any, *rest: Any) -> Any:
            if program.family == "filter2d_plain":
                return Evaluated(Failure(FailureKind.WRONG, "no"), 0.0, 0.0, 0.0)
            return evaluate(self, program, *rest)

        monkeypatch.setattr("warpsmith.tuner.evaluate.bench.Bench.evaluate", wrong_where_plain)
        assert run(list(self.SIZES)) == 0
        last = capsys.readouterr().out.splitlines()[-1]
        assert [region.strip() for region in last.strip("|").split("|")][5] == "-"
