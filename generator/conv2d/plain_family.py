"""One thread per result and every tap loaded where it is used: the simplest kernel, which solves every `conv2d`.

Source: the baselines of "Optimizing a CNN in CUDA" (convolution forward, error calculation). Its gradient of the
weights is reduced by shuffles, then shared memory. Here a block sums one weight, so that no atomic addition is needed
and the same inputs give the same bits.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import ClassVar

from warpsmith.generator.conv2d.layer.axes import multiply_adds
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import LayerSide, SidedFamily
from warpsmith.generator.conv2d.layer.text import Conv2dText, conv2d_arguments
from warpsmith.generator.conv2d.layer.words import ImageLayout
from warpsmith.generator.device import Device
from warpsmith.generator.family import Work
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space

NAME = "conv2d_plain"
MAX_TAPS_WRITTEN = 256
"""Most taps that are unrolled in the source, each with its bounds checks; this many take nvcc 2 s."""
THREADS = 256
"""Default threads per block; an SM holds eight such blocks."""
LANES = 8
"""Weights per block of wgrad in channels_last: eight float32 of neighbouring channels are the sector that memory
delivers at once.
"""
LANES_THREADS = (256, 512)
"""Threads per block of that kind. With fewer, a thread adds up more terms one after the other than rounding errors
allow.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class PlainGeometry:
    """One config on one problem."""

    threads: int
    blocks: int
    unroll: int
    """Channels, or positions of a result, whose loads are in flight at once."""
    unroll_rows: bool
    """Whether the loop over the rows of the filter is unrolled."""
    unroll_columns: bool
    lanes: int
    """Weights per block of wgrad."""

    @classmethod
    def of(cls, problem: Conv2d, config: Config, lanes: int) -> PlainGeometry:
        """The geometry of `lanes` results per block; 0 for one per thread."""
        threads, unroll = config.integer("threads"), config.integer("unroll")
        rows, columns = problem.weight[2:]
        return cls(
            threads=threads,
            blocks=-(-problem.output.size // (lanes or threads)),
            unroll=unroll,
            unroll_rows=rows * columns * unroll <= MAX_TAPS_WRITTEN,
            unroll_columns=columns * unroll <= MAX_TAPS_WRITTEN,
            lanes=lanes or 1,
        )


class _PlainSide(LayerSide):
    """A side whose space are the threads of a block and the rounds of a loop whose loads are in flight at once."""

    looped: ClassVar[str]
    """What a thread's outer loop goes through."""

    def space(self, problem: Conv2d, device: Device) -> Space:
        rounds, threads = self.rounds(problem), LANES_THREADS if self.lanes(problem) > 1 else (64, 128, 256, 512)
        return Space(
            parameters=(
                Parameter("threads", threads, "threads of a block"),
                Parameter("unroll", (1, 2, 4, 8), f"{self.looped} whose loads are in flight at once"),
            ),
            constraints=(
                Constraint(f"there are {rounds} {self.looped} to go through", lambda unroll: unroll <= rounds),
            ),
        )

    def default(self, problem: Conv2d, device: Device) -> Config:
        return Config.of({"threads": THREADS, "unroll": 1})

    def program(self, problem: Conv2d, config: Config) -> Program:
        geometry = PlainGeometry.of(problem, config, self.lanes(problem))
        template = "plain" if problem.layout is ImageLayout.NCHW else "plain_channels_last"
        source = render(f"conv2d/{template}.cu.jinja", p=Conv2dText.of(problem), g=geometry, config=config.key())
        launch = Launch.of_blocks(NAME, geometry.blocks, geometry.threads, conv2d_arguments(problem))
        return Program.of_source(NAME, config, source, (launch,))

    @abc.abstractmethod
    def rounds(self, problem: Conv2d) -> int:
        """Most rounds of a thread's outer loop."""

    @abc.abstractmethod
    def lanes(self, problem: Conv2d) -> int:
        """Results per block; 0 for one per thread."""


class PlainImages(_PlainSide):
    """fprop and dgrad."""

    looped = "channels"

    def rounds(self, problem: Conv2d) -> int:
        return problem.summed_channels

    def lanes(self, problem: Conv2d) -> int:
        return 0

    def unrolled(self, problem: Conv2d, config: Config) -> int:
        geometry, (rows, columns) = PlainGeometry.of(problem, config, 0), problem.weight[2:]
        taps = rows * columns if geometry.unroll_rows else columns if geometry.unroll_columns else 1
        return taps * geometry.unroll


class PlainWeights(_PlainSide):
    """wgrad."""

    looped = "positions"

    def rounds(self, problem: Conv2d) -> int:
        return problem.terms

    def lanes(self, problem: Conv2d) -> int:
        return LANES if problem.layout is ImageLayout.NHWC else 1

    def unrolled(self, problem: Conv2d, config: Config) -> int:
        return config.integer("unroll")


class Conv2dPlain(SidedFamily):
    """`conv2d` with one thread per result, or one block per weight for the gradient of the weights."""

    name = NAME
    image, weight = PlainImages(), PlainWeights()

    def work(self, problem: Conv2d, config: Config) -> Work:
        """Each product loads one pixel. The weight beside it may be the same for all lanes of a warp."""
        products = multiply_adds(problem)
        return Work(products, 4 * products)
