"""warpsmith's plans as operators of PyTorch, with gradients. Importing this loads PyTorch."""

from __future__ import annotations

from warpsmith.torch.convolution import conv2d, conv_transpose2d
from warpsmith.torch.found_layers import forget
from warpsmith.torch.words import Fallback, LeftToTorch

__all__ = ["Fallback", "LeftToTorch", "conv2d", "conv_transpose2d", "forget"]
