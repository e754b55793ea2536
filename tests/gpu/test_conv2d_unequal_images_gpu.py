"""Layers on a GPU whose batch has one image unlike the others: it does not affect the results of the others."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from host.test_conv2d_unequal_images import BFLOATS, BIASED, PIXELS, SMALL, STRIDED
from unequal_images import Numbers, check_apart
from warpsmith.devices.cuda.runtime import cuda_device
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.products.mma.mma_family import Conv2dMma
from warpsmith.generator.conv2d.products.ozaki.ozaki_family import Conv2dSlices
from warpsmith.generator.conv2d.products.wgmma.im2col_family import Conv2dWarpgroupIm2col
from warpsmith.generator.conv2d.products.wgmma.wgmma_family import Conv2dWarpgroup
from warpsmith.generator.conv2d.products.winograd.winograd_family import Conv2dWinograd
from warpsmith.generator.family import Family
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan

pytestmark = pytest.mark.gpu

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (Conv2dWarpgroup(), Conv2dWarpgroupIm2col(), Conv2dMma(), Conv2dSlices(), Conv2dWinograd())
}
LAYERS: dict[str, dict[str, Any]] = {
    "small": SMALL,
    "channels last": BIASED,
    "few channels": STRIDED,
    "pixels": PIXELS,
    "tiles of several images": {"input": (70, 64, 7, 7), "weight": (96, 64, 3, 3), "padding": 1},
    "large tiles": {"input": (6, 256, 14, 14), "weight": (256, 256, 3, 3), "padding": 1},
    "sampled": {"input": (8, 64, 97, 97), "weight": (64, 64, 3, 3), "padding": 1},
    "sampled, channels last": {"input": (8, 64, 97, 97), "weight": (64, 64, 3, 3), "padding": 1, "layout": "nhwc"},
    "sampled, few channels": {"input": (32, 3, 227, 227), "weight": (96, 3, 11, 11), "stride": 4},
    "bfloat16": {**BFLOATS, "layout": "nhwc"},
}


@pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("family", FAMILIES)
def test_no_image_reaches_another(family: str, layer: str, pass_: Pass) -> None:
    torch = pytest.importorskip("torch")
    device, solver, problem = DeviceRef.parse("cuda:0"), FAMILIES[family], Conv2d(**LAYERS[layer], pass_=pass_)
    if (why_not := solver.why_not(problem, device.device())) is not None:
        pytest.skip(why_not)
    program = solver.program(problem, solver.default(problem, device.device()))
    binaries = device.compiler().compile_program(program)
    with contextlib.closing(device.open()) as runtime:
        plan = Plan.load(problem, Match(MatchKind.DEFAULT, program, None, ()), binaries, runtime)
        check_apart(problem, lambda given: _computed(torch, plan, problem, given))


def _computed(torch: Any, plan: Plan, problem: Conv2d, given: Mapping[str, Numbers]) -> Numbers:
    tensors = []
    for operand in problem.inputs:
        values = torch.from_numpy(given[operand.name].astype(np.float32)).to(getattr(torch, str(operand.dtype)))
        is_last = len(operand.shape) == 4 and operand.strides[1] == operand.dtype.itemsize
        memory = torch.channels_last if is_last else torch.contiguous_format
        tensor = torch.empty(operand.shape, dtype=values.dtype, device="cuda", memory_format=memory)
        tensors.append(tensor.copy_(values))
    found = plan(*tensors)
    torch.cuda.synchronize()
    result: Numbers = found.float().cpu().numpy()
    return result


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_under_compute_sanitizer(check_under_sanitizer: Callable[..., None], tool: str) -> None:
    """Cases cover every kernel with a scale per image, and images so small that a block has many."""
    device = cuda_device(0)
    cases = []
    for family, name, pass_ in itertools.product(FAMILIES.values(), LAYERS, (Pass.FPROP, Pass.DGRAD)):
        problem = Conv2d(**LAYERS[name], pass_=pass_)
        is_quick = name in ("small", "channels last", "few channels", "pixels")
        if is_quick and family.why_not(problem, device) is None:
            cases.append((problem, family.program(problem, family.default(problem, device))))
    check_under_sanitizer(tool, device, cases)
