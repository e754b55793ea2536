"""Fourier transforms and the families that solve them."""

from __future__ import annotations

from warpsmith.generator.fft.block.family import FftBlock
from warpsmith.generator.fft.cufft import FftCufft
from warpsmith.generator.fft.problem import Fft
from warpsmith.generator.fft.two_pass import FftTwoPass
from warpsmith.generator.fft.warp.family import FftWarp
from warpsmith.generator.operation import Operation

_BLOCK = FftBlock()
"""Simplest family: one radix after the other over shared memory, as the method is written down (Cooley and Tukey 1965),
for any size. `FftWarp` is no simpler: it takes powers of two alone, and exchanges by shuffles what these passes store.
"""

FFT = Operation(Fft, (_BLOCK, FftWarp(), FftTwoPass(), FftCufft()), simplest=_BLOCK)
