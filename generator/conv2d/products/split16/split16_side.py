"""Sides of families whose GEMM reads 16-bit operands that launches before it have split."""

from __future__ import annotations

import abc

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import LayerSide
from warpsmith.generator.conv2d.products.split16.split16_image_tiles import ImageTiles
from warpsmith.generator.conv2d.products.split16.split16_model import TimedConfig, other_ns, unevenness
from warpsmith.generator.conv2d.products.split16.split16_weight_tiles import WeightTiles
from warpsmith.generator.device import Device
from warpsmith.generator.space import Config


class Split16Side(LayerSide):
    """A side whose default is the config that its model ranks first."""

    @abc.abstractmethod
    def choice(self, problem: Conv2d, device: Device) -> TimedConfig:
        """The default config with the expected time of its GEMM."""

    @abc.abstractmethod
    def geometry(self, problem: Conv2d, config: Config) -> ImageTiles | WeightTiles:
        """Tiles of one config."""

    def default(self, problem: Conv2d, device: Device) -> Config:
        return self.choice(problem, device).config

    def expected_ns(self, problem: Conv2d, device: Device) -> float:
        """Expected nanoseconds of the default config, including the launches that make its 16-bit operands."""
        choice = self.choice(problem, device)
        geometry = self.geometry(problem, choice.config)
        other = other_ns(problem, geometry.arithmetic, geometry.split16_bytes, device)
        return unevenness(problem) * (choice.ns + other)
