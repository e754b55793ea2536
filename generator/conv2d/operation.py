"""Convolution layers and the families that solve them."""

from __future__ import annotations

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.operation import Operation, families_in

_FAMILIES = families_in(
    "warpsmith.generator.conv2d",
    {
        "conv2d_direct": "sums.direct_family:Conv2dDirect",
        "conv2d_dense": "sums.dense.dense_family:Conv2dDense",
        "conv2d_depthwise": "sums.depthwise.depthwise_family:Conv2dDepthwise",
        "conv2d_depthwise_last": "sums.depthwise_last.depthwise_last_family:Conv2dDepthwiseLast",
        # Products on tensor cores, of fp16 parts or of int8 slices.
        "conv2d_warpgroup": "products.wgmma.wgmma_family:Conv2dWarpgroup",
        "conv2d_warpgroup_im2col": "products.wgmma.im2col_family:Conv2dWarpgroupIm2col",
        "conv2d_warpgroup_groups": "products.wgmma.groups_family:Conv2dWarpgroupGroups",
        "conv2d_warpgroup_pixels": "products.wgmma.pixels_family:Conv2dWarpgroupPixels",
        "conv2d_warpgroup_tf32": "products.wgmma.tf32_family:Conv2dWarpgroupTf32",
        "conv2d_winograd": "products.winograd.winograd_family:Conv2dWinograd",
        "conv2d_mma": "products.mma.mma_family:Conv2dMma",
        "conv2d_pointwise": "products.pointwise.pointwise_family:Conv2dPointwise",
        "conv2d_gather": "products.pointwise.gather_family:Conv2dGather",
        "conv2d_slices": "products.ozaki.ozaki_family:Conv2dSlices",
        # Fourier methods for layers whose filters read all channels. Those for few channels come first, then those for
        # few results. The tiled ones come before those of whole planes: they are likely where these take longer. Within
        # each group the fastest products come first.
        "conv2d_fft_tiled_fused": "fourier.variants:FOURIER",
        "conv2d_fft_fused": "fourier.variants:FOURIER",
        "conv2d_fft_tiled_thin": "fourier.variants:FOURIER",
        "conv2d_fft_thin": "fourier.variants:FOURIER",
        "conv2d_fft_tiled_halves": "fourier.variants:FOURIER",
        "conv2d_fft_halves": "fourier.variants:FOURIER",
        "conv2d_fft_tiled_warpgroup": "fourier.variants:FOURIER",
        "conv2d_fft_tiled_tensor": "fourier.variants:FOURIER",
        "conv2d_fft_tiled": "fourier.variants:FOURIER",
        "conv2d_fft_warpgroup": "fourier.variants:FOURIER",
        "conv2d_fft_tensor": "fourier.variants:FOURIER",
        "conv2d_fft": "fourier.variants:FOURIER",
        "conv2d_fft_cublas": "fourier.variants:FOURIER",
        "conv2d_cufft": "fourier.cufft:Conv2dCufft",
        "conv2d_circular": "fourier.circular_family:Conv2dCircular",
        "conv2d_plain": "plain_family:Conv2dPlain",
    },
)

_STUDIED = families_in("warpsmith.generator.conv2d", {"conv2d_ladder": "sums.ladder.ladder_family:Conv2dLadder"})

CONV2D = Operation(Conv2d, _FAMILIES, "conv2d_plain", _STUDIED)
"""The simplest family has one thread per result of an image, one block per result of a weight, and no constraint on the
problem."""
