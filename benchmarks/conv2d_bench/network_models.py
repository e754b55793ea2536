"""Networks of torchvision and a U-Net, and the shapes of their convolutions. Needs PyTorch; torchvision for the former.

Source: Ronneberger et al. 2015, "U-Net", figure 1, here with padding, so that images keep their size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from warpsmith.generator.conv2d import Conv2d

UNET = "unet"
WIDTHS = (64, 128, 256, 512, 1024)
"""Channels of the U-Net's levels."""


class UNet(nn.Module):
    """Four levels down and up with two 3x3 convolutions each; a level's result is joined to the one that comes up."""

    def __init__(self, channels: int = 3, classes: int = 2) -> None:
        super().__init__()
        widths = (channels, *WIDTHS)
        self.down = nn.ModuleList(_twice(*pair) for pair in zip(widths, WIDTHS, strict=False))
        pairs = list(zip(WIDTHS[::-1], WIDTHS[-2::-1], strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose2d(below, here, 2, 2) for below, here in pairs)
        self.joined = nn.ModuleList(_twice(below, here) for below, here in pairs)
        self.last = nn.Conv2d(WIDTHS[0], classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        levels = []
        for level in self.down:
            x = level(nn.functional.max_pool2d(x, 2) if levels else x)
            levels.append(x)
        for up, joined, level in zip(self.up, self.joined, levels[-2::-1], strict=True):
            x = joined(torch.cat((level, up(x)), 1))
        return self.last(x)  # type: ignore[no-any-return]


def network(name: str) -> nn.Module:
    """A network with random weights. Auxiliary classifiers are left out."""
    if name == UNET:
        return UNet()
    import torchvision

    options: dict[str, Any] = {"weights": None}
    if name in ("googlenet", "inception_v3"):
        options |= {"aux_logits": False, "init_weights": False}
    return torchvision.models.get_model(name, **options)  # type: ignore[no-any-return]


def shapes(name: str, batch: int, side: int) -> Iterator[Conv2d]:
    """Yields each convolution of a network in the order of its computation, with repetitions.

    A transposed convolution stands as the layer whose gradient it is.
    """
    seen: list[Conv2d] = []

    def note(module: nn.Module, given: tuple[Tensor, ...], result: Tensor) -> None:
        seen.append(layer_of(module, given[0], result))

    model = network(name).eval().to("meta")
    with torch.device("meta"), torch.no_grad():
        for module in model.modules():
            if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
                module.register_forward_hook(note)
        model(torch.empty(batch, 3, side, side))
    yield from seen


def layer_of(module: nn.Module, given: Tensor, result: Tensor) -> Conv2d:
    """The layer of a module's call, as fprop and without its bias."""
    image = result if isinstance(module, nn.ConvTranspose2d) else given
    assert isinstance(module, (nn.Conv2d, nn.ConvTranspose2d))
    assert not isinstance(module.padding, str)
    above, left = module.padding
    return Conv2d(
        input=tuple(image.shape),  # type: ignore[arg-type]
        weight=tuple(module.weight.shape),  # type: ignore[arg-type]
        stride=module.stride,  # type: ignore[arg-type]
        padding=((above, above), (left, left)),
        dilation=module.dilation,  # type: ignore[arg-type]
        groups=module.groups,
    )


def _twice(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        *(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)),
        *(nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)),
    )
