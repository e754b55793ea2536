"""The models on an H200, frozen: `reference_models.jsonl.gz` has each family's answers for 407 problems there.

The models' figures were measured on an H200. Extensions to other devices change nothing there.
`WARPSMITH_UPDATE_GOLDEN=1 pytest tests/unit/test_reference_models.py` rewrites the answers after better figures
are measured.
"""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

import exhaustive
from warpsmith.errors import BadArgument
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import Problem
from warpsmith.generator.ranking import default_answer
from warpsmith.generator.registry import OPERATIONS

FILE = Path(__file__).parent / "reference_models.jsonl.gz"
PARTS = 6
"""Number of tests that compare the table, so that several processes share the work."""
Row = dict[str, Any]


def rows() -> list[Row]:
    """A problem each, with its answer and what its families say."""
    with gzip.open(FILE, "rt") as file:
        return [json.loads(line) for line in file]


def compared() -> list[Row]:
    """Every fourth row by default, and rows that together have every family and every answer."""
    every = rows()
    some = [*exhaustive.share(every, 0, 4), *exhaustive.chosen(every, features)]
    return [row for row in every if row in some]


def features(row: Row) -> exhaustive.Features:
    return frozenset((*row["families"], ("answer", row["answer"])))


@pytest.fixture(scope="module", autouse=True)
def updated() -> None:
    if os.environ.get("WARPSMITH_UPDATE_GOLDEN") == "1":
        answers = (answered(problem_of(row)) for row in rows())
        text = "".join(f"{json.dumps(row, sort_keys=True)}\n" for row in answers)
        FILE.write_bytes(gzip.compress(text.encode(), mtime=0))


def problem_of(row: Row) -> Problem:
    return Problem.from_spec(*row["problem"])


def answered(problem: Problem) -> Row:
    try:
        answer = default_answer(problem, H200)[0].name
    except BadArgument:
        answer = None  # no family answers without a search
    able = (each for each in OPERATIONS[problem.operation].families if each.why_not(problem, H200) is None)
    return {
        "problem": [problem.operation, json.loads(json.dumps(problem.spec()))],
        "answer": answer,
        "families": {
            each.name: {
                "default": each.default(problem, H200).key(),
                "starts": [config.key() for config in each.starts(problem, H200)],
                "is_likely": each.is_likely(problem, H200),
                "expected_ns": each.expected_ns(problem, H200),
            }
            for each in able
        },
    }


@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_has_changed_on_an_h200(part: int) -> None:
    for row in compared()[part::PARTS]:
        found = answered(problem_of(row))
        for name, theirs in row["families"].items():
            ours = found["families"][name]
            expected_ns, found_ns = theirs.pop("expected_ns"), ours.pop("expected_ns")
            assert ours == theirs, (row["problem"], name)
            is_equal = found_ns == expected_ns or found_ns == pytest.approx(expected_ns, rel=1e-9)
            assert is_equal, (row["problem"], name, expected_ns, found_ns)
        assert found == row


def test_every_operation_and_family_is_there() -> None:
    told = rows()
    families = {name for row in told for name in row["families"]}
    assert len(told) == 407
    assert families == {each.name for operation in OPERATIONS.values() for each in operation.families}
    modelled = {name for row in told for name, each in row["families"].items() if each["expected_ns"] is not None}
    assert len(modelled) == 43
