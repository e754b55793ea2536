"""Which layers families solve that multiply halves on a line of positions."""

from __future__ import annotations

from warpsmith.generator.conv2d.limits import why_not_counted
from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.padding import PaddingMode
from warpsmith.generator.problem import Accuracy


def why_not_halves(layer: Conv2d) -> str | None:
    """Why such a family does not solve a layer, in one line; None where it does."""
    if layer.accuracy is not Accuracy.NORMWISE:
        return 'splits numbers relative to the largest of an operand: needs accuracy="normwise"'
    if layer.padding_mode is not PaddingMode.ZEROS:
        return "has zeros between its images: solves padding_mode zeros only"
    return why_not_counted(layer)
