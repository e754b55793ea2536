"""The ladder of "Optimizing a CNN in CUDA" on the CPU: right results, sanitizers, and the command that compares it."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sanitized
from joined import compiled
from policies import ONE_RUN
from sanitized import Untimed
from verified import check
from warpsmith.cli.app import run
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.runtime import Runtime
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.sums.direct_family import Conv2dDirect
from warpsmith.generator.conv2d.sums.ladder.ladder_family import Conv2dLadder, MaskedLadder
from warpsmith.generator.conv2d.sums.ladder.masked_gradient import MaskedGradient, behind_mask
from warpsmith.generator.family import Family
from warpsmith.generator.presets import HOST
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Value
from warpsmith.store.record import Measurement
from warpsmith.tuner.operations.conv2d.masked_judge import MaskedGradientJudge

LADDER, MASKED = Conv2dLadder(), MaskedLadder()
SHAPES: tuple[dict[str, Any], ...] = (
    {"input": (2, 3, 16, 64), "weight": (4, 3, 3, 3), "padding": 1},
    {"input": (3, 4, 13, 37), "weight": (5, 4, 5, 5), "padding": 2},
    {"input": (2, 2, 9, 20), "weight": (3, 2, 2, 4), "padding": ((0, 3), (5, 1))},
    {"input": (1, 3, 11, 9), "weight": (2, 3, 3, 1)},
)


def configs(family: Family, problem: Any) -> Iterator[Config]:
    """Random configs that together have each value of each parameter."""
    space, rng, seen = family.space(problem, HOST), random.Random(problem.key()), set[tuple[str, Value]]()
    yield family.default(problem, HOST)
    for name, value in ((each.name, value) for each in space.parameters for value in each.values):
        if (name, value) not in seen and (config := space.narrowed({name: [value]}).drawn(rng)) is not None:
            seen.update(config.items)
            yield config


def programs(family: Family, problem: Any) -> list[Program]:
    return [family.program(problem, config) for config in dict.fromkeys(configs(family, problem))]


@pytest.mark.parametrize("pass_", Pass)
@pytest.mark.parametrize("number", range(len(SHAPES)))
def test_is_right_for_every_value_of_every_parameter(
    host: Runtime, quickest: HostCompiler, pass_: Pass, number: int
) -> None:
    """Random numbers and stress data; bias and ReLU take turns."""
    ends = {"bias": number % 2 == 0, "relu": number < 2} if pass_ is Pass.FPROP else {}
    problem = Conv2d(**SHAPES[number], pass_=pass_, **ends)
    check(host, quickest, [(problem, program) for program in programs(LADDER, problem)])


@pytest.mark.parametrize("number", range(len(SHAPES)))
def test_masks_gradients_behind_a_relu(host: Runtime, quickest: HostCompiler, number: int) -> None:
    """The ladder's own mask, fused and apart, and the mask before another family's kernel."""
    layer = Conv2d(**SHAPES[number], pass_=Pass.DGRAD)
    problem, direct = MaskedGradient(layer), Conv2dDirect()
    other = behind_mask(problem, direct.program(layer, direct.default(layer, HOST)))
    made = compiled(quickest, [*programs(MASKED, problem), other])
    bed = Untimed(host, problem, 3, ONE_RUN, guarded=True, judge=MaskedGradientJudge())
    with contextlib.closing(bed):
        outcomes = [(program, bed.evaluate(program, binaries, ONE_RUN).outcome) for program, binaries in made]
    assert [(program.config, found) for program, found in outcomes if not isinstance(found, Measurement)] == []


@pytest.mark.usefixtures("compile_without_optimisation")
def test_clean_under_the_sanitizers(tmp_path: Path) -> None:
    """Planes that end inside a block, with checks and with a padded copy."""
    cases = [
        (problem, program)
        for problem in (Conv2d(**SHAPES[2], pass_=pass_) for pass_ in Pass)
        for program in programs(LADDER, problem)[:4]
    ]
    sanitized.check(cases, tmp_path)


@pytest.mark.usefixtures("compile_unoptimised")
def test_is_compared_rung_by_rung(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shape = ("--input", "1,2,8,32", "--filters", "2", "--rows", "2")
    assert run(["bench", "ladder", "--device", "host", *shape, "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["device"]["kind"] == "host"
    assert [each["kernel"] for each in document["kernels"]] == ["forward", "error", "gradient of weights"]
    for kernel, rungs in zip(document["kernels"], (5, 4, 7), strict=True):
        first, *others = kernel["rows"][:rungs]
        assert first["name"] == "baseline"
        assert first["over_baseline"] == 1
        assert first["before"] is first["over_before"] is None
        medians = {each["name"]: each["median_ns"] for each in kernel["rows"]}
        for row in others:
            assert row["p20_ns"] <= row["median_ns"] <= row["p80_ns"]
            assert row["over_before"] == medians[row["before"]] / row["median_ns"]
            assert row["over_baseline"] == medians["baseline"] / row["median_ns"]
            assert row["max_error"] < 2e-5
        ours, *beside = kernel["rows"][rungs:]
        assert ours["name"] == "our answer"
        assert ours["family"].startswith("conv2d_")
        assert "copy" in {each["name"] for each in beside}
