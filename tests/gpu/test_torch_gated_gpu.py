"""Convolutions between gates, and sequences with numbers, as PyTorch's operators on a GPU."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import warpsmith.torch as wt  # noqa: E402 - after the check that PyTorch is there
from torch_signals import assert_close, causal, seeded, signals  # noqa: E402

pytestmark = pytest.mark.gpu

every_layout = pytest.mark.parametrize("layout", ["bct", "btc"])


@every_layout
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("taps", [7, 128])
def test_results_and_gradients_of_gated_convolutions(layout: str, dtype: Any, taps: int) -> None:
    x, before, after = (signals(layout, 2, 96, 1000).roll(n, 2).to("cuda", dtype) for n in (0, 3, 8))
    given = [each.requires_grad_() for each in (x, (seeded(6, taps) / taps).to("cuda", dtype), before, after)]
    wide = [each.detach().double().requires_grad_() for each in given]
    y = wt.gated_conv1d(*given)
    rounded = (wide[0] * wide[2]).to(dtype).double()
    expected = causal(rounded, wide[1].repeat_interleave(16, 0), None, None) * wide[3]
    bound = 1e-5 if dtype is torch.float32 else 2.0**-7
    assert y.stride() == x.stride()
    assert_close(y.double(), expected, bound)
    exact = torch.autograd.grad(expected.sum(), wide)
    for found, one in zip(torch.autograd.grad(y.sum(), given), exact, strict=True):
        assert_close(found.double(), one, 4 * bound)


@every_layout
def test_sequence_numbers_change_inside_of_vectors(layout: str) -> None:
    lengths = (513, 1, 2, 7, 8, 9, 484)
    numbers = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))[None].repeat(2, 1).cuda()
    x = signals(layout, 2, 96, 1024).cuda()
    w, b, states = seeded(96, 4).cuda(), seeded(96).cuda(), seeded(2, 96, 3).cuda()
    y, last = wt.causal_conv1d_fn(x, w, b, numbers, states, True, activation="silu")
    begin = 0
    for place, length in enumerate(lengths):
        own = x[..., begin : begin + length]
        before = torch.zeros_like(states) if place else states
        assert_close(y[..., begin : begin + length], causal(own, w, b, "silu", before))
        begin += length
    assert torch.equal(last, x[..., -3:])
