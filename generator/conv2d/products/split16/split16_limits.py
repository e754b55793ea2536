"""Layers that the families on the position line (`lattice`) can solve with 16-bit operands."""

from __future__ import annotations

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import why_not_counted
from warpsmith.generator.conv2d.layer.words import Pass
from warpsmith.generator.conv2d.products.split16.split16_folding import Folding
from warpsmith.generator.padding import PaddingMode
from warpsmith.generator.problem import Accuracy, NonFinite


def why_not_halves(layer: Conv2d) -> str | None:
    """Why such a family does not solve a layer, in one line; None if it does."""
    if layer.accuracy is not Accuracy.NORMWISE:
        return 'splits numbers relative to the largest of an operand: needs accuracy="normwise"'
    if layer.padding_mode is not PaddingMode.ZEROS:
        return "has zeros between its images: solves padding_mode zeros only"
    return why_not_counted(layer)


def why_not_within_windows(layer: Conv2d) -> str | None:
    """Why 16-bit products let a NaN reach results whose sum does not contain it; None if they do not, or may."""
    if layer.nonfinite is not NonFinite.WINDOW:
        return None
    if layer.pass_ is Pass.WGRAD:
        return "multiplies what lies between images by zero, and a NaN beside it: needs nonfinite any"
    if Folding.of(layer) is not None:
        return "has taps of zero where rows or columns are channels, which a NaN meets: needs nonfinite any"
    return None
