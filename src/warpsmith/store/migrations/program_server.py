"""Generates programs with an earlier generator. The script's argument is the folder of that version's package.

Each line of standard input names a program as JSON: `operation`, `problem`, `family`, `config`. Each line of standard
output has the program of that version as JSON: `fingerprint`, `spec` and `sources` by the names of units. It is `null`
if that version generates none. The script imports nothing of today's package.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def _generated(asked: dict[str, Any]) -> dict[str, Any] | None:
    from warpsmith.generator.problem import Problem
    from warpsmith.generator.registry import family_named
    from warpsmith.generator.space import Config

    family = family_named(asked["family"])
    if family is None:
        return None
    problem = Problem.from_spec(asked["operation"], asked["problem"])
    program = family.program(problem, Config.of(asked["config"]))
    sources = {unit.name: unit.source for unit in program.units}
    return {"fingerprint": program.fingerprint, "spec": program.spec(), "sources": sources}


def _serve(folder: str) -> None:
    sys.path.insert(0, folder)
    for line in sys.stdin:
        try:
            answer = _generated(json.loads(line))
        except Exception:  # a config that is not legal, a damaged specification: no program
            answer = None
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1])
