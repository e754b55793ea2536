"""Convolution layers on a GPU: every family, pass and option, random configs, plans, cuDNN beside them."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import warpsmith as ws
from conv2d_layers import layer, small
from random_configs import some_configs
from warpsmith.devices.cuda.compiler import NvrtcCompiler
from warpsmith.devices.cuda.runtime import CudaRuntime, cuda_device
from warpsmith.devices.select import CompilerChoice
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.fourier.circular_family import Conv2dCircular
from warpsmith.generator.conv2d.fourier.variants import FOURIER
from warpsmith.generator.conv2d.operation import CONV2D
from warpsmith.generator.conv2d.plain_family import Conv2dPlain
from warpsmith.generator.conv2d.products.wgmma.wgmma_family import Conv2dWarpgroup
from warpsmith.generator.conv2d.products.winograd.winograd_family import Conv2dWinograd
from warpsmith.generator.conv2d.sums.depthwise.depthwise_family import Conv2dDepthwise
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_family import Conv2dDepthwiseLast
from warpsmith.generator.conv2d.sums.direct_family import Conv2dDirect
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.library_calls import LEAST_CUBLAS_BYTES
from warpsmith.generator.presets import H200
from warpsmith.generator.space import Config
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan
from warpsmith.tuner.operations.conv2d.oracle import reference
from warpsmith.tuner.operations.conv2d.peers import torch_peer
from warpsmith.tuner.operations.registry import random_operands

pytestmark = pytest.mark.gpu

FAMILIES: tuple[Family, ...] = (Conv2dDirect(), Conv2dPlain())
TOGETHER = 3
"""Families per test."""
PARTS = 3
"""Tests into which many small layers are split: with all families they take 230 s beside other tests."""
every_pass = pytest.mark.parametrize("pass_", Pass)
CheckConfigs = Callable[..., None]

LAYERS: dict[str, dict[str, Any]] = {
    "alexnet": {"input": (16, 3, 227, 227), "weight": (96, 3, 11, 11), "stride": 4},
    "resnet": {"input": (8, 64, 56, 56), "weight": (64, 64, 3, 3), "padding": 1},
    "downsampling": {"input": (8, 64, 56, 56), "weight": (128, 64, 3, 3), "padding": 1, "stride": 2},
    "pointwise": {"input": (8, 256, 14, 14), "weight": (512, 256, 1, 1)},
    "depthwise": {"input": (8, 96, 28, 28), "weight": (96, 1, 7, 7), "groups": 96, "padding": "same"},
    "depthwise, halving": {
        "input": (8, 96, 112, 112),
        "weight": (96, 1, 3, 3),
        "groups": 96,
        "padding": 1,
        "stride": 2,
    },
    "depthwise, channels last": {
        "input": (8, 96, 28, 28),
        "weight": (96, 1, 7, 7),
        "groups": 96,
        "padding": 3,
        "layout": "nhwc",
        "dtype": "float16",
    },
    "depthwise, halving, channels last": {
        "input": (8, 33, 57, 55),
        "weight": (33, 1, 3, 5),
        "groups": 33,
        "padding": 1,
        "stride": 2,
        "layout": "nhwc",
        "dtype": "bfloat16",
    },
    "large": {"input": (5, 12, 40, 37), "weight": (12, 1, 17, 15), "groups": 12, "padding": (8, 7)},
    "thin": {"input": (6, 40, 27, 31), "weight": (80, 1, 5, 3), "groups": 40, "padding": (2, 1), "stride": (2, 1)},
    "grouped": {"input": (4, 128, 28, 28), "weight": (128, 4, 3, 3), "groups": 32, "padding": 1},
    "atrous": {"input": (2, 64, 33, 33), "weight": (48, 64, 3, 3), "padding": 6, "dilation": 6},
    "patches": {"input": (2, 3, 224, 224), "weight": (96, 3, 16, 16), "stride": 16},
    "mirrored": {"input": (8, 64, 56, 56), "weight": (64, 64, 3, 3), "padding": 1, "padding_mode": "reflect"},
    "repeated": {
        "input": (3, 10, 23, 30),
        "weight": (14, 5, 4, 5),
        "groups": 2,
        "stride": (1, 2),
        "padding": ((3, 1), (0, 7)),
        "padding_mode": "replicate",
    },
    "circular": {
        "input": (2, 6, 7, 9),
        "weight": (5, 6, 3, 3),
        "dilation": 2,
        "padding": (7, 5),
        "padding_mode": "circular",
    },
    "deep": {"input": (4, 260, 14, 15), "weight": (258, 260, 3, 3), "padding": ((1, 1), (2, 0))},
    "odd": {"input": (5, 13, 29, 31), "weight": (17, 13, 4, 5), "stride": (2, 3), "padding": ((2, 1), (0, 3))},
}
FOURIER_LAYERS: tuple[dict[str, Any], ...] = (
    {"input": (16, 24, 30, 33), "weight": (20, 24, 5, 7), "padding": ((2, 1), (3, 3))},
    {"input": (8, 16, 13, 13), "weight": (40, 16, 3, 3), "workspace": 1 << 20},
    {"input": (8, 16, 13, 13), "weight": (40, 16, 3, 3), "workspace": 792_064 + LEAST_CUBLAS_BYTES},
    {"input": (6, 3, 100, 118), "weight": (10, 3, 11, 11)},
    {"input": (6, 9, 150, 187), "weight": (14, 9, 7, 5), "padding": ((0, 3), (2, 1)), "workspace": 3 << 22},
    {"input": (16, 24, 30, 33), "weight": (20, 24, 5, 7), "padding": ((2, 1), (3, 3)), "padding_mode": "reflect"},
    {
        "input": (8, 16, 13, 13),
        "weight": (40, 16, 3, 3),
        "padding": 2,
        "padding_mode": "replicate",
        "workspace": 1 << 20,
    },
    {"input": (6, 3, 31, 14), "weight": (10, 3, 9, 9), "padding": (4, 14), "padding_mode": "circular"},
    {"input": (3, 12, 40, 44), "weight": (4, 12, 5, 7), "padding": ((0, 3), (2, 1))},
)
"""Layers that families in the frequency domain solve too. Two are computed in parts of their batch. The spectra of one
leave cuBLAS the least workspace that it needs."""


def some(count: int, names: tuple[str, ...] | None = None) -> Callable[[Family, Conv2d, Device], list[Config]]:
    """`some_configs` as a function of family, problem and device, for all families or the named ones."""

    def configs_of(family: Family, problem: Conv2d, device: Device) -> list[Config]:
        return some_configs(family, problem, device, count) if names is None or family.name in names else []

    return configs_of


def in_parts(problems: Iterable[Conv2d]) -> list[Any]:
    """Each problem with the families that solve it, TOGETHER at a time: ten configs of each of five families compile
    for 4 minutes on one core."""
    cases = []
    for problem in problems:
        able = [family.name for family in CONV2D.families if family.why_not(problem, H200) is None]
        for first in range(0, len(able), TOGETHER):
            names = tuple(able[first : first + TOGETHER])
            cases.append(pytest.param(problem, names, id=f"{problem.key()},{first // TOGETHER}".replace(" ", ",")))
    return cases


@every_pass
@pytest.mark.parametrize("part", range(PARTS))
def test_every_stride_padding_dilation_and_number_of_groups(
    part: int, pass_: Pass, check_configs: CheckConfigs
) -> None:
    check_configs(small(pass_)[part::PARTS], some(1))


@pytest.mark.parametrize(
    ("problem", "names"), in_parts(layer(pass_, 3, **each) for each in LAYERS.values() for pass_ in Pass)
)
def test_random_configs_of_every_family(problem: Conv2d, names: tuple[str, ...], check_configs: CheckConfigs) -> None:
    check_configs([problem], some(4, names))


@pytest.mark.parametrize(
    ("problem", "names"), in_parts(Conv2d(**each, pass_=pass_) for each in FOURIER_LAYERS for pass_ in Pass)
)
def test_layers_in_the_frequency_domain(problem: Conv2d, names: tuple[str, ...], check_configs: CheckConfigs) -> None:
    check_configs([problem], some(2, names))


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_layers_in_the_frequency_domain_under_compute_sanitizer(
    check_under_sanitizer: Callable[..., None], tool: str
) -> None:
    device = cuda_device(0)
    layers: tuple[tuple[Family, dict[str, Any]], ...] = (
        (FOURIER["conv2d_fft"], {"input": (4, 5, 9, 12), "weight": (6, 5, 3, 5), "padding": ((1, 0), (2, 2))}),
        (
            FOURIER["conv2d_fft"],
            {
                "input": (4, 5, 9, 12),
                "weight": (6, 5, 3, 5),
                "padding": ((1, 0), (2, 2)),
                "padding_mode": "reflect",
            },
        ),
        (
            FOURIER["conv2d_fft_tensor"],
            {"input": (4, 5, 9, 12), "weight": (6, 5, 3, 5), "padding": ((1, 0), (2, 2))},
        ),
        (
            FOURIER["conv2d_fft_tiled"],
            {"input": (2, 5, 33, 41), "weight": (6, 5, 3, 5), "padding": ((1, 0), (2, 2))},
        ),
        (FOURIER["conv2d_fft_fused"], {"input": (3, 4, 17, 20), "weight": (4, 4, 3, 5)}),
        (Conv2dCircular(), {"input": (3, 4, 17, 14), "weight": (4, 1, 9, 7), "padding": (4, 3), "groups": 4}),
    )
    if device.compute_capability == (9, 0):
        layers = (*layers, (FOURIER["conv2d_fft_warpgroup"], layers[0][1]))
    cases = [
        (problem, family.program(problem, config))
        for (family, fields), pass_ in itertools.product(layers, Pass)
        for problem in [Conv2d(**fields, pass_=pass_)]
        for config in some_configs(family, problem, device, 2)
    ]
    check_under_sanitizer(tool, device, cases)


def test_products_of_halves_under_compute_sanitizer(check_under_sanitizer: Callable[..., None]) -> None:
    device = cuda_device(0)
    fields = {"input": (3, 33, 9, 14), "weight": (40, 33, 3, 3), "padding": 1}
    cases = [
        (problem, family.program(problem, config))
        for family, pass_ in itertools.product((Conv2dWarpgroup(), Conv2dWinograd()), Pass)
        for problem in [Conv2d(**fields, pass_=pass_)]
        if family.why_not(problem, device) is None
        for config in some_configs(family, problem, device, 2)
    ]
    check_under_sanitizer("memcheck", device, cases)


@every_pass
def test_nvcc_compiles_the_same_text(pass_: Pass, check_configs: CheckConfigs) -> None:
    check_configs([layer(pass_, 3, **LAYERS["odd"])], some(3), CompilerChoice.NVCC)


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
def test_every_family_under_compute_sanitizer(check_under_sanitizer: Callable[..., None], tool: str) -> None:
    device = cuda_device(0)
    problems = [
        layer(pass_, 3, **LAYERS[name]) for name, pass_ in itertools.product(("odd", "grouped", "circular"), Pass)
    ]
    cases = [
        (problem, family.program(problem, config))
        for problem, family in itertools.product(problems, FAMILIES)
        for config in some_configs(family, problem, device, 2)
    ]
    check_under_sanitizer(tool, device, cases)


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
def test_windows_over_planes_under_compute_sanitizer(check_under_sanitizer: Callable[..., None], tool: str) -> None:
    """Configs with one and two stages, results written by threads and through shared memory, and blocks that share."""
    device, family = cuda_device(0), Conv2dDepthwise()
    layers: tuple[dict[str, Any], ...] = (
        {"input": (3, 8, 14, 14), "weight": (8, 1, 7, 7), "groups": 8, "padding": 3},
        {"input": (2, 8, 13, 15), "weight": (12, 2, 3, 3), "groups": 4, "padding": 1, "stride": 2},
        {"input": (2, 3, 20, 24), "weight": (3, 1, 11, 11), "groups": 3, "padding": 5, "padding_mode": "reflect"},
    )
    cases = [
        (problem, family.program(problem, config))
        for fields, pass_ in itertools.product(layers, Pass)
        for problem in [layer(pass_, 3, **fields)]
        for config in [*some_configs(family, problem, device, 6), *family.starts(problem, device)]
    ]
    check_under_sanitizer(tool, device, cases)


@every_pass
@pytest.mark.parametrize("size", [7, 27, 28, 56, 112])
@pytest.mark.parametrize("last", [False, True])
def test_defaults_of_depthwise_layers_of_many_sizes(
    last: bool, size: int, pass_: Pass, check_configs: CheckConfigs
) -> None:
    problems = [
        Conv2d(
            (images, 24, size, size),
            (24, 1, taps, taps),
            stride=stride,  # type: ignore[arg-type]
            padding=taps // 2,  # type: ignore[arg-type]
            groups=24,
            pass_=pass_,
            layout="nhwc" if last else "nchw",  # type: ignore[arg-type]
        )
        for images, taps, stride in ((5, 3, 1), (4, 5, 2), (2, 7, 1), (1, 31, 1))
    ]
    check_configs(problems, some(0, (Conv2dDepthwiseLast.name if last else Conv2dDepthwise.name,)))


@every_pass
def test_a_plan_is_right_and_has_the_same_bits_each_time(pass_: Pass) -> None:
    torch = pytest.importorskip("torch")
    problem = layer(pass_, 3, **LAYERS["odd"])
    operands = random_operands(problem, 1)
    plan = ws.plan(problem, "cuda:0")
    given = [torch.from_numpy(operands[each.name]).cuda() for each in problem.inputs]
    first, again = (plan(*given).cpu().numpy() for _ in range(2))
    expected, scale = reference(problem, operands)
    assert (np.abs(first - expected) <= 1e-6 * scale).all()
    assert np.array_equal(first.view(np.uint32), again.view(np.uint32))


def test_a_plan_that_holds_its_weights_gives_the_same_on_every_stream() -> None:
    torch = pytest.importorskip("torch")
    problem = Conv2d((16, 24, 40, 40), (64, 24, 9, 9), bias=True)
    device = cuda_device(0)
    program = FOURIER["conv2d_fft"].program(problem, FOURIER["conv2d_fft"].default(problem, device))
    binaries = NvrtcCompiler(device.arch).compile_program(program)
    with contextlib.closing(CudaRuntime(0)) as runtime:
        plan = Plan.load(problem, Match(MatchKind.DEFAULT, program, None, ()), binaries, runtime)
        operands = random_operands(problem, 1)
        x, w, b = (torch.from_numpy(operands[name]).cuda() for name in ("x", "w", "b"))
        expected = plan(x, w, b)
        held = plan.hold(w=w)
        w.zero_()
        out = torch.empty_like(expected)
        for stream in (torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream()):
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(3):
                    held(x, b, out=out.fill_(float("nan")))
            stream.synchronize()
            assert torch.equal(out, expected)


@every_pass
@pytest.mark.parametrize("name", LAYERS)
def test_cudnn_computes_the_same(name: str, pass_: Pass) -> None:
    pytest.importorskip("torch")
    problem = layer(pass_, 3, **LAYERS[name])
    operands = random_operands(problem, 1)
    peer = torch_peer(problem, operands, DeviceKind.CUDA, sets=2)
    for index in (1, 0):
        peer.run(index)
    expected, scale = reference(problem, operands)
    # It may choose Winograd's method or Fourier transforms, whose errors are small against the largest terms alone; and
    # results of 16 bits are rounded.
    bound = 1e-5 * scale.max() + (peer.tolerance or 0.0) * np.abs(expected).max()
    assert np.abs(peer.result() - expected).max() <= bound
