"""Ozaki scheme with int8 slices on tensor cores: exact sums, the same bits whatever the tile and the block order.

The kernel is that of `conv2d_mma`, with three int8 slices per number instead of two fp16 parts (`slicing.py` has the
method and its source). A product of two numbers takes eight products of slices. The sums are integers, so a result
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
from warpsmith.generator.conv2d.layer.distance import DEFAULT_REACH
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.text import Conv2dText, text_key
from warpsmith.generator.conv2d.layer.words import Pass, Precision
from warpsmith.generator.conv2d.products.ozaki.ozaki_geometry import NAME, SlicesGeometry, terms_of
from warpsmith.generator.conv2d.products.ozaki.ozaki_slices import MOST_TERMS
from warpsmith.generator.conv2d.products.ozaki.ozaki_space import LEAST, slices_default, slices_space
from warpsmith.generator.conv2d.products.split16.split16_limits import why_not_halves
from warpsmith.generator.conv2d.products.split16.split16_operand import RANGE
from warpsmith.generator.conv2d.products.split16.split16_programs import MAIN
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.problem import DType
from warpsmith.generator.program import Launch, Pointer, Program, Unit
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Space
from warpsmith.generator.tensor_cores import TensorType

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
        if problem.pass_ is Pass.WGRAD:
            return "solves fprop and dgrad only: digits of neighbouring positions do not lie side by side"
        if (terms := terms_of(problem)) > MOST_TERMS:
            return f"sums up to {MOST_TERMS} terms, which fit into 32 bits, and not {terms}"
        if (why_not := why_not_halves(problem)) is not None:
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
        geometry = SlicesGeometry.of(problem, config)
        images, filters, measures = geometry.images, geometry.filters, geometry.range.measures
        text = render("conv2d/mma_image.cu.jinja", p=Conv2dText.of(problem), g=geometry, config=config.key())
        ends = (*((Pointer("b"),) if problem.bias else ()), Pointer(problem.output.name))
        arguments = (Pointer(images.halves.name), Pointer(filters.halves.name), Pointer(RANGE), *ends)
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


def _exact(problem: Conv2d, geometry: SlicesGeometry, ends: tuple[Pointer, ...]) -> tuple[Unit, Launch]:
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


def _taps(geometry: SlicesGeometry) -> list[SourceTap]:
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
