"""Transforms in two passes on the CPU: two kernels, one unit each, with a workspace between them."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

import exhaustive
from policies import ONE_RUN
from verified import check
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.fft import Fft
from warpsmith.generator.fft.two_pass_family import BETWEEN, FftTwoPass
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config
from warpsmith.generator.steps import Pointer
from warpsmith.store.record import Failure, FailureKind, Measurement
from warpsmith.tuner.evaluate.testbed import Testbed

FAMILY = FftTwoPass()
DEVICE = DeviceRef(DeviceKind.HOST).device()


def fft(size: tuple[int, int], **fields: Any) -> Fft:
    return Fft(size, layout="transposed", **fields)


PROBLEMS = [
    fft((24, 20)),
    fft((16, 30), valid=(13, 27), norm="ortho"),
    fft((12, 16), kind="c2r", valid=(11, 16)),
    fft((15, 8), kind="c2c", inverse=True, norm="forward"),
    fft((16, 8), kind="c2c", order="reversed", valid=(9, 5)),
    fft((32, 16), kind="c2r", order="reversed"),
]


def configs(problem: Fft) -> list[Config]:
    drawn = FAMILY.space(problem, DEVICE).drawn(random.Random(problem.key()))
    assert drawn is not None
    return [FAMILY.default(problem, DEVICE), drawn]


def test_is_right_by_default_and_at_random(host: Runtime, quick: HostCompiler) -> None:
    cases = [
        (problem, FAMILY.program(problem, config))
        for problem in exhaustive.share(PROBLEMS, 0, 2)
        for config in configs(problem)
    ]
    check(host, quick, cases)


def without_its_first_pass(program: Program) -> Program:
    return dataclasses.replace(program, steps=program.steps[1:])


def with_its_first_pass_elsewhere(program: Program) -> Program:
    """Shifts the first pass's output by 16 bytes, so the second pass reads two unwritten numbers and the end is
    overrun.
    """
    first, second = program.launches
    source, target = first.arguments
    assert target == Pointer(BETWEEN)
    return dataclasses.replace(
        program, steps=(dataclasses.replace(first, arguments=(source, Pointer(BETWEEN, 16))), second)
    )


@pytest.mark.parametrize(
    ("planted", "kind"),
    [
        (without_its_first_pass, FailureKind.WRONG),
        (with_its_first_pass_elsewhere, FailureKind.OUT_OF_BOUNDS),
    ],
)
def test_what_nobody_has_written_between_the_passes_is_found(
    host: Runtime, quick: HostCompiler, planted: Any, kind: FailureKind
) -> None:
    """The fault is found although an earlier candidate left the right numbers there."""
    problem = PROBLEMS[0]
    program = FAMILY.program(problem, FAMILY.default(problem, DEVICE))
    bed = Testbed(host, problem, 3, ONE_RUN, guarded=True)
    try:
        binaries = {name: quick.compile(each) for name, each in program.compilations().items()}
        assert isinstance(bed.evaluate(program, binaries, ONE_RUN).outcome, Measurement)
        outcome = bed.evaluate(planted(program), binaries, ONE_RUN).outcome
    finally:
        bed.close()
    assert isinstance(outcome, Failure)
    assert outcome.kind is kind
