"""Layers in the frequency domain on the CPU: forward transforms, products and inverse transforms, with workspaces
between.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import numpy as np
import pytest

import exhaustive
from joined import plan_of
from verified import check, evaluated
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.fourier.cufft import Conv2dCufft
from warpsmith.generator.conv2d.fourier.fourier_family import Conv2dFft
from warpsmith.generator.conv2d.fourier.product_stage import SPECTRA, SPLITS
from warpsmith.generator.conv2d.fourier.variants import FOURIER
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.library_calls import LEAST_CUBLAS_BYTES, USUAL_CUBLAS_BYTES
from warpsmith.generator.presets import H200
from warpsmith.generator.program import Program
from warpsmith.generator.ranking import default_answer
from warpsmith.generator.space import Config
from warpsmith.generator.steps import LibraryCall, Pointer, aligned
from warpsmith.store.record import Failure, FailureKind, Measurement
from warpsmith.tuner.operations.conv2d.oracle import reference
from warpsmith.tuner.operations.registry import random_operands

FAMILY, TENSOR = FOURIER["conv2d_fft"], FOURIER["conv2d_fft_tensor"]
WARPGROUP, THIN, TILED_THIN = (
    FOURIER["conv2d_fft_warpgroup"],
    FOURIER["conv2d_fft_thin"],
    FOURIER["conv2d_fft_tiled_thin"],
)
DEVICE = DeviceRef(DeviceKind.HOST).device()
LIBRARIES: tuple[Family, ...] = (Conv2dCufft(), FOURIER["conv2d_fft_cublas"])
SHAPES: tuple[dict[str, Any], ...] = (
    {"input": (4, 3, 9, 7), "weight": (5, 3, 3, 2)},
    {"input": (2, 5, 8, 12), "weight": (3, 5, 5, 4), "padding": ((2, 0), (1, 3))},
    {"input": (1, 1, 6, 6), "weight": (2, 1, 6, 6), "padding": 5},
)
every_pass = pytest.mark.parametrize("pass_", Pass)
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape["input"])))


def drawn(problem: Conv2d) -> Config:
    config = FAMILY.space(problem, DEVICE).drawn(random.Random(problem.key()))
    assert config is not None
    return config


def defaults(*cases: tuple[Conv2dFft, Conv2d]) -> list[tuple[Conv2d, Program]]:
    return [(problem, family.program(problem, family.default(problem, DEVICE))) for family, problem in cases]


@every_pass
def test_is_right_by_default(host: Runtime, quickest: HostCompiler, pass_: Pass) -> None:
    """Products by the first family and on the tensor cores, each with another shape."""
    turn = list(Pass).index(pass_)
    first, other = (
        [(family, Conv2d(**shape, pass_=pass_)) for shape in exhaustive.share(SHAPES, shift, 3)]
        for family, shift in ((FAMILY, turn), (TENSOR, turn + 1))
    )
    check(host, quickest, defaults(*first, *other))


@every_pass
def test_is_right_at_random_and_on_a_larger_basis(host: Runtime, quickest: HostCompiler, pass_: Pass) -> None:
    problem = Conv2d(**SHAPES[1], pass_=pass_)
    last = FAMILY.on(FAMILY.variant.bases(problem)[-1])
    others = ((family, family.default(problem, DEVICE)) for family in (last, WARPGROUP))
    shared = exhaustive.share(((FAMILY, drawn(problem)), *others), list(Pass).index(pass_), 3)
    check(host, quickest, [(problem, family.program(problem, config)) for family, config in shared])


@every_pass
def test_is_right_with_products_of_few_rows_or_columns(host: Runtime, quickest: HostCompiler, pass_: Pass) -> None:
    cases = ((THIN, SHAPES[0]), (THIN, SHAPES[2]), (TILED_THIN, {**SHAPES[0], "weight": (4, 3, 3, 2)}))
    for family, shape in exhaustive.share(cases, list(Pass).index(pass_), 3):
        problem = Conv2d(**shape, pass_=pass_)
        if family is TILED_THIN and pass_ is Pass.FPROP:
            problem = Conv2d((2, 3, 9, 7), (4, 3, 3, 2))  # type: ignore[arg-type]
        check(host, quickest, defaults((family, problem)))


def test_products_of_few_columns_answer_where_they_are() -> None:
    lost = Conv2d((64, 1, 72, 72), (96, 1, 9, 9), pass_=Pass.DGRAD)  # type: ignore[arg-type]
    assert default_answer(lost, H200)[0].name == THIN.name
    assert "4 rows or columns" in (THIN.why_not(Conv2d((8, 5, 9, 9), (5, 5, 3, 3)), DEVICE) or "")  # type: ignore[arg-type]


@exhaustive.meeting()
@every_pass
@every_shape
def test_by_the_libraries_alone_is_right(
    host: Runtime, quickest: HostCompiler, shape: dict[str, Any], pass_: Pass
) -> None:
    """NumPy stands in for the libraries here."""
    problem, family = Conv2d(**shape, pass_=pass_), Conv2dCufft()
    space = family.space(problem, H200)
    drawn = space.drawn(random.Random(1)) if shape is SHAPES[1] else None
    for config in filter(None, (family.default(problem, H200), drawn)):
        assert space.contains(config)
        outcome = evaluated(host, quickest, problem, family.program(problem, config))
        assert isinstance(outcome, Measurement), (config, outcome)


@exhaustive.one_in(2)
@pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])
def test_takes_a_batch_in_parts_that_fit_the_workspace(host: Runtime, quickest: HostCompiler, pass_: Pass) -> None:
    whole = Conv2d(**SHAPES[0], pass_=pass_)
    taken = sum(each.nbytes for each in FAMILY.workspaces(whole))
    problem = dataclasses.replace(whole, workspace=taken - 1)
    program = FAMILY.program(problem, FAMILY.default(problem, DEVICE))
    assert sum(each.nbytes for each in program.workspaces) < taken
    assert len(program.steps) == 1 + 2 * 3
    outcome = evaluated(host, quickest, problem, program)
    assert isinstance(outcome, Measurement), outcome


def test_ends_in_a_bias_and_a_relu(host: Runtime, quickest: HostCompiler) -> None:
    """Each shape with one end by default. All are one text, in which shapes of one kind share their transforms."""
    ends = ((True, False), (False, True), (True, True))
    layers = [
        Conv2d(**shape, bias=bias, relu=relu)
        for turn, shape in enumerate(SHAPES)
        for bias, relu in exhaustive.share(ends, turn, 3)
    ]
    check(host, quickest, defaults(*((FAMILY, layer) for layer in layers)))


def test_ends_are_those_of_every_part_of_a_batch(host: Runtime, quickest: HostCompiler) -> None:
    problem = Conv2d(**SHAPES[0], bias=True, relu=True, workspace=FAMILY.workspaces(Conv2d(**SHAPES[0]))[0].nbytes * 3)
    program = FAMILY.program(problem, FAMILY.default(problem, DEVICE))
    assert [step.entry for step in program.launches].count("add_bias") > 1
    assert isinstance(evaluated(host, quickest, problem, program), Measurement)


def without(program: Program, step: int) -> Program:
    return dataclasses.replace(program, steps=program.steps[:step] + program.steps[step + 1 :])


@pytest.mark.parametrize("step", range(4))
def test_a_step_that_is_missing_is_found(host: Runtime, quickest: HostCompiler, step: int) -> None:
    """The memory that the missing step would write holds NaN."""
    problem = Conv2d(**SHAPES[0])
    program = FAMILY.program(problem, FAMILY.default(problem, DEVICE))
    outcome = evaluated(host, quickest, problem, without(program, step))
    assert isinstance(outcome, Failure)
    assert outcome.kind is FailureKind.WRONG


class TestProgram:
    @every_pass
    def test_reads_what_was_written(self, pass_: Pass) -> None:
        problem = Conv2d(**SHAPES[1], pass_=pass_)
        program = FAMILY.program(problem, FAMILY.default(problem, DEVICE))
        memory = [
            [each.buffer for each in step.arguments if isinstance(each, Pointer)]
            for step in program.steps
            if not isinstance(step, LibraryCall)
        ]
        one, other = (each.name for each in problem.inputs)
        if pass_ is Pass.WGRAD:
            one, other = other, one
        a, b, c = SPECTRA
        assert memory == [[other, b], [one, a], [a, b, c], [c, problem.output.name]]

    def test_parts_lie_one_behind_the_other(self) -> None:
        problem = Conv2d(**SHAPES[0], workspace=FAMILY.workspaces(Conv2d(**SHAPES[0]))[0].nbytes * 3)
        program = FAMILY.program(problem, FAMILY.default(problem, DEVICE))
        starts = {"x": 0, "y": 0}
        for name in starts:
            found = [
                each.offset
                for step in program.launches
                for each in step.arguments
                if isinstance(each, Pointer) and each.buffer == name
            ]
            operand = next(each for each in problem.operands if each.name == name)
            assert found == [part * operand.nbytes // len(found) for part in range(len(found))]
            assert len(found) > 1


class TestWhatItDoesNotSolve:
    @pytest.mark.parametrize(
        ("fields", "why"),
        [
            ({"accuracy": "elementwise"}, "has errors relative to the whole result"),
            ({"stride": 2}, "takes stride 1"),
            ({"dilation": (1, 2)}, "takes stride 1, dilation 1"),
            ({"weight": (5, 1, 3, 2), "groups": 3}, "takes stride 1"),
            ({"workspace": 4096}, "needs more than 4096 bytes of workspace"),
        ],
    )
    def test_is_told_in_a_line(self, fields: dict[str, Any], why: str) -> None:
        fields = {"input": (4, 3, 9, 7), "weight": (6, 3, 3, 2), **fields}
        if "groups" in fields:
            fields["weight"] = (6, 1, 3, 2)
        told = FAMILY.why_not(Conv2d(**fields), DEVICE)
        assert told is not None
        assert told.startswith(why)


@exhaustive.one_in(3)
@every_pass
def test_errors_are_those_of_float32_as_a_whole(host: Runtime, quickest: HostCompiler, pass_: Pass) -> None:
    """The Euclidean norm of the error stays below 1e-6. The bound for single elements does not guarantee that."""
    problem = Conv2d((3, 8, 12, 12), (6, 8, 5, 5), padding=2, pass_=pass_)  # type: ignore[arg-type]
    plan = plan_of(host, quickest, problem, FAMILY.program(problem, FAMILY.default(problem, DEVICE)))
    operands = random_operands(problem, 5)
    expected, _ = reference(problem, operands)
    result = np.asarray(plan(*operands.values()))
    assert np.linalg.norm(result - expected) <= 1e-6 * np.linalg.norm(expected)


def test_products_of_warpgroups_are_asked_for_accuracy_of_an_image_s_row_and_those_of_others_are_not() -> None:
    problem = Conv2d((128, 64, 64, 64), (64, 64, 9, 9))
    asked = {
        family.name: family.stages(problem)[2].problem.spec()["accuracy"] for family in (FAMILY, TENSOR, WARPGROUP)
    }
    assert asked == {FAMILY.name: "elementwise", TENSOR.name: "elementwise", WARPGROUP.name: "rowwise"}
    strict = dataclasses.replace(problem, accuracy="elementwise")
    assert WARPGROUP.why_not(strict, H200) is not None


class TestLikely:
    @pytest.mark.parametrize(
        ("shape", "likely"),
        [
            ({"input": (128, 64, 64, 64), "weight": (64, 64, 9, 9)}, True),
            ({"input": (128, 384, 13, 13), "weight": (384, 384, 3, 3)}, True),
            ({"input": (1, 4, 8, 8), "weight": (4, 4, 3, 3)}, False),
            ({"input": (32, 64, 56, 56), "weight": (64, 64, 1, 1)}, False),
        ],
    )
    def test_is_where_sums_over_taps_take_longer(self, shape: dict[str, Any], likely: bool) -> None:
        problem = Conv2d(**shape)
        assert FAMILY.is_likely(problem, H200) is likely
        assert not FAMILY.is_likely(problem, DEVICE)
        assert TENSOR.is_likely(problem, H200) is likely
        assert WARPGROUP.is_likely(problem, H200) is likely
        # Split fp16 products of 384 channels are expected to be faster still.
        assert (default_answer(problem, H200)[0].name in ("conv2d_fft_halves", "conv2d_fft_warpgroup")) is likely
        others = dataclasses.replace(H200, compute_capability=(8, 0))  # without wgmma products
        assert (default_answer(problem, others)[0].name == "conv2d_fft_tensor") is likely

    def test_is_without_tensor_cores_where_products_are_thin(self) -> None:
        problem = Conv2d((128, 3, 128, 128), (96, 3, 11, 11), pass_=Pass.DGRAD)
        assert FAMILY.is_likely(problem, H200)
        assert not TENSOR.is_likely(problem, H200)
        assert default_answer(problem, H200)[0].name == TILED_THIN.name


class TestWorkspace:
    @exhaustive.meeting()
    @every_pass
    @pytest.mark.parametrize("family", LIBRARIES, ids=lambda family: family.name)
    def test_of_a_candidate_is_never_above_the_limit(
        self, host: Runtime, quickest: HostCompiler, family: Family, pass_: Pass
    ) -> None:
        """Workspaces of libraries count too. cuBLAS gets what the limit leaves, so a larger limit gives it more."""
        problem = Conv2d(**SHAPES[0], pass_=pass_)
        roomy = family.program(problem, family.default(problem, DEVICE))
        own = sum(aligned(each.nbytes) for each in roomy.workspaces)
        tight = dataclasses.replace(problem, workspace=own + LEAST_CUBLAS_BYTES)
        assert family.why_not(tight, H200) is None
        outcome = evaluated(host, quickest, tight, family.program(tight, family.default(tight, DEVICE)))
        assert isinstance(outcome, Measurement), outcome
        outcome = evaluated(host, quickest, tight, roomy)
        assert isinstance(outcome, Failure)
        assert outcome.kind is FailureKind.OUT_OF_MEMORY
        taken = sum(each.nbytes for each in roomy.workspaces) + USUAL_CUBLAS_BYTES
        told = f"it takes {taken} bytes of workspace, and its problem allows {tight.workspace}"
        assert outcome.message == told

    @pytest.mark.parametrize("family", [FAMILY, TENSOR], ids=lambda family: family.name)
    @pytest.mark.parametrize("room", [0, 4096, 2**20])
    def test_leaves_sums_as_many_parts_as_there_is_room_for(self, room: int, family: Conv2dFft) -> None:
        whole = Conv2d((4, 256, 8, 8), (8, 256, 3, 3))
        spectra = sum(each.nbytes for each in family.workspaces(whole))
        problem = dataclasses.replace(whole, workspace=spectra + room)
        space, rng = family.space(problem, H200), random.Random(2)
        drawn = (space.drawn(rng) for _ in range(30))
        found = [family.default(problem, H200), *family.starts(problem, H200), *filter(None, drawn)]
        assert len(found) > 30
        split = [config for config in found if config.integer(SPLITS) > 1]
        assert not split or room > 0
        assert split or family is FAMILY or room < 2**20
        for config in found:
            assert space.contains(config)
            assert sum(each.nbytes for each in family.program(problem, config).workspaces) <= problem.workspace_limit
