"""Bulk copies of `fft_block`: their places in shared memory, and the configs that use them."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from warpsmith.generator.device import Device
from warpsmith.generator.fft import Fft
from warpsmith.generator.fft.block.block_family import FftBlock
from warpsmith.generator.fft.block.block_text import FftBlockText
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.space import Config

FAMILY = FftBlock()
LATEST = 12
"""Bytes after a multiple of 16 at which a tile may start."""
BARRIER = 8
"""Bytes."""


def drawn(problem: Fft, wanted: Mapping[str, Any], count: int = 4) -> Iterator[Config]:
    """Random configs with these values, the same in each run."""
    space = FAMILY.space(problem, H200).narrowed({name: [value] for name, value in wanted.items()})
    rng = random.Random(0)
    configs = (space.drawn(rng) for _ in range(count))
    yield from dict.fromkeys(config for config in configs if config is not None)


def ways(problem: Fft, device: Device = H200) -> list[bool]:
    """Two answers: loads, then stores, may be bulk copies."""
    values = {each.name: each.values for each in FAMILY.space(problem, device).parameters}
    return ["bulk" in values[name] for name in ("loads", "stores")]


PROBLEMS = [
    Fft(5, 1),
    Fft(8, 37),
    Fft(245, 99, kind="c2r"),
    Fft(60, 1001, valid=57),
    Fft(96, 1000, kind="c2c"),
    Fft(4096, 99),
    Fft((8, 8), 4097, kind="c2r"),
    Fft((9, 7), 3),
    Fft((128, 32), 3, kind="c2c", inverse=True),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key().replace(" ", ","))
def test_what_is_copied_lies_in_the_blocks_memory_and_in_nothing_elses(problem: Fft) -> None:
    seen = set[tuple[str, str]]()
    for loads, stores in itertools.product(("plain", "bulk"), ("plain", "bulk")):
        for config in drawn(problem, {"loads": loads, "stores": stores}):
            text = FftBlockText.of(problem, config)
            memory, transforms = text.memory, min(text.walk.step, problem.batch)
            source, target = (transforms * each.nbytes // problem.batch for each in problem.operands)
            read = (8 * memory.source_place, 8 * memory.source_place + LATEST + source)
            written = (8 * memory.target_place, 8 * memory.target_place + LATEST + target)
            tile = (8 * memory.tile_place, 8 * (memory.tile_place + memory.tile_elements))
            used = [(0, BARRIER), read] if loads == "bulk" else []
            used += [written] if stores == "bulk" and not (loads == "bulk" and memory.tile_elements) else []
            assert all(end <= start for (_, end), (start, _) in itertools.pairwise([*used, tile])), config
            assert stores == "plain" or written[1] <= tile[0]  # also where it takes the place of what was read
            assert memory.source_place % 2 == memory.target_place % 2 == 0
            assert memory.pitch % 2 == 0 or not memory.has_copies
            assert tile[1] <= 8 * memory.pitch
            assert text.choice.tiles * 8 * memory.pitch == text.shared_bytes <= H200.shared_per_block_bytes, config
            seen.add((loads, stores))
    assert len(seen) == 4


def test_only_arrays_in_which_a_tile_lies_together_are_copied() -> None:
    assert ways(Fft(9, 5)) == ways(Fft(9, 5, kind="c2r")) == ways(Fft((9, 4), 5, layout="transposed")) == [True, True]
    assert ways(Fft(9, 5, layout="frequency")) == [True, False]
    assert ways(Fft(9, 5, layout="frequency", kind="c2r")) == [False, True]


def test_copies_are_of_compute_capability_9() -> None:
    older = dataclasses.replace(H200, compute_capability=(8, 9))
    assert ways(Fft(9, 5), older) == [False, False]
    assert ways(Fft(9, 5), HOST) == [True, True]


@pytest.mark.parametrize(
    ("problem", "given", "other", "why"),
    [
        (Fft(9, 1 << 20), {"loads": "bulk"}, {"blocks": 528}, "read one by one"),
        (Fft(9, 64, kind="c2r"), {"loads": "plain"}, {"spectrum": "direct"}, "where they lie in shared memory"),
        (Fft(10, 64, kind="c2r"), {"packing": "half"}, {"spectrum": "direct"}, "of two signals' spectra"),
        (Fft((128, 128), 64), {"shares": 2, "transforms": 1, "tiles": 1}, {"stores": "bulk"}, "not written at once"),
    ],
)
def test_what_does_not_go_together(problem: Fft, given: dict[str, Any], other: dict[str, Any], why: str) -> None:
    space, (config,) = FAMILY.space(problem, H200), drawn(problem, given, 1)
    told = space.why_not(Config.of(config.values() | other))
    assert told is not None
    assert why in told
    assert list(drawn(problem, other, 1))
