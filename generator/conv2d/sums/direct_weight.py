"""The weight side of `conv2d_direct` (wgrad): geometry, search space, default config and program."""

from __future__ import annotations

import dataclasses
from math import prod

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import LayerSide
from warpsmith.generator.conv2d.layer.text import Conv2dText, conv2d_arguments
from warpsmith.generator.conv2d.sums.direct_image_geometry import MAX_WRITTEN, NAME
from warpsmith.generator.device import Device
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

MAX_SUMS = 96
"""Most sums per thread, a register each."""
DEFAULT_SUMS = 40
"""Most sums per thread of a default config, with which a thread has about 100 registers."""
OTHER_REGISTERS = 40
"""Registers per thread beside its sums, pixels and gradients. None of 24 random configs of a 3x3 layer of 64 channels
spilled registers.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class DirectWeightGeometry:
    """One config of wgrad. A block computes `filters` by `channels` by `tap_rows` by `tap_columns` weights of one
    group.

    Each of its threads adds up all of these weights over every `threads`-th run. A run is `columns` neighbouring
    positions of y in one row.
    """

    filters: int
    channels: int
    tap_rows: int
    tap_columns: int
    columns: int
    threads: int
    unroll: int
    filter_blocks: int
    channel_blocks: int
    tap_blocks: int
    tap_column_blocks: int
    groups: int
    runs: int
    """Runs in all images."""
    window: int
    """Columns of x under a run."""
    ragged_filters: bool
    ragged_channels: bool

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> DirectWeightGeometry:
        names = ("filters", "channels", "tap_rows", "tap_columns", "columns", "threads", "unroll")
        chosen = {name: config.integer(name) for name in names}
        (tap_rows, tap_columns), (rows, columns) = problem.weight[2:], problem.output_size
        across = tap_columns // chosen["tap_columns"]
        return cls(
            **chosen,
            filter_blocks=-(-problem.group_filters // chosen["filters"]),
            channel_blocks=-(-problem.group_channels // chosen["channels"]),
            tap_blocks=tap_rows // chosen["tap_rows"] * across,
            tap_column_blocks=across,
            groups=problem.groups,
            runs=problem.input[0] * rows * columns // chosen["columns"],
            window=_window(problem, chosen["columns"], chosen["tap_columns"]),
            ragged_filters=problem.group_filters % chosen["filters"] != 0,
            ragged_channels=problem.group_channels % chosen["channels"] != 0,
        )

    @property
    def sums(self) -> int:
        """Sums per thread."""
        return self.filters * self.channels * self.tap_rows * self.tap_columns

    @property
    def blocks(self) -> int:
        return self.tap_blocks * self.channel_blocks * self.filter_blocks * self.groups

    @property
    def written(self) -> int:
        """Multiply-adds per thread that are unrolled in the source."""
        return self.sums * self.columns * self.unroll


class DirectWeights(LayerSide):
    def space(self, problem: Conv2d, device: Device) -> Space:
        rows, columns = problem.weight[2:]
        return Space(
            parameters=(
                Parameter("filters", _up_to(8, problem.group_filters), "filters a block"),
                Parameter("channels", _up_to(8, problem.group_channels), "channels of x a block"),
                Parameter("tap_rows", _divisors(rows), "rows of taps a block"),
                Parameter("tap_columns", _divisors(columns), "columns of taps a block"),
                Parameter(
                    "columns", (1, 2, 4), "positions side by side, for which a thread keeps a row of x in registers"
                ),
                Parameter("threads", (64, 128, 256, 512), "threads of a block"),
                Parameter("unroll", (1, 2, 4), "runs of positions whose loads are in flight at once"),
            ),
            constraints=_constraints(problem, device),
        )

    def default(self, problem: Conv2d, device: Device) -> Config:
        """All taps of some filters and of as many channels; pixels are read once for all of these filters."""
        rows, columns = problem.weight[2:]
        tap_columns = max(each for each in _divisors(columns) if each <= DEFAULT_SUMS)
        tap_rows = max(each for each in _divisors(rows) if each * tap_columns <= DEFAULT_SUMS or each == 1)
        room = max(DEFAULT_SUMS // (tap_rows * tap_columns), 1)
        filters = max(each for each in _up_to(4, problem.group_filters) if each <= room)
        wanted: dict[str, Value] = {
            "filters": filters,
            "channels": max(each for each in _up_to(4, problem.group_channels) if each * filters <= room),
            "tap_rows": tap_rows,
            "tap_columns": tap_columns,
            "columns": 1,
            "threads": 256,
            "unroll": 1,
        }
        return self.space(problem, device).like(wanted) or Config.of(wanted)

    def unrolled(self, problem: Conv2d, config: Config) -> int:
        return DirectWeightGeometry.of(problem, config).written

    def program(self, problem: Conv2d, config: Config) -> Program:
        text, weight = Conv2dText.of(problem), DirectWeightGeometry.of(problem, config)
        source = render("conv2d/direct_weight.cu.jinja", p=text, g=weight, config=config.key())
        launch = Launch.of_blocks(NAME, weight.blocks, weight.threads, conv2d_arguments(problem))
        return Program.of_source(NAME, config, source, (launch,))


def _up_to(most: int, count: int) -> tuple[int, ...]:
    """Powers of two up to `most`, the last one not below `count` if `most` allows."""
    values = [1]
    while values[-1] < min(most, count):
        values.append(2 * values[-1])
    return tuple(values)


def _divisors(count: int) -> tuple[int, ...]:
    """Numbers of taps that cut a line into equal parts; a smaller last part would leave threads without work."""
    return tuple(each for each in range(1, count + 1) if count % each == 0)


def _window(problem: Conv2d, columns: int, tap_columns: int) -> int:
    return (columns - 1) * problem.stride[1] + (tap_columns - 1) * problem.dilation[1] + 1


def _constraints(problem: Conv2d, device: Device) -> tuple[Constraint, ...]:
    images, (rows, width) = problem.input[0], problem.output_size

    def registers(filters: int, channels: int, tap_rows: int, tap_columns: int, columns: int) -> int:
        pixels = _window(problem, columns, tap_columns) if columns > 1 else 1
        return prod((filters, channels, tap_rows, tap_columns)) + filters * columns + pixels + OTHER_REGISTERS

    return (
        Constraint(
            f"a thread has at most {MAX_SUMS} sums: more leave too few threads to hide the loads",
            lambda filters, channels, tap_rows, tap_columns: filters * channels * tap_rows * tap_columns <= MAX_SUMS,
        ),
        Constraint(f"{width} columns of y are whole runs of positions", lambda columns: width % columns == 0),
        Constraint(
            f"at most {MAX_WRITTEN} multiply-adds are written out",
            lambda filters, channels, tap_rows, tap_columns, columns, unroll: (
                prod((filters, channels, tap_rows, tap_columns, columns, unroll)) <= MAX_WRITTEN
            ),
        ),
        Constraint(
            f"a block of more than 64 threads has a run of its {images * rows} rows of y for each of them",
            lambda columns, threads: threads == 64 or threads <= images * rows * width // columns,
        ),
        Constraint(
            "a thread has no more runs in flight than there are for it",
            lambda columns, threads, unroll: unroll == 1 or unroll * threads <= images * rows * width // columns,
        ),
        Constraint(
            f"a multiprocessor has {device.registers_per_multiprocessor} registers, of which a thread needs one a sum, "
            f"one a gradient, one a pixel of a run's row, and {OTHER_REGISTERS} more",
            lambda filters, channels, tap_rows, tap_columns, columns, threads: (
                registers(filters, channels, tap_rows, tap_columns, columns) * threads
                <= device.registers_per_multiprocessor
            ),
        ),
    )
