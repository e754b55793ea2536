"""The Fourier families of `conv2d`: how planes are transformed, and by whom spectra are multiplied."""

from __future__ import annotations

from warpsmith.generator.cgemm.cublas_family import CgemmCublas
from warpsmith.generator.cgemm.tensor_family import CgemmTensor
from warpsmith.generator.cgemm.thin_family import CgemmThin
from warpsmith.generator.cgemm.tiled_family import CgemmTiled
from warpsmith.generator.cgemm.warpgroup_family import CgemmWarpgroup
from warpsmith.generator.conv2d.fourier.fourier_family import Conv2dFft, Variant
from warpsmith.generator.conv2d.fourier.fused import FusedStage
from warpsmith.generator.conv2d.fourier.parts import ProductRate
from warpsmith.generator.conv2d.fourier.plane_transforms import TILES, WHOLE_PLANES
from warpsmith.generator.conv2d.fourier.product_stage import CublasStage, ProductStage
from warpsmith.generator.conv2d.fourier.split16.split16_stage import SPLIT16
from warpsmith.generator.problem import Accuracy
from warpsmith.generator.tensor_cores import WARPGROUP, TensorType, instruction_of

FLOAT32 = ProductStage(CgemmTiled())
TENSOR = ProductStage(
    CgemmTensor(), ProductRate(50_000, instruction_of(TensorType.TF32)), Accuracy.ELEMENTWISE, is_selective=True
)
"""Products on tensor cores, as accurate as in float32."""
WGMMA = ProductStage(
    CgemmWarpgroup(),
    ProductRate(110_000, instruction_of(TensorType.F16, WARPGROUP)),
    Accuracy.NORMWISE,
    is_selective=True,
)
"""wgmma products on split fp16 spectra. Their errors are relative to the norm of each matrix, as a layer's own errors
are. 86,000 to 151,000 operations per ns in 22 passes of AlexNet and OverFeat, the more the larger they are."""
THIN = ProductStage(CgemmThin())
"""Results with few channels, or gradients of weights with few filters or channels."""
CUBLAS = CublasStage(CgemmCublas())
FUSED = FusedStage(CgemmTiled())

FFT = Variant("conv2d_fft", WHOLE_PLANES, FLOAT32)
FFT_FUSED = Variant("conv2d_fft_fused", WHOLE_PLANES, FUSED)
VARIANTS = (
    FFT,
    Variant("conv2d_fft_tensor", WHOLE_PLANES, TENSOR),
    Variant("conv2d_fft_warpgroup", WHOLE_PLANES, WGMMA),
    Variant("conv2d_fft_halves", WHOLE_PLANES, SPLIT16),
    Variant("conv2d_fft_thin", WHOLE_PLANES, THIN),
    Variant("conv2d_fft_cublas", WHOLE_PLANES, CUBLAS),
    FFT_FUSED,
    Variant("conv2d_fft_tiled", TILES, FLOAT32, rival=FFT),
    Variant("conv2d_fft_tiled_tensor", TILES, TENSOR, rival=FFT),
    Variant("conv2d_fft_tiled_warpgroup", TILES, WGMMA, rival=FFT),
    Variant("conv2d_fft_tiled_halves", TILES, SPLIT16, rival=FFT),
    Variant("conv2d_fft_tiled_thin", TILES, THIN, rival=FFT),
    Variant("conv2d_fft_tiled_fused", TILES, FUSED, rival=FFT_FUSED),
)
FOURIER = {variant.name: Conv2dFft(variant) for variant in VARIANTS}
"""Families by name."""
