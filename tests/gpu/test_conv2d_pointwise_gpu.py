"""`conv2d_pointwise` on a GPU: both ways to multiply, all kinds of pixels, accuracy, and the same bits each time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpu.test_conv2d_gpu import some
from gpu.test_conv2d_mma_gpu import check_sums_of_positive_terms
from random_configs import some_configs
from warpsmith.devices.cuda.runtime import cuda_device
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.products.pointwise.pointwise_family import Conv2dPointwise

pytestmark = pytest.mark.gpu

FAMILY = Conv2dPointwise()
LAYERS: dict[str, dict[str, Any]] = {
    "expanding": {"input": (8, 64, 56, 56), "weight": (256, 64, 1, 1)},
    "reducing": {"input": (8, 256, 28, 28), "weight": (64, 256, 1, 1)},
    "pairs": {"input": (5, 96, 14, 15), "weight": (40, 96, 1, 1)},
    "odd": {"input": (6, 130, 7, 7), "weight": (47, 130, 1, 1)},
    "strided": {"input": (4, 64, 28, 28), "weight": (128, 64, 1, 1), "stride": 2},
    "steps": {"input": (3, 48, 29, 31), "weight": (33, 48, 1, 1), "stride": (2, 3)},
    "deep": {"input": (8, 1024, 14, 14), "weight": (512, 1024, 1, 1)},
}
every_pass = pytest.mark.parametrize("pass_", Pass)
CheckConfigs = Callable[..., None]


@every_pass
@pytest.mark.parametrize("precision", ["ieee", "tf32"])
@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_is_right(layer: dict[str, Any], precision: str, pass_: Pass, check_configs: CheckConfigs) -> None:
    with_end = {} if pass_ is Pass.WGRAD else {"bias": True, "relu": True}
    check_configs([Conv2d(**layer, precision=precision, **with_end, pass_=pass_)], some(4, (FAMILY.name,)))


@pytest.mark.parametrize("precision", ["ieee", "tf32"])
@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_gradients_of_weights_with_channels_last_are_right(
    layer: dict[str, Any], precision: str, check_configs: CheckConfigs
) -> None:
    problem = Conv2d(**layer, precision=precision, layout="nhwc", pass_=Pass.WGRAD)
    check_configs([problem], some(4, (FAMILY.name,)))


@every_pass
@pytest.mark.parametrize("layer", ["expanding", "deep"])
def test_sums_of_positive_terms_lose_no_more_than_the_bound(layer: str, pass_: Pass) -> None:
    """The truncation errors of tensor cores add up if all terms have one sign."""
    problem = Conv2d(**LAYERS[layer], pass_=pass_)
    check_sums_of_positive_terms(FAMILY, problem, some_configs(FAMILY, problem, cuda_device(0), 4))


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
def test_is_clean_under_compute_sanitizer(check_under_sanitizer: Callable[..., None], tool: str) -> None:
    device = cuda_device(0)
    problems = [Conv2d(**LAYERS[name], pass_=pass_) for name in ("pairs", "steps") for pass_ in Pass]
    problems.append(Conv2d(**LAYERS["steps"], layout="nhwc", pass_=Pass.WGRAD))
    cases = [
        (problem, FAMILY.program(problem, config))
        for problem in problems
        for config in some_configs(FAMILY, problem, device, 4)
    ]
    check_under_sanitizer(tool, device, cases)
