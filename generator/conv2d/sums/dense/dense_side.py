"""What both sides of `conv2d_dense` share: a geometry of rows and threads, the model's choice, and one launch."""

from __future__ import annotations

import abc
import dataclasses
import functools
from typing import ClassVar, Self

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import LayerSide
from warpsmith.generator.conv2d.layer.text import Conv2dText, conv2d_arguments
from warpsmith.generator.conv2d.products.split16.split16_model import TimedConfig
from warpsmith.generator.conv2d.sums.dense.dense_layer import DenseLayer
from warpsmith.generator.conv2d.sums.dense.dense_model import NAME, Cycles, Threads, dense_ns
from warpsmith.generator.device import Device
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config

ROWS, THREADS = (1, 2, 4, 8), (64, 128, 256)


@dataclasses.dataclass(frozen=True, slots=True)
class DenseGeometry(abc.ABC):
    """One config of a side. Its fields behind the layer are the parameters of the config."""

    layer: DenseLayer
    rows: int
    """Rows of the result of a thread."""
    threads: int
    """Threads of a block."""

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> Self:
        return cls(DenseLayer.of(problem), **{name: config.integer(name) for name in config.values()})

    @property
    @abc.abstractmethod
    def blocks(self) -> int:
        """Blocks of the launch."""

    @property
    @abc.abstractmethod
    def work(self) -> Threads:
        """What the model asks about a config."""


class DenseSide(LayerSide):
    """A side whose default is the fastest of all configs by its model."""

    geometry: ClassVar[type[DenseGeometry]]
    cycles: ClassVar[Cycles]
    template: ClassVar[str]

    def default(self, problem: Conv2d, device: Device) -> Config:
        return _choice(self, problem, device).config

    def expected_ns(self, problem: Conv2d, device: Device) -> float:
        return _choice(self, problem, device).ns

    def program(self, problem: Conv2d, config: Config) -> Program:
        geometry = self.geometry.of(problem, config)
        source = render(self.template, p=Conv2dText.of(problem), g=geometry, config=config.key())
        launch = Launch.of_blocks(NAME, geometry.blocks, geometry.threads, conv2d_arguments(problem))
        return Program.of_source(NAME, config, source, (launch,))


@functools.lru_cache(maxsize=256)
def _choice(side: DenseSide, problem: Conv2d, device: Device) -> TimedConfig:
    """The config that is expected to take least time."""
    timed = (
        TimedConfig(config, dense_ns(side.geometry.of(problem, config).work, side.cycles, problem, device))
        for config in side.space(problem, device).configs()
    )
    return min(timed, key=lambda each: each.ns)
