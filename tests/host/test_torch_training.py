"""A network that warpsmith trains learns what PyTorch's learns."""

from __future__ import annotations

import pytest

from torch_training import losses


@pytest.mark.usefixtures("compile_quickly")
def test_the_digits_have_the_same_loss_curve() -> None:
    ours, theirs = (losses("cpu", 2, patched=patched, fallback="default") for patched in (True, False))
    assert theirs[1] < 0.5 * theirs[0]  # it learns
    assert ours == pytest.approx(theirs, rel=1e-3)
    assert ours != theirs  # other sums
