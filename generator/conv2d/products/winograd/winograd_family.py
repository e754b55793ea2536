"""3x3 layers by Winograd minimal filtering on Hopper: 16 products for 4 results instead of 36, or 36 for 16 instead of
144.

One kernel transforms the weights, U = G g G^T, and another the tiles of the images, V = B^T d B. At each of the 16 (36)
points, U and V are multiplied over all channels, and the output transform A^T M A adds bias and ReLU. The products are
a layer of 1x1 taps with a group for each point, and the GEMM kernel of `conv2d_warpgroup` computes them. Both input
transforms write the fp16 parts that it reads, two for each float32, so no separate pass splits them. dgrad is the same
with the filter rotated by 180 degrees, its channels exchanged and a padding of two minus the layer's. wgrad is F(3x3,
2x2), where tiles of dy are filters (`winograd_weight.py`).

The batch may be processed in parts, so that transformed tiles and products fit the workspace, or L2.

The next table compares with float64 results of float32 data, for 64 channels and fp16x3 products. It has the largest
error over twice the root mean square of all results, the largest error over the scale that verification uses, and the
relative error of all results in the L2 norm:

| data | F(2x2, 3x3) | F(4x4, 3x3) |
|---|---|---|
| normal deviates | 3.2e-7, 4.3e-8, 1.6e-7 | 1.8e-6, 2.4e-7, 5.3e-7 |
| positive parts of deviates, as a ReLU leaves them | 3.1e-7, 5.4e-8, 1.5e-7 | 1.5e-6, 2.6e-7, 4.5e-7 |
| log-normal, sigma 2, with signs | 4.2e-6, 4.2e-6, 1.6e-7 | 8.9e-6, 8.6e-6, 5.4e-7 |

The largest errors of log-normal data occur beside a pixel that is some thousand times as large: errors are relative to
a whole tile, as those of Fourier transforms are relative to a plane. The tuner's stress inputs are alike. The largest
result of an image may be 15 times twice their root mean square, from one pixel and one weight alone, and F(4x4) then
gives the other results of its tile an error of 2e-6 of it, mostly from the transforms. The next table has the largest
errors in units of 1e-6 of twice the root mean square of an image's results. They are of 12x12 planes and 32 filters,
emulated with fused multiply-adds and products that keep only 24 bits:

| channels | draws | F(2x2, 3x3) | F(4x4, 3x3) | allowed |
|---|---|---|---|---|
| 256 | 90 | 14.1, 11.1, 5.3 | 36.9, 16.8, 15.3 | 15 |
| 512 | 77 | 7.5, 3.7, 3.0 | 17.7, 15.5, 11.4 | 20.4 |
| 1024 | 33 | 3.2, 2.2, 2.2 | 15.5, 9.7, 8.7 | 28.8 |

The largest error grows with the number of filters: with 1024 filters of 512 channels, two of six draws were off by more
than 19, and verification on an H200 refused such a layer. So F(4x4) is for sums of at least 1024 channels. With a
single fp16 part per number, as precisions below `ieee` would allow, F(2x2) was off by 4e-3 to 6e-3 on the stress inputs
and F(4x4) by 2e-2, so no other precision is solved.

Source: Lavin and Gray 2016, "Fast Algorithms for Convolutional Neural Networks", sections 4 and 5.
"""

from __future__ import annotations

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import SidedFamily, why_not_usual_data
from warpsmith.generator.conv2d.products.winograd.minimal import TAPS
from warpsmith.generator.conv2d.products.winograd.winograd_image import WinogradImages
from warpsmith.generator.conv2d.products.winograd.winograd_transforms import NAME
from warpsmith.generator.conv2d.products.winograd.winograd_weight import WinogradWeights
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.padding import PaddingMode
from warpsmith.generator.precision import Precision
from warpsmith.generator.problem import Accuracy, NonFinite
from warpsmith.generator.tensor_cores import WARPGROUP, TensorType

LIKELY_CHANNELS = 128
"""Fewest channels on both sides for which this family is likely to win. With fewer, the bytes of its transforms take
longer than the products that it saves.
"""


class Conv2dWinograd(SidedFamily):
    """`conv2d` of 3x3 layers by Winograd minimal filtering."""

    name = NAME
    image, weight = WinogradImages(), WinogradWeights()

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        return (
            device.why_no_tensor_instruction(TensorType.F16, WARPGROUP)
            or _why_not_layer(problem)
            or why_not_usual_data(problem)
            or super().why_not(problem, device)
        )

    def is_likely(self, problem: Conv2d, device: Device) -> bool:
        return device.kind is DeviceKind.CUDA and min(problem.group_channels, problem.group_filters) >= LIKELY_CHANNELS


def _why_not_layer(layer: Conv2d) -> str | None:
    if layer.weight[2:] != (TAPS, TAPS) or layer.stride != (1, 1) or layer.dilation != (1, 1) or layer.groups != 1:
        return "solves 3x3 layers of stride 1, dilation 1 and one group only"
    if layer.accuracy is not Accuracy.NORMWISE:
        return 'has errors relative to whole tiles: needs accuracy="normwise"'
    if layer.nonfinite is NonFinite.WINDOW:
        return "lets a NaN reach all results of its tile: needs nonfinite any"
    if layer.precision is not Precision.IEEE:
        return f"adds to the errors of rounded factors more than precision {layer.precision} allows: solves ieee only"
    if layer.padding_mode is not PaddingMode.ZEROS:
        return "solves padding_mode zeros only"
    return None
