"""Generated CUDA of cgemm: a person has reviewed each text; NVRTC compiles it without warnings or spills.

`golden_files.py` says how the reviewed texts are stored and updated.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import exhaustive
from golden_files import GoldenFiles
from machine_code import NOTHING, frames_of
from warpsmith.generator.cgemm import Cgemm
from warpsmith.generator.cgemm.plain_family import CgemmPlain
from warpsmith.generator.cgemm.tensor_family import CgemmTensor
from warpsmith.generator.cgemm.thin_family import CgemmThin
from warpsmith.generator.cgemm.tiled_family import CgemmTiled
from warpsmith.generator.cgemm.warpgroup_family import CgemmWarpgroup
from warpsmith.generator.family import Family
from warpsmith.generator.presets import H200
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Value


@dataclasses.dataclass(frozen=True)
class Case:
    """Problem, family and config of one golden file; `wanted` changes the family's default config for an H200."""

    family: Family
    problem: Cgemm
    wanted: tuple[tuple[str, Value], ...] = ()

    def program(self) -> Program:
        config = Config.of({**self.family.default(self.problem, H200).values(), **dict(self.wanted)})
        assert self.family.space(self.problem, H200).why_not(config) is None, config
        return self.family.program(self.problem, config)


def tiled(*problem: int | str, **wanted: Value) -> Case:
    return Case(CgemmTiled(), Cgemm(*problem), tuple(wanted.items()))  # type: ignore[arg-type]


def tensor(*problem: int | str, **wanted: Value) -> Case:
    return Case(CgemmTensor(), Cgemm(*problem), tuple(wanted.items()))  # type: ignore[arg-type]


def warpgroup(*problem: int | str, **wanted: Value) -> Case:
    return Case(CgemmWarpgroup(), Cgemm(*problem, accuracy="normwise"), tuple(wanted.items()))  # type: ignore[arg-type, misc]


def thin(*problem: int | str, **wanted: Value) -> Case:
    return Case(CgemmThin(), Cgemm(*problem), tuple(wanted.items()))  # type: ignore[arg-type]


CASES = {
    "plain": Case(CgemmPlain(), Cgemm(2112, 128, 64, 64, "n", "c")),  # type: ignore[arg-type]
    "plain_long": Case(CgemmPlain(), Cgemm(40, 64, 64, 16384, "c", "n")),  # type: ignore[arg-type]
    "tiled": tiled(2112, 128, 64, 64, "n", "c"),
    "tiled_wgrad": tiled(2112, 64, 64, 128, "c", "n"),
    "tiled_ragged": tiled(91, 121, 95, 37, "n", "t"),
    "tiled_three": tiled(544, 128, 128, 128, "n", "n", multiplies=3),
    "tiled_split": tiled(40, 64, 64, 16384, "c", "n", splits=4),
    "tiled_several": tiled(2047, 16, 16, 16, "n", "n"),
    "tensor": tensor(544, 128, 128, 128, "n", "c"),
    "tensor_three_wgrad": tensor(2112, 64, 64, 128, "c", "n", multiplies=3, min_blocks=0),
    "tensor_ragged_split": tensor(5, 121, 98, 4136, "n", "n", splits=4, min_blocks=0),
    "tensor_several": tensor(2047, 16, 16, 16, "t", "c"),
    "warpgroup": warpgroup(544, 128, 128, 128, "n", "c"),
    "warpgroup_wgrad": warpgroup(2112, 64, 64, 128, "c", "n"),
    "warpgroup_one_block": warpgroup(544, 128, 128, 128, "c", "n", groups=2, terms=16, stages=3, min_blocks=0),
    "warpgroup_ragged_split": warpgroup(5, 121, 98, 4136, "n", "n", splits=4),
    "warpgroup_odd": warpgroup(7, 121, 95, 37, "t", "t"),
    "thin": thin(2664, 64, 1, 96, "n", "n"),
    "thin_wgrad": thin(544, 128, 3, 576, "c", "n", sharers=4),
    "thin_ragged": thin(7, 3, 95, 37, "n", "c", own=2),
}

GOLDEN = GoldenFiles(Path(__file__).parent / "cgemm", CASES, lambda name: CASES[name].program().source)
every_case = pytest.mark.parametrize("name", CASES)


def features(name: str) -> exhaustive.Features:
    """Family of a case, and how its operands lie."""
    problem = CASES[name].problem
    return frozenset((CASES[name].family.name, ("a", problem.a), ("b", problem.b)))


@every_case
def test_the_text_is_the_one_that_was_reviewed(name: str) -> None:
    GOLDEN.check(name)


def test_no_file_is_left_over() -> None:
    GOLDEN.check_names()


@pytest.mark.parametrize("name", exhaustive.parameters(list(CASES), features))
def test_nvrtc_takes_it_without_a_warning_or_a_spill(name: str) -> None:
    assert set(frames_of(GOLDEN.generated(name))) == {NOTHING}
