"""Depthwise channels-last layers: neighbouring threads have neighbouring channels and read pixels from global memory.

With one channel per group a layer does little work per pixel. Channels are contiguous, so a warp reads whole cache
lines whatever the window is. No tile in shared memory is needed, since rows that neighbouring strips share come from
L1. A thread has a vector of channels and keeps a few rows of sums in registers. It reads each row of pixels once and
uses it for all rows of taps that need it. The weights of a block's channels are in shared memory, channels side by
side.

dgrad is the same sum with another index map (`layer/axes.py`), for each phase of a stride. wgrad keeps the taps of a
filter as sums in registers. Threads and blocks share the positions of y, and their sums are added up in a fixed order,
so that the same inputs give the same bits.

Source: the sliding window of `conv2d_depthwise`, in the layout that PyTorch calls channels_last.
"""

from __future__ import annotations

from warpsmith.generator.conv2d.layer.axes import multiply_adds
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import SidedFamily, why_not_counted
from warpsmith.generator.conv2d.layer.words import ImageLayout
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_image import DepthwiseLastImages
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_model import NAME
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_weight import DepthwiseLastWeights
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Work
from warpsmith.generator.padding import PaddingMode
from warpsmith.generator.space import Config

MAX_TAPS = 31
"""Most rows, and most columns, of a filter."""


class Conv2dDepthwiseLast(SidedFamily):
    """`conv2d` of groups with one channel, channels last."""

    name = NAME
    image, weight = DepthwiseLastImages(), DepthwiseLastWeights()

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        if problem.layout is not ImageLayout.NHWC:
            return f"reads images in nhwc only, and none in {problem.layout}"
        if problem.group_channels != 1 or problem.group_filters != 1:
            return "is for groups of one channel and one filter"
        if problem.padding_mode is not PaddingMode.ZEROS:
            return "pads with zeros only"
        if max(problem.weight[2:]) > MAX_TAPS:
            return f"is for filters of {MAX_TAPS}x{MAX_TAPS} taps at the most"
        return super().why_not(problem, device) or why_not_counted(problem)

    def is_likely(self, problem: Conv2d, device: Device) -> bool:
        return device.kind is DeviceKind.CUDA and self.why_not(problem, device) is None

    def work(self, problem: Conv2d, config: Config) -> Work:
        return Work(multiply_adds(problem), 0)
