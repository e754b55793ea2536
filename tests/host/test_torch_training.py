"""A network trained by warpsmith learns what it learns with PyTorch."""

from __future__ import annotations

import pytest
import torch

import exhaustive
from torch_training import losses

IMAGES = 640
"""Enough digits for the loss of the second epoch to be a fifth of that of the first."""


@pytest.mark.usefixtures("compile_quickly")
def test_the_digits_have_the_same_loss_curve() -> None:
    ours, theirs = (losses("cpu", 2, patched=patched, images=IMAGES, fallback="default") for patched in (True, False))
    assert theirs[1] < 0.5 * theirs[0]  # it learns
    assert ours == pytest.approx(theirs, rel=1e-3)
    assert ours != theirs  # the order of additions differs


@exhaustive.one_in(2, 1)
@pytest.mark.usefixtures("compile_quickly")
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=str)
def test_so_they_have_in_bfloat16(memory_format: torch.memory_format) -> None:
    """Autocast alone moves the second epoch's loss by 2% from that of float32, and the order of additions by 1.3%."""
    options = {"autocast": torch.bfloat16, "memory_format": memory_format, "images": IMAGES}
    ours, theirs = (losses("cpu", 2, patched=patched, fallback="default", **options) for patched in (True, False))
    assert theirs[1] < 0.5 * theirs[0]
    assert ours[0] == pytest.approx(theirs[0], rel=1e-3)
    assert ours[1] == pytest.approx(theirs[1], rel=3e-2)  # equal where a CPU adds products of bfloat16 up in float32
