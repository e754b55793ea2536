"""Depthwise and grouped layers: windows that slide over planes in shared memory, with sums and weights in registers.

A layer whose groups have few channels does little work per pixel. Its time is that of memory, or of instructions other
than multiply-adds if a kernel has many of them. So a block copies whole planes, or bands of them, with their padding
into shared memory once. A thread reads each row of its window once and uses it for all tap rows that need it, and keeps
the weights of its filter in registers.

dgrad is the same sum with another index map (`layer/axes.py`), for each phase of a stride on the same tile. wgrad
keeps the taps of a filter as sums in registers, over some images per block. A second kernel adds up the blocks' sums in
a fixed order, so that the same inputs give the same bits.

Source: the sliding window of `filter2d_window`, and "Optimizing a CNN in CUDA" (registers as a cache, the reduction of
the weights' gradient).
"""

from __future__ import annotations

from warpsmith.generator.architectures import ASYNC_COPIES
from warpsmith.generator.conv2d.fourier.circular_family import LIKELY_TAPS, Conv2dCircular
from warpsmith.generator.conv2d.layer.axes import multiply_adds
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import SidedFamily, why_not_usual_data
from warpsmith.generator.conv2d.sums.depthwise.depthwise_image import DepthwiseImages
from warpsmith.generator.conv2d.sums.depthwise.depthwise_image_geometry import NAME
from warpsmith.generator.conv2d.sums.depthwise.depthwise_weight import DepthwiseWeights
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Work
from warpsmith.generator.space import Config

MAX_GROUP = 16
"""Most channels, or filters, per group; with more of them, the GEMM families do the work."""
MAX_TAPS = 64
"""Most columns of a filter; their taps are unrolled."""


class Conv2dDepthwise(SidedFamily):
    """`conv2d` of groups with few channels."""

    name = NAME
    image, weight = DepthwiseImages(), DepthwiseWeights()

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        if (why := device.why_no(ASYNC_COPIES) or why_not_usual_data(problem)) is not None:
            return why
        if max(problem.group_channels, problem.group_filters) > MAX_GROUP:
            return f"is for groups of {MAX_GROUP} channels and filters at the most"
        if (taps := problem.weight[3]) > MAX_TAPS:
            return f"writes out the taps of a filter's row, {MAX_TAPS} of them at the most; this one has {taps}"
        return super().why_not(problem, device)

    def is_likely(self, problem: Conv2d, device: Device) -> bool:
        """False for filters so large that a transform of the plane costs less than their taps, if `conv2d_circular`
        solves the layer.
        """
        if device.kind is not DeviceKind.CUDA or self.why_not(problem, device) is not None:
            return False
        taps = problem.weight[2] * problem.weight[3]
        return taps < LIKELY_TAPS or Conv2dCircular().why_not(problem, device) is not None

    def work(self, problem: Conv2d, config: Config) -> Work:
        return Work(multiply_adds(problem), 0)
