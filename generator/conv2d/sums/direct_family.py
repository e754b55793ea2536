"""Several results per thread, in registers, with pixels and weights that are read once for many of them.

Source: the first rungs of "Optimizing a CNN in CUDA": more work per thread, registers as a cache, padding that costs no
checks (here the zeros of a tile in shared memory). For the gradient of the weights, the sums of a thread stay in
registers and are reduced at the end by shuffles and shared memory. That document's reduction adds blocks' sums
atomically. Here one block has all terms of its weights, so that the same inputs give the same bits.

If the padding repeats pixels, dgrad first computes the gradient of the padded image, in a workspace, and then folds it
(`fold.py`). A thread's window has no more taps than without padding.
"""

from __future__ import annotations

from warpsmith.generator.conv2d.layer.axes import multiply_adds
from warpsmith.generator.conv2d.layer.fold import folds
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import SidedFamily, why_not_counted
from warpsmith.generator.conv2d.layer.words import ImageLayout
from warpsmith.generator.conv2d.sums.direct_image import DirectImages
from warpsmith.generator.conv2d.sums.direct_image_geometry import NAME
from warpsmith.generator.conv2d.sums.direct_model import direct_ns
from warpsmith.generator.conv2d.sums.direct_weight import DirectWeights
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Work
from warpsmith.generator.space import Config


class Conv2dDirect(SidedFamily):
    """`conv2d` as sums in registers."""

    name = NAME
    image, weight = DirectImages(), DirectWeights()

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        if folds(problem) and problem.layout is not ImageLayout.NCHW:
            return f"folds the gradient of padded images in nchw only, and none in {problem.layout}"
        return why_not_counted(problem) or super().why_not(problem, device)

    def is_likely(self, problem: Conv2d, device: Device) -> bool:
        """Every layer: families that are expected to take less time come before it."""
        return device.kind is DeviceKind.CUDA and self.why_not(problem, device) is None

    def expected_ns(self, problem: Conv2d, device: Device) -> float | None:
        return direct_ns(problem, device)

    def work(self, problem: Conv2d, config: Config) -> Work:
        return Work(multiply_adds(problem), 0)
