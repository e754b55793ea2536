"""Trains a small network on scikit-learn's digits, the same on any device and with any convolution."""

from __future__ import annotations

from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import nn

import warpsmith.torch as wt

BATCH = 64


def losses(
    device: str,
    epochs: int,
    *,
    patched: bool,
    autocast: torch.dtype | None = None,
    memory_format: torch.memory_format = torch.contiguous_format,
    images: int | None = None,
    **options: Any,
) -> list[float]:
    """Mean loss of each epoch. Every call uses the same seed.

    Args:
        device: PyTorch device.
        epochs: number of epochs.
        patched: True if warpsmith computes the convolutions.
        autocast: dtype of PyTorch's autocast; None without autocast.
        memory_format: memory format of images and weights.
        images: number of digits to learn from; None for all 1,797.
        options: options of `patch`.
    """
    torch.manual_seed(0)
    digits, labels = (each[:images] for each in load_digits(return_X_y=True))
    x = torch.tensor(digits, dtype=torch.float32).view(-1, 1, 8, 8) / 16
    x, y = x.to(device), torch.tensor(labels).to(device)
    model = nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(8, 16, 3, padding=1, stride=2, bias=False), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(256, 10)),
    ).to(device, memory_format=memory_format)
    casting = torch.autocast(device, dtype=autocast, enabled=autocast is not None)
    if patched:
        with casting:
            report = wt.patch(model, x[:BATCH], **options)
        assert [each.name for each in report.replaced] == ["0", "2"]
        dtype = str(autocast or torch.float32).removeprefix("torch.")
        assert {str(each.problem.dtype) for layer in report.replaced for each in layer.passes} == {dtype}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    order, found = torch.Generator().manual_seed(1), []
    for _ in range(epochs):
        total = 0.0
        batches = torch.randperm(len(x), generator=order)[: len(x) // BATCH * BATCH].view(-1, BATCH).to(device)
        for batch in batches:
            optimizer.zero_grad()
            with casting:
                loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
            loss.backward()
            optimizer.step()
            total += float(loss.detach())
        found.append(total / len(batches))
    return found
