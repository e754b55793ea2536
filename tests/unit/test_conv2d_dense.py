"""`conv2d_dense`: refusals, how results and terms are shared out, and who answers."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.sums.dense.dense_columns import MOST_SHARED_BYTES, DenseColumnsGeometry
from warpsmith.generator.conv2d.sums.dense.dense_family import Conv2dDense
from warpsmith.generator.conv2d.sums.dense.dense_layer import DenseLayer
from warpsmith.generator.conv2d.sums.dense.dense_rows import DenseRowsGeometry
from warpsmith.generator.presets import A100, H200, T4
from warpsmith.generator.ranking import default_answer

FAMILY = Conv2dDense()
PIXEL: dict[str, Any] = {"input": (24, 888, 1, 1), "weight": (222, 888, 1, 1)}
BF16: dict[str, Any] = {"dtype": "bfloat16", "precision": "bf16", "layout": "nhwc"}
every_pass = pytest.mark.parametrize("pass_", Pass)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"input": (24, 888, 2, 1)}, "whose filters have the size of an image"),
        ({"padding": 1}, "without padding"),
        ({"weight": (222, 444, 1, 1), "groups": 2}, "one group"),
        ({"input": (24, 888, 3, 3), "weight": (222, 888, 2, 2), "dilation": 2}, "the size of an image"),
    ],
)
def test_refuses(changed: dict[str, Any], says: str) -> None:
    why_not = FAMILY.why_not(Conv2d(**{**PIXEL, **changed}), H200)
    assert why_not is not None
    assert says in why_not


def test_leaves_vectors_of_float16_on_turing_to_others() -> None:
    """NVRTC refused 104 of 6,453 random programs there: no instruction converts two float32 numbers at once."""
    for pass_, vector in itertools.product(Pass, (1, 8)):
        shape = {"input": (24, 29 * vector, 1, 1), "weight": (16, 29 * vector, 1, 1)}
        why_not = FAMILY.why_not(Conv2d(**shape, dtype="float16", pass_=pass_), T4)
        assert (why_not is None) == (pass_ is Pass.FPROP or vector == 1)
        assert FAMILY.why_not(Conv2d(**shape, dtype="bfloat16", pass_=pass_), T4) is None


@every_pass
@pytest.mark.parametrize("device", [H200, A100], ids=["H200", "A100"])
@pytest.mark.parametrize("kind", [{}, BF16], ids=["float32", "bfloat16"])
def test_answers_images_of_one_pixel(pass_: Pass, device: Any, kind: dict[str, Any]) -> None:
    """But for one layer whose 888 channels the copy engine loads: 72 to 24 took 1.6 us by it for 2.0 (H200)."""
    has_copies = device == H200 and kind == BF16 and pass_ is Pass.FPROP
    for channels, filters in ((888, 222), (222, 888), (890, 222), (222, 890), (4, 96), (58, 10)):
        shape = {"input": (24, channels, 1, 1), "weight": (filters, channels, 1, 1)}
        answer = "conv2d_warpgroup_im2col" if has_copies and channels == 888 else FAMILY.name
        assert default_answer(Conv2d(**shape, **kind, pass_=pass_), device)[0].name == answer


@pytest.mark.parametrize(
    ("channels", "vector"), [(888, 8), (222, 2), (58, 2), (4, 4), (29, 1)], ids=lambda value: str(value)
)
def test_vectors_divide_the_channels(channels: int, vector: int) -> None:
    problem = Conv2d(**{"input": (24, channels, 1, 1), "weight": (16, channels, 1, 1), **BF16})
    assert DenseLayer.of(problem).vector == vector


@every_pass
def test_blocks_cover_the_results_once(pass_: Pass) -> None:
    """Every result is in one tile, whatever the config is; sums of slices fit in shared memory."""
    problem = Conv2d(**PIXEL, **BF16, pass_=pass_)
    space, layer = FAMILY.space(problem, H200), DenseLayer.of(problem)
    configs = itertools.islice(space.neighbours(FAMILY.default(problem, H200)), 12)
    for config in (FAMILY.default(problem, H200), *configs):
        if pass_ is Pass.FPROP:
            rows = DenseRowsGeometry.of(problem, config)
            assert rows.blocks * rows.threads >= rows.tiles * rows.lanes
            down, across = -(-layer.rows // rows.rows) * rows.rows, rows.column_tiles * rows.columns
        else:
            columns = DenseColumnsGeometry.of(problem, config)
            assert columns.shared_bytes <= MOST_SHARED_BYTES
            down = columns.blocks // columns.column_blocks * columns.rows
            across = columns.column_blocks * columns.across * layer.vector
            assert across - columns.across * layer.vector < layer.columns
        assert layer.rows <= down < 2 * layer.rows
        assert across >= layer.columns


def test_a_layer_is_one_launch_without_workspace() -> None:
    for pass_ in Pass:
        problem = Conv2d(**PIXEL, **BF16, pass_=pass_)
        program = FAMILY.program(problem, FAMILY.default(problem, H200))
        assert len(program.steps) == 1
        assert not program.workspaces


@every_pass
def test_expects_no_less_than_memory_takes(pass_: Pass) -> None:
    """A classifier of 25,088 by 4,096 weights is bound by its weights, 205 MB."""
    problem = Conv2d((24, 512, 7, 7), (4096, 512, 7, 7), **BF16, pass_=pass_)
    expected_ns = FAMILY.expected_ns(problem, H200)
    assert expected_ns is not None
    assert expected_ns > 2 * math.prod(problem.weight) / H200.rates.memory_bytes_per_ns
