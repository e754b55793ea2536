"""`conv2d_warpgroup_im2col` on a GPU: TMA im2col copies, and the wgmma products that read them."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from channels_last import KINDS
from gpu.test_conv2d_gpu import some
from gpu.test_conv2d_warpgroup_gpu import LAYERS, on_hopper
from host.test_conv2d_im2col import FAMILY, SHAPES
from random_configs import some_configs
from warpsmith.devices.cuda.runtime import cuda_device
from warpsmith.devices.select import CompilerChoice
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.products.wgmma.im2col_window import Sharing

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures(on_hopper.__name__)]

every_pass = pytest.mark.parametrize("pass_", Pass)


@every_pass
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [*SHAPES, *LAYERS])
def test_is_right(shape: str, kind: str, pass_: Pass, check_configs: Callable[..., None]) -> None:
    own = {**SHAPES, **LAYERS}[shape]
    problem = Conv2d(**own, **KINDS[kind], layout="nhwc", pass_=pass_)  # type: ignore[arg-type]
    if FAMILY.why_not(problem, cuda_device(0)) is None:
        check_configs([problem], some(4, (FAMILY.name,)), CompilerChoice.NVRTC, (FAMILY,))
    else:
        assert any(channels % 8 for channels in problem.weight[:2])  # the copies' unit


@pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])
@pytest.mark.parametrize("sharing", Sharing)
def test_taps_share_pixels_or_have_their_own(sharing: Sharing, pass_: Pass, check_configs: Callable[..., None]) -> None:
    """Pixels that taps share begin within the eight lines of a swizzle pattern."""
    problems = [Conv2d(**SHAPES[name], **KINDS["f16"], layout="nhwc", pass_=pass_) for name in ("padded", "strides")]  # type: ignore[arg-type]
    check_configs(
        problems,
        lambda family, problem, device: [
            config for config in some_configs(family, problem, device, 30) if config.text("sharing") == sharing
        ],
        CompilerChoice.NVRTC,
        (FAMILY,),
    )


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_under_compute_sanitizer(check_under_sanitizer: Callable[..., None], tool: str) -> None:
    device = cuda_device(0)
    cases = [
        (problem, FAMILY.program(problem, config))
        for name, pass_ in itertools.product(("groups", "groups within copies", "strides"), Pass)
        for problem in [Conv2d(**SHAPES[name], layout="nhwc", dtype="bfloat16", pass_=pass_)]
        if FAMILY.why_not(problem, device) is None
        for config in some_configs(FAMILY, problem, device, 2)
    ]
    check_under_sanitizer(tool, device, cases)
