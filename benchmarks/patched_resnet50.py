"""One training step of ResNet-50, patched, beside the same step by PyTorch alone: time, loss, gradients.

    python benchmarks/patched_resnet50.py [--device cpu] [--batch 2] [--side 64]

On the host device each pass of about 70 layers is a separate library, compiled at its first call. The resources that
the process then holds are printed too. Source: He et al. 2016, "Deep Residual Learning for Image Recognition", table 1.
"""

from __future__ import annotations

import argparse
import copy
import time

import torch
from host_plans import kept
from torch import Tensor, nn

import warpsmith.torch as wt

BLOCKS = (3, 4, 6, 3)
WIDTHS = (64, 128, 256, 512)
EXPANSION = 4
CLASSES = 10


class Bottleneck(nn.Module):
    """Convolutions of 1x1, 3x3 and 1x1 beside a shortcut."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        results = EXPANSION * width
        self.layers = nn.Sequential(
            *(nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
            *(nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
            *(nn.Conv2d(width, results, 1, bias=False), nn.BatchNorm2d(results)),
        )
        is_same = stride == 1 and channels == results
        projection = nn.Sequential(nn.Conv2d(channels, results, 1, stride, bias=False), nn.BatchNorm2d(results))
        self.shortcut = nn.Identity() if is_same else projection

    def forward(self, images: Tensor) -> Tensor:
        return torch.relu(self.layers(images) + self.shortcut(images))


def resnet50() -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, 2, 1))
    channels = 64
    for stage, (blocks, width) in enumerate(zip(BLOCKS, WIDTHS, strict=True)):
        for block in range(blocks):
            layers.append(Bottleneck(channels, width, 2 if stage and not block else 1))
            channels = EXPANSION * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES))


def step(model: nn.Module, images: Tensor, classes: Tensor) -> tuple[float, float]:
    """Loss and seconds of one forward and backward pass."""
    start = time.monotonic()
    loss = nn.functional.cross_entropy(model(images), classes)
    loss.backward()
    return loss.item(), time.monotonic() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", help="of the tensors, such as cpu or cuda:0")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--side", type=int, default=64, help="rows and columns of an image")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    theirs = resnet50().to(arguments.device)
    ours = copy.deepcopy(theirs)
    start = time.monotonic()
    layers = wt.patch(ours, fallback="default")
    print(f"{len(layers.replaced)} layers patched in {time.monotonic() - start:.2f} s")
    images = torch.randn(arguments.batch, 3, arguments.side, arguments.side, device=arguments.device)
    classes = torch.randint(CLASSES, (arguments.batch,), device=arguments.device)
    loss, seconds = step(ours, images, classes)
    print(f"first step {seconds:.1f} s, of which kernels are compiled once; {kept()}", flush=True)
    their_loss, their_seconds = step(theirs, images, classes)
    exact = copy.deepcopy(theirs).double()
    exact.zero_grad()
    exact_loss, _ = step(exact, images.double(), classes)
    print(f"PyTorch's step {their_seconds:.1f} s")
    print(f"loss {loss:.7f}, PyTorch's {their_loss:.7f}, in float64 {exact_loss:.7f}")
    print(
        f"gradients off by {_worst(ours, exact):.1e} at most in the L2 norm, PyTorch's by {_worst(theirs, exact):.1e}"
    )


def _worst(model: nn.Module, exact: nn.Module) -> float:
    """Largest relative error of a parameter's gradient."""
    return max(
        float((mine.grad - its.grad).norm() / its.grad.norm())
        for mine, its in zip(model.parameters(), exact.parameters(), strict=True)
        if mine.grad is not None and its.grad is not None
    )


if __name__ == "__main__":
    main()
