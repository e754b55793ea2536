"""`filter1d_parts` on the CPU: every way and every accumulation on slices of two long signals."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest

import exhaustive
import verified
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.parts_family import BLOCKS, Filter1dParts
from warpsmith.generator.filter1d.parts_geometry import Accumulation, Way
from warpsmith.generator.space import Config

DEVICE = DeviceRef(DeviceKind.HOST).device()
FAMILY = Filter1dParts()
ANY = {"nonfinite": "any"}
PROBLEMS = (
    Filter1d(1000, 900, **ANY),
    Filter1d(900, 1000, mode="same", convolve=True, **ANY),
    Filter1d(1400, 700, 2, "valid", channels=4, filters=2, **ANY),
    Filter1d(1500, 1200, lags=(-1199, -1000), **ANY),
    Filter1d(1500, 1200, lags=(1300, 1499), down=3, **ANY),
    Filter1d(1000, 999, lags=(-20, 30), dtype="int16"),
    Filter1d(800, 700, channels=2, dtype="complex64", **ANY),
    Filter1d(700, 800, mode="causal", dtype="complex64", taps_dtype="complex64", **ANY),
    Filter1d(700, 600, mode="same", dtype="bfloat16", taps_dtype="bfloat16", down=2, **ANY),
    Filter1d(600, 500, weights=[(i * 5 % 7 - 3) / 8 for i in range(500)], **ANY),
    Filter1d(40, 3, **ANY),
    Filter1d(3, 200, **ANY),
)


def drawn(problem: Filter1d, way: Way, accumulation: Accumulation, rng: random.Random) -> Config | None:
    """A random config with short blocks, so that there are many of them."""
    wanted = {"way": [way], "accumulation": [accumulation], "signal_block": BLOCKS[:4], "taps_block": BLOCKS[:4]}
    space = FAMILY.space(problem, DEVICE)
    values = next(each.values for each in space.parameters if each.name == "accumulation")
    return space.narrowed(wanted).drawn(rng) if accumulation in values else None


def cases(way: Way, accumulation: Accumulation) -> Iterator[verified.Case]:
    rng = random.Random(f"{way} {accumulation}")
    for problem in exhaustive.share(PROBLEMS, WAYS.index((way, accumulation)), 2):
        if (config := drawn(problem, way, accumulation, rng)) is not None:
            yield problem, FAMILY.program(problem, config)


WAYS = [
    (way, accumulation)
    for way, accumulation in itertools.product(Way, Accumulation)
    if (way is Way.BLOCKS) == (accumulation is Accumulation.REGISTERS)
]


@pytest.mark.parametrize(("way", "accumulation"), WAYS, ids=lambda each: str(each))
def test_every_way_is_right(way: Way, accumulation: Accumulation, host: HostRuntime, quickest: HostCompiler) -> None:
    made = list(cases(way, accumulation))
    assert len(made) >= len(PROBLEMS) // 2 - 2  # a bfloat16 result is not added to, and few taps need no line
    verified.check(host, quickest, made)
