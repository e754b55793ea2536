"""Filters by transforms with tiles in global memory on the CPU, against scipy.ndimage and under the sanitizers."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import exhaustive
import sanitized
from filter2d_bench import Bench, by_scipy, drawn
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.filter2d.fft.fft_family import Filter2dFft
from warpsmith.generator.filter2d.plain_family import Filter2dPlain
from warpsmith.generator.space import Config, Value

FAMILY = Filter2dFft()
PLAIN = Filter2dPlain()
DEVICE = DeviceRef(DeviceKind.HOST).device()
SMALL: dict[str, Value] = {
    **{
        "y_radices": "4x4",
        "x_radices": "4x4",
        "rows": 3,
        "columns": 8,
        "pairs": 2,
        "buffers": 1,
        "min_blocks": 1,
        "blocks": 0,
    },
    **{"row_threads": 32, "column_threads": 32},
}
"""Tiles of 16 x 16, whose rows no block size divides. They compile quickly, and small images have many chunks."""
WIDE: dict[str, Value] = {**SMALL, "x_radices": "6x8", "y_radices": "4x6", "rows": 4, "columns": 16, "pairs": 3}
FLOWING: dict[str, Value] = {**SMALL, "buffers": 4, "blocks": DEVICE.multiprocessors}
"""Config that computes all chunks in one launch."""
LONG: dict[str, Value] = {**SMALL, "x_radices": "4x5x4", "y_radices": "4x4x5", "twiddles": "powers", "columns": 4}


def of(image: tuple[int, int], size: tuple[int, int], **fields: object) -> Filter2d:
    return Filter2d(image, size, **{"accuracy": "imagewise", "nonfinite": "any", **fields})  # type: ignore[arg-type]


def config(problem: Filter2d, wanted: dict[str, Value]) -> Config:
    made = Config.of({**FAMILY.default(problem, DEVICE).values(), **wanted})
    assert FAMILY.space(problem, DEVICE).why_not(made) is None
    return made


CASES: tuple[tuple[Filter2d, dict[str, Value]], ...] = (
    (of((50, 61), (7, 7)), SMALL),
    (of((50, 61), (7, 7), filters=2), {**SMALL, "buffers": 2, "pairs": 3, "rows": 6}),
    (of((31, 33), (9, 8), border="constant", cval=-1.5), SMALL),
    (of((40, 64), (8, 9), border="nearest", convolve=True, planes=3), {**WIDE, "buffers": 2}),
    (of((33, 50), (9, 6), border="reflect", anchor=(8, 0), filters=3, planes=2), SMALL),
    (of((29, 40), (7, 7), border="mirror", pitch=176, result_pitch=164), SMALL),
    (of((35, 37), (8, 8), border="wrap", convolve=True, anchor=(0, 7)), {**SMALL, "partners": "apart"}),
    (of((40, 41), (7, 8), dtype="float16", border="reflect"), WIDE),
    (of((37, 50), (8, 7), dtype="uint8", border="constant", cval=7.5, pitch=53), SMALL),
    (of((30, 44), (7, 9), dtype="float16", result_dtype="float32", filters=2), {**SMALL, "twiddles": "powers"}),
    (of((44, 30), (10, 5), result_dtype="uint8", border="wrap"), {**SMALL, "store": "streaming", "pairs": 1}),
    (of((5, 7), (7, 9), border="mirror"), SMALL),  # smaller than a tile and than the filter
    (of((9, 40), (9, 6)), SMALL),  # a result of one row
    (of((40, 12), (5, 12)), SMALL),  # and of one column
    (of((12, 12), (12, 12)), SMALL),  # one pixel
    (of((34, 36), (7, 7), weights=tuple((i * 5 % 7 - 3) / 8 for i in range(49)), border="mirror"), SMALL),
    (of((150, 170), (41, 33)), {**LONG, "buffers": 2, "pairs": 1}),
    (of((50, 61), (7, 7), filters=2), {**FLOWING, "pairs": 3}),  # more chunks than fit in the workspace
    (of((40, 64), (8, 9), border="nearest", convolve=True, planes=3), {**WIDE, **FLOWING, "rows": 6}),
    (of((29, 40), (7, 7), border="mirror"), {**FLOWING, "pairs": 12, "rows": 2}),  # one chunk
    (of((30, 25), (8, 8), dtype="float16"), {**FLOWING, "min_blocks": 2, "blocks": 2 * DEVICE.multiprocessors}),
    (of((150, 75), (41, 33), border="constant", convolve=True), LONG),
)


@pytest.fixture
def bench(quickest: HostCompiler) -> Iterator[Bench]:
    with contextlib.closing(HostRuntime(workers=1)) as runtime:
        yield Bench(quickest, runtime)


def test_is_what_scipy_computes(bench: Bench) -> None:
    some = exhaustive.share(CASES, 0, 2)
    bench.check_all((problem, FAMILY, config(problem, wanted)) for problem, wanted in some)


def test_weights_too_many_for_a_kernels_parameters_are_read_from_memory(bench: Bench) -> None:
    problem = of((30, 34), (91, 93), border="reflect", convolve=True)
    for family in (FAMILY, PLAIN):
        default = family.default(problem, DEVICE)
        assert default.text("weights") == "global"
        assert family.program(problem, default).by_value == frozenset()
        bench.check(problem, family, default)


def test_known_ones_are_a_table(bench: Bench) -> None:
    problem = of((20, 23), (91, 93), border="nearest")
    known = dataclasses.replace(problem, weights=tuple(drawn(problem)[1].ravel().tolist()), convolve=True)
    for family in (FAMILY, PLAIN):
        program = family.program(known, family.default(known, DEVICE))
        assert "weights" not in program.pointed_to | program.by_value
        bench.check(known, family, program.config)


def test_a_bright_tile_leaves_other_planes_alone(bench: Bench) -> None:
    """The error bound is relative to the pixels of one plane, so both tiles of a pair come from one plane."""
    problem = of((24, 25), (7, 7), planes=3)
    image, weights = drawn(problem)
    image = image.astype(np.float32)
    image[1] *= 1e12
    _, target = bench.filtered(problem, FAMILY.program(problem, config(problem, SMALL)), image, weights)
    expected = by_scipy(problem, image, weights, 0.0)
    for plane in range(3):
        error = np.abs(target.elements[plane] - expected[plane]).max()
        assert error <= 1e-6 * np.abs(weights).sum() * np.abs(image[plane]).max()


@pytest.mark.usefixtures("compile_without_optimisation")
def test_clean_under_the_sanitizers(tmp_path: Path) -> None:
    chosen = (
        CASES[2],
        CASES[3],
        CASES[4],
        CASES[7],
        CASES[10],
        next(each for each in CASES if each[1].get("buffers") == 4),
    )
    sanitized.check([(each, FAMILY.program(each, config(each, wanted))) for each, wanted in chosen], tmp_path)
