"""Filters of signals on a GPU: every family and element type, random configs, plans, long and misaligned signals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warpsmith as ws
from random_configs import some, some_configs
from warpsmith.devices.cuda.runtime import cuda_device
from warpsmith.devices.elements import numpy_dtype, scaled_error
from warpsmith.devices.select import CompilerChoice
from warpsmith.errors import BadArgument
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.operation import FILTER1D
from warpsmith.tuner.operations.registry import random_operands, reference

pytestmark = pytest.mark.gpu

CheckConfigs = Callable[..., None]
LENGTHS = (1, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1026, 4099)
"""Samples around vectors, warps and blocks, and two lengths at which other libraries read beyond the signal."""
TYPES: tuple[dict[str, Any], ...] = (
    {"dtype": "float32"},
    {"dtype": "float16"},
    {"dtype": "float16", "taps_dtype": "float16", "result_dtype": "float32"},
    {"dtype": "bfloat16", "taps_dtype": "bfloat16"},
    {"dtype": "complex64"},
    {"dtype": "complex64", "taps_dtype": "complex64"},
    {"dtype": "int16"},
    {"dtype": "uint8", "result_dtype": "bfloat16"},
)
EPILOGUE = {"bias": True, "activation": "silu"}
SHAPES: dict[str, dict[str, Any]] = {
    "one": {"signal": 300_007, "taps": 33},
    "long_taps": {"signal": 40_000, "taps": 257, "mode": "same", "convolve": True},
    "short": {"signal": 40, "taps": 65, "batch": 3},
    "causal": {"signal": 4096, "taps": 4, "batch": 2, "channels": 96, "filters": 96, "mode": "causal"},
    "groups": {"signal": 1026, "taps": 15, "channels": 12, "filters": 4, "mode": "same", "convolve": True},
    "odd": {"signal": 1027, "taps": 8, "channels": 7, "filters": 7},
    "last": {"signal": 700, "taps": 7, "batch": 2, "channels": 40, "filters": 40, "layout": "btc", "mode": "causal"},
    "down": {"signal": 50_003, "taps": 64, "down": 8},
    "lags": {"signal": 20_000, "taps": 100, "lags": (-50, 700), "down": 3},
    "mixer": {"signal": 2050, "taps": 4, "channels": 64, "filters": 64, "mode": "causal", **EPILOGUE},
    "mixer_last": {
        "signal": 517,
        "taps": 3,
        "channels": 96,
        "filters": 96,
        "layout": "btc",
        "mode": "causal",
        **EPILOGUE,
    },
    "known": {"signal": 30_000, "taps": 9, "weights": (1.0, 0.0, -2.0, 0.5, 0.0, 0.0, 3.0, -1.0, 0.25)},
}


def filter1d(shape: dict[str, Any], types: dict[str, Any]) -> Filter1d:
    """A problem of that shape and these types. Known weights are float32; complex signals have no bias."""
    left_out = {"taps_dtype"} if "weights" in shape else set()
    left_out |= set(EPILOGUE) if types["dtype"] == "complex64" else set()
    return Filter1d(**{name: each for name, each in (shape | types).items() if name not in left_out})


@pytest.mark.parametrize("shape", SHAPES)
def test_random_configs_of_every_family(shape: str, check_configs: CheckConfigs) -> None:
    check_configs([filter1d(SHAPES[shape], types) for types in TYPES], some(3, starts=3))


def test_every_length_around_a_vector_a_warp_and_a_block(check_configs: CheckConfigs) -> None:
    problems = [
        Filter1d(length, taps, channels=3, filters=3, mode="causal", dtype=dtype)  # type: ignore[arg-type]
        for length in LENGTHS
        for taps, dtype in ((4, "bfloat16"), (17, "float32"))
    ]
    check_configs(problems, some(2, starts=None))


def test_gaps_between_rows(check_configs: CheckConfigs) -> None:
    problems = [
        Filter1d(1000, 9, 2, channels=3, layout=layout, pitch=4 * pitch, result_pitch=4 * result_pitch)  # type: ignore[arg-type]
        for layout, pitch, result_pitch in (("bct", 1003, 1009), ("bct", 1004, 1012), ("btc", 5, 4))
    ]
    check_configs(problems, some(6, starts=None))


def test_nvcc_compiles_the_same_text(check_configs: CheckConfigs) -> None:
    check_configs([filter1d(SHAPES["groups"], types) for types in TYPES[:4]], some(2, starts=None), CompilerChoice.NVCC)


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
def test_every_family_under_compute_sanitizer(check_under_sanitizer: Callable[..., None], tool: str) -> None:
    device = cuda_device(0)
    problems = [
        Filter1d(length, taps, channels=channels, filters=channels, mode="causal", **types)
        for number, length in enumerate(LENGTHS)
        for taps, channels in ((4, 3), (33, 1))
        for types in (TYPES[number % len(TYPES)],)
    ]
    problems += [filter1d(shape, {"dtype": "float32"}) for name, shape in SHAPES.items() if name != "one"]
    cases = [
        (problem, family.program(problem, config))
        for problem in problems
        for family in FILTER1D.families
        if family.why_not(problem, device) is None
        for config in some_configs(family, problem, device, 2, starts=None)
    ]
    check_under_sanitizer(tool, device, cases)


def given(problem: Filter1d, seed: int = 1) -> tuple[Any, list[Any]]:
    """Random operands on the host, and on the GPU in the order of a plan's arguments."""
    torch = pytest.importorskip("torch")
    operands = random_operands(problem, seed)
    return operands, [_tensor(torch, operands[each.name]) for each in problem.inputs if each.name not in problem.known]


def _tensor(torch: Any, array: Any) -> Any:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16).cuda()
    return torch.from_numpy(array.copy()).cuda()


def error_of(problem: Filter1d, operands: Any, result: Any) -> float:
    """Largest error, relative to the sum of |terms|."""
    torch = pytest.importorskip("torch")
    found, right = result.cpu(), reference(problem, operands)
    if found.dtype == torch.bfloat16:
        found = found.view(torch.int16)
    part = problem.output.components
    values = found.numpy().view(numpy_dtype(part.dtype)).reshape(right.expected.shape)
    return float(scaled_error(values, right.expected, right.scale, part.dtype).max())


@pytest.mark.parametrize("types", TYPES, ids=lambda types: "-".join(types.values()))
@pytest.mark.parametrize("shape", ["one", "causal", "odd", "last", "down", "mixer", "mixer_last"])
def test_a_plan_is_right_and_has_the_same_bits_each_time(shape: str, types: dict[str, Any]) -> None:
    problem = filter1d(SHAPES[shape], types)
    operands, inputs = given(problem)
    plan = ws.plan(problem, "cuda:0", verify="first")
    first, again = plan(*inputs), plan(*inputs)
    assert error_of(problem, operands, first) <= 1e-6
    bits = pytest.importorskip("torch").uint8
    assert first.view(dtype=bits).equal(again.view(dtype=bits))


def test_a_signal_that_begins_between_vectors_is_refused() -> None:
    """A slice of a longer signal whose address is aligned to an element only. Its message says what to do."""
    torch = pytest.importorskip("torch")
    problem = Filter1d(5000, 17, mode="same")  # type: ignore[arg-type]
    plan = ws.plan(problem, "cuda:0")
    longer, w = torch.randn(5100, device="cuda"), torch.randn(17, device="cuda")
    with pytest.raises(BadArgument, match="must start at a multiple of 16 bytes; copy it first"):
        plan(longer[1:5001], w)
    assert torch.equal(plan(longer[4:5004], w), plan(longer[4:5004].clone(), w))


def test_more_channels_than_a_grid_has_rows() -> None:
    torch = pytest.importorskip("torch")
    problem = Filter1d(64, 5, batch=2, channels=70_000, filters=70_000, mode="causal")
    operands, inputs = given(problem)
    assert error_of(problem, operands, ws.plan(problem, "cuda:0")(*inputs)) <= 1e-6
    torch.cuda.empty_cache()


@pytest.mark.parametrize("fields", [{}, {"batch": 3, "channels": 7, "filters": 7}], ids=["one signal", "channels"])
def test_more_than_2_to_31_elements_are_reached(fields: dict[str, int]) -> None:
    """The ends of the first and of the last channel are right; everything else is zero."""
    torch = pytest.importorskip("torch")
    rows = fields.get("batch", 1) * fields.get("channels", 1)
    problem = Filter1d((2**31 + 4104) // rows, 9, mode="same", dtype="uint8", result_dtype="float16", **fields)
    if torch.cuda.mem_get_info()[0] < 2 * problem.bytes:
        pytest.skip("the GPU has too little memory left")
    plan = ws.plan(problem, "cuda:0")
    x = torch.zeros(problem.inputs[0].shape, dtype=torch.uint8, device="cuda")
    w = torch.randn(problem.inputs[1].shape, device="cuda")
    ends = x.view(rows, -1)[:, -40:]
    ends[:] = torch.randint(0, 9, ends.shape, dtype=torch.uint8, device="cuda")
    y = plan(x, w).view(rows, -1)
    for row in (0, rows - 1):
        taps = w.view(-1, 9)[row % w.view(-1, 9).shape[0]]
        window = torch.nn.functional.pad(ends[row].double(), (8, 4))
        right = torch.nn.functional.conv1d(window[None, None], taps.double()[None, None])[0, 0]
        assert (y[row, -44:].double() - right).abs().max() < 0.1
    assert not y[:, :-44].any()
    del x, y
    torch.cuda.empty_cache()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("taps", [5, 65])
def test_a_number_that_is_not_finite_reaches_only_its_windows(value: float, taps: int) -> None:
    torch = pytest.importorskip("torch")
    problem = Filter1d(3000, taps, channels=4, filters=4, mode="causal")
    _, (x, w) = given(problem)
    plan = ws.plan(problem, "cuda:0")
    clean = plan(x, w)
    x[1, 1000] = value
    dirty = plan(x, w)
    assert not torch.isfinite(dirty[1, 1000 : 1000 + taps]).any()
    dirty[1, 1000 : 1000 + taps] = clean[1, 1000 : 1000 + taps]
    # A tile of a matrix product that has such a number is computed again by direct sums, whose bits differ.
    assert (dirty - clean).abs().max() <= (0 if taps == 5 else 1e-6) * clean.abs().max()


def test_a_plan_in_a_graph() -> None:
    torch = pytest.importorskip("torch")
    problem = filter1d(SHAPES["causal"], {"dtype": "bfloat16"})
    _, inputs = given(problem)
    plan = ws.plan(problem, "cuda:0")
    expected, out = plan(*inputs), torch.empty(problem.output.shape, dtype=torch.bfloat16, device="cuda")
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        plan(*inputs, out=out, stream=torch.cuda.current_stream().cuda_stream)
    out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, expected)
