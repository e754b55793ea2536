"""float32 filters computed by tf32 products keep within their error bound for any pixels."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.ndimage
from numpy.typing import NDArray

from warpsmith.devices.cuda.compiler import NvrtcCompiler
from warpsmith.devices.cuda.runtime import CudaRuntime
from warpsmith.generator.family import Family
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.filter2d.matrix_family import Filter2dMatrix
from warpsmith.generator.filter2d.warpgroup_family import Filter2dWarpgroup
from warpsmith.generator.filter2d.warpgroup_frames import frame_parameters
from warpsmith.generator.filter2d.warpgroup_geometry import COLUMNS, Filter2dWarpgroupGeometry
from warpsmith.generator.problem import NonFinite
from warpsmith.generator.space import Config, Value
from warpsmith.tuner.operations.registry import reference

pytestmark = pytest.mark.gpu

FAMILY = Filter2dWarpgroup()


@pytest.fixture(scope="module")
def runtime() -> Iterator[CudaRuntime]:
    opened = CudaRuntime(0)
    yield opened
    opened.close()


def filtered(
    runtime: CudaRuntime,
    problem: Filter2d,
    image: NDArray[np.generic],
    weights: NDArray[np.float32],
    family: Family = FAMILY,
    **wanted: Value,
) -> Any:
    """The filtered image by the default config with the `wanted` changes."""
    program = family.program(problem, Config.of(family.default(problem, runtime.device).values() | wanted))
    module = runtime.load(NvrtcCompiler(runtime.device.arch).compile(program.compilation()))
    source, target = runtime.allocate(image.nbytes), runtime.allocate(problem.output.span_bytes)
    runtime.upload(source.address, image)
    for launch in program.launches:
        addresses = {"image": source.address, "result": target.address}
        module.bind(launch, addresses, {"weights": weights.tobytes()})(None)
    result = np.empty(problem.output.shape, problem.output.dtype.value)
    runtime.download(result, target.address)
    module.close()
    runtime.free(source)
    runtime.free(target)
    return result


def filtered_alike(
    runtime: CudaRuntime,
    problem: Filter2d,
    image: NDArray[np.generic],
    weights: NDArray[np.float32],
    **wanted: Value,
) -> Any:
    """The result of `filtered`, after 20 more runs have given the same bits."""
    first = filtered(runtime, problem, image, weights, **wanted)
    for _ in range(20):
        assert (filtered(runtime, problem, image, weights, **wanted) == first).all()
    return first


@pytest.mark.parametrize("size", [2, 3, 7, 9, 15, 17, 25, 31])
@pytest.mark.parametrize("kind", ["normal", "positive", "orders of magnitude", "near a power of two"])
def test_errors_stay_under_the_bound(runtime: CudaRuntime, size: int, kind: str) -> None:
    """Covers all-positive terms, whose truncation errors add up, sums with one dominant term, and dropped parts that
    are as large as possible.
    """
    problem = Filter2d(image=(300, 1100), filter=(size, size), border=Border.CONSTANT, nonfinite=NonFinite.ANY)
    if FAMILY.why_not(problem, runtime.device):
        pytest.skip("no Hopper GPU")
    rng = np.random.default_rng(size)
    image, weights = (rng.standard_normal(shape, np.float32) for shape in (problem.image, problem.filter))
    if kind != "normal":
        image, weights = rng.random(problem.image, np.float32), rng.random(problem.filter, np.float32) + np.float32(0.5)
    if kind == "orders of magnitude":
        image = (image * 10.0 ** rng.integers(-12, 12, problem.image)).astype(np.float32)
    if kind == "near a power of two":  # 1 + 2^-11 - 2^-23 and less: halves of the last bit that a product reads
        image, weights = (1 + each * np.float32(2**-11) for each in (image, rng.random(problem.filter, np.float32)))
    expected = scipy.ndimage.correlate(image.astype(np.float64), weights.astype(np.float64), mode="constant")
    terms = scipy.ndimage.correlate(
        np.abs(image.astype(np.float64)), np.abs(weights.astype(np.float64)), mode="constant"
    )
    apart: dict[str, Value] = {"frame": "apart"} if frame_parameters(problem) else {}
    error = np.abs(filtered(runtime, problem, image, weights, **apart).reshape(problem.image) - expected) / terms
    # Without the frame, whose long chains of multiply-adds come nearer to the bound, which is 1e-6.
    g = Filter2dWarpgroupGeometry.of(problem, Config.of(FAMILY.default(problem, runtime.device).values() | apart))
    inside = error[g.first_row : g.first_row + g.interior_rows, g.first_column : g.last_column + COLUMNS]
    assert inside.size > 0.8 * error.size
    assert inside.max() <= 7e-7


@pytest.mark.parametrize(
    ("family", "dtype", "size"),
    [
        (FAMILY, "float32", 3),
        (FAMILY, "float32", 9),
        (FAMILY, "float32", 15),
        (FAMILY, "float32", 31),
        (FAMILY, "float16", 13),
        (Filter2dMatrix(), "float16", 3),
        (Filter2dMatrix(), "float16", 5),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_what_is_not_finite_stays_within_the_window(
    runtime: CudaRuntime, family: Family, dtype: str, size: int
) -> None:
    """NaNs have various bits, in the interior and in the frame; all other outputs stay right."""
    problem = Filter2d(image=(300, 1100), filter=(size, size), border=Border.CONSTANT, dtype=dtype)
    if family.why_not(problem, runtime.device):
        pytest.skip("no such tensor cores")
    rng = np.random.default_rng(size)
    image, weights = rng.uniform(0.5, 2, problem.image).astype(dtype), rng.random(problem.filter, np.float32)
    clean = image.astype(np.float64)
    image[0, 0], image[299, 500], image[150, 700], image[200, 3] = np.nan, -np.inf, np.inf, np.nan
    bits = image.view(np.uint32 if dtype == "float32" else np.uint16)
    bits[100, 300], bits[40, 900] = (0x7F800001, 0xFFFFFFFF) if dtype == "float32" else (0x7C01, 0xFFFF)
    reached = scipy.ndimage.correlate(
        (~np.isfinite(image)).astype(np.float64), np.ones(problem.filter), mode="constant"
    )
    result = filtered(runtime, problem, image, weights, family).reshape(problem.image)
    assert (np.isfinite(result) == (reached < 0.5)).all()
    expected = scipy.ndimage.correlate(clean, weights.astype(np.float64), mode="constant")
    rest = reached < 0.5
    bound = 2e-6 if dtype == "float32" else 2.0**-10
    assert (np.abs(result.astype(np.float64) - expected)[rest] <= bound * expected[rest]).all()


@pytest.mark.parametrize(
    ("size", "parts", "ahead", "groups"),
    [
        ((31, 31), 2, 0, 1),
        ((31, 31), 3, 0, 2),
        ((31, 31), 4, 1, 2),
        ((25, 25), 2, 0, 2),
        ((21, 21), 3, 1, 2),
        ((17, 17), 2, 1, 2),
        ((31, 5), 4, 0, 3),
    ],
)
def test_parts_of_a_filter_add_up(
    runtime: CudaRuntime, size: tuple[int, int], parts: int, ahead: int, groups: int
) -> None:
    """Every run gives the same bits, even if two warpgroups compute an output, or some of a block are idle."""
    problem = Filter2d(image=(700, 2100), filter=size, planes=2)
    if FAMILY.why_not(problem, runtime.device):
        pytest.skip("no Hopper GPU")
    wanted: dict[str, Value] = {"parts": parts, "ahead": ahead, "rows": 64, "prefetch": 1, "block_groups": groups}
    wanted["min_blocks"] = 0
    config = Config.of({**FAMILY.default(problem, runtime.device).values(), **wanted})
    assert FAMILY.space(problem, runtime.device).why_not(config) is None
    rng = np.random.default_rng(parts)
    image = rng.standard_normal((2, *problem.image), np.float32)
    weights = rng.standard_normal(problem.filter, np.float32)
    first = filtered_alike(runtime, problem, image, weights, **wanted)
    rows, columns = problem.output_shape
    inner = (slice(size[0] // 2, size[0] // 2 + rows), slice(size[1] // 2, size[1] // 2 + columns))
    for plane, result in zip(image, first.reshape(2, rows, columns), strict=True):
        by_scipy = (
            scipy.ndimage.correlate(values.astype(np.float64), taps.astype(np.float64))[inner]
            for values, taps in ((plane, weights), (np.abs(plane), np.abs(weights)))
        )
        expected, terms = by_scipy
        assert (np.abs(result - expected) <= 1e-6 * terms).all()


@pytest.mark.parametrize("dtype", ["uint8", "float16"])
@pytest.mark.parametrize(
    ("size", "groups", "strips"),
    [((31, 31), 1, 1), ((31, 31), 2, 1), ((28, 9), 1, 2), ((37, 5), 2, 1), ((25, 25), 2, 1)],
)
def test_batches_of_a_filters_rows_add_up(
    runtime: CudaRuntime, size: tuple[int, int], groups: int, strips: int, dtype: str
) -> None:
    """Every run gives the same bits: no product writes to the registers of a batch while they are added."""
    problem = Filter2d(image=(700, 2100), filter=size, planes=2, dtype=dtype, border=Border.REFLECT)
    if FAMILY.why_not(problem, runtime.device):
        pytest.skip("no Hopper GPU")
    wanted: dict[str, Value] = {"rows": 64, "prefetch": 2, "block_groups": groups, "block_strips": strips}
    wanted["min_blocks"] = 0
    rng = np.random.default_rng(groups)
    pixels = rng.integers(0, 256, (2, *problem.image)) if dtype == "uint8" else rng.random((2, *problem.image))
    image, weights = pixels.astype(dtype), rng.random(problem.filter, np.float32)
    weights /= weights.sum()
    first = filtered_alike(runtime, problem, image, weights, **wanted)
    for plane, result in zip(image, first.reshape(image.shape), strict=True):
        expected = scipy.ndimage.correlate(plane.astype(np.float64), weights.astype(np.float64))
        bound = 0.5 if dtype == "uint8" else np.spacing(expected.astype(np.float16)).astype(np.float64) / 2
        assert (np.abs(result.astype(np.float64) - expected) <= bound + 2e-6 * expected).all()


LOADS = [
    Filter2d(image=(512, 512), filter=(9, 9), planes=8, border=Border.WRAP),
    Filter2d(image=(300, 517), filter=(7, 7), planes=3, border=Border.MIRROR),
    Filter2d(image=(301, 260), filter=(11, 5), planes=5, border=Border.REFLECT, anchor=(10, 0)),
    Filter2d(image=(128, 128), filter=(15, 15), planes=7, border=Border.NEAREST),
    Filter2d(image=(5, 1100), filter=(9, 25), planes=2, border=Border.MIRROR),
    Filter2d(image=(200, 130), filter=(5, 9), channels=3, planes=2, border=Border.CONSTANT),
    Filter2d(image=(511, 300), filter=(9, 9), planes=4, border=Border.CONSTANT, cval=-1.5),
    Filter2d(image=(256, 256), filter=(9, 9), planes=6),
]


@pytest.mark.parametrize("problem", LOADS, ids=lambda problem: problem.key())
@pytest.mark.parametrize("ahead", [0, 1])
@pytest.mark.parametrize("block_groups", [1, 2])
def test_borders_made_by_loads(runtime: CudaRuntime, problem: Filter2d, ahead: int, block_groups: int) -> None:
    """Copies of the border arrive in any order, unlike on the host device, where they are done at once. Sums spoiled by
    pixels that are not finite are computed again.
    """
    if FAMILY.why_not(problem, runtime.device):
        pytest.skip("no Hopper GPU")
    wanted = {"frame": "loads", "ahead": ahead, "block_groups": block_groups, "prefetch": 3}
    config = Config.of(FAMILY.default(problem, runtime.device).values() | wanted)
    assert FAMILY.space(problem, runtime.device).why_not(config) is None
    rng, operand = np.random.default_rng(3), problem.operands[0]
    image, weights = rng.uniform(0.5, 2, operand.shape).astype(np.float32), rng.random(problem.filter, np.float32)
    right = reference(problem, {"image": image, "weights": weights})
    result = filtered(runtime, problem, image, weights, **wanted)
    assert (np.abs(result - right.expected) <= 1e-6 * right.scale).all()
    spoiled = image.copy()
    spoiled.reshape(-1)[[0, image.size // 3, image.size - 1]] = np.nan, np.inf, -np.inf
    marks, ones = (~np.isfinite(spoiled)).astype(np.float32), np.ones(problem.filter, np.float32)
    reached = reference(dataclasses.replace(problem, cval=0.0), {"image": marks, "weights": ones}).expected > 0.5
    result = filtered(runtime, problem, spoiled, weights, **wanted)
    assert (np.isfinite(result) == ~reached).all()
    assert (np.abs(result - right.expected)[~reached] <= 1e-6 * right.scale[~reached]).all()
