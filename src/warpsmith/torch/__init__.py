"""PyTorch operators that run warpsmith's plans, with gradients. Importing this package loads PyTorch."""

from __future__ import annotations

from warpsmith.torch.answers import forget
from warpsmith.torch.arguments import Fallback, LeftToTorch
from warpsmith.torch.causal import causal_conv1d_fn, causal_conv1d_update
from warpsmith.torch.convolution import conv2d, conv_transpose2d
from warpsmith.torch.fft import fft, fft2, ifft, ifft2, irfft, irfft2, rfft, rfft2
from warpsmith.torch.filters import filter2d
from warpsmith.torch.gated import gated_conv1d
from warpsmith.torch.modules import Conv2d, ConvTranspose2d
from warpsmith.torch.patching import LeftLayer, PassReport, PatchReport, ReplacedLayer, patch, unpatch
from warpsmith.torch.signals import conv1d, convolve, correlate, fftconvolve, oaconvolve

__all__ = [
    "Conv2d",
    "ConvTranspose2d",
    "Fallback",
    "LeftLayer",
    "LeftToTorch",
    "PassReport",
    "PatchReport",
    "ReplacedLayer",
    "causal_conv1d_fn",
    "causal_conv1d_update",
    "conv1d",
    "conv2d",
    "conv_transpose2d",
    "convolve",
    "correlate",
    "fft",
    "fft2",
    "fftconvolve",
    "filter2d",
    "forget",
    "gated_conv1d",
    "ifft",
    "ifft2",
    "irfft",
    "irfft2",
    "oaconvolve",
    "patch",
    "rfft",
    "rfft2",
    "unpatch",
]
