"""Families of layers as two sides: one for results that are images (fprop, dgrad), one for weights (wgrad)."""

from __future__ import annotations

import abc
from collections.abc import Collection
from typing import ClassVar

from warpsmith.generator.conv2d.layer.problem import DEFAULT_REACH, Conv2d
from warpsmith.generator.conv2d.layer.words import ImageLayout
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.problem import DType
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Space


class LayerSide(abc.ABC):
    """How a family solves the passes of one side: its space, configs, model and program. It is stateless.

    The methods are those of `Family`, for layers of the side's passes.
    """

    @abc.abstractmethod
    def space(self, problem: Conv2d, device: Device) -> Space:
        """The search space."""

    @abc.abstractmethod
    def default(self, problem: Conv2d, device: Device) -> Config:
        """A config of `space` that is good without any search."""

    @abc.abstractmethod
    def program(self, problem: Conv2d, config: Config) -> Program:
        """The program of one config."""

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        """The reason of this side alone for not solving a layer that the family could solve otherwise."""
        return None

    def starts(self, problem: Conv2d, device: Device) -> tuple[Config, ...]:
        return ()

    def expected_ns(self, problem: Conv2d, device: Device) -> float | None:
        return None

    def unrolled(self, problem: Conv2d, config: Config) -> int:
        return 0


class SidedFamily(Family[Conv2d]):
    """A family of two sides. What both share, and which layers are likely to be fastest with it, the family says."""

    default_reach = DEFAULT_REACH
    image: ClassVar[LayerSide]
    """The side of fprop and dgrad."""
    weight: ClassVar[LayerSide]
    """The side of wgrad."""

    def side(self, problem: Conv2d) -> LayerSide:
        return self.weight if problem.pass_.sums_images else self.image

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        return self.side(problem).why_not(problem, device)

    def space(self, problem: Conv2d, device: Device) -> Space:
        return self.side(problem).space(problem, device)

    def default(self, problem: Conv2d, device: Device) -> Config:
        return self.side(problem).default(problem, device)

    def starts(self, problem: Conv2d, device: Device) -> tuple[Config, ...]:
        return self.side(problem).starts(problem, device)

    def expected_ns(self, problem: Conv2d, device: Device) -> float | None:
        return self.side(problem).expected_ns(problem, device)

    def unrolled(self, problem: Conv2d, config: Config) -> int:
        return self.side(problem).unrolled(problem, config)

    def program(self, problem: Conv2d, config: Config) -> Program:
        return self.side(problem).program(problem, config)


def why_not_usual_data(layer: Conv2d, layouts: Collection[ImageLayout] = (ImageLayout.NCHW,)) -> str | None:
    """Why such a family does not solve a layer, in one line; None if its data are of that kind, in one of the layouts,
    and each operand has fewer than 2^31 elements. Every precision is solved, since float32 exceeds what any of them
    needs.
    """
    if layer.dtype is not DType.FLOAT32:
        return f"reads float32 only, and no {layer.dtype}"
    if layer.layout not in layouts:
        return f"reads images in nchw only, and none in {layer.layout}"
    return why_not_counted(layer)


def why_not_counted(layer: Conv2d) -> str | None:
    """Why a family that counts elements in 32 bits does not solve a layer; None if it does."""
    return "counts elements in 32 bits: an operand has 2^31 or more" if layer.is_large else None


def why_not_usual_end(layer: Conv2d) -> str | None:
    """Why a family without bias and ReLU for dgrad does not solve a layer; None if it does."""
    if layer.pass_.is_transposed and (layer.bias or layer.relu):
        return "adds no bias to dgrad, and has no ReLU behind it"
    return None
