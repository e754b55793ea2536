"""Programs, spaces and works of several stages as one."""

from __future__ import annotations

import dataclasses
import random

import pytest

from warpsmith.generator.family import Subject
from warpsmith.generator.fft import Fft
from warpsmith.generator.fft.two_pass_family import FftTwoPass
from warpsmith.generator.presets import H200
from warpsmith.generator.space import Config
from warpsmith.generator.steps import Pointer

PROBLEM = Fft((512, 384), layout="transposed")
FAMILY = FftTwoPass()


@pytest.mark.parametrize(
    ("problem", "why"),
    [
        (Fft(512, layout="frequency"), "transforms one plane"),
        (dataclasses.replace(PROBLEM, batch=2), "transforms one plane"),
        (dataclasses.replace(PROBLEM, layout="batch"), "leaves the spectrum transposed: layout transposed"),
        (
            dataclasses.replace(PROBLEM, valid=(500, 300), border="reflect:1x2"),
            "takes a signal without a border",
        ),
        (
            dataclasses.replace(PROBLEM, size=(37, 8)),
            "columns (fft size=37 batch=5 kind=c2c): has no radix for a prime above 31",
        ),
    ],
)
def test_says_what_it_does_not_solve(problem: Fft, why: str) -> None:
    told = FAMILY.why_not(problem, H200)
    assert told is not None
    assert told.startswith(why)


def test_the_stages_of_an_inverse_come_in_reverse() -> None:
    forward, inverse = PROBLEM, Fft((512, 384), kind="c2r", layout="transposed")
    assert [each.name for each in FAMILY.stages(forward)] == ["rows", "columns"]
    assert [each.name for each in FAMILY.stages(inverse)] == ["columns", "rows"]


def test_the_program_has_a_unit_a_stage_and_memory_between_them() -> None:
    program = FAMILY.program(PROBLEM, FAMILY.default(PROBLEM, H200))
    assert [unit.name for unit in program.units] == ["rows", "columns"]
    assert [launch.unit for launch in program.launches] == ["rows", "columns"]
    pointers = [[each.buffer for each in launch.arguments if isinstance(each, Pointer)] for launch in program.launches]
    assert pointers == [["signal", "between"], ["between", "spectrum"]]
    (between,) = program.workspaces
    assert (between.name, between.nbytes) == ("between", 193 * 512 * 8)


def test_a_stage_has_the_text_that_it_has_by_itself() -> None:
    """A unit compiled for one of them serves the other."""
    config = FAMILY.default(PROBLEM, H200)
    program = FAMILY.program(PROBLEM, config)
    for unit, stage in zip(program.units, FAMILY.stages(PROBLEM), strict=True):
        alone = stage.family.program(stage.problem, config.of_stage(stage.name))
        assert unit.source == alone.source
        assert program.compilation(unit.name) == alone.compilation()


def test_configs_of_the_space_are_those_of_the_stages() -> None:
    space, rng = FAMILY.space(PROBLEM, H200), random.Random(0)
    for _ in range(5):
        config = space.drawn(rng)
        assert config is not None
        for stage in FAMILY.stages(PROBLEM):
            assert stage.family.space(stage.problem, H200).contains(config.of_stage(stage.name))
    assert all(space.contains(each) for each in (FAMILY.default(PROBLEM, H200), *FAMILY.starts(PROBLEM, H200)))


def test_every_start_of_a_stage_is_among_the_starts() -> None:
    starts = FAMILY.starts(PROBLEM, H200)
    for stage in FAMILY.stages(PROBLEM):
        told = {each.of_stage(stage.name) for each in starts}
        assert set(stage.family.starts(stage.problem, H200)) <= told


def test_fingerprints_tell_configs_apart() -> None:
    configs = {FAMILY.default(PROBLEM, H200), *FAMILY.starts(PROBLEM, H200)}
    assert len({FAMILY.program(PROBLEM, each).fingerprint for each in configs}) == len(configs)


def test_what_is_written_out_is_that_of_the_longest_stage() -> None:
    config = FAMILY.default(PROBLEM, H200)
    longest = max(stage.family.unrolled(stage.problem, config.of_stage(stage.name)) for stage in FAMILY.stages(PROBLEM))
    assert FAMILY.unrolled(PROBLEM, config) == longest


def test_a_config_of_another_size_is_carried_over() -> None:
    home = dataclasses.replace(PROBLEM, size=(256, 512))
    found = FAMILY.default(home, H200)
    carried = FAMILY.carried(found, Subject(home, H200), PROBLEM, H200)
    assert carried is not None
    assert FAMILY.space(PROBLEM, H200).contains(carried)
    assert isinstance(carried, Config)
