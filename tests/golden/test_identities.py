"""Identities by which stored results are found: the key of every problem, and the fingerprints of its space and
program.

A refactoring changes none of them. `WARPSMITH_UPDATE_GOLDEN=1 pytest tests/golden` rewrites the file. A line that then
differs is a stored winner that has become stale or is no longer found.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from warpsmith.generator.device import Device
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.registry import family_named
from warpsmith.plans.lookup import program_of
from warpsmith.store.location import shipped_store
from warpsmith.store.store import Store

from .test_golden import CASES, UPDATE

FILE = Path(__file__).parent / "identities.txt"


def test_keys_and_fingerprints_are_those_that_are_stored() -> None:
    generated = "".join(f"{line}\n" for line in sorted(_lines()))
    if os.environ.get(UPDATE) == "1":
        FILE.write_text(generated)
    assert generated.splitlines() == FILE.read_text().splitlines()


def _lines() -> Iterator[str]:
    for name, case in CASES.items():
        yield _line(f"golden {name}", case.problem, H200, case.program())
    with Store.open(str(shipped_store()), write=False) as store:
        records = store.records()
    for record in records:
        program = program_of(record, record.problem, record.device)
        assert program is not None, record.problem.key()
        assert program.has_fingerprint(record.trial.fingerprint), record.problem.key()
        yield _line("shipped", record.problem, record.device, program)


def _line(where: str, problem: Problem, device: Device, program: Program) -> str:
    """`where | problem key | device key | family | config | fingerprint of the program | of the space`."""
    family = family_named(program.family)
    assert family is not None, program.family
    space = family.space(problem, device).fingerprint
    parts = (where, problem.key(), device.key(), program.family, program.config.key(), program.fingerprint, space)
    return " | ".join(parts)
