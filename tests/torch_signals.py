"""Signals of tests of PyTorch's operators, and the causal convolution by its definition."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional


def seeded(*shape: int, dtype: Any = torch.float32) -> Any:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(sum(shape)))


def assert_close(result: Any, expected: Any, bound: float = 2e-5) -> None:
    assert result.shape == expected.shape
    largest = expected.abs().max().clamp(min=1e-9)
    assert (result - expected).abs().max() <= bound * largest, (result - expected).abs().max() / largest


def signals(layout: str, *shape: int) -> Any:
    """Signals (batch, channels, samples) in a layout."""
    x = seeded(*shape)
    return x.mT.contiguous().mT if layout == "btc" else x


def causal(x: Any, w: Any, b: Any | None, activation: str | None, before: Any | None = None) -> Any:
    """The convolution by PyTorch's operations, after zeros or the samples of a state."""
    older = w.shape[1] - 1
    longer = functional.pad(x, (older, 0)) if before is None else torch.cat([before, x], 2)
    y = functional.conv1d(longer, w[:, None], b, groups=len(w))
    return functional.silu(y) if activation else y
