"""Layers that can be solved in the frequency domain."""

from __future__ import annotations

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import why_not_usual_data, why_not_usual_end
from warpsmith.generator.problem import Accuracy, NonFinite


def why_not_by_transforms(layer: Conv2d) -> str | None:
    """Why Fourier transforms of whole planes do not solve a layer, in one line; None if they do."""
    if layer.accuracy is Accuracy.ELEMENTWISE:
        return "has errors relative to the whole result: accuracy normwise"
    if layer.nonfinite is NonFinite.WINDOW:
        return "lets a NaN reach all results of its image: needs nonfinite any"
    if layer.stride != (1, 1) or layer.dilation != (1, 1) or layer.groups > 1:
        return "takes stride 1, dilation 1 and one group"
    return why_not_usual_data(layer) or why_not_usual_end(layer)
