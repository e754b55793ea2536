"""Generated CUDA of cgemm, byte by byte: a change of a template is a change that a person has read.

`WARPSMITH_UPDATE_GOLDEN=1 pytest tests/golden` rewrites the files; the difference is then reviewed as CUDA.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
from pathlib import Path

import pytest

from machine_code import NOTHING, frames_of
from warpsmith.generator.cgemm import Cgemm
from warpsmith.generator.cgemm.plain import CgemmPlain
from warpsmith.generator.cgemm.tensor import CgemmTensor
from warpsmith.generator.cgemm.thin import CgemmThin
from warpsmith.generator.cgemm.tiled import CgemmTiled
from warpsmith.generator.cgemm.warpgroup import CgemmWarpgroup
from warpsmith.generator.family import Family
from warpsmith.generator.presets import H200
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Value

FOLDER = Path(__file__).parent / "cgemm"
UPDATE = "WARPSMITH_UPDATE_GOLDEN"


@dataclasses.dataclass(frozen=True)
class Case:
    """One golden file: what it solves, and what its config has beside the family's default on an H200."""

    family: Family
    problem: Cgemm
    wanted: tuple[tuple[str, Value], ...] = ()

    def program(self) -> Program:
        config = Config.of({**self.family.default(self.problem, H200).values(), **dict(self.wanted)})
        assert self.family.space(self.problem, H200).why_not(config) is None, config
        return self.family.program(self.problem, config)


def tiled(*problem: int | str, **wanted: Value) -> Case:
    """A config of `cgemm_tiled`."""
    return Case(CgemmTiled(), Cgemm(*problem), tuple(wanted.items()))  # type: ignore[arg-type]


def tensor(*problem: int | str, **wanted: Value) -> Case:
    """A config of `cgemm_tensor`."""
    return Case(CgemmTensor(), Cgemm(*problem), tuple(wanted.items()))  # type: ignore[arg-type]


def warpgroup(*problem: int | str, **wanted: Value) -> Case:
    """A config of `cgemm_warpgroup`."""
    return Case(CgemmWarpgroup(), Cgemm(*problem, accuracy="normwise"), tuple(wanted.items()))  # type: ignore[arg-type, misc]


def thin(*problem: int | str, **wanted: Value) -> Case:
    """A config of `cgemm_thin`."""
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

every_case = pytest.mark.parametrize("name", CASES)


def golden(name: str) -> Path:
    return FOLDER / f"{name}.cu"


@every_case
def test_the_text_is_the_one_that_was_reviewed(name: str) -> None:
    generated = CASES[name].program().source
    if os.environ.get(UPDATE) == "1":
        golden(name).write_text(generated)
    reviewed = golden(name).read_bytes().decode() if golden(name).exists() else ""
    if generated != reviewed:
        lines = difflib.unified_diff(
            reviewed.splitlines(), generated.splitlines(), golden(name).name, "generated now", lineterm=""
        )
        pytest.fail("\n".join([*lines, f"If that is what you want: {UPDATE}=1 pytest tests/golden"]), pytrace=False)


def test_no_file_is_left_over() -> None:
    assert {path.stem for path in FOLDER.glob("*.cu")} == set(CASES)


@every_case
def test_nvrtc_takes_it_without_a_warning_or_a_spill(name: str) -> None:
    assert set(frames_of(golden(name).read_text())) == {NOTHING}
