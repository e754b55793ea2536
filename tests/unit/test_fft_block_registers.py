"""Registers per thread of `fft_block`: configs that leave too few of a multiprocessor's registers are refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from warpsmith.generator.fft import Fft
from warpsmith.generator.fft.block.block_family import FftBlock
from warpsmith.generator.fft.block.block_space import register_constraints
from warpsmith.generator.presets import H200
from warpsmith.generator.space import Config

FAMILY = FftBlock()
WEIGHTS = Fft((64, 60), 4096, kind="c2r", valid=(3, 3), start=(63, 59), layout="frequency")
"""The inverse transform of a layer's gradients of weights."""
WRONG: dict[str, Any] = {
    "ahead": 264,
    "blocks": 0,
    "first": "y",
    "gaps": 2,
    "loads": "plain",
    "min_blocks": 2,
    "packing": "pair",
    "shares": 1,
    "signal": "staged",
    "spectrum": "staged",
    "stores": "streaming",
    "threads": 1024,
    "tiles": 1,
    "transforms": 3,
    "twiddles": "computed",
    "x_radices": "2x5x6",
    "y_radices": "8x4x2",
}
"""Config that ptxas 13.0 compiles wrongly, with 32 registers a thread."""
ONE_BLOCK = {"spectrum": "staged", "tiles": 1, "min_blocks": 0}


def accepted(problem: Fft, values: dict[str, Any]) -> list[bool]:
    """Answers of the register rules: the one for a single block, then the one for all blocks of a multiprocessor."""
    radices = ("x_radices", "y_radices") if len(problem.size) == 2 else ("x_radices",)
    return [rule.accepts(values) for rule in register_constraints(problem, H200, radices)]


@pytest.mark.parametrize("y_radices", ["16x4", "8x4x2", "4x4x4"])
def test_two_blocks_of_1024_threads_leave_too_few_whatever_the_radices(y_radices: str) -> None:
    space, values = FAMILY.space(WEIGHTS, H200), WRONG | {"y_radices": y_radices}
    assert "a thread has 40 registers" in (space.why_not(Config.of(values)) or "")
    for min_blocks in (0, 1):
        assert space.why_not(Config.of(values | {"min_blocks": min_blocks})) is None


@pytest.mark.parametrize(
    ("values", "is_accepted"),
    [
        ({"threads": 256, "min_blocks": 4, "x_radices": "4x4", "y_radices": "2x24"}, True),  # 48 of its 64 registers
        ({"threads": 256, "min_blocks": 4, "x_radices": "4x4", "y_radices": "2x25"}, False),
        ({"threads": 256, "min_blocks": 4, "x_radices": "27", "y_radices": "2x2"}, False),
        ({"threads": 256, "min_blocks": 4, "x_radices": "2x12", "y_radices": "4", "spectrum": "mirrored"}, True),
        ({"threads": 256, "min_blocks": 4, "x_radices": "2x14", "y_radices": "4", "spectrum": "mirrored"}, False),
        ({"threads": 256, "min_blocks": 4, "x_radices": "14x2", "y_radices": "4", "spectrum": "mirrored"}, True),
        ({"threads": 256, "min_blocks": 6, "x_radices": "4x4", "y_radices": "4x12"}, True),  # 40, of 42 without a rest
        ({"threads": 256, "min_blocks": 6, "x_radices": "4x4", "y_radices": "4x13"}, False),
        ({"threads": 32, "tiles": 8, "min_blocks": 8, "x_radices": "2x2", "y_radices": "2x2"}, False),
        ({"threads": 32, "tiles": 4, "min_blocks": 8, "x_radices": "2x2", "y_radices": "2x24"}, True),
    ],
)
def test_a_thread_has_16_beside_its_numbers_of_a_pass(values: dict[str, Any], is_accepted: bool) -> None:
    """Sets of frequencies of a forward transform belong to its last pass along x."""
    problem = Fft((64, 64), 4096, layout="frequency")
    assert accepted(problem, ONE_BLOCK | values) == [True, is_accepted]


def test_a_single_block_may_have_too_few_too() -> None:
    problem = Fft((64, 64), 4096, layout="frequency")
    assert accepted(problem, ONE_BLOCK | {"threads": 1024, "x_radices": "2x32", "y_radices": "8x8"}) == [False, False]
    assert accepted(Fft(64, 4096), ONE_BLOCK | {"threads": 512, "x_radices": "2x32"}) == [True, True]


@pytest.mark.parametrize("kind", ["r2c", "c2r"])
def test_good_starts_have_all_that_they_need_and_no_more(kind: str) -> None:
    """A thread has 32 points of a column and three blocks share a multiprocessor: 80 registers, no spill."""
    starts = FAMILY.starts(Fft((32, 32), 4096, kind=kind, layout="frequency", valid=(16, 16)), H200)
    found = [each.values() for each in starts]
    assert (256, "32", 3) in [(each["threads"], each["y_radices"], each["min_blocks"]) for each in found]


def test_a_device_with_fewer_registers_allows_fewer_blocks() -> None:
    half = dataclasses.replace(H200, registers_per_multiprocessor=H200.registers_per_multiprocessor // 2)
    problem, most = Fft((64, 64), 4096, layout="frequency"), []
    for device in (H200, half):
        (_, rule) = register_constraints(problem, device, ("x_radices", "y_radices"))
        values = ONE_BLOCK | {"threads": 256, "x_radices": "8x8", "y_radices": "8x8"}
        most.append(max(each for each in (1, 2, 3, 4, 6, 8) if rule.accepts(values | {"min_blocks": each})))
    assert most == [6, 3]
