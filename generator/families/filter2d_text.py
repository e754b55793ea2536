"""A filter2d problem as text for CUDA: what every filter2d template is given as `p`."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Argument, ByValue, Pointer


def float_literal(value: float) -> str:
    """A float32 as a CUDA literal that reads back to the same bits."""
    text = f"{value:.9g}"
    return f"{text}f" if any(mark in text for mark in ".en") else f"{text}.0f"


@dataclasses.dataclass(frozen=True, slots=True)
class Filter2dText:
    """Sizes in pixels; literals as CUDA text."""

    key: str
    rows: int
    columns: int
    output_rows: int
    output_columns: int
    filter_rows: int
    filter_columns: int
    anchor_row: int
    anchor_column: int
    border: Border
    cval: str
    weight_rows: tuple[tuple[str, ...], ...]
    """The filter's values where they are known; empty where they come at each call."""

    @classmethod
    def of(cls, problem: Filter2d) -> Filter2dText:
        (rows, columns), (r, s) = problem.image, problem.filter
        return cls(
            key=problem.key(),
            rows=rows,
            columns=columns,
            output_rows=problem.output_shape[0],
            output_columns=problem.output_shape[1],
            filter_rows=r,
            filter_columns=s,
            anchor_row=problem.anchor[0],
            anchor_column=problem.anchor[1],
            border=problem.border,
            cval=float_literal(problem.cval),
            weight_rows=tuple(tuple(map(float_literal, row)) for row in problem.weight_rows),
        )


def require_filter2d(problem: Problem) -> Filter2d:
    """`problem`, known to be a Filter2d. Raises TypeError where it is not."""
    if not isinstance(problem, Filter2d):
        raise TypeError(f"not a filter2d problem: {problem.key()}")
    return problem


def filter2d_arguments(literal: bool) -> tuple[Argument, ...]:
    """The kernel arguments that every filter2d template declares; literal weights need none."""
    pointers: tuple[Argument, ...] = (Pointer("image"), Pointer("result"))
    return pointers if literal else (*pointers, ByValue("weights"))
