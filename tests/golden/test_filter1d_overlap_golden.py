"""Generated CUDA of the overlap methods of filter1d: a person has reviewed each text; NVRTC compiles it without
warnings or spills.

`golden_files.py` says how the reviewed texts are stored and updated.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import exhaustive
from golden_files import GoldenFiles
from machine_code import NOTHING, frames_of
from warpsmith.generator.family import Family
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.overlap_add_family import Filter1dOverlapAdd
from warpsmith.generator.filter1d.scatter_family import Filter1dScatter
from warpsmith.generator.filter1d.shared_family import Filter1dShared
from warpsmith.generator.presets import H200
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Value

SHARED, ADD, SCATTER = Filter1dShared(), Filter1dOverlapAdd(), Filter1dScatter()


@dataclasses.dataclass(frozen=True)
class Case:
    """Problem, family and config of one golden file; `wanted` changes the family's default config for an H200."""

    family: Family
    problem: Filter1d
    wanted: tuple[tuple[str, Value], ...] = ()

    def program(self) -> Program:
        config = Config.of({**self.family.default(self.problem, H200).values(), **dict(self.wanted)})
        assert self.family.space(self.problem, H200).why_not(config) is None, config
        return self.family.program(self.problem, config)


def of(taps: int, **fields: Any) -> Filter1d:
    return Filter1d(fields.pop("signal", 1 << 24), taps, **fields)


def case(family: Family, problem: Filter1d, **wanted: Value) -> Case:
    return Case(family, problem, tuple(wanted.items()))


HALVES: dict[str, Any] = {"signal": 8192, "mode": "causal", "batch": 8, "channels": 2048, "filters": 2048}

CASES = {
    "shared": case(SHARED, of(33)),
    "shared_as_written": case(SHARED, of(31), threads=256, outputs=1, windows="apart", align=64, weights="constant"),
    "shared_halves": case(SHARED, of(4, dtype="bfloat16", **HALVES), weights="shared"),
    "shared_long": case(SHARED, of(1025, mode="valid")),
    "shared_down": case(SHARED, of(129, dtype="complex64", down=8)),
    "shared_far": case(SHARED, of(5, signal=1 << 33)),
    "add_carry": case(ADD, of(33)),
    "add_carry_halves": case(ADD, of(4, dtype="bfloat16", **HALVES), weights="shared"),
    "add_steps": case(ADD, of(33), way="steps", steps=2, run=0, windows="apart"),
    "add_atomics": case(ADD, of(17, weights=tuple(range(17))), way="atomics", run=0),
    "add_steps_far": case(ADD, of(9, signal=1 << 31, down=3), way="steps", steps=3, run=0),
    "scatter": case(SCATTER, of(33)),
    "scatter_complex": case(SCATTER, of(129, signal=10**8, dtype="complex64", down=8)),
}

GOLDEN = GoldenFiles(Path(__file__).parent / "filter1d" / "overlap", CASES, lambda name: CASES[name].program().source)
every_case = pytest.mark.parametrize("name", CASES)


def features(name: str) -> exhaustive.Features:
    """Family of a case, and its element type."""
    return frozenset((CASES[name].family.name, CASES[name].problem.dtype))


@every_case
def test_the_text_is_the_one_that_was_reviewed(name: str) -> None:
    GOLDEN.check(name)


def test_no_file_is_left_over() -> None:
    GOLDEN.check_names()


@pytest.mark.parametrize("name", exhaustive.parameters(list(CASES), features))
def test_nvrtc_takes_it_without_a_warning_or_a_spill(name: str) -> None:
    assert set(frames_of(GOLDEN.generated(name))) == {NOTHING}
