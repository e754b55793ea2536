"""Convolution layers and the families that solve them."""

from __future__ import annotations

from warpsmith.generator.conv2d.circular.family import Conv2dCircular
from warpsmith.generator.conv2d.depthwise.family import Conv2dDepthwise
from warpsmith.generator.conv2d.depthwise_last.family import Conv2dDepthwiseLast
from warpsmith.generator.conv2d.direct import Conv2dDirect
from warpsmith.generator.conv2d.fourier.cufft import Conv2dCufft
from warpsmith.generator.conv2d.fourier.family import (
    Conv2dFft,
    Conv2dFft2,
    Conv2dFft3,
    Conv2dFftCublas,
    Conv2dFftTensor,
    Conv2dFftThin,
    Conv2dFftWarpgroup,
)
from warpsmith.generator.conv2d.fourier.fused import Conv2dFftFused, Conv2dFftTiledFused, Conv2dFftTiledFused2
from warpsmith.generator.conv2d.fourier.halves.family import Conv2dFftHalves, Conv2dFftTiledHalves
from warpsmith.generator.conv2d.fourier.tiled import (
    Conv2dFftTiled,
    Conv2dFftTiled2,
    Conv2dFftTiled3,
    Conv2dFftTiledTensor,
    Conv2dFftTiledThin,
    Conv2dFftTiledWarpgroup,
)
from warpsmith.generator.conv2d.mma.family import Conv2dMma
from warpsmith.generator.conv2d.plain import Conv2dPlain
from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.conv2d.slices.family import Conv2dSlices
from warpsmith.generator.conv2d.warpgroup.family import Conv2dWarpgroup
from warpsmith.generator.conv2d.warpgroup.im2col_family import Conv2dWarpgroupIm2col
from warpsmith.generator.conv2d.winograd.family import Conv2dWinograd
from warpsmith.generator.operation import Operation

_PLAIN = Conv2dPlain()
"""The family without constraints on the problem: one thread per result of an image, one block per weight."""
_HALVES = (Conv2dFftTiledHalves(), Conv2dFftHalves())
_TILED = (Conv2dFftTiledWarpgroup(), Conv2dFftTiledTensor(), Conv2dFftTiled(), Conv2dFftTiled2(), Conv2dFftTiled3())
"""Families for tiles, fastest products first. They are listed before those of whole planes, because they are likely
only where whole planes take longer.
"""
_WHOLE = (Conv2dFftWarpgroup(), Conv2dFftTensor(), Conv2dFft(), Conv2dFft2(), Conv2dFft3(), Conv2dFftCublas())
_FUSED = (Conv2dFftTiledFused(), Conv2dFftTiledFused2(), Conv2dFftFused())
"""Families for layers with few channels alone; listed before both."""
_THIN = (Conv2dFftTiledThin(), Conv2dFftThin())
"""Families for results with few channels alone; listed before both."""
_FOURIER = (*_FUSED, *_THIN, *_HALVES, *_TILED, *_WHOLE, Conv2dCufft())
"""Families for layers whose filters meet all channels."""

_PRODUCTS = (Conv2dWarpgroup(), Conv2dWarpgroupIm2col(), Conv2dWinograd(), Conv2dMma(), Conv2dSlices())
"""GEMM families on tensor cores, with 16-bit operands or int8 slices."""

_FAMILIES = (Conv2dDirect(), Conv2dDepthwise(), Conv2dDepthwiseLast(), *_PRODUCTS, *_FOURIER, Conv2dCircular(), _PLAIN)

CONV2D = Operation(Conv2d, _FAMILIES, simplest=_PLAIN)
