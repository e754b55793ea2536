"""Ways of `filter2d_warpgroup` to compute the frame: blocks of its own, or loads that make the border."""

from __future__ import annotations

from math import ceil

from warpsmith.generator.filter2d.problem import Border, Filter2d, outside, rows_inside
from warpsmith.generator.filter2d.warpgroup_geometry import (
    COLUMNS,
    WARP_COLUMNS,
    WHOLE_ROWS,
    Alignment,
    Frame,
    depth,
)
from warpsmith.generator.problem import DType
from warpsmith.generator.space import Constraint, Parameter, words

LEAST_DEPTH = 8
"""Least elements that products sum over: those of a filter of one column, whose border loads cannot make."""
EDGE_DEPTH = 32
"""Most elements that products sum over if loads make the border: a thread then copies at most two single elements of a
row."""
LOADS_COST = 1.08
"""Relative cost of an output if loads make the border: 471 us, where separate blocks take 440 (H200, 15x15 on
9216x9216)."""
FRAME_TAP_COST = 0.9
"""Cost of one tap of an output of the frame, relative to a filter row of an output of the products. The frame takes
59 us for 31x31 on 4096x4096, and 10 us for 15x15 on 9216x9216 (H200)."""
FRAME_START = 5_000_000
"""Fixed cost of separate blocks for the frame, in the same unit: 1.3 us. With them 7x7 on 2000x3000 takes 24 us, by
loads 19; 9x9 on 4096x4096 takes 50 us with them, the best that was found (H200)."""


def frames(problem: Filter2d) -> tuple[Frame, ...]:
    """The ways to compute the frame; empty if the result is too narrow for all of them.

    Valid results have no frame. Loads go beyond a row of them only if the result is too narrow for a warpgroup.
    """
    apart = (Frame.APART,) if Alignment.of(problem).has_interior(problem) else ()
    if apart and problem.border is Border.VALID:
        return apart
    columns = problem.output_shape[1] * problem.channels
    return (*apart, Frame.LOADS) if has_loads(problem) and columns >= WARP_COLUMNS else apart


def has_loads(problem: Filter2d) -> bool:
    """True if loads can make the border of a result of any width.

    An asynchronous copy has at least 4 bytes, so elements of 2 bytes and 1 byte cannot be copied one by one. Strips
    that overlap would add the sums of parts twice, so separate blocks compute the frame of a filter that may have
    parts. Filters of one column read no elements beside a warp's own, and the code of the loads has arrays of those.
    """
    has_edges = LEAST_DEPTH < depth(problem) <= EDGE_DEPTH
    return problem.dtype is DType.FLOAT32 and has_edges and problem.filter[0] <= WHOLE_ROWS


def frame_parameters(problem: Filter2d) -> tuple[Parameter, ...]:
    """The parameter of how to compute the frame; none for a problem without loads, whose configs do not name it."""
    choices = frames(problem)
    meaning = "whether blocks of their own compute the frame, or loads make the border"
    return (Parameter("frame", words(choices), meaning),) if Frame.LOADS in choices else ()


def frame_rules(problem: Filter2d) -> tuple[Constraint, ...]:
    """Constraints that the choice of the frame puts on other parameters."""
    rule = Constraint(
        "where loads make the border, warps lie by themselves, in strips that lie within the result",
        lambda frame, rows, block_strips: (
            frame != Frame.LOADS or (block_strips == 1 and rows <= problem.output_shape[0])
        ),
    )
    return tuple(rule for _ in frame_parameters(problem))


def likely_frame(problem: Filter2d) -> Frame:
    """The way to compute the frame that takes less time, by estimate."""
    choices = frames(problem)
    if len(choices) == 1:
        return choices[0]
    alignment, (rows, columns) = Alignment.of(problem), problem.output_shape
    inside = rows_inside(problem, 1, 1)[1]
    across = alignment.last_column(problem) + COLUMNS - alignment.first_column
    taps = problem.filter[0] * problem.filter[1]
    frame = FRAME_START + outside(problem, inside, across) * taps * FRAME_TAP_COST
    apart = ceil(across / COLUMNS) * COLUMNS * inside * problem.filter[0] + frame
    loads = ceil(columns * problem.channels / WARP_COLUMNS) * WARP_COLUMNS * rows * problem.filter[0] * LOADS_COST
    return Frame.LOADS if loads < apart else Frame.APART
