"""Two families tuned on the CPU: each stores its fastest config, is found by name, and is in the table of `query`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import exhaustive
import warpsmith as ws
from warpsmith.cli.app import run
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.filter2d.operation import FILTER2D
from warpsmith.generator.pins import NO_PINS, Pins
from warpsmith.generator.problem import AUTO
from warpsmith.generator.selection import Selection
from warpsmith.store.interchange import export_lines, import_lines
from warpsmith.store.merging import merge_stores
from warpsmith.store.record import Failure, FailureKind, Record
from warpsmith.store.store import Store
from warpsmith.tuner.finals.choose import KEPT, tied
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.progress import SilentProgress
from warpsmith.tuner.report import TuneReport
from warpsmith.tuner.run.session import tune

FAMILIES = FILTER2D.families

pytestmark = pytest.mark.usefixtures("compile_as_asked")  # the faster family depends on it

HOST = DeviceRef(DeviceKind.HOST)
PROBLEM = Filter2d(image=(48, 64), filter=(3, 3))
ABLE = [family.name for family in FAMILIES if family.why_not(PROBLEM, HOST.device()) is None]
ON_HOST = ("filter2d", "--image", "48x64", "--filter", "3x3", "--device", "host")


def tuned(store: Path, method: str = AUTO, pins: Pins = NO_PINS, **options: Any) -> TuneReport:
    with Store.open(str(store), write=True) as opened:
        selected = TuneOptions(selection=Selection(method, pins), **options)
        return tune(PROBLEM, (HOST,), opened, selected, SilentProgress())


def stored(store: Path) -> dict[str, Record]:
    """Fastest record of each family, the winner first."""
    with Store.open(str(store), write=False) as opened:
        subject = PROBLEM.key(), HOST.device().key()
        return {each.trial.family: each for each in (*opened.winners(*subject), *opened.runners_up(*subject))}


def may_stay(winner: Record, other: Record) -> bool:
    """True if `other`, timed in the same turns, is not faster than `winner` by KEPT plus the uncertainty of their
    spreads.
    """
    slower = dataclasses.replace(other.timing, median_ns=other.timing.median_ns * (1 + KEPT))
    return 0 in tied((winner.timing, slower))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TuneReport]:
    path = tmp_path_factory.mktemp("both") / "store.db"
    return path, tuned(path, trials=8)


def test_a_run_keeps_the_fastest_of_each_family_with_its_time_beside_the_winner(both: tuple[Path, TuneReport]) -> None:
    path, report = both
    assert len(ABLE) >= 2
    kept = stored(path)
    assert kept.keys() == set(ABLE)
    assert report.record == next(iter(kept.values()))
    assert report.runners_up == tuple(kept[name] for name in sorted(kept) if name != report.record.trial.family)
    for each in report.runners_up:
        assert "in turns" in each.timing.policy
        assert each.provenance == report.record.provenance
        assert each.trial in report.finalists
        assert each.trial.outcome.max_error <= 1e-6  # type: ignore[union-attr]


def test_each_is_found_by_its_name_and_computes_the_same(both: tuple[Path, TuneReport]) -> None:
    path, _ = both
    rng = np.random.default_rng(1)
    image, weights = (rng.standard_normal(shape, dtype=np.float32) for shape in ((48, 64), (3, 3)))
    results = {}
    for name, record in stored(path).items():
        plan = ws.plan(PROBLEM, "host", method=name, store=str(path))
        assert (plan.match.kind, plan.match.record) == ("exact", record)
        assert plan.match.program.fingerprint == record.trial.fingerprint
        results[name] = plan(image, weights)
    first, *others = results.values()
    for other in others:
        np.testing.assert_allclose(other, first, rtol=1e-5, atol=1e-5)
    overall = ws.plan(PROBLEM, "host", store=str(path))
    assert overall.match.program.family == next(iter(stored(path)))
    with pytest.raises(BadArgument, match="filter2d_matrix does not solve"):
        ws.plan(PROBLEM, "host", method="filter2d_matrix", store=str(path))


def test_query_shows_them_side_by_side(both: tuple[Path, TuneReport], capfd: pytest.CaptureFixture[str]) -> None:
    path, _ = both
    assert run(["query", *ON_HOST, "--store", str(path), "--json"]) == 0
    families = json.loads(capfd.readouterr().out)["families"]
    assert families[0]["family"] == next(iter(stored(path)))
    assert {each["family"] for each in families} == set(ABLE)
    assert [each["timed"] for each in families] == ["the winner", *["in turns with the winner"] * (len(ABLE) - 1)]
    assert run(["query", *ON_HOST, "--store", str(path)]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith("| filter2d_")]) == len(ABLE)


def test_another_store_takes_them_over(both: tuple[Path, TuneReport], tmp_path: Path) -> None:
    path, _ = both
    with Store.open(str(path), write=False) as given:
        for name in ("merged", "imported"):
            with Store.open(str(tmp_path / name), write=True) as taken:
                report = merge_stores(taken, given) if name == "merged" else import_lines(taken, export_lines(given))
                assert report.runners_up_added == len(ABLE) - 1
            assert stored(tmp_path / name) == stored(path)


def test_the_same_command_again_times_them_again(both: tuple[Path, TuneReport], tmp_path: Path) -> None:
    path, _ = both
    copy = tmp_path / "store.db"
    copy.write_bytes(path.read_bytes())
    report = tuned(copy, trials=8)
    assert (report.tried, report.reused) == (0, 8)
    again, before = stored(copy), stored(path)
    assert again.keys() == before.keys()
    assert all(again[name].provenance.created >= before[name].provenance.created for name in again)


def test_a_time_limit_that_ended_the_search_leaves_the_others_their_search_times(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    report = tuned(path, trials=1000, time_limit_s=1.0)
    assert report.tried < 1000
    with Store.open(str(path), write=False) as opened:
        measured = [each for each in opened.trials(PROBLEM, HOST.device()) if each.median_ns is not None]
    in_finals = {each.family for each in report.finalists}
    for each in report.runners_up:
        if each.trial.family not in in_finals:
            fastest = min(trial.median_ns for trial in measured if trial.family == each.trial.family)  # type: ignore[type-var]
            assert each.timing.median_ns == fastest
            assert "in turns" not in each.timing.policy


class TestOneMethod:
    @exhaustive.one_in(3)
    @pytest.mark.parametrize("method", ABLE)
    def test_its_best_wins_only_where_it_is_faster_than_what_answers(self, tmp_path: Path, method: str) -> None:
        path = tmp_path / "store.db"
        before = tuned(path, trials=4).record
        assert before is not None
        report = tuned(path, trials=4, method=method)
        assert report.record is not None
        assert report.record.trial.family == method
        kept = stored(path)
        winner = next(iter(kept.values()))
        assert kept[method] == report.record
        if method == before.trial.family:
            assert report.overall is None
            assert winner == report.record
        elif report.overall is None:
            assert winner == report.record
            assert kept[before.trial.family].timing.median_ns > report.record.timing.median_ns
        else:
            assert winner == report.overall
            assert (winner.trial.family, winner.trial.config) == (before.trial.family, before.trial.config)
            assert may_stay(winner, report.record)

    def test_a_faster_winner_of_another_family_stays(self, tmp_path: Path) -> None:
        """Any other family may win here, because each stored config is fast on this machine."""
        path = tmp_path / "store.db"
        slow = "filter2d_plain"
        for name in ABLE:
            if name != slow:
                tuned(path, trials=2, method=name)
        report = tuned(path, trials=1, method=slow)
        kept = stored(path)
        assert kept[slow] == report.record
        winner = next(iter(kept.values()))
        assert all(may_stay(winner, each) for each in kept.values())
        assert (report.overall or report.record) == winner

    def test_only_its_trials_count(self, tmp_path: Path) -> None:
        path = tmp_path / "store.db"
        tuned(path, trials=3, method="filter2d_plain")
        with Store.open(str(path), write=False) as opened:
            trials = opened.trials(PROBLEM, HOST.device())
        assert sum(each.family == "filter2d_plain" for each in trials) == 3
        report = tuned(path, trials=3, method="filter2d_plain")
        assert (report.tried, report.reused) in {(0, 3), (1, 3)}  # another family may be the default by now
        standings = {each.family for each in report.standings}
        assert standings == {"filter2d_plain"}

    def test_a_stored_one_that_is_faster_stays_where_it_was_not_tried_now(self, tmp_path: Path) -> None:
        """Such a config may come from another machine of the same kind. This one-trial search does not reach it."""
        path = tmp_path / "store.db"
        tuned(path, trials=6)
        _, *others = stored(path).values()
        assert others
        with Store.open(str(path), write=False) as opened:
            tried = {(each.family, each.config) for each in opened.trials(PROBLEM, HOST.device())}
        family = next(each for each in FAMILIES if each.name == others[0].trial.family)
        space = family.space(PROBLEM, HOST.device())
        config = next(each for each in space.configs() if (family.name, each) not in tried)
        fast = dataclasses.replace(others[0].timing, median_ns=0.5, p20_ns=0.5, p80_ns=0.5)
        outcome = dataclasses.replace(others[0].trial.outcome, timing=fast)  # type: ignore[type-var]
        fingerprint = family.program(PROBLEM, config).fingerprint
        trial = dataclasses.replace(others[0].trial, config=config, fingerprint=fingerprint, outcome=outcome)
        with Store.open(str(path), write=True) as opened:
            opened.put_runners_up((dataclasses.replace(others[0], trial=trial),))
        tuned(path, trials=1)
        kept = stored(path)
        assert kept[family.name].trial == trial or next(iter(kept)) == family.name
        stale = dataclasses.replace(trial, fingerprint="older")
        with Store.open(str(path), write=True) as opened:
            opened.put_runners_up((dataclasses.replace(others[0], trial=stale),))
        tuned(path, trials=6)
        assert stored(path)[family.name].trial.fingerprint != "older"

    def test_the_command_line_says_which_winner_stays(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        path = str(tmp_path / "store.db")
        asked = ("tune", *ON_HOST, "--trials", "2", "--store", path, "--json", "--method")
        assert run([*asked, "filter2d_plain"]) == 0
        document = json.loads(capfd.readouterr().out)
        assert document["record"]["trial"]["family"] == "filter2d_plain"
        assert document["overall"] is None or document["overall"]["family"] != "filter2d_plain"
        assert run([*asked, "quick"]) == 2
        told = json.loads(capfd.readouterr().out)["error"]
        assert told.startswith("unknown method 'quick'; filter2d image=48x64 filter=3x3")


def test_a_family_that_is_wrong_on_fresh_data_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.db"
    from warpsmith.tuner.evaluate.evaluator import Evaluator

    verified, failed = Evaluator.verified, []

    def fails(self: Evaluator, program: Any, bench: Any) -> Any:
        if program.family == "filter2d_plain":
            failed.append(program.config)
            return Failure(FailureKind.WRONG, "off by one")
        return verified(self, program, bench)

    monkeypatch.setattr(Evaluator, "verified", fails)
    report = tuned(path, trials=6)
    assert failed
    assert report.record is not None
    assert "filter2d_plain" not in {each.trial.family for each in report.runners_up}


class TestPinned:
    PINS = Pins.of({"path": "shared", "rows": (2, 4)})

    def pinned(self, store: Path) -> tuple[Record, ...]:
        with Store.open(str(store), write=False) as opened:
            return opened.pinned_winners(PROBLEM.key(), HOST.device().key())

    def test_the_search_stays_inside_and_its_winner_answers_the_same_pins_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "store.db"
        before = tuned(path, trials=4).record
        report = tuned(path, trials=3, pins=self.PINS)
        assert before is not None
        assert report.record is not None
        assert self.PINS.allow(report.record.trial.config)
        with Store.open(str(path), write=False) as opened:
            inside = [each for each in opened.trials(PROBLEM, HOST.device()) if self.PINS.allow(each.config)]
        assert len(inside) == 3
        assert self.pinned(path) == (report.record,)
        answer = ws.query(PROBLEM, "host", store=str(path), parameters={"path": "shared", "rows": (2, 4)})
        assert (answer.kind.value, answer.record) == ("exact", report.record)
        unpinned = ws.query(PROBLEM, "host", store=str(path)).record
        assert unpinned is not None
        if report.overall is None:
            assert unpinned == report.record
        else:
            assert unpinned == report.overall
            assert (unpinned.trial.family, unpinned.trial.config) == (before.trial.family, before.trial.config)
            assert may_stay(unpinned, report.record)

    def test_it_leaves_the_runners_up_as_they_are(self, tmp_path: Path) -> None:
        path = tmp_path / "store.db"
        tuned(path, trials=4)
        before = stored(path)
        report = tuned(path, trials=2, pins=Pins.of({"rows": 2}), method="filter2d_plain")
        beside = {name: each for name, each in stored(path).items() if name != (report.overall or before)}
        assert beside.keys() == before.keys()

    def test_a_second_search_takes_up_the_first_ones_trials(self, tmp_path: Path) -> None:
        path = tmp_path / "store.db"
        tuned(path, trials=3, pins=self.PINS)
        report = tuned(path, trials=3, pins=self.PINS)
        assert (report.tried, report.reused) in {(0, 3), (1, 3)}  # the answer before may be a trial, too

    def test_right_results(self) -> None:
        image = np.random.default_rng(1).standard_normal(PROBLEM.image).astype(np.float32)
        weights = np.random.default_rng(2).standard_normal(PROBLEM.filter).astype(np.float32)
        found = ws.plan(PROBLEM, "host", parameters={"rows": 8, "path": "global"})
        assert found.match.program.config.values()["rows"] == 8
        expected = ws.plan(PROBLEM, "host", method="filter2d_plain")(image, weights)
        np.testing.assert_allclose(found(image, weights), expected, rtol=1e-4, atol=1e-5)
