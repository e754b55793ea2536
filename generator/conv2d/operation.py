"""Convolution layers and the families that solve them."""

from __future__ import annotations

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.operation import Operation, families_in

_FAMILIES = families_in(
    "warpsmith.generator.conv2d",
    {
        "conv2d_direct": "sums.direct_family:Conv2dDirect",
        "conv2d_depthwise": "sums.depthwise.depthwise_family:Conv2dDepthwise",
        "conv2d_depthwise_last": "sums.depthwise_last.depthwise_last_family:Conv2dDepthwiseLast",
        # Products on tensor cores, of fp16 parts or of int8 slices.
        "conv2d_warpgroup": "products.wgmma.wgmma_family:Conv2dWarpgroup",
        "conv2d_warpgroup_im2col": "products.wgmma.im2col_family:Conv2dWarpgroupIm2col",
        "conv2d_winograd": "products.winograd.winograd_family:Conv2dWinograd",
        "conv2d_mma": "products.mma.mma_family:Conv2dMma",
        "conv2d_slices": "products.ozaki.ozaki_family:Conv2dSlices",
        # Fourier methods for layers whose filters read all channels. Those for few channels come first, then those for
        # few results. The tiled ones come before those of whole planes: they are likely where these take longer. Within
        # each group the fastest products come first.
        "conv2d_fft_tiled_fused": "fourier.fused:Conv2dFftTiledFused",
        "conv2d_fft_tiled_fused_2": "fourier.fused:Conv2dFftTiledFused2",
        "conv2d_fft_fused": "fourier.fused:Conv2dFftFused",
        "conv2d_fft_tiled_thin": "fourier.tiled:Conv2dFftTiledThin",
        "conv2d_fft_thin": "fourier.fourier_family:Conv2dFftThin",
        "conv2d_fft_tiled_halves": "fourier.split16.split16_family:Conv2dFftTiledHalves",
        "conv2d_fft_halves": "fourier.split16.split16_family:Conv2dFftHalves",
        "conv2d_fft_tiled_warpgroup": "fourier.tiled:Conv2dFftTiledWarpgroup",
        "conv2d_fft_tiled_tensor": "fourier.tiled:Conv2dFftTiledTensor",
        "conv2d_fft_tiled": "fourier.tiled:Conv2dFftTiled",
        "conv2d_fft_tiled_2": "fourier.tiled:Conv2dFftTiled2",
        "conv2d_fft_tiled_3": "fourier.tiled:Conv2dFftTiled3",
        "conv2d_fft_warpgroup": "fourier.fourier_family:Conv2dFftWarpgroup",
        "conv2d_fft_tensor": "fourier.fourier_family:Conv2dFftTensor",
        "conv2d_fft": "fourier.fourier_family:Conv2dFft",
        "conv2d_fft_2": "fourier.fourier_family:Conv2dFft2",
        "conv2d_fft_3": "fourier.fourier_family:Conv2dFft3",
        "conv2d_fft_cublas": "fourier.fourier_family:Conv2dFftCublas",
        "conv2d_cufft": "fourier.cufft:Conv2dCufft",
        "conv2d_circular": "fourier.circular.circular_family:Conv2dCircular",
        "conv2d_plain": "plain_family:Conv2dPlain",
    },
)

CONV2D = Operation(Conv2d, _FAMILIES, "conv2d_plain")
"""The simplest family has one thread per result of an image, one block per result of a weight, and no constraint on the
problem."""
