"""One thread per result and every tap loaded where it is used: the simplest kernel, which solves every `conv2d`.

Source: the baselines of "Optimizing a CNN in CUDA" (convolution forward, error calculation). Its gradient of the
weights is reduced by shuffles, then shared memory. Here a block sums one weight, so that no atomic addition is needed
and the same inputs give the same bits.
"""

from __future__ import annotations

import dataclasses

from warpsmith.generator.conv2d.layer.distance import DEFAULT_REACH
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.text import Conv2dText, conv2d_arguments
from warpsmith.generator.conv2d.layer.words import ImageLayout, Pass
from warpsmith.generator.conv2d.layer.work import multiply_adds
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family, Work
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space

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
class Geometry:
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
    def of(cls, problem: Conv2d, config: Config) -> Geometry:
        threads, unroll = config.integer("threads"), config.integer("unroll")
        results = problem.output.size
        lanes = lanes_of(problem)
        rows, columns = problem.weight[2:]
        return cls(
            threads=threads,
            blocks=-(-results // (lanes if problem.pass_ is Pass.WGRAD else threads)),
            unroll=unroll,
            unroll_rows=rows * columns * unroll <= MAX_TAPS_WRITTEN,
            unroll_columns=columns * unroll <= MAX_TAPS_WRITTEN,
            lanes=lanes,
        )


class Conv2dPlain(Family[Conv2d]):
    """`conv2d` with one thread per result, or one block per weight for the gradient of the weights."""

    name = "conv2d_plain"
    default_reach = DEFAULT_REACH

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        return None

    def space(self, problem: Conv2d, device: Device) -> Space:
        what = "positions" if problem.pass_ is Pass.WGRAD else "channels"
        return Space(
            parameters=(
                Parameter(
                    "threads", LANES_THREADS if lanes_of(problem) > 1 else (64, 128, 256, 512), "threads of a block"
                ),
                Parameter("unroll", (1, 2, 4, 8), f"{what} whose loads are in flight at once"),
            ),
            constraints=(
                Constraint(
                    f"there are {looped(problem)} {what} to go through",
                    lambda unroll: unroll <= looped(problem),
                ),
            ),
        )

    def default(self, problem: Conv2d, device: Device) -> Config:
        return Config.of({"threads": THREADS, "unroll": 1})

    def unrolled(self, problem: Conv2d, config: Config) -> int:
        geometry, (rows, columns) = Geometry.of(problem, config), problem.weight[2:]
        if problem.pass_ is Pass.WGRAD:
            return geometry.unroll
        taps = rows * columns if geometry.unroll_rows else columns if geometry.unroll_columns else 1
        return taps * geometry.unroll

    def work(self, problem: Conv2d, config: Config) -> Work:
        """Each product loads one pixel. The weight beside it may be the same for all lanes of a warp."""
        products = multiply_adds(problem)
        return Work(products, 4 * products)

    def program(self, problem: Conv2d, config: Config) -> Program:
        geometry = Geometry.of(problem, config)
        template = "plain" if problem.layout is ImageLayout.NCHW else "plain_channels_last"
        source = render(f"conv2d/{template}.cu.jinja", p=Conv2dText.of(problem), g=geometry, config=config.key())
        launch = Launch.of_blocks(self.name, geometry.blocks, geometry.threads, conv2d_arguments(problem))
        return Program.of_source(self.name, config, source, (launch,))


def lanes_of(problem: Conv2d) -> int:
    """Weights per block of wgrad: LANES in channels_last, otherwise 1. The other passes do not use it."""
    return LANES if problem.pass_ is Pass.WGRAD and problem.layout is ImageLayout.NHWC else 1


def looped(problem: Conv2d) -> int:
    """Most rounds of a thread's outer loop: over channels, or over the positions of the results."""
    match problem.pass_:
        case Pass.FPROP:
            return problem.group_channels
        case Pass.DGRAD:
            return problem.group_filters
        case Pass.WGRAD:
            rows, columns = problem.output_size
            return problem.input[0] * rows * columns
