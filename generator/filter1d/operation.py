"""Filters of one-dimensional signals and the families that solve them."""

from __future__ import annotations

from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.operation import Operation, families_in

_FAMILIES = families_in(
    "warpsmith.generator.filter1d",
    {
        "filter1d_registers": "registers_family:Filter1dRegisters",
        "filter1d_channels": "channels_family:Filter1dChannels",
        "filter1d_toeplitz": "toeplitz_family:Filter1dToeplitz",
        "filter1d_toeplitz_channels": "toeplitz_channels_family:Filter1dToeplitzChannels",
        "filter1d_toeplitz_batch": "toeplitz_batch_family:Filter1dToeplitzBatch",
        "filter1d_step": "step_family:Filter1dStep",
        "filter1d_plain": "plain_family:Filter1dPlain",
        "filter1d_fft": "fft_family:Filter1dFft",
        "filter1d_fft_matrix": "fft_matrix_family:Filter1dFftMatrix",
        "filter1d_partitioned": "partitioned_family:Filter1dPartitioned",
        "filter1d_shared": "shared_family:Filter1dShared",
        "filter1d_overlap_add": "overlap_add_family:Filter1dOverlapAdd",
        "filter1d_scatter": "scatter_family:Filter1dScatter",
        "filter1d_lags": "lags_family:Filter1dLags",
        "filter1d_parts": "parts_family:Filter1dParts",
        "filter1d_fft_long": "fft_long_family:Filter1dFftLong",
        "filter1d_gradients_warp": "gradients_warp_family:Filter1dGradientsWarp",
        "filter1d_gradients_channels": "gradients_channels_family:Filter1dGradientsChannels",
        "filter1d_gradients_batch": "gradients_batch_family:Filter1dGradientsBatch",
        "filter1d_gradients_plain": "gradients_plain_family:Filter1dGradientsPlain",
        # The first family that solves a problem answers on a CPU. These come after the plain one, since PyTorch's
        # faster sums take its place there.
        "filter1d_gradients_fft": "gradients_fft_family:Filter1dGradientsFft",
        "filter1d_gradients_apart": "gradients_apart_family:Filter1dGradientsApartFft",
        "filter1d_gradients_apart_batch": "gradients_apart_family:Filter1dGradientsApartBatch",
    },
)

FILTER1D = Operation(Filter1d, _FAMILIES, "filter1d_plain")
"""The simplest family has one thread per output, and no constraint on the problem."""
