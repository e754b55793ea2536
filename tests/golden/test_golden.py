"""Generated CUDA, byte by byte: a change of a template is a change that a person has read.

`WARPSMITH_UPDATE_GOLDEN=1 pytest tests/golden` rewrites the files; the difference is then reviewed as CUDA.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from warpsmith.generator.device import H200
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.program import Program
from warpsmith.generator.registry import FAMILIES, family_named
from warpsmith.generator.space import Config

FOLDER = Path(__file__).parent
UPDATE = "WARPSMITH_UPDATE_GOLDEN"
NVCC = shutil.which("nvcc")

BINOMIAL_7 = tuple(float(a * b) for a in (1, 6, 15, 20, 15, 6, 1) for b in (1, 6, 15, 20, 15, 6, 1))
LAPLACIAN = (0.0, 1.0, 0.0, 1.0, -4.0, 1.0, 0.0, 1.0, 0.0)


@dataclasses.dataclass(frozen=True)
class Case:
    """One golden file: what it solves, and with which config; None is the family's default on an H200."""

    family: str
    problem: Filter2d
    config: Config | None = None

    def program(self) -> Program:
        family = family_named(self.family)
        assert family is not None, self.family
        config = self.config or family.default(self.problem, H200)
        assert family.space(self.problem, H200).why_not(config) is None, config
        return family.program(self.problem, config)


def window(columns: int, load: int, store: int, unroll: int, rows: int, block: tuple[int, int], blocks: int) -> Config:
    """A config of the window kernel that stores plainly and takes its weights as an argument."""
    return Config.of(
        {
            "columns": columns,
            "load_vector": load,
            "store_vector": store,
            "unroll": unroll,
            "rows": rows,
            "block_columns": block[0],
            "block_strips": block[1],
            "min_blocks": blocks,
            "store": "plain",
            "weights": "argument",
        }
    )


CASES = {
    "window_3x3_valid": Case("filter2d_window", Filter2d(image=(9216, 9216), filter=(3, 3))),
    "window_5x5_reflect": Case("filter2d_window", Filter2d(image=(512, 512), filter=(5, 5), border=Border.REFLECT)),
    "window_7x7_constant_literal": Case(
        "filter2d_window",
        Filter2d(image=(1080, 1920), filter=(7, 7), border=Border.CONSTANT, cval=0.5, weights=BINOMIAL_7),
    ),
    "window_3x3_wrap_planes_scalar": Case(
        "filter2d_window",
        Filter2d(image=(333, 517), filter=(3, 3), planes=3, border=Border.WRAP),
        window(columns=1, load=1, store=1, unroll=3, rows=12, block=(64, 1), blocks=4),
    ),
    "window_4x2_mirror_strips": Case(
        "filter2d_window",
        Filter2d(image=(480, 640), filter=(4, 2), border=Border.MIRROR),
        window(columns=8, load=2, store=4, unroll=2, rows=32, block=(32, 4), blocks=0),
    ),
    "plain_3x3_valid": Case("filter2d_plain", Filter2d(image=(9216, 9216), filter=(3, 3))),
    "plain_3x3_nearest_literal": Case(
        "filter2d_plain",
        Filter2d(image=(512, 512), filter=(3, 3), border=Border.NEAREST, weights=LAPLACIAN),
    ),
    "plain_1x6_constant_planes": Case(
        "filter2d_plain",
        Filter2d(image=(1, 4099), filter=(1, 6), planes=64, border=Border.CONSTANT, cval=-1.25),
        Config.of({"block_columns": 256, "block_rows": 1, "weights": "argument"}),
    ),
}

every_case = pytest.mark.parametrize("name", CASES)
needs_nvcc = pytest.mark.skipif(NVCC is None, reason="no nvcc on the path")


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


def test_the_cases_cover_every_family_border_and_kind_of_weights() -> None:
    assert {case.problem.border for case in CASES.values()} == set(Border)
    seen = {(case.family, case.problem.weights is None) for case in CASES.values()}
    assert seen == {(family.name, known) for family in FAMILIES for known in (True, False)}


def nvcc(source: Path, *options: str) -> str:
    """What nvcc and ptxas say, warnings being errors."""
    assert NVCC is not None
    command = [NVCC, "-std=c++17", "-arch=sm_90", "--Werror", "all-warnings", *options, str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    report = done.stdout + done.stderr
    assert done.returncode == 0, report
    return report


@needs_nvcc
@every_case
def test_nvcc_takes_it_without_a_warning_or_a_spill(name: str, tmp_path: Path) -> None:
    report = nvcc(golden(name), "--cubin", "-Xptxas", "-v", "-o", str(tmp_path / "kernel.cubin"))
    assert "warning" not in report
    spills = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", report)
    assert spills == [("0", "0", "0")]


@needs_nvcc
def test_zero_taps_vanish(tmp_path: Path) -> None:
    ptx = tmp_path / "kernel.ptx"
    nvcc(golden("plain_3x3_nearest_literal"), "--ptx", "-o", str(ptx))
    text = ptx.read_text()
    taps = sum(tap != 0 for tap in LAPLACIAN)
    assert text.count("ld.global.nc.f32") == text.count("fma.rn.f32") == taps
