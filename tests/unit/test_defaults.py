"""Defaults for problems with nothing stored: the likely winner's family, and no config that compiles for long."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest

from warpsmith.generator.device import Device
from warpsmith.generator.family import MAX_UNROLLED
from warpsmith.generator.fft import Fft
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.problem import Problem
from warpsmith.generator.ranking import default_answer
from warpsmith.generator.registry import families_for, family_named
from warpsmith.generator.space import Config, Value
from warpsmith.store.location import shipped_store
from warpsmith.store.store import Store

A100 = dataclasses.replace(
    H200, name="A100", compute_capability=(8, 0), multiprocessors=108, shared_per_block_bytes=163 * 1024
)
DEVICES = pytest.mark.parametrize("device", [H200, A100], ids=lambda device: device.name)
TAPS = (2, 3, 5, 7, 9, 11, 13, 15, 21, 25, 31)
VARIANTS: tuple[dict[str, Any], ...] = (
    {},
    {"dtype": "float16", "border": "reflect"},
    {"dtype": "uint8", "channels": 3},
    {"border": "wrap", "planes": 64},
    {"border": "constant", "channels": 4},
    {"filters": 4},
    {"accuracy": "normwise"},
    {"weights": "uneven"},
)
BANKS_OF_LARGE_FILTERS = 4 * 15 * 15
"""Number of taps at and above which no window config compiles quickly; then another family is the default."""


def filters() -> list[Filter2d]:
    found = []
    for image, taps, variant in itertools.product(((64, 64), (2000, 3001)), TAPS, VARIANTS):
        fields = dict(variant)
        if fields.pop("weights", None):
            fields["weights"] = tuple((7 * index * index % 19) / 10 for index in range(taps * taps))
        if fields.get("planes", 1) * image[0] * image[1] < 2**31:
            found.append(Filter2d(image=image, filter=(taps, taps), **fields))
    return found


@DEVICES
def test_no_answer_has_more_code_than_compiles_in_two_seconds(device: Device) -> None:
    """Code is counted here; benchmarks/compile_times.py times it."""
    long = []
    for problem in filters():
        family, config = default_answer(problem, device)
        assert family.space(problem, device).contains(config)
        if family.unrolled(problem, config) > MAX_UNROLLED:
            long.append((problem.key(), family.name, config.key()))
    assert not long


@DEVICES
def test_nor_has_any_familys_default_but_of_banks_of_large_filters(device: Device) -> None:
    for problem in filters():
        if problem.filters * problem.filter[0] * problem.filter[1] > BANKS_OF_LARGE_FILTERS:
            continue
        for family in families_for(problem, device):
            assert family.unrolled(problem, family.default(problem, device)) <= MAX_UNROLLED, problem.key()


def test_a_short_loop_that_reads_ahead_tap_by_tap_counts_as_written_out() -> None:
    """Compilers unroll such a loop whatever its pragma says: 11x11 on 2000x3000 took 8 s and 350 KB of code."""
    window = family_named("filter2d_window")
    assert window is not None
    problem = Filter2d(image=(2000, 3000), filter=(11, 11))
    values = {
        **window.default(problem, H200).values(),
        **{"columns": 8, "load_vector": 4, "store_vector": 2, "unroll": 2, "rows": 24, "order": "taps"},
    }
    long, short = (Config.of(values | {"prefetch": prefetch}) for prefetch in (2, 0))
    assert window.space(problem, H200).contains(long)
    assert window.unrolled(problem, long) > 12 * 8 * 2 * 121 > MAX_UNROLLED
    assert window.unrolled(problem, short) <= MAX_UNROLLED
    assert window.unrolled(problem, Config.of(values | {"prefetch": 2, "rows": 318})) <= MAX_UNROLLED


@pytest.mark.parametrize(
    ("filter_", "filters", "choices", "seconds"),
    [
        ((23, 17), 5, {"weights": "argument"}, 3.7),
        ((23, 17), 5, {"weights": "constant"}, 9.5),
        ((23, 17), 5, {"weights": "argument", "tail": "trimmed"}, 5.5),
        ((23, 17), 5, {"weights": "constant", "tail": "trimmed"}, 15.0),
        ((40, 20), 5, {"weights": "constant"}, 37.2),
        ((31, 31), 1, {"weights": "constant", "columns": 4}, 3.7),
    ],
)
def test_what_is_counted_is_what_a_compiler_takes(
    filter_: tuple[int, int], filters: int, choices: dict[str, Value], seconds: float
) -> None:
    """Estimate of 3e-4 s for each counted operation: within a fifth of NVRTC 13.5's time for walks of several turns."""
    window = family_named("filter2d_window")
    assert window is not None
    problem = Filter2d(image=(2000, 3000), filter=filter_, filters=filters)
    walk: dict[str, Value] = {"path": "global", "order": "rows", "rows": 88, "unroll": 1, "min_blocks": 0}
    narrow: dict[str, Value] = {"columns": 1, "load_vector": 1, "store_vector": 1, "prefetch": 0}
    config = Config.of({**window.default(problem, H200).values(), **walk, **narrow, **choices})
    assert window.space(problem, H200).why_not(config) is None
    assert 3e-4 * window.unrolled(problem, config) == pytest.approx(seconds, rel=0.2)


@pytest.mark.parametrize(
    ("problem", "family"),
    [
        (Filter2d(image=(9216, 9216), filter=(5, 5)), "filter2d_window"),
        (Filter2d(image=(9216, 9216), filter=(11, 11)), "filter2d_warpgroup"),
        (Filter2d(image=(2000, 3000), filter=(11, 11)), "filter2d_warpgroup"),
        (Filter2d(image=(4096, 4096), filter=(31, 31)), "filter2d_warpgroup"),
        (Filter2d(image=(4096, 4096), filter=(31, 31), border="reflect"), "filter2d_warpgroup"),
        (Filter2d(image=(2000, 3000), filter=(31, 31), dtype="float16"), "filter2d_warpgroup"),
        (Filter2d(image=(777, 1555), filter=(31, 31), dtype="float16"), "filter2d_window"),
        (Filter2d(image=(2000, 3000), filter=(31, 31), filters=4), "filter2d_window"),
        (Filter2d(image=(1080, 1920), filter=(5, 5), dtype="uint8"), "filter2d_matrix"),
        (Fft(64, 100_000), "fft_warp"),
        (Fft(250, 100_000), "fft_block"),
        (Fft((16, 16), 100_000), "fft_block"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.key(),
)
def test_the_family_that_wins_answers(problem: Problem, family: str) -> None:
    assert default_answer(problem, H200)[0].name == family


def test_nine_in_ten_shipped_winners_are_of_the_family_that_would_have_answered() -> None:
    with Store.open(str(shipped_store()), write=False) as store:
        records = store.records()
    some = records[::3]
    right = sum(default_answer(each.problem, each.device)[0].name == each.trial.family for each in some)
    assert right >= 0.9 * len(some)


def test_the_host_answers_with_the_first_family() -> None:
    """A GPU's winner says nothing about a CPU."""
    problem = Filter2d(image=(2000, 3000), filter=(11, 11))
    assert default_answer(problem, HOST)[0] is families_for(problem, HOST)[0]
