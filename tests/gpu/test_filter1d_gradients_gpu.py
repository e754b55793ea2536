"""Gradients of filters of signals on a GPU: every family, plans, many elements, sanitizers, and PyTorch as a peer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import warpsmith as ws
from filter1d_gradient_problems import SPREAD
from random_configs import some, some_configs
from warpsmith.devices.cuda.runtime import cuda_device
from warpsmith.devices.elements import numpy_dtype
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.operation import FILTER1D
from warpsmith.tuner.evaluate.verify import verify
from warpsmith.tuner.operations.judge import FLOAT32_BOUND
from warpsmith.tuner.operations.registry import peers, random_operands, references

pytestmark = pytest.mark.gpu

FAMILIES = tuple(each for each in FILTER1D.families if each.name.startswith("filter1d_gradients_"))
EPILOGUE: dict[str, Any] = {"bias": True, "activation": "silu"}
LENGTHS = (1, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1026, 4099)
"""Samples around vectors, warps and blocks, and two lengths at which other libraries read beyond the signal."""


def mixer(pass_: str = "backward", **fields: Any) -> Filter1d:
    """A gradient of the causal filters of a state-space model."""
    usual = {
        "signal": 2050,
        "taps": 4,
        "batch": 2,
        "channels": 96,
        "filters": 96,
        "mode": "causal",
        "dtype": "bfloat16",
    }
    return Filter1d(**{**usual, "pass_": pass_, **EPILOGUE, **fields})


@pytest.mark.parametrize("part", range(4))
def test_every_family_combines_all_options(check_configs: Callable[..., None], part: int) -> None:
    check_configs(SPREAD[part::4], some(2), families=FAMILIES)


@pytest.mark.parametrize("layout", ["bct", "btc"])
def test_random_configs_of_few_taps(check_configs: Callable[..., None], layout: str) -> None:
    check_configs(
        [
            mixer(layout=layout, taps=taps, dtype=dtype, activation=activation)
            for taps in (2, 4, 8)
            for dtype in ("bfloat16", "float32")
            for activation in (None, "silu")
        ],
        some(8),
        families=FAMILIES,
    )


@pytest.mark.parametrize("layout", ["bct", "btc"])
def test_every_length_around_a_vector_a_warp_and_a_block(check_configs: Callable[..., None], layout: str) -> None:
    problems = [
        mixer(signal=length, taps=taps, channels=3, filters=3, layout=layout, dtype=dtype)
        for length in LENGTHS
        for taps, dtype in ((4, "bfloat16"), (17, "float32"))
    ]
    check_configs(problems, some(1), families=FAMILIES)


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
def test_every_family_under_compute_sanitizer(check_under_sanitizer: Callable[..., None], tool: str) -> None:
    device = cuda_device(0)
    problems = [
        mixer(pass_, signal=length, taps=taps, channels=channels, filters=filters, layout=layout)
        for number, length in enumerate(LENGTHS)
        for taps, channels, filters in ((4, 6, 6), (9, 4, 1))
        for pass_ in (("dgrad", "wgrad", "backward")[number % 3],)
        for layout in ("bct", "btc")
    ]
    cases = [
        (problem, family.program(problem, config))
        for problem in problems
        for family in FAMILIES
        if family.why_not(problem, device) is None
        for config in some_configs(family, problem, device, 1)
    ]
    check_under_sanitizer(tool, device, cases)


def given(problem: Filter1d) -> tuple[Mapping[str, Any], list[Any]]:
    """Random operands on the host, and on the GPU in the order of a plan's arguments."""
    torch = pytest.importorskip("torch")
    operands = random_operands(problem, 1)

    def tensor(array: Any) -> Any:
        if array.dtype.name == "bfloat16":
            return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16).cuda()
        return torch.from_numpy(array.copy()).cuda()

    return operands, [tensor(operands[each.name]) for each in problem.inputs]


def check_results(problem: Filter1d, operands: Mapping[str, Any], found: Any) -> None:
    torch = pytest.importorskip("torch")
    right, results = references(problem, operands), found if isinstance(found, tuple) else (found,)
    for output, result in zip(problem.outputs, results, strict=True):
        values = (result.view(torch.int16) if result.dtype == torch.bfloat16 else result).cpu().numpy()
        verdict = verify(values.view(numpy_dtype(output.dtype)), right[output.name], output.dtype, FLOAT32_BOUND)
        assert verdict.right, f"{output.name}: {verdict.message}"


@pytest.mark.parametrize("layout", ["bct", "btc"])
@pytest.mark.parametrize("pass_", ["dgrad", "wgrad", "backward"])
def test_a_plan_is_right_and_has_the_same_bits_each_time(pass_: str, layout: str) -> None:
    bits = pytest.importorskip("torch").uint8
    for problem in (mixer(pass_, layout=layout), mixer(pass_, layout=layout, filters=1, activation=None, taps=9)):
        operands, inputs = given(problem)
        plan = ws.plan(problem, "cuda:0")
        first, again = plan(*inputs), plan(*inputs)
        check_results(problem, operands, first)
        pairs = zip(first, again, strict=True) if isinstance(first, tuple) else [(first, again)]
        assert all(one.view(dtype=bits).equal(two.view(dtype=bits)) for one, two in pairs)


def test_a_plan_in_a_graph() -> None:
    torch = pytest.importorskip("torch")
    problem = mixer()
    _, inputs = given(problem)
    plan = ws.plan(problem, "cuda:0")
    expected = plan(*inputs)
    out = tuple(torch.empty_like(each) for each in expected)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        plan(*inputs, out=out, stream=torch.cuda.current_stream().cuda_stream)
    for each in out:
        each.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert all(one.equal(two) for one, two in zip(out, expected, strict=True))


@pytest.mark.parametrize("layout", ["bct", "btc"])
def test_more_than_2_to_31_elements_are_reached(layout: str) -> None:
    """A gradient of ones at the last sample of the last channel reaches its window, and nothing else."""
    torch = pytest.importorskip("torch")
    channels, signal = 2048, 2**20 + 64
    problem = Filter1d(signal, 4, channels=channels, mode="causal", dtype="bfloat16", layout=layout, pass_="backward")  # type: ignore[arg-type]
    if torch.cuda.mem_get_info()[0] < 2 * problem.bytes:
        pytest.skip("the GPU has too little memory left")
    x, dy = (torch.zeros(problem.operands[0].shape, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    w = torch.tensor([1.0, 2.0, 3.0, 4.0], device="cuda")
    dy.view(-1)[-1] = 1.0
    x.view(-1)[-1] = 0.5
    dx, dw = ws.plan(problem, "cuda:0")(x, w, dy)
    ends = dx.view(signal, channels)[-4:, -1] if layout == "btc" else dx.view(-1)[-4:]
    assert ends.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert dw.tolist() == [0.0, 0.0, 0.0, 0.5]
    ends.zero_()
    assert not dx.any()
    del x, dy, dx
    torch.cuda.empty_cache()


@pytest.mark.parametrize("layout", ["bct", "btc"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("activation", [None, "silu"])
def test_pytorch_computes_the_same(layout: str, dtype: str, activation: str | None) -> None:
    pytest.importorskip("torch")
    problem = mixer(layout=layout, dtype=dtype, activation=activation)
    operands = random_operands(problem, 0)
    right = references(problem, operands)
    for peer in peers(problem, operands, DeviceKind.CUDA):
        peer.run()
        results = peer.result()
        assert isinstance(results, Mapping)
        for output in problem.outputs:
            error = verify(results[output.name], right[output.name], output.dtype).max_error
            assert error <= (peer.tolerance or 20 * FLOAT32_BOUND), (peer.name, output.name)
