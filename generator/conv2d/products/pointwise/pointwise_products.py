"""What the families of products of float32 images share: `conv2d_pointwise` and `conv2d_gather`."""

from __future__ import annotations

from warpsmith.generator.architectures import ASYNC_COPIES
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import SidedFamily, why_not_usual_data
from warpsmith.generator.conv2d.layer.words import ImageLayout
from warpsmith.generator.conv2d.sums.direct_model import is_expected_before_direct
from warpsmith.generator.device import Device
from warpsmith.generator.tensor_cores import TensorType


class PointwiseProducts(SidedFamily):
    """A family whose blocks copy float32 images to shared memory and split them on their way to the tensor cores."""

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        return (
            device.why_no_tensor_instruction(TensorType.F16)
            or device.why_no(ASYNC_COPIES)
            or why_not_usual_data(problem, self.layouts(problem))
            or super().why_not(problem, device)
        )

    def layouts(self, problem: Conv2d) -> tuple[ImageLayout, ...]:  # noqa: ARG002 - for those of one pass
        """Layouts of images that the copies read."""
        return (ImageLayout.NCHW,)

    def is_likely(self, problem: Conv2d, device: Device) -> bool:
        return is_expected_before_direct(self, problem, device)
