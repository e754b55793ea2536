"""`conv2d_gather` on a GPU: layers of few channels, accuracy, and the sanitizers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpu.test_conv2d_gpu import some
from gpu.test_conv2d_mma_gpu import check_sums_of_positive_terms
from random_configs import some_configs
from warpsmith.devices.cuda.runtime import cuda_device
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.products.pointwise.gather_family import Conv2dGather

pytestmark = pytest.mark.gpu

FAMILY = Conv2dGather()
LAYERS: dict[str, dict[str, Any]] = {
    "stem": {"input": (8, 3, 112, 112), "weight": (64, 3, 7, 7), "stride": 2, "padding": 3},
    "padded": {"input": (4, 3, 56, 56), "weight": (48, 3, 3, 3), "padding": 1},
    "odd": {"input": (3, 3, 37, 41), "weight": (33, 3, 3, 3), "stride": 2},
    "patches": {"input": (8, 3, 64, 64), "weight": (96, 3, 4, 4), "stride": 4},
    "dilated": {"input": (2, 5, 40, 36), "weight": (24, 5, 3, 5), "padding": ((2, 1), (0, 4)), "dilation": (2, 3)},
    "wide": {"input": (4, 32, 28, 28), "weight": (64, 32, 3, 3), "padding": 1},
}
CheckConfigs = Callable[..., None]


@pytest.mark.parametrize("precision", ["ieee", "tf32"])
@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_is_right(layer: dict[str, Any], precision: str, check_configs: CheckConfigs) -> None:
    check_configs([Conv2d(**layer, precision=precision, pass_=Pass.WGRAD)], some(4, (FAMILY.name,)))


@pytest.mark.parametrize("layer", ["stem", "patches"])
def test_sums_of_positive_terms_lose_no_more_than_the_bound(layer: str) -> None:
    """The truncation errors of tensor cores add up if all terms have one sign."""
    problem = Conv2d(**LAYERS[layer], pass_=Pass.WGRAD)
    check_sums_of_positive_terms(FAMILY, problem, some_configs(FAMILY, problem, cuda_device(0), 4))


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
def test_is_clean_under_compute_sanitizer(check_under_sanitizer: Callable[..., None], tool: str) -> None:
    device = cuda_device(0)
    problems = [Conv2d(**LAYERS[name], pass_=Pass.WGRAD) for name in ("odd", "dilated")]
    cases = [
        (problem, FAMILY.program(problem, config))
        for problem in problems
        for config in some_configs(FAMILY, problem, device, 4)
    ]
    check_under_sanitizer(tool, device, cases)
