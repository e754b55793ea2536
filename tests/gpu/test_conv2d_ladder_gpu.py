"""The ladder of "Optimizing a CNN in CUDA" on a GPU: random configs, races between warps, and the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from random_configs import some
from warpsmith.cli.app import run
from warpsmith.cli.operations.ladder_bench import ladders
from warpsmith.devices.cuda.runtime import cuda_device
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.sums.ladder.ladder_family import Conv2dLadder

pytestmark = pytest.mark.gpu

LADDER = Conv2dLadder()
SHAPES: tuple[dict[str, Any], ...] = (
    {"input": (4, 12, 64, 96), "weight": (10, 12, 3, 3), "padding": 1},
    {"input": (3, 5, 45, 70), "weight": (7, 5, 4, 5), "padding": ((0, 3), (4, 1))},
)


@pytest.mark.parametrize("pass_", Pass)
def test_random_configs_are_right(pass_: Pass, check_configs: Callable[..., None]) -> None:
    check_configs([Conv2d(**fields, pass_=pass_) for fields in SHAPES], some(12), families=(LADDER,))


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_gradients_of_weights_have_no_race(tool: str, check_under_sanitizer: Callable[..., None]) -> None:
    *_, gradient = ladders((2, 2, 45, 70), filters=3, taps=3, rows=4)
    cases = [(gradient.problem, LADDER.program(gradient.layer, rung.config)) for rung in gradient.rungs]
    check_under_sanitizer(tool, cuda_device(0), cases)


def test_every_rung_is_right_and_none_spills(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "ladder", "--device", "cuda:0", "--input", "4,8,64,64", "--filters", "8", "--json"]) == 0
    for kernel in json.loads(capfd.readouterr().out)["kernels"]:
        rungs = [row for row in kernel["rows"] if "registers" in row and "family" not in row]
        assert len(rungs) >= 4
        assert {row["spill_bytes"] for row in rungs} == {0}
        assert all(row["over_baseline"] > 0 for row in rungs)
