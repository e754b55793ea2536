"""Ozaki scheme with int8 slices on tensor cores: exact sums, the same bits whatever the tile and the block order.

The kernel is that of `conv2d_mma`, with three int8 slices per number instead of two fp16 parts (`ozaki_slices.py` has
the method and its source). A product of two numbers takes eight products of slices. The sums are integers, so a result
depends only on its image and the weights, and all configs give the same bits. One launch finds out whether an image or
the weights have too wide a range for three slices, or a number that is not finite. A later launch then computes all
results of that image in double precision, slowly and in one order. No host waits for the answer.

The family takes 8/3 of the products of fp16x3 at twice their rate. So it runs only if somebody wants its bits and asks
for it; it is never a default. It does not solve wgrad, which sums along the line of positions, where slices of
neighbours are not contiguous.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from warpsmith.generator.architectures import ASYNC_COPIES
from warpsmith.generator.conv2d.layer.problem import DEFAULT_REACH, Conv2d
from warpsmith.generator.conv2d.layer.text import Conv2dText, text_key
from warpsmith.generator.conv2d.products.mma.mma_image import MmaImageGeometry
from warpsmith.generator.conv2d.products.mma.mma_tiles import (
    BLOCKS,
    COLUMNS,
    MOST_WARPS,
    OTHER_REGISTERS,
    STAGES,
    WARPS,
    MmaWarps,
    shared_bytes,
)
from warpsmith.generator.conv2d.products.ozaki.ozaki_slices import (
    LEVELS,
    MOST_TERMS,
    SLICES,
    ChannelMeasure,
    OzakiArithmetic,
    RangeCheck,
)
from warpsmith.generator.conv2d.products.split16.split16_arithmetic import why_not_split16
from warpsmith.generator.conv2d.products.split16.split16_image_tiles import Reach
from warpsmith.generator.conv2d.products.split16.split16_operand import RANGE
from warpsmith.generator.conv2d.products.split16.split16_programs import MAIN
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.precision import Precision
from warpsmith.generator.problem import DType
from warpsmith.generator.program import Launch, Pointer, Program, Unit
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value
from warpsmith.generator.steps import aligned
from warpsmith.generator.tensor_cores import TensorType

NAME = "conv2d_slices"


@dataclasses.dataclass(frozen=True)
class OzakiGeometry(MmaImageGeometry):
    """One config of fprop or dgrad."""

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> OzakiGeometry:
        return cls.of_arithmetic(NAME, problem, OzakiArithmetic.of(problem), config)

    @property
    def range(self) -> RangeCheck:
        """The launch that scales both operands and checks their range."""
        measures = ChannelMeasure.of_images(self.images), ChannelMeasure.of_filters(self.filters)
        return RangeCheck(NAME, measures, self.filters.groups, self.filters.tap_count)

    @property
    def sum_steps(self) -> int:
        """All steps of a stage, because integer sums are not truncated."""
        return self.chunks // 2

    @property
    def workspace_bytes(self) -> int:
        others = (*(each.workspace for each in self.range.measures), self.range.workspace)
        return super().workspace_bytes + sum(aligned(each.nbytes) for each in others)


def registers(warps: MmaWarps) -> int:
    """Approximate registers per thread: accumulators of all levels, and the slices that it multiplies."""
    return LEVELS * warps.rows * warps.columns // 32 + SLICES * warps.columns // 4 + 8 + OTHER_REGISTERS


CHANNELS = (32, 64, 128)
LEAST: dict[str, Value] = {
    "warps_down": WARPS[0],
    "warps_across": WARPS[0],
    "warp_rows": 32,
    "warp_columns": COLUMNS[0],
    "channels": CHANNELS[0],
    "reach": Reach.ROW.value,
    "stages": STAGES[0],
    "min_blocks": BLOCKS[0],
}
"""The config that takes least memory. If it is illegal for a layer, all configs are."""
_TILE = ("warps_down", "warps_across", "warp_rows", "warp_columns", "channels", "reach")


def slices_space(problem: Conv2d, device: Device) -> Space:
    """The space of fprop and dgrad."""
    summed, results = problem.summed_channels, problem.result_channels
    return Space(
        parameters=(
            Parameter("warps_down", WARPS, "of a block, below each other: in positions"),
            Parameter("warps_across", WARPS, "of a block, side by side: in channels of the result"),
            Parameter("warp_rows", (32,), "positions of a warp: with more, sums of four levels have no registers"),
            Parameter("warp_columns", COLUMNS[:2], "channels of the result of a warp"),
            Parameter("channels", CHANNELS, "that a stage sums over"),
            Parameter("reach", tuple(each.value for each in Reach), "taps whose pixels are copied at once"),
            Parameter("stages", STAGES, "taps whose weights are on their way or read"),
            Parameter("min_blocks", BLOCKS, "that a multiprocessor has registers and shared memory for"),
        ),
        constraints=(
            Constraint(
                f"a tile has less than twice the {results} channels of a result, or {COLUMNS[0]}",
                lambda warps_across, warp_columns: (
                    warps_across * warp_columns < 2 * results or (warps_across == 1 and warp_columns == COLUMNS[0])
                ),
            ),
            Constraint(
                f"a block has at most {MOST_WARPS} warps",
                lambda warps_down, warps_across: warps_down * warps_across <= MOST_WARPS,
            ),
            Constraint(
                f"the threads of all blocks share {device.registers_per_multiprocessor} registers of a multiprocessor",
                lambda warps_down, warps_across, warp_rows, warp_columns, min_blocks: (
                    registers(MmaWarps(warps_down, warps_across, warp_rows, warp_columns))
                    <= device.thread_registers(32 * warps_down * warps_across * min_blocks)
                ),
            ),
            Constraint(
                f"a stage has less than twice the {summed} channels of a sum, or {CHANNELS[0]}",
                lambda channels: channels < 2 * summed or channels == CHANNELS[0],
            ),
            Constraint(
                "a filter of one row has a reach of its row",
                lambda reach: reach == Reach.ROW or problem.weight[2] > 1,
            ),
            *_memory(problem, device),
        ),
    )


def _memory(problem: Conv2d, device: Device) -> tuple[Constraint, ...]:
    """Constraints on shared memory and on the workspace."""

    def geometry(*values: Value) -> OzakiGeometry:
        chosen = dict(zip((*_TILE, "stages", "min_blocks"), values, strict=False))
        return OzakiGeometry.of(problem, Config.of({**LEAST, **chosen}))

    return (
        Constraint(
            f"a block has at most {device.shared_per_block_bytes} bytes of shared memory, as many fit side by side",
            lambda *values: geometry(*values).shared_bytes <= shared_bytes(device, int(values[-1])),
            (*_TILE, "stages", "min_blocks"),
        ),
        Constraint(
            f"digits take at most {problem.workspace_limit} bytes",
            lambda *values: geometry(*values).workspace_bytes <= problem.workspace_limit,
            _TILE,
        ),
    )


def slices_default(problem: Conv2d, device: Device) -> Config:
    """The first legal tile of a fixed list, larger tiles first, with the most channels (64 or 32) and stages."""
    space = slices_space(problem, device)
    for down, across, columns in ((2, 4, 32), (4, 2, 32), (2, 2, 32), (4, 1, 32), (4, 1, 16), (2, 1, 16)):
        for channels in CHANNELS[1::-1]:
            for stages in STAGES[::-1]:
                tile: dict[str, Value] = {"warps_down": down, "warps_across": across, "warp_columns": columns}
                config = Config.of({**LEAST, **tile, "channels": channels, "stages": stages})
                if space.contains(config):
                    return config
    return Config.of(LEAST)


EXACT_THREADS, EXACT_BLOCKS = 256, 1056
"""Threads and blocks of the double-precision launch, which mostly has nothing to do."""


class SourceTap(NamedTuple):
    """A tap: the source row and column that it reads for row and column 0 of its phase, and its place in the filter."""

    row: int
    column: int
    filter_row: int
    filter_column: int


class Conv2dSlices(Family[Conv2d]):
    """`conv2d` by exact sums of int8 products."""

    name = NAME
    default_reach = DEFAULT_REACH
    may_answer = False

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        if (why_not := device.why_no_tensor_instruction(TensorType.S8) or device.why_no(ASYNC_COPIES)) is not None:
            return why_not
        if problem.dtype is not DType.FLOAT32 or problem.precision is not Precision.IEEE:
            return "is for float32 at ieee precision: others need no three digits"
        if problem.pass_.sums_images:
            return "solves fprop and dgrad only: digits of neighbouring positions do not lie side by side"
        if (terms := problem.terms) > MOST_TERMS:
            return f"sums up to {MOST_TERMS} terms, which fit into 32 bits, and not {terms}"
        if (why_not := why_not_split16(problem)) is not None:
            return why_not
        if not self.space(problem, device).contains(Config.of(LEAST)):
            limit = problem.workspace_limit
            return f"its tiles and the digits that it writes do not fit into {limit} bytes of workspace"
        return None

    def space(self, problem: Conv2d, device: Device) -> Space:
        return slices_space(problem, device)

    def default(self, problem: Conv2d, device: Device) -> Config:
        return slices_default(problem, device)

    def program(self, problem: Conv2d, config: Config) -> Program:
        geometry = OzakiGeometry.of(problem, config)
        images, filters, measures = geometry.images, geometry.filters, geometry.range.measures
        text = render("conv2d/mma_image.cu.jinja", p=Conv2dText.of(problem), g=geometry, config=config.key())
        ends = (*((Pointer("b"),) if problem.bias else ()), Pointer(problem.output.name))
        arguments = (Pointer(images.packed.name), Pointer(filters.packed.name), Pointer(RANGE), *ends)
        multiply = Launch.of_blocks(NAME, geometry.blocks, geometry.threads, arguments)
        multiply = dataclasses.replace(multiply, shared_bytes=geometry.shared_bytes, unit=MAIN)
        exact_unit, exact = _exact(problem, geometry, ends)
        units = (*(each.unit(problem) for each in measures), geometry.range.unit(problem))
        steps = (*(each.launch() for each in measures), geometry.range.launch())
        return Program(
            NAME,
            config,
            (*units, *images.units(problem), *filters.units(problem), Unit(MAIN, text), exact_unit),
            (*steps, *filters.launches(), *images.launches(), multiply, exact),
            (
                *(each.workspace for each in measures),
                geometry.range.workspace,
                *filters.workspaces(),
                *images.workspaces(),
            ),
        )


def _exact(problem: Conv2d, geometry: OzakiGeometry, ends: tuple[Pointer, ...]) -> tuple[Unit, Launch]:
    """Unit and launch that compute all results in double precision where the range is too wide."""
    name = f"{NAME}_exact"
    text = render(
        "conv2d/slices_exact.cu.jinja",
        p=Conv2dText.of(problem),
        key=text_key(problem),
        g=geometry,
        taps=_taps(geometry),
        threads=EXACT_THREADS,
        blocks=EXACT_BLOCKS,
    )
    arguments = (Pointer(RANGE), *(Pointer(each.operand.name) for each in geometry.range.measures), *ends)
    launch = Launch.of_blocks(name, EXACT_BLOCKS, EXACT_THREADS, arguments)
    return Unit(name, text), dataclasses.replace(launch, unit=name)


def _taps(geometry: OzakiGeometry) -> list[SourceTap]:
    """The taps of each phase, row by row."""
    rows, columns = geometry.lattice.rows, geometry.lattice.columns
    return [
        SourceTap(
            (row.shift - rows.before) * rows.multiple + rows.planes[row.plane],
            (column.shift - columns.before) * columns.multiple + columns.planes[column.plane],
            row.weight,
            column.weight,
        )
        for down in rows.phases
        for across in columns.phases
        for row in down
        for column in across
    ]
