"""Layers of every element type, layout and precision on a GPU: candidates, plans, large operands, cuDNN beside them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warpsmith as ws
from conv2d_layers import spread
from warpsmith.generator.conv2d import Conv2d, ImageLayout, Pass, Precision
from warpsmith.generator.conv2d.layer.words import DTYPES
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.problem import DType
from warpsmith.generator.space import Config
from warpsmith.tuner.evaluate.verify import verify
from warpsmith.tuner.operations.conv2d.oracle import reference
from warpsmith.tuner.operations.conv2d.peers import array_of, tensor_of, torch_peer
from warpsmith.tuner.operations.judge import Reference
from warpsmith.tuner.operations.registry import random_operands

pytestmark = pytest.mark.gpu

every_pass = pytest.mark.parametrize("pass_", Pass)
every_layout = pytest.mark.parametrize("layout", ImageLayout)
every_dtype = pytest.mark.parametrize("dtype", DTYPES)
SHAPE: dict[str, Any] = {"input": (4, 32, 29, 31), "weight": (48, 32, 3, 3), "padding": 1}
LARGE: dict[str, Any] = {"input": (32, 256, 28, 28), "weight": (256, 256, 3, 3), "padding": 1}
"""A layer so large that tensor cores win. For SHAPE cuDNN's search finds float32 units the fastest, even if TF32 is
allowed."""
PARTS = 4
"""Tests into which the layers of `spread` are split; together they take 400 s beside other tests."""


def default_and_two_more(family: Family, problem: Conv2d, device: Device) -> list[Config]:
    """Configs of a family that sums over taps directly; none for others, or if the family cannot solve the problem."""
    if family.name not in ("conv2d_plain", "conv2d_direct") or family.why_not(problem, device) is not None:
        return []
    space, rng = family.space(problem, device), random.Random(problem.key())
    found = [family.default(problem, device), *(space.drawn(rng) for _ in range(2))]
    return list(dict.fromkeys(config for config in found if config is not None))


@pytest.mark.parametrize("part", range(PARTS))
def test_candidates_where_every_two_options_meet(part: int, check_configs: Callable[..., None]) -> None:
    check_configs(spread()[part::PARTS], default_and_two_more)


class Foreign:
    """A tensor of an unknown library that has DLPack."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def __dlpack__(self, **options: Any) -> Any:
        return self._tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, ordinal = self._tensor.__dlpack_device__()
        return int(kind), ordinal


@every_dtype
@every_layout
@every_pass
def test_plans_take_tensors_and_give_them_back(pass_: Pass, layout: ImageLayout, dtype: DType) -> None:
    """Tensors of PyTorch are passed as they are, and by DLPack alone. The second call takes the quicker path."""
    torch = pytest.importorskip("torch")
    problem = Conv2d(**SHAPE, pass_=pass_, dtype=dtype, layout=layout)
    operands = random_operands(problem, 1)
    memory = torch.channels_last if layout is ImageLayout.NHWC else torch.contiguous_format
    given = [
        tensor_of(operands[each.name], torch, on_gpu=True).contiguous(memory_format=memory) for each in problem.inputs
    ]
    plan = ws.plan(problem, "cuda:0")
    exact = Reference(*reference(problem, operands))
    for _ in range(3):
        result = plan(*given)
        assert result.is_contiguous(memory_format=memory)
        told = array_of(result, torch)
        verdict = verify(np.ascontiguousarray(told), exact, dtype)
        assert verdict.right, verdict.message
        out = torch.empty_like(result)
        foreign = plan(*map(Foreign, given), out=out)
        assert foreign is out
        assert torch.equal(out, result)
    other = plan(*map(Foreign, given)).get()
    assert other.dtype.name == dtype
    assert np.array_equal(other.view(np.uint8), np.ascontiguousarray(told).view(np.uint8))


@every_layout
def test_a_transposed_convolution_is_pytorchs(layout: ImageLayout) -> None:
    torch = pytest.importorskip("torch")
    problem = Conv2d.transposed(
        (4, 24, 20, 21), (24, 8, 4, 3), 2, 1, (1, 0), groups=2, layout=layout, bias=True, relu=True
    )
    operands = random_operands(problem, 1)
    memory = torch.channels_last if layout is ImageLayout.NHWC else torch.contiguous_format
    dy, w, b = (torch.from_numpy(operands[name]).cuda() for name in ("dy", "w", "b"))
    theirs = torch.nn.functional.conv_transpose2d(dy.double(), w.double(), b.double(), 2, 1, (1, 0), 2).relu()
    plan = ws.plan(problem, "cuda:0")
    ours = plan(dy.contiguous(memory_format=memory), w.contiguous(memory_format=memory), b)
    assert ours.shape == theirs.shape
    assert (ours.double() - theirs).abs().max().item() <= 1e-5


class TestLargeOperands:
    """x or dx has 2^31 elements or more; a row and a weight beyond the first 2^31 are compared."""

    SIZE = (16384, 16400)

    @pytest.fixture
    def torch(self) -> Any:
        torch = pytest.importorskip("torch")
        if torch.cuda.mem_get_info()[0] < 30 << 30:
            pytest.skip("less than 30 GiB of the GPU's memory are free")
        yield torch
        torch.cuda.empty_cache()

    def drawn(self, torch: Any, shape: tuple[int, ...], layout: ImageLayout) -> Any:
        memory = torch.channels_last if layout is ImageLayout.NHWC else torch.contiguous_format
        return torch.empty(shape, device="cuda", memory_format=memory).normal_()

    @every_layout
    def test_fprop(self, torch: Any, layout: ImageLayout) -> None:
        problem = Conv2d((1, 8, *self.SIZE), (2, 8, 3, 3), layout=layout)
        x, w = (self.drawn(torch, each.shape, layout) for each in problem.inputs)
        y = ws.plan(problem, "cuda:0")(x, w)
        exact = torch.nn.functional.conv2d(x[:, :, -3:].double(), w.double())[:, :, 0]
        assert (y[:, :, -1].double() - exact).abs().max().item() <= 1e-4

    @every_layout
    def test_dgrad(self, torch: Any, layout: ImageLayout) -> None:
        problem = Conv2d((1, 8, *self.SIZE), (2, 8, 3, 3), layout=layout, pass_=Pass.DGRAD)
        dy, w = (self.drawn(torch, each.shape, layout) for each in problem.inputs)
        dx = ws.plan(problem, "cuda:0")(dy, w)
        exact = torch.nn.functional.conv_transpose2d(dy[:, :, -3:].double(), w.double())[:, :, -1]
        assert (dx[:, :, -1].double() - exact).abs().max().item() <= 1e-4

    @every_layout
    def test_wgrad(self, torch: Any, layout: ImageLayout) -> None:
        """The error is relative to the sum of |terms|."""
        problem = Conv2d((1, 8, *self.SIZE), (2, 8, 3, 3), layout=layout, pass_=Pass.WGRAD)
        x, dy = (self.drawn(torch, each.shape, layout) for each in problem.inputs)
        dw = ws.plan(problem, "cuda:0")(x, dy)
        rows, columns = problem.output_size
        terms = x[0, 7, 2:, 2:] * dy[0, 1]
        assert terms.shape == (rows, columns)
        error = abs(dw[1, 7, 2, 2].double() - terms.sum(dtype=torch.float64)) / terms.abs().sum(dtype=torch.float64)
        assert error.item() <= 1e-6


@every_pass
@pytest.mark.parametrize("channels_last", [False, True])
@every_dtype
def test_cudnn_computes_in_the_same_type_and_either_layout(dtype: DType, channels_last: bool, pass_: Pass) -> None:
    pytest.importorskip("torch")
    problem = Conv2d(**SHAPE, pass_=pass_, dtype=dtype)
    operands = random_operands(problem, 1)
    peer = torch_peer(problem, operands, DeviceKind.CUDA, channels_last=channels_last)
    peer.run()
    verdict = verify(np.ascontiguousarray(peer.result()), Reference(*reference(problem, operands)), dtype, 2e-5)
    assert verdict.max_error <= (peer.tolerance or 2e-5), verdict.message


@every_pass
def test_cudnn_is_in_tf32_where_the_layer_asks_for_less_than_float32(pass_: Pass) -> None:
    """cuDNN's errors show TF32 for the TF32 layer, and no longer for the float32 layer after it."""
    pytest.importorskip("torch")
    errors = []
    for precision in (Precision.IEEE, Precision.TF32, Precision.IEEE):
        problem = Conv2d(**LARGE, pass_=pass_, precision=precision)
        operands = random_operands(problem, 1)
        peer = torch_peer(problem, operands, DeviceKind.CUDA)
        peer.run()
        exact = Reference(*reference(problem, operands))
        errors.append(verify(np.ascontiguousarray(peer.result()), exact, DType.FLOAT32, 1.0).max_error)
        assert (" in tf32" in peer.name) is (precision is Precision.TF32)
    assert max(errors[0], errors[2]) < 2e-5 < errors[1] < 2e-3
