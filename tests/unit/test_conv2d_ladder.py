"""The ladder of "Optimizing a CNN in CUDA": searches meet it by name alone, and it computes every result once."""

from __future__ import annotations

import collections
import dataclasses
import json
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpsmith as ws
from builders import failure, measurement, timing
from warpsmith.cli.app import run
from warpsmith.cli.operations import ladder_bench
from warpsmith.cli.operations.ladder_bench import Ladder, ladders
from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Conv2d, PaddingMode, Pass
from warpsmith.generator.conv2d.operation import CONV2D
from warpsmith.generator.conv2d.sums.ladder.ladder_choices import ROWS
from warpsmith.generator.conv2d.sums.ladder.ladder_family import Conv2dLadder, MaskedLadder
from warpsmith.generator.conv2d.sums.ladder.ladder_plane import LadderPlane
from warpsmith.generator.conv2d.sums.ladder.masked_gradient import MASKED, MaskedGradient, behind_mask
from warpsmith.generator.family import Family
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.problem import NonFinite
from warpsmith.generator.program import Program, TensorMap
from warpsmith.generator.registry import FAMILIES, OPERATIONS, families_for, family_named, named_family
from warpsmith.generator.space import Config
from warpsmith.store.record import COPY, Baseline, Failure, FailureKind, LeftOut
from warpsmith.tuner.finals.standings import Standing, Standings
from warpsmith.tuner.operations.conv2d.judge import Conv2dJudge
from warpsmith.tuner.operations.conv2d.masked_judge import MaskedGradientJudge

LADDER, MASKED_LADDER = Conv2dLadder(), MaskedLadder()
LAYER: dict[str, Any] = {"input": (8, 32, 256, 256), "weight": (32, 32, 3, 3), "padding": 1}
ODD: dict[str, Any] = {"input": (3, 5, 30, 45), "weight": (7, 5, 2, 5), "padding": ((0, 3), (4, 1))}
POLICY = "median, 5 runs a sample, eager, in turns, warm caches"
every_pass = pytest.mark.parametrize("pass_", Pass)
every_ladder = pytest.mark.parametrize("ladder", ladders((8, 32, 256, 256), 32, 3, 4), ids=lambda each: each.name)
PROBLEMS: list[tuple[Family, Any]] = [
    *((LADDER, Conv2d(**fields, pass_=pass_)) for fields in (LAYER, ODD) for pass_ in Pass),
    *((MASKED_LADDER, MaskedGradient(Conv2d(**fields, pass_=Pass.DGRAD))) for fields in (LAYER, ODD)),
]
every_problem = pytest.mark.parametrize(("family", "problem"), PROBLEMS, ids=lambda each: getattr(each, "name", ""))


def sample(family: Family, problem: Any, count: int = 24) -> list[Config]:
    """The default config and random ones."""
    space, rng = family.space(problem, H200), random.Random(problem.key())
    return [family.default(problem, H200), *filter(None, (space.drawn(rng) for _ in range(count)))]


class TestSearches:
    @every_pass
    def test_meet_the_ladder_by_name_alone(self, pass_: Pass) -> None:
        problem = Conv2d(**LAYER, pass_=pass_)
        ladder = family_named("conv2d_ladder")
        assert ladder is named_family(problem, H200, "conv2d_ladder")
        assert ladder not in families_for(problem, H200)
        assert ladder not in FAMILIES

    def test_never_let_it_win(self) -> None:
        assert not LADDER.may_win
        assert not LADDER.may_answer

    def test_of_another_problem_refuse_it(self) -> None:
        with pytest.raises(BadArgument, match=r"conv2d_ladder does not solve .*: solves conv2d only"):
            named_family(ws.Filter2d((64, 64), (3, 3)), H200, "conv2d_ladder")

    def test_know_it_by_a_name_of_the_operation(self) -> None:
        with pytest.raises(ValueError, match="must be named after it: ladder"):
            dataclasses.replace(CONV2D, studied={"ladder": lambda: LADDER})
        assert all(operation.named("ladder") is None for operation in OPERATIONS.values())


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"stride": 2}, "stride 1, dilation 1 and one group only"),
        ({"dilation": (1, 2)}, "stride 1, dilation 1 and one group only"),
        ({"groups": 4, "weight": (32, 8, 3, 3)}, "stride 1, dilation 1 and one group only"),
        ({"padding_mode": PaddingMode.REFLECT}, "pads with zeros only, and not by reflect"),
        ({"dtype": "float16"}, "reads float32 only, and no float16"),
        ({"layout": "nhwc"}, "reads images in nchw only, and none in nhwc"),
        ({"weight": (32, 32, 33, 33), "padding": 16}, "1024 of them at the most; this one has 1089"),
        ({"pass_": Pass.DGRAD, "bias": True}, "adds no bias to dgrad"),
        ({"pass_": Pass.WGRAD, "nonfinite": NonFinite.WINDOW}, "needs nonfinite any"),
        ({"pass_": Pass.WGRAD, "input": (1, 300, 8, 8), "weight": (300, 300, 3, 3)}, "65535 of them at the most"),
        ({"input": (1, 1, 70000, 4), "weight": (1, 1, 3, 3)}, "row of blocks for each row of results, 65535 of them"),
    ],
)
def test_refuses_what_the_document_does_not_compute(fields: dict[str, Any], why: str) -> None:
    reason = LADDER.why_not(Conv2d(**{**LAYER, **fields}), H200)
    assert reason is not None
    assert why in reason


def test_masks_gradients_of_images_alone() -> None:
    assert MASKED_LADDER.why_not(MaskedGradient(Conv2d(**LAYER)), H200) == "masks the gradient of dgrad, and no fprop"


class TestSpace:
    @every_problem
    def test_holds_the_default_on_every_device(self, family: Family, problem: Any) -> None:
        for device in (H200, HOST):
            assert family.why_not(problem, device) is None
            assert family.space(problem, device).why_not(family.default(problem, device)) is None

    def test_has_no_config_of_more_sums_than_registers(self) -> None:
        space = LADDER.space(Conv2d(**{**LAYER, "input": (32, 32, 256, 256)}), H200)
        wanted = {**LADDER.default(Conv2d(**LAYER), H200).values(), "batch": "inner", "kept": "weights"}
        assert space.contains(Config.of({**wanted, "rows": 2}))
        assert "at most 64 sums" in str(space.why_not(Config.of({**wanted, "rows": 4})))
        assert "a thread has 255 registers" in str(space.why_not(Config.of({**wanted, "rows": 2, "min_blocks": 8})))

    def test_has_no_copy_without_room_for_it(self) -> None:
        narrow = Conv2d(**LAYER, workspace=1 << 20)
        config = Config.of({**LADDER.default(narrow, H200).values(), "bounds": "padded"})
        assert "padded copies take at most 1048576 bytes" in str(LADDER.space(narrow, H200).why_not(config))

    def test_of_weights_has_a_last_step_behind_shuffles_alone(self) -> None:
        problem = Conv2d(**LAYER, pass_=Pass.WGRAD)
        config = Config.of({**LADDER.default(problem, H200).values(), "last_step": "double"})
        assert "shuffles alone" in str(LADDER.space(problem, H200).why_not(config))


class TestPrograms:
    @every_problem
    def test_cover_every_result_once(self, family: Family, problem: Any) -> None:
        layer = getattr(problem, "layer", problem)
        size = layer.output_size if layer.pass_ is not Pass.DGRAD else layer.input[2:]
        for config in sample(family, problem):
            plane = LadderPlane.of(size, config)
            across, down = plane.blocks
            (launch,) = (each for each in family.program(problem, config).launches if each.entry == "conv2d_ladder")
            assert launch.grid[:2] == (across, down)
            assert launch.block == (plane.across, plane.down, 1)
            firsts = (
                (block * plane.down + thread) * plane.rows for block in range(down) for thread in range(plane.down)
            )
            rows = collections.Counter(first + i for first in firsts for i in range(plane.rows))
            columns = collections.Counter(
                block * plane.across + thread for block in range(across) for thread in range(plane.across)
            )
            for counts, wanted in ((rows, size[0]), (columns, size[1])):
                assert all(counts[each] == 1 for each in range(wanted))
            assert plane.is_ragged == (set(rows) != set(range(size[0])) or set(columns) != set(range(size[1])))
            # No block lies wholly beside the plane.
            assert (across - 1) * plane.across < size[1]
            assert (down - 1) * plane.down * plane.rows < size[0]

    @every_problem
    def test_name_operands_and_workspaces_alone(self, family: Family, problem: Any) -> None:
        for config in sample(family, problem):
            program = family.program(problem, config)
            known = {operand.name for operand in problem.operands} | {each.name for each in program.workspaces}
            assert program.pointed_to == known
            assert [launch.unit for launch in program.launches][: len(program.workspaces)] == ["copy"] * len(
                program.workspaces
            )

    @every_problem
    def test_are_the_same_every_time_and_have_short_lines(self, family: Family, problem: Any) -> None:
        for config in sample(family, problem, 8):
            program = family.program(problem, config)
            assert program == family.program(problem, config)
            assert max(map(len, program.source.splitlines())) <= 120


class TestRungs:
    @every_ladder
    def test_are_legal_and_each_differs_from_the_one_before(self, ladder: Ladder) -> None:
        space = ladder.family.space(ladder.problem, H200)
        names = [rung.name for rung in ladder.rungs]
        assert len(set(names)) == len(names)
        assert ladder.rungs[0].before is None
        by_name = {rung.name: rung for rung in ladder.rungs}
        for rung in ladder.rungs:
            assert space.why_not(rung.config) is None, rung.name
        for rung in ladder.rungs[1:]:
            assert rung.before in by_name
            assert rung.config != by_name[rung.before].config

    @every_ladder
    def test_are_different_programs(self, ladder: Ladder) -> None:
        prints = [ladder.family.program(ladder.problem, rung.config).fingerprint for rung in ladder.rungs]
        assert len(set(prints)) == len(prints)


class TestMaskedGradient:
    LAYER = Conv2d((2, 3, 9, 8), (4, 3, 3, 3), padding=1, pass_=Pass.DGRAD)

    def test_takes_the_results_of_the_relu_too(self) -> None:
        problem = MaskedGradient(self.LAYER)
        assert [operand.name for operand in problem.operands] == ["dy", "w", "y", "dx"]
        assert problem.inputs[2].shape == problem.inputs[0].shape
        assert problem.key() == f"{self.LAYER.key()} mask=y"
        assert MaskedGradient.of(problem.spec()) == problem
        assert problem.distance(problem) == 0
        assert problem.distance(self.LAYER) is None

    def test_of_a_judge_is_that_of_masked_numbers(self) -> None:
        problem, judge, rng = MaskedGradient(self.LAYER), MaskedGradientJudge(), np.random.default_rng(0)
        given = judge.inputs(problem, rng)
        assert 0.2 < np.mean(given["y"] == 0) < 0.8
        masked = given["dy"] * (given["y"] != 0)
        expected = Conv2dJudge().references(self.LAYER, {"dy": masked, "w": given["w"]})["dx"].expected
        assert np.array_equal(judge.references(problem, given)["dx"].expected, expected)

    def test_of_a_judge_has_no_nan_where_the_mask_is_zero(self) -> None:
        problem, judge = MaskedGradient(self.LAYER), MaskedGradientJudge()
        given = {**judge.inputs(problem, np.random.default_rng(0))}
        given["dy"][given["y"] == 0] = np.nan
        assert np.isfinite(judge.references(problem, given)["dx"].expected).all()

    def test_behind_any_program_reads_the_gradient_from_its_launch_alone(self) -> None:
        layers = (
            self.LAYER,
            Conv2d((8, 64, 28, 28), (64, 64, 3, 3), padding=1, pass_=Pass.DGRAD, layout="nhwc", precision="tf32"),
        )
        kinds = set[type]()
        for layer in layers:
            for family in families_for(layer, H200):
                program = family.program(layer, family.default(layer, H200))
                made = behind_mask(MaskedGradient(layer), program)
                first, *others = made.steps
                assert [argument.buffer for argument in first.arguments] == ["dy", "y", MASKED]  # type: ignore[union-attr]
                assert "dy" not in {argument.buffer for step in others for argument in _in_memory(step)}
                read = {type(argument) for step in others for argument in _in_memory(step) if argument.buffer == MASKED}
                assert read
                assert made.units[1:] == program.units
                assert made.family == program.family
                kinds |= read
        assert TensorMap in kinds


def _in_memory(step: Any) -> list[Any]:
    return [argument for argument in step.arguments if hasattr(argument, "buffer")]


def planted(problem: Any, programs: Mapping[str, Program], *_: Any) -> Standings:
    """Made-up times: each program takes 1 us less than the one before, and the gradient's second rung is wrong."""
    is_gradient = "dw" in {operand.name for operand in problem.operands}
    found: dict[str, Standing | Failure] = {}
    for number, name in enumerate(programs):
        timed = timing((20 - number) * 1e3, 1e3, 30e3, policy=POLICY)
        found[name] = Standing(measurement(timed, registers=32 + number, spill_bytes=0), timed)
        if is_gradient and number == 1:
            found[name] = failure(FailureKind.WRONG, "3 of 9 elements are wrong")
    copy = Baseline(COPY, timing(500.0, policy=POLICY))
    return Standings(found, (copy,), {"compiler": "g++ 12.2.0"}, (LeftOut("cuDNN", "torch is not installed"),))


class TestCommand:
    SHAPE = ("bench", "ladder", "--device", "host", "--input", "32,2,8,32", "--filters", "2")

    @pytest.fixture(autouse=True)
    def _no_measurements(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ladder_bench, "standings", planted)

    def test_prints_a_table_for_each_kernel(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run([*self.SHAPE, "--rows", "4"]) == 1  # a rung is wrong
        lines = capsys.readouterr().out.splitlines()
        assert sum(line.startswith("| rung | config | median | 20% to 80% |") for line in lines) == 3
        for line in (
            "| padded input | bounds=padded | 19.0 us | 1.00 us to 30.0 us | 1.05x | 1.05x | 33 | 0 |",
            "| more outputs per thread | rows=4 | 18.0 us | 1.00 us to 30.0 us | 1.11x | 1.06x | 34 | 0 |",
            "| copy | - | 0.500 us | 0.500 us to 0.500 us | 40.00x | - | - | - |",
        ):
            assert line in lines
        (refused,) = (line for line in lines if line.startswith("| loop over the batch inside"))
        assert (
            "a thread has at most 64 sums, rows times the 32 images if their loop is the inner one | - | -" in refused
        )
        (wrong,) = (line for line in lines if line.startswith("| shuffles at the end of the reduction |"))
        assert "wrong: 3 of 9 elements are wrong | - | -" in wrong
        (after,) = (line for line in lines if line.startswith("| sums in registers |"))
        assert after.endswith("| 1.18x | - | 35 | 0 |")
        assert sum(line.startswith("| our answer | conv2d_") for line in lines) == 3
        assert sum(line == "left out  cuDNN: torch is not installed" for line in lines) == 3
        assert any(line.startswith("document  0.04 s for the mask's kernel") for line in lines)

    def test_prints_one_document(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run([*self.SHAPE, "--rows", "2", "--json"]) == 1
        document = json.loads(capsys.readouterr().out)
        assert document.keys() == {"device", "kernels"}
        page = (Path(__file__).parents[2] / "docs/reference/json.md").read_text()
        (sentence,) = (line for line in page.split("\n\n") if line.startswith("`bench ladder` prints"))
        listed = set(re.findall(r"`(\w+)`", sentence))
        for kernel in document["kernels"]:
            assert kernel.keys() <= listed
            for row in kernel["rows"]:
                assert row.keys() <= listed

    def test_refuses_rows_that_no_kernel_has(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["bench", "ladder", "--device", "host", "--rows", "3"]) == 2
        assert f"--rows must be one of {', '.join(map(str, ROWS))}; got 3" in capsys.readouterr().err

    def test_refuses_a_shape_of_other_than_four_numbers(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["bench", "ladder", "--device", "host", "--input", "8,32,256"]) == 2
        assert "--input must be N,C,H,W, such as 8,32,256,256; got '8,32,256'" in capsys.readouterr().err
