"""Layers in the frequency domain tile by tile, for planes too large for whole transforms and much larger than a filter.

Source: Vasilache et al. 2014, "Fast Convolutional Nets With fbfft", section 6.
"""

from __future__ import annotations

from typing import ClassVar

from warpsmith.generator.conv2d.fourier.fourier_family import (
    Conv2dFft,
    Conv2dFftTensor,
    Conv2dFftThin,
    Conv2dFftWarpgroup,
)
from warpsmith.generator.conv2d.fourier.tiles import MOST, TiledParts
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.device import Device
from warpsmith.generator.padding import PaddingMode

ODD_COLUMNS = 1.1
"""Factor on the expected time of tiles with an odd number of columns. In 200 layers (H200) such tiles lost to whole
planes eight times of nine where 0.92 to 0.95 of their time was expected, and won five times of six at 0.79 to 0.88.
"""


class Conv2dFftTiled(Conv2dFft):
    """`conv2d` by Fourier transforms of tiles of the likeliest size."""

    name = "conv2d_fft_tiled"
    parts = TiledParts
    whole: ClassVar[Conv2dFft] = Conv2dFft()
    """The family for whole planes, to compare expected times with."""

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        if max(problem.weight[2:]) > MOST:
            return f"has tiles of {MOST} points at the most along an axis, with a filter inside"
        if problem.padding_mode is not PaddingMode.ZEROS:
            return "pads with zeros only"
        return super().why_not(problem, device)

    def is_likely(self, problem: Conv2d, device: Device) -> bool:
        """Whether its steps are expected to take less time than sums over taps, and than transforms of whole planes."""
        if not super().is_likely(problem, device):
            return False
        if self.whole.why_not(problem, device) is not None:
            return True
        parts = self._parts(problem)
        slower = ODD_COLUMNS if parts.basis.columns % 2 else 1.0
        return slower * parts.expected_ns(device.rates) < self.whole.expected_ns(problem, device)


class Conv2dFftTiledTensor(Conv2dFftTensor, Conv2dFftTiled):
    """`conv2d_fft_tiled` with products on the tensor cores, as accurate as in float32."""

    name = "conv2d_fft_tiled_tensor"


class Conv2dFftTiledWarpgroup(Conv2dFftWarpgroup, Conv2dFftTiled):
    """`conv2d_fft_tiled` with wgmma products on split fp16 spectra; errors are relative to the norm of each."""

    name = "conv2d_fft_tiled_warpgroup"


class Conv2dFftTiledThin(Conv2dFftThin, Conv2dFftTiled):
    """`conv2d_fft_tiled` with products of few rows or columns."""

    name = "conv2d_fft_tiled_thin"


class Conv2dFftTiled2(Conv2dFftTiled):
    """`conv2d_fft_tiled` with tiles of the second likeliest size."""

    name = "conv2d_fft_tiled_2"
    rank = 1


class Conv2dFftTiled3(Conv2dFftTiled):
    """`conv2d_fft_tiled` with tiles of the third likeliest size."""

    name = "conv2d_fft_tiled_3"
    rank = 2
