"""Layers that a family can solve if it was written for float32 images whose planes lie one after the other."""

from __future__ import annotations

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.words import ImageLayout, Pass
from warpsmith.generator.problem import DType


def why_not_usual_data(layer: Conv2d) -> str | None:
    """Why such a family does not solve a layer, in one line; None if its data are of that kind and each operand has
    fewer than 2^31 elements. Every precision is solved, since float32 exceeds what any of them needs.
    """
    if layer.dtype is not DType.FLOAT32:
        return f"reads float32 only, and no {layer.dtype}"
    if layer.layout is not ImageLayout.NCHW:
        return f"reads images in nchw only, and none in {layer.layout}"
    return why_not_counted(layer)


def why_not_counted(layer: Conv2d) -> str | None:
    """Why a family that counts elements in 32 bits does not solve a layer; None if it does."""
    return "counts elements in 32 bits: an operand has 2^31 or more" if layer.is_large else None


def why_not_usual_end(layer: Conv2d) -> str | None:
    """Why a family without bias and ReLU for dgrad does not solve a layer; None if it does."""
    if layer.pass_ is Pass.DGRAD and (layer.bias or layer.relu):
        return "adds no bias to dgrad, and has no ReLU behind it"
    return None
