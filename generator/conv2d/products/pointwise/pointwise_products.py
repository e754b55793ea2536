"""What the families of products of float32 images share: `conv2d_pointwise` and `conv2d_gather`."""

from __future__ import annotations

from warpsmith.generator.architectures import ASYNC_COPIES
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import SidedFamily, why_not_usual_data
from warpsmith.generator.conv2d.sums.direct_model import is_expected_before_direct
from warpsmith.generator.device import Device
from warpsmith.generator.tensor_cores import TensorType


class PointwiseProducts(SidedFamily):
    """A family whose blocks copy float32 images to shared memory and split them on their way to the tensor cores."""

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        return (
            device.why_no_tensor_instruction(TensorType.F16)
            or device.why_no(ASYNC_COPIES)
            or self.why_not_data(problem)
            or super().why_not(problem, device)
        )

    def why_not_data(self, problem: Conv2d) -> str | None:
        """Why the copies do not suit the layer's type and layout, in one line; None if they do."""
        return why_not_usual_data(problem)

    def is_likely(self, problem: Conv2d, device: Device) -> bool:
        return is_expected_before_direct(self, problem, device)
