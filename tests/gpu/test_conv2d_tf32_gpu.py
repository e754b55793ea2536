"""`conv2d_warpgroup_tf32` on a GPU: im2col copies of float32 pixels, and products with pixels in registers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpu.test_conv2d_gpu import some
from gpu.test_conv2d_warpgroup_gpu import LAYERS, on_hopper
from host.test_conv2d_tf32 import FAMILY, SHAPES, TF32
from random_configs import some_configs
from warpsmith.devices.cuda.runtime import cuda_device
from warpsmith.devices.select import CompilerChoice
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.space import Config, Value

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures(on_hopper.__name__)]


@pytest.mark.parametrize("pass_", list(Pass))
@pytest.mark.parametrize("shape", [*SHAPES, *LAYERS])
def test_is_right(shape: str, pass_: Pass, check_configs: Callable[..., None]) -> None:
    problem = Conv2d(**{**{**SHAPES, **LAYERS}[shape], **TF32}, pass_=pass_)
    if FAMILY.why_not(problem, cuda_device(0)) is None:
        check_configs([problem], some(6, (FAMILY.name,)), CompilerChoice.NVRTC, (FAMILY,))
    else:
        assert problem.groups > 1 or any(channels % 4 or channels < 16 for channels in problem.weight[:2])


@pytest.mark.parametrize("columns", [96, 128])
@pytest.mark.parametrize("pixel_stages", [2, 3, 4])
def test_stages_are_read_before_they_are_filled_again(
    columns: int, pixel_stages: int, check_configs: Callable[..., None]
) -> None:
    """Each tap has pixels of its own, and few stages, which the producer warp waits for. An arrival that does not wait
    for loads lets it fill them too early: 180,000 of 50 million results were wrong (H200)."""
    problem = Conv2d((24, 128, 128, 128), (256, 128, 2, 2), stride=2, pass_=Pass.DGRAD, **TF32)
    tile: dict[str, Value] = {"warpgroups": 3, "columns": columns, "pixel_stages": pixel_stages, "filter_stages": 8}
    config = FAMILY.space(problem, cuda_device(0)).like({**FAMILY.default(problem, cuda_device(0)).values(), **tile})
    assert config is not None
    assert {name: config.values()[name] for name in tile} == tile
    check_configs([problem], lambda *_: [config], CompilerChoice.NVRTC, (FAMILY,))


@pytest.mark.parametrize("sides", [(32, 32), (64, 32), (64, 64)])
@pytest.mark.parametrize("stages", [2, 3])
def test_stages_of_gradients_are_read_before_they_are_filled_again(
    sides: tuple[int, int], stages: int, check_configs: Callable[..., None]
) -> None:
    problem = Conv2d((24, 128, 64, 64), (256, 128, 1, 1), pass_=Pass.WGRAD, **TF32)
    tile: dict[str, Value] = {"down": 2, "across": 2, "rows": sides[0], "columns": sides[1], "stages": stages}
    config = Config.of({**tile, "min_blocks": 1, "splits": 16})
    assert FAMILY.space(problem, cuda_device(0)).why_not(config) is None
    check_configs([problem], lambda *_: [config], CompilerChoice.NVRTC, (FAMILY,))


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_under_compute_sanitizer(check_under_sanitizer: Callable[..., None], tool: str) -> None:
    device = cuda_device(0)
    cases = [
        (problem, FAMILY.program(problem, config))
        for name, pass_ in (("strides", Pass.DGRAD), ("deep", Pass.FPROP), ("deep", Pass.WGRAD))
        for problem in [Conv2d(**SHAPES[name], **TF32, pass_=pass_)]
        for config in some_configs(FAMILY, problem, device, 2)
    ]
    check_under_sanitizer(tool, device, cases)
