"""What computes the frame in `filter2d_warpgroup`: which is possible, which is likely, and how tall strips are then."""

from __future__ import annotations

from math import ceil

from warpsmith.generator.device import Device
from warpsmith.generator.filter2d.interior import outside, rows_inside
from warpsmith.generator.filter2d.problem import Border, Filter2d
from warpsmith.generator.filter2d.text import words
from warpsmith.generator.filter2d.warpgroup.geometry import (
    COLUMNS,
    WARP_COLUMNS,
    WHOLE_ROWS,
    Alignment,
    Frame,
    depth,
)
from warpsmith.generator.problem import DType
from warpsmith.generator.space import Constraint, Parameter

LEAST_DEPTH = 8
"""Elements that products sum over, at the least."""
EDGE_DEPTH = 32
"""Elements that products sum over, at most, where borders are made by loads: a thread then copies two single elements
of a row at the most."""
LOADS_COST = 1.08
"""Of an output where borders are made by loads: 471 us where blocks apart take 440 (H200, 15x15 on 9216x9216)."""
FRAME_TAP_COST = 0.9
"""Of one tap of an output of the frame, beside a filter row of an output of the products: 59 us for 31x31 on 4096x4096,
10 us for 15x15 on 9216x9216 (H200)."""
FRAME_START = 5_000_000
"""And of blocks for the frame at all, in the same unit: 1.3 us. With them 7x7 on 2000x3000 takes 24 us, by loads 19;
9x9 on 4096x4096 takes 50 us with them, the best that was found (H200)."""
START_ROWS = 16
"""That a warpgroup could walk in the time that it takes to split the weights and to wait for its first rows."""
MAX_WAVES = 8
"""Of blocks, for images of which even whole columns of planes make more than one."""
LEAST_WALK = 8
"""Rows of a strip; a filter of 9 rows then loads twice what it computes."""


def frames(problem: Filter2d) -> tuple[Frame, ...]:
    """The ways to compute the frame. Valid results, which have none, are loaded beyond a row only where they are too
    narrow for a warpgroup."""
    apart = (Frame.APART,) if Alignment.of(problem).has_interior(problem) else ()
    if apart and problem.border is Border.VALID:
        return apart
    columns = problem.output_shape[1] * problem.channels
    return (*apart, Frame.LOADS) if has_loads(problem) and columns >= WARP_COLUMNS else apart


def has_loads(problem: Filter2d) -> bool:
    """Whether loads can make the border of a result of any width.

    An asynchronous copy has 4 bytes at the least, so that elements of 2 and 1 could not be copied one by one. Strips
    that overlap would add the sums of parts twice, so that a filter that may have some has its frame apart. Rows of one
    column have no elements beside a warp's own, and the text of the loads has arrays of those.
    """
    has_edges = LEAST_DEPTH < depth(problem) <= EDGE_DEPTH
    return problem.dtype is DType.FLOAT32 and has_edges and problem.filter[0] <= WHOLE_ROWS


def frame_parameters(problem: Filter2d) -> tuple[Parameter, ...]:
    """What computes the frame, where loads may: any other problem has no such parameter, and its configs name none."""
    choices = frames(problem)
    told = "whether blocks of their own compute the frame, or loads make the border"
    return (Parameter("frame", words(choices), told),) if Frame.LOADS in choices else ()


def frame_rules(problem: Filter2d) -> tuple[Constraint, ...]:
    """And what that asks of other parameters."""
    rule = Constraint(
        "where loads make the border, warps lie by themselves, in strips that lie within the result",
        lambda frame, rows, block_strips: (
            frame != Frame.LOADS or (block_strips == 1 and rows <= problem.output_shape[0])
        ),
    )
    return tuple(rule for _ in frame_parameters(problem))


def likely_frame(problem: Filter2d) -> Frame:
    """The one that takes less time, by estimate."""
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


def warps_wave(problem: Filter2d, device: Device, resident: int) -> int:
    """Rows of a strip of WARP_COLUMNS with which warps of all planes, `resident` warpgroups a multiprocessor at once,
    walk the fewest rows one after the other."""
    rows, held = problem.output_shape[0], 4 * resident * device.multiprocessors
    across = ceil(problem.output_shape[1] * problem.channels / WARP_COLUMNS) * problem.planes
    most = max(1, rows // LEAST_WALK)
    choices = {min(most, max(1, waves * held // across)) for waves in range(1, MAX_WAVES + 1)}
    walked = {
        strips: ceil(across * strips / held) * (ceil(rows / strips) + problem.filter[0] - 1 + START_ROWS)
        for strips in sorted(choices)
    }
    return ceil(rows / min(walked, key=walked.__getitem__))
