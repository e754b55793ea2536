"""benchmarks/short_searches.py: its table agrees with the times in turns."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "short_searches.py"


@pytest.fixture(scope="module")
def short() -> ModuleType:
    spec = importlib.util.spec_from_file_location("short_searches", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def line(key: str, **times: float | None) -> dict[str, Any]:
    """A problem with times in turns; `s20` is the winner after 20 s."""
    named = {name.removeprefix("s"): time_ns for name, time_ns in times.items()}
    return {"key": key, "winners": dict.fromkeys(named), "in_turns_ns": named}


def test_there_are_at_least_60_problems(short: ModuleType) -> None:
    problems = list(short.problems())
    assert len({problem.key() for problem in problems}) == len(problems) >= 60


def test_the_mean_is_over_the_long_search(short: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        line("a", before=120.0, s10=110.0, s20=102.0, reference=100.0),
        line("b", before=200.0, s10=104.0, s20=100.0, reference=100.0),
        {"key": "not timed in turns yet", "winners": {}},
    ]
    assert short.table(lines) == 0
    printed = capsys.readouterr()
    assert "| 10 s | 2 | 0 | 1.070 | 1.100 | 1 of 2, 1.923 |" in printed.out
    assert "| 20 s | 2 | 0 | 1.010 | 1.020 | 0 of 2, 2.000 |" in printed.out
    assert printed.err == ""


def test_answers_that_a_search_had_found_are_not_untuned(short: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        {**line("a", before=120.0, s20=100.0, reference=100.0), "match": "exact"},
        {**line("b", before=114.0, s20=100.0, reference=100.0), "match": "default"},
    ]
    assert short.table(lines) == 0
    assert "| 1 of 1, 1.140 |" in capsys.readouterr().out


def test_drawn_filters_are_of_4_to_9_megapixels(short: ModuleType) -> None:
    found = list(short.drawn(40, 3))
    assert found == list(short.drawn(40, 3)) != list(short.drawn(40, 4))
    assert all((each.image[0] + 1) * (each.image[1] + 1) >= 4e6 for each in found)
    assert all(each.image[0] * each.image[1] <= 9e6 for each in found)
    assert {each.dtype for each in found} == {"float32", "float16", "uint8"}
    assert all(1 <= side <= 63 for each in found for side in each.filter)


@pytest.mark.parametrize(
    ("times", "told"),
    [
        ({"before": 100.0, "s20": 101.0, "reference": 100.0}, "slower than before after 20 s: a"),
        ({"before": 200.0, "s20": 104.0, "reference": 100.0}, ""),
    ],
)
def test_a_goal_that_is_missed_is_an_exit_code(
    short: ModuleType, capsys: pytest.CaptureFixture[str], times: dict[str, float], told: str
) -> None:
    assert short.table([line("a", **times)]) == 1
    assert told in capsys.readouterr().err


def test_a_tie_is_no_loss_and_an_answer_that_was_wrong_none_either(short: ModuleType) -> None:
    tie = line("a", before=100.0, s20=100.4, reference=100.0)
    assert short.table([tie, line("b", before=None, s20=100.0, reference=100.0)]) == 0
