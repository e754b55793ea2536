"""`filter1d_step`: which problems it solves, what its threads compute, its accesses and defaults."""

from __future__ import annotations

import collections
import random
from typing import Any

import pytest

from warpsmith.generator.device import Device
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.states_text import StatesText, carry_launches
from warpsmith.generator.filter1d.step_family import MAX_SHIFTED, MAX_TAPS, Filter1dStep, Filter1dStepGeometry
from warpsmith.generator.presets import H200, T4
from warpsmith.generator.ranking import default_answer

FAMILY = Filter1dStep()


def filter1d(signal: int = 1, taps: int = 4, **fields: Any) -> Filter1d:
    return Filter1d(signal, taps, **{"mode": "causal", "channels": 24, "filters": 24, "state": "carried"} | fields)


PROBLEMS = (
    filter1d(batch=5),
    filter1d(3, batch=7, layout="btc", dtype="bfloat16"),
    filter1d(8, 3, batch=2, channels=7, filters=7, dtype="float16", state_rows=9),
    filter1d(2, 64, batch=3, channels=1, filters=1),
    filter1d(2, dtype="complex64", circular=True, state_width=1000),
)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key())
def test_threads_have_each_channel_of_each_signal_once(problem: Filter1d) -> None:
    space, rng = FAMILY.space(problem, H200), random.Random(0)
    for config in (FAMILY.default(problem, H200), *filter(None, (space.drawn(rng) for _ in range(8)))):
        geometry = Filter1dStepGeometry.of(problem, config)
        groups = problem.channels // geometry.vector
        seen: collections.Counter[tuple[int, int]] = collections.Counter()
        for item in range(geometry.blocks * geometry.threads):
            first = item // groups * geometry.rows
            for batch in range(first, min(first + geometry.rows, problem.batch)):
                seen.update((batch, item % groups * geometry.vector + lane) for lane in range(geometry.vector))
        assert len(seen) == problem.batch * problem.channels
        assert set(seen.values()) == {1}
        assert (geometry.blocks - 1) * geometry.threads < groups * -(-problem.batch // geometry.rows)


@pytest.mark.parametrize(
    ("problem", "says"),
    [
        (filter1d(state="both"), "is for signals whose state is carried"),
        (filter1d(4, state="carried", packed=2), "is for signals whose state is carried"),
        (filter1d(9), "is for 8 new samples at the most, each with an output"),
        (filter1d(4, down=2), "is for 8 new samples at the most, each with an output"),
        (filter1d(taps=MAX_TAPS + 1), "is for filters of 64 taps at the most; this one has 65"),
        (filter1d(state_width=MAX_SHIFTED + 1), "shifts 64 samples of a state at the most; a longer one must be circ"),
        (filter1d(2, pitch=16), "is for channels without gaps between them"),
    ],
)
def test_what_it_does_not_solve(problem: Filter1d, says: str) -> None:
    assert str(FAMILY.why_not(problem, H200)).startswith(says)


def test_a_vector_divides_the_channels_and_their_pitch() -> None:
    space = FAMILY.space(filter1d(2, batch=2, layout="btc", channels=24, pitch=4 * 26), H200)
    assert {config["vector"] for config in map(dict, (each.items for each in space.configs()))} == {1, 2}


@pytest.mark.parametrize("device", [H200, T4], ids=lambda device: device.name)
def test_older_devices_store_one_16_bit_result_at_a_time(device: Device) -> None:
    config = FAMILY.default(filter1d(batch=64, channels=1024, filters=1024, dtype="bfloat16"), device)
    assert config.integer("store_vector") == (2 if device is H200 else 1)


def test_it_answers_for_decoding_on_a_gpu() -> None:
    family, _ = default_answer(filter1d(batch=64, channels=1024, filters=1024, dtype="bfloat16"), H200)
    assert family.name == "filter1d_step"
    family, _ = default_answer(filter1d(480), H200)
    assert family.name == "filter1d_registers"


class TestCarry:
    def test_a_thread_has_each_element_of_the_rows_in_use(self) -> None:
        problem = filter1d(100, state_rows=50, batch=3)
        (launch,) = carry_launches(problem, "filter1d_plain")
        states = StatesText.of(problem)
        assert states is not None
        assert launch.grid[0] * launch.block[0] >= states.places == 3 * 24 * 3
        assert [argument.buffer for argument in launch.arguments] == ["signal", "state", "indices"]  # type: ignore[union-attr]

    @pytest.mark.parametrize("state", [None, "before", "after", "both"])
    def test_nothing_else_is_carried(self, state: str | None) -> None:
        assert carry_launches(filter1d(100, state=state), "filter1d_plain") == ()

    @pytest.mark.parametrize("width", [1, 2, 3, 7, 8, 300])
    @pytest.mark.parametrize("samples", [1, 2, 3, 7, 299, 1000])
    def test_places_that_depend_on_each_other_are_one_threads(self, width: int, samples: int) -> None:
        """The loop of the kernel, thread by thread in any order, is a shift of the state by the new samples."""
        old, new = [-1 - i for i in range(width)], list(range(samples))
        expected, step, held = (old + new)[-width:], min(samples, width), old.copy()
        for place in random.Random(0).sample(range(width), width):
            if place >= step:
                continue
            for i in range(place, width, step):
                held[i] = held[i + step] if i + step < width else new[samples - width + i]
        assert held == expected
