"""Fourier transforms and the families that solve them."""

from __future__ import annotations

from warpsmith.generator.fft.problem import Fft
from warpsmith.generator.operation import Operation, families_in

_FAMILIES = families_in(
    "warpsmith.generator.fft",
    {
        "fft_block": "block.block_family:FftBlock",
        "fft_warp": "warp_family:FftWarp",
        "fft_two_pass": "two_pass_family:FftTwoPass",
        "fft_cufft": "cufft_family:FftCufft",
    },
)

FFT = Operation(Fft, _FAMILIES, "fft_block")
"""The simplest family runs one radix after the other over shared memory, for any size, as the method is written down
(Cooley and Tukey 1965). `FftWarp` is no simpler: it takes powers of two alone, and exchanges by shuffles what these
passes store.
"""
