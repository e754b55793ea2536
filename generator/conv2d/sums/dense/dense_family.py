"""Layers whose filters cover a whole image: fully connected layers, and squeeze-and-excitation on images of one pixel.

Such a layer is a matrix product of few rows, whose time is that of a launch and of one load from memory. So there is
one launch, without an operand laid out first, and all loads of a thread are in flight together. In fprop both factors
are contiguous along the terms: `lanes` neighbouring threads share the sums of `rows` images and `columns` filters, and
shuffles add them up. In dgrad and wgrad the second factor is contiguous along the results: a thread has a vector of
them for `rows` rows, `slices` threads of a block share the terms, and shared memory adds their sums up in order. Sums
are float32, and equal inputs give equal bits.

Source: the matrix-vector kernels of BLAS (GEMV by rows and by columns); Chetlur et al. 2014, "cuDNN: Efficient
Primitives for Deep Learning", section 3 (layers as matrix products).
"""

from __future__ import annotations

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import LayerSide, SidedFamily, why_not_counted
from warpsmith.generator.conv2d.sums.dense.dense_columns import DenseColumns
from warpsmith.generator.conv2d.sums.dense.dense_layer import why_not_dense
from warpsmith.generator.conv2d.sums.dense.dense_model import NAME
from warpsmith.generator.conv2d.sums.dense.dense_rows import DenseRows
from warpsmith.generator.device import Device, DeviceKind


class Conv2dDense(SidedFamily):
    """`conv2d` of filters as large as the image, by sums in registers. Both gradients are one side, fprop the other."""

    name = NAME
    image, weight = DenseRows(), DenseColumns()

    def side(self, problem: Conv2d) -> LayerSide:
        return problem.pass_.select(self.image, self.weight, self.weight)

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        return why_not_dense(problem) or why_not_counted(problem) or super().why_not(problem, device)

    def is_likely(self, problem: Conv2d, device: Device) -> bool:
        return device.kind is DeviceKind.CUDA and self.why_not(problem, device) is None
