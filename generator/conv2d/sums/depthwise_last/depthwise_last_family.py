"""Depthwise channels-last layers: neighbouring threads have neighbouring channels and read pixels from global memory.

With one channel per group a layer does little work per pixel. Channels are contiguous, so a warp reads whole cache
lines whatever the window is. No tile in shared memory is needed, since rows that neighbouring strips share come from
L1. A thread has a vector of channels and keeps a few rows of sums in registers. It reads each row of pixels once and
uses it for all rows of taps that need it. The weights of a block's channels are in shared memory, channels side by
side.

dgrad is the same sum with another index map (`conv2d/axes.py`), for each phase of a stride. wgrad keeps the taps of a
filter as sums in registers. Threads and blocks share the positions of y, and their sums are added up in a fixed order,
so that the same inputs give the same bits.

Source: the sliding window of `conv2d_depthwise`, in the layout that PyTorch calls channels_last.
"""

from __future__ import annotations

from warpsmith.generator.conv2d.layer.distance import DEFAULT_REACH
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.text import Conv2dText, conv2d_arguments
from warpsmith.generator.conv2d.layer.words import Pass
from warpsmith.generator.conv2d.layer.work import multiply_adds
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_image_default import ranked
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_image_geometry import FLOAT_BYTES, ImageGeometry
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_image_space import image_space
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_limits import why_not_depthwise
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_model import image_ns, weight_ns
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_weight_default import weight_ranked
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_weight_geometry import WeightGeometry
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_weight_space import weight_space
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family, Work
from warpsmith.generator.program import Launch, Pointer, Program, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Space

MOST_STARTS = 10
SUM_THREADS = 128
PARTS = "parts"
"""Name of the workspace for the blocks' partial sums of wgrad."""


class Conv2dDepthwiseLast(Family[Conv2d]):
    """`conv2d` of groups with one channel, channels last."""

    name = "conv2d_depthwise_last"
    default_reach = DEFAULT_REACH

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        return why_not_depthwise(problem)

    def is_likely(self, problem: Conv2d, device: Device) -> bool:
        return device.kind is DeviceKind.CUDA and self.why_not(problem, device) is None

    def expected_ns(self, problem: Conv2d, device: Device) -> float | None:
        config = self.default(problem, device)
        if problem.pass_ is Pass.WGRAD:
            return weight_ns(problem, WeightGeometry.of(problem, config), device)
        return image_ns(problem, ImageGeometry.of(problem, config), device)

    def space(self, problem: Conv2d, device: Device) -> Space:
        return (weight_space if problem.pass_ is Pass.WGRAD else image_space)(problem, device)

    def default(self, problem: Conv2d, device: Device) -> Config:
        return _usual(problem, device)[0]

    def starts(self, problem: Conv2d, device: Device) -> tuple[Config, ...]:
        return _usual(problem, device)[1 : MOST_STARTS + 1]

    def unrolled(self, problem: Conv2d, config: Config) -> int:
        return (WeightGeometry if problem.pass_ is Pass.WGRAD else ImageGeometry).of(problem, config).written

    def work(self, problem: Conv2d, config: Config) -> Work:
        return Work(multiply_adds(problem), 0)

    def program(self, problem: Conv2d, config: Config) -> Program:
        if problem.pass_ is Pass.WGRAD:
            return self._weight_program(problem, config)
        image, text = ImageGeometry.of(problem, config), Conv2dText.of(problem)
        source = render("conv2d/depthwise_last_image.cu.jinja", p=text, g=image, config=config.key())
        launch = Launch(
            self.name, (image.blocks, 1, 1), (image.threads, 1, 1), conv2d_arguments(problem), image.shared_bytes
        )
        return Program.of_source(self.name, config, source, (launch,))

    def _weight_program(self, problem: Conv2d, config: Config) -> Program:
        geometry, text = WeightGeometry.of(problem, config), Conv2dText.of(problem)
        source = render(
            "conv2d/depthwise_last_weight.cu.jinja", p=text, g=geometry, sum_threads=SUM_THREADS, config=config.key()
        )
        *inputs, output = conv2d_arguments(problem)
        is_split, weights = geometry.splits > 1, problem.output.size
        arguments = (*inputs, Pointer(PARTS) if is_split else output)
        launch = Launch(self.name, (geometry.blocks, 1, 1), (geometry.threads, 1, 1), arguments, geometry.shared_bytes)
        if not is_split:
            return Program.of_source(self.name, config, source, (launch,))
        total = Launch.of_blocks(f"{self.name}_sum", -(-weights // SUM_THREADS), SUM_THREADS, (Pointer(PARTS), output))
        workspace = Workspace(PARTS, FLOAT_BYTES * geometry.splits * weights)
        return Program.of_source(self.name, config, source, (launch, total), (workspace,))


def _usual(problem: Conv2d, device: Device) -> tuple[Config, ...]:
    """Configs that are expected to be fast, sorted by expected time; at least one if a block may have 48 KiB."""
    return (weight_ranked if problem.pass_ is Pass.WGRAD else ranked)(problem, device)
