"""Generated CUDA of the ladder of "Optimizing a CNN in CUDA": reviewed texts, and no rung that spills."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from golden_files import GoldenFiles
from machine_code import NOTHING, frames_of
from warpsmith.cli.operations.ladder_bench import Ladder, ladders
from warpsmith.generator.conv2d.sums.ladder.ladder_choices import ROWS
from warpsmith.generator.presets import H200

SHAPE: tuple[int, int, int, int] = (8, 32, 256, 256)
FORWARD, ERROR, GRADIENT = LADDERS = ladders(SHAPE, filters=32, taps=3, rows=4)
RAGGED_ERROR, RAGGED_GRADIENT = ladders((3, 5, 30, 45), filters=7, taps=5, rows=4)[1:]


@dataclasses.dataclass(frozen=True)
class Case:
    """Unit of the program of one rung."""

    ladder: Ladder
    rung: int
    unit: str = "sum"

    @property
    def text(self) -> str:
        program = self.ladder.family.program(self.ladder.problem, self.ladder.rungs[self.rung].config)
        (found,) = (unit.source for unit in program.units if unit.name == self.unit)
        return found


CASES = {
    "forward_baseline": Case(FORWARD, 0),
    "forward_window": Case(FORWARD, 3),
    "forward_batch_inside": Case(FORWARD, 4),
    "forward_copy": Case(FORWARD, 1, "copy"),
    "error_baseline": Case(ERROR, 0),
    "error_mask": Case(ERROR, 2, "copy"),
    "error_ragged": Case(RAGGED_ERROR, 3),
    "gradient_baseline": Case(GRADIENT, 0),
    "gradient_shuffle": Case(GRADIENT, 1),
    "gradient_two_levels": Case(GRADIENT, 5),
    "gradient_ragged": Case(RAGGED_GRADIENT, 4),
}
GOLDEN = GoldenFiles(Path(__file__).parent / "conv2d_ladder", CASES, lambda name: CASES[name].text)


@pytest.mark.parametrize("name", CASES)
def test_the_text_is_the_one_that_was_reviewed(name: str) -> None:
    GOLDEN.check(name)


def test_no_file_is_left_over() -> None:
    GOLDEN.check_names()


@pytest.mark.parametrize("rows", ROWS)
def test_no_rung_spills(rows: int) -> None:
    texts = dict[str, Any]()
    for ladder in ladders(SHAPE, filters=32, taps=3, rows=rows):
        space = ladder.family.space(ladder.problem, H200)
        for rung in ladder.rungs:
            if space.contains(rung.config):
                units = ladder.family.program(ladder.problem, rung.config).units
                texts |= {unit.source: f"{ladder.name}: {rung.name}" for unit in units}
    assert len(texts) > 12
    assert {name: frames for text, name in texts.items() if set(frames := frames_of(text)) != {NOTHING}} == {}
