"""Wide, tall and large image filters on the CPU, by the walks of `filter2d_window` that suit them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from filter2d_bench import Bench
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.filter2d.window_family import Filter2dWindow
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.space import Config, Value

WINDOW = Filter2dWindow()

THIN = (
    Filter2d((21, 200), (1, 31), border=Border.REFLECT),
    Filter2d((22, 203), (1, 45), border=Border.CONSTANT, cval=1.5),
    Filter2d((20, 190), (1, 40), dtype="uint8", border=Border.WRAP),
    Filter2d((90, 70), (31, 1), border=Border.MIRROR),
    Filter2d((100, 67), (63, 3), dtype="float16", border=Border.NEAREST),
    Filter2d((60, 64), (25, 3), channels=3),
)
LARGE = (
    Filter2d((60, 136), (31, 40), border=Border.REFLECT),
    Filter2d((51, 131), (20, 33), planes=2, border=Border.WRAP, convolve=True, anchor=(3, 0)),
    Filter2d((90, 90), (50, 9), dtype="uint8"),
    Filter2d((40, 140), (4, 63), dtype="float16", channels=2, border=Border.MIRROR),
)
LOOPS: tuple[dict[str, Value], ...] = (
    {"path": "global", "rows": 4, "unroll": 4, "prefetch": 0, "weights": "argument"},
    {"path": "global", "rows": 3, "unroll": 3, "prefetch": 1, "weights": "constant"},
    {"path": "shared", "rows": 8, "unroll": 8, "prefetch": 0, "weights": "argument", "block_columns": 32},
    {"path": "texture", "rows": 1, "unroll": 1, "prefetch": 1, "weights": "constant"},
)
"""Values of loops over the rows under a strip: each memory path, with and without a row read ahead."""


@pytest.fixture
def bench(quickest: HostCompiler) -> Iterator[Bench]:
    with contextlib.closing(HostRuntime(workers=1)) as runtime:
        yield Bench(quickest, runtime)


def test_the_defaults_of_thin_filters_are_what_scipy_computes(bench: Bench) -> None:
    bench.check_all((problem, WINDOW, WINDOW.default(problem, H200)) for problem in THIN)


@pytest.mark.parametrize("problem", LARGE, ids=lambda problem: problem.key().replace(" ", ","))
def test_loops_are_what_scipy_computes(problem: Filter2d, bench: Bench) -> None:
    space, found = WINDOW.space(problem, HOST), []
    usual = WINDOW.default(problem, HOST).values() | {"order": "loop", "method": "direct", "tail": "whole"}
    for values in LOOPS:
        narrow: dict[str, Value] = {
            "columns": 2,
            "load_vector": 1,
            "store_vector": 1,
            "block_strips": 2,
            "min_blocks": 0,
        }
        config = Config.of(usual | narrow | values)
        if problem.planes > 1 and values["path"] == "shared":
            config = Config.of(config.values() | {"block_strips": 1})
        assert space.why_not(config) is None, config
        found.append((problem, WINDOW, config))
    bench.check_all(found)
