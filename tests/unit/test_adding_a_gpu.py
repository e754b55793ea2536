"""docs/guide/adding-a-gpu.md followed literally: with its rows in the tables, all families work on that GPU."""

from __future__ import annotations

import importlib
import math
import re
from pathlib import Path

import pytest

from warpsmith.generator.architectures import ARCHITECTURES
from warpsmith.generator.cgemm import Cgemm
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.device import Device
from warpsmith.generator.fft import Fft
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import PRESETS
from warpsmith.generator.problem import Problem
from warpsmith.generator.ranking import default_answer
from warpsmith.generator.registry import OPERATIONS
from warpsmith.generator.tensor_cores import TensorType, instruction_of

PAGE = Path(__file__).parents[2] / "docs/guide/adding-a-gpu.md"
ROWS = re.compile(r"```python\n# generator/(\w+)\.py, (\w+)\n(.*?)```", re.DOTALL)
CAPABILITY = (13, 0)
LAYER = {"input": (32, 64, 28, 28), "weight": (64, 64, 3, 3), "padding": 1}
PROBLEMS: tuple[Problem, ...] = (
    Filter2d(image=(2000, 3000), filter=(11, 11), accuracy="imagewise", nonfinite="any"),
    Filter2d(image=(1080, 1920), filter=(3, 3), dtype="uint8"),
    Filter1d(2**24, 17),
    Filter1d(8192, 4, 8, "causal", 64, 64, "btc", "bfloat16"),  # type: ignore[arg-type]
    Fft((32, 32), 4096, "r2c"),
    Fft(250, 100_000),
    Cgemm(544, 128, 64, 64),
    Cgemm(544, 2, 64, 64),
    *(Conv2d(**LAYER, pass_=pass_) for pass_ in Pass),  # type: ignore[arg-type]
    Conv2d((32, 64, 28, 28), (64, 1, 9, 9), padding=4, groups=64),
    Conv2d((32, 64, 56, 56), (64, 1, 3, 3), padding=1, groups=64, layout="nhwc", dtype="float16", precision="f16"),
    Conv2d((64, 3, 128, 128), (96, 3, 11, 11)),
)


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> Device:
    """The page's GPU, while its rows are in the tables."""
    rows = ROWS.findall(PAGE.read_text())
    assert [table for _, table, _ in rows] == ["ARCHITECTURES", "MMA_F16", "PRESETS"]
    for module_name, table, text in rows:
        module = importlib.import_module(f"warpsmith.generator.{module_name}")
        for key, value in eval(f"{{{text}}}", vars(module)).items():
            monkeypatch.setitem(getattr(module, table), key, value)
    return PRESETS["x100"]


def test_the_rows_make_a_device(added: Device) -> None:
    assert added.compute_capability == CAPABILITY == max(ARCHITECTURES)
    assert added.arch == "sm_130"
    assert added.limits.shared_per_block_bytes == 255 * 1024
    assert added.rates.memory_bytes_per_ns == pytest.approx(2 * 4.0 * 8192 / 8)
    assert added.rates.multiply_adds_per_ns == pytest.approx(128 * 160 * 2.1)
    assert added.rates.tensor_multiply_adds_per_ns(instruction_of(TensorType.TF32)) == pytest.approx(1024 * 160 * 2.1)


@pytest.mark.parametrize("problem", PROBLEMS, ids=Problem.key)
def test_every_family_answers_there(problem: Problem, added: Device) -> None:
    able = 0
    for family in OPERATIONS[problem.operation].families:
        if (why := family.why_not(problem, added)) is not None:
            assert "\n" not in why
            continue
        able += 1
        space, config = family.space(problem, added), family.default(problem, added)
        assert space.why_not(config) is None, family.name
        assert family.program(problem, config).steps, family.name
        for start in family.starts(problem, added)[:3]:
            assert family.is_legal(problem, added, start) or not space.contains(start)
        expected_ns = family.expected_ns(problem, added)
        assert expected_ns is None or 1000 < expected_ns < math.inf, family.name
    assert able >= 2
    assert default_answer(problem, added)[0].name


def test_it_is_gone_afterwards() -> None:
    assert "x100" not in PRESETS
    assert CAPABILITY not in ARCHITECTURES
