"""Taps of a layer over images that lie as the operand has them: the window that they read, and who shares its pixels.

There are no positions between images, and between rows none where each tap has its own pixels. A stage of pixels is of
a row of a filter, or of one tap; it is told by the row and column of the source that its first position reads.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
from collections.abc import Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from warpsmith.generator.conv2d.halves.image_tiles import Step
from warpsmith.generator.conv2d.halves.lattice import Lattice, LineTap
from warpsmith.generator.conv2d.halves.weight_tiles import TapSet


class Sharing(enum.StrEnum):
    """Which taps of a filter read the same stage of pixels."""

    ROW = "row"
    """Those of a row, one position further on each; between rows lie positions of zeros."""
    NONE = "none"
    """Each tap has its own pixels, and each position a result."""


@dataclasses.dataclass(frozen=True, slots=True)
class WindowStep(Step):
    """A tap of fprop or dgrad."""

    row: int
    """Of the source that the first row of the result reads; negative above it. In a `Window`, from its corner on."""
    column: int
    """Of the source that the stage's first pixel of a row is."""


@dataclasses.dataclass(frozen=True, slots=True)
class WindowTapSet(TapSet):
    """Taps of a row of a filter whose sums a block of wgrad computes side by side."""

    row: int
    """Of x that the first row of dy reads; negative above it. Within a `Window`, from its corner on."""
    column: int
    """Of x that the first column of dy reads, for the first of these taps."""


Read = TypeVar("Read", WindowStep, WindowTapSet)


class Window(NamedTuple, Generic[Read]):
    """The window over images that a layer reads, and where in it."""

    row: int
    """Of the source, that the first position of an image reads by the tap that lies furthest up."""
    column: int
    reads: tuple[Read, ...]
    """Rows and columns from there on."""

    @classmethod
    def of(cls, reads: Sequence[Read]) -> Window[Read]:
        """That of taps, or sets of them, whose rows and columns are those of the source."""
        row = min((each.row for each in reads), default=0)
        column = min((each.column for each in reads), default=0)
        inside = (dataclasses.replace(each, row=each.row - row, column=each.column - column) for each in reads)
        return cls(row, column, tuple(inside))


def window_lattice(on_line: Lattice, shares: bool) -> Lattice:
    """A lattice without rows between images; without columns between rows too where no taps share pixels."""
    rows, columns = on_line.rows, on_line.columns
    rows = dataclasses.replace(rows, pitch=rows.steps)
    columns = columns if shares else dataclasses.replace(columns, pitch=columns.steps)
    return dataclasses.replace(on_line, rows=rows, columns=columns)


def window_steps(lattice: Lattice, sharing: Sharing) -> list[list[WindowStep]]:
    """The taps of each phase of fprop or dgrad, a row of the filter after the other."""
    return [list(_steps(lattice, *phase, sharing)) for phase in _phases(lattice)]


def window_tap_sets(lattice: Lattice, size: int) -> Iterator[WindowTapSet]:
    """At most so many taps of a row and a plane each, of wgrad; what is missing is the last one again, and stores
    nothing.
    """
    ((down, across),) = _phases(lattice)
    for row, plane in itertools.product(down, list(_by_plane(across))):
        for begin in range(0, len(plane), size):
            taps = plane[begin : begin + size]
            shifts = [tap.shift - taps[0].shift for tap in taps]
            missing = size - len(taps)
            yield WindowTapSet(
                shifts=(*shifts, *[shifts[-1]] * missing),
                weights=(*(row.weight * lattice.filter_columns + tap.weight for tap in taps), *[-1] * missing),
                row=lattice.rows.source(row),
                column=lattice.columns.source(taps[0]),
            )


def _phases(lattice: Lattice) -> Iterator[tuple[tuple[LineTap, ...], tuple[LineTap, ...]]]:
    """Rows and columns of the filter that results of each phase read."""
    return itertools.product(lattice.rows.phases, lattice.columns.phases)


def _by_plane(across: tuple[LineTap, ...]) -> Iterator[list[LineTap]]:
    """Columns of one plane, which a shift leads from one to the next."""
    in_order = sorted(across, key=lambda tap: (tap.plane, tap.shift))
    return (list(taps) for _, taps in itertools.groupby(in_order, key=lambda tap: tap.plane))


def _steps(
    lattice: Lattice, down: tuple[LineTap, ...], across: tuple[LineTap, ...], sharing: Sharing
) -> Iterator[WindowStep]:
    """Those of a phase."""
    stages = list(_by_plane(across)) if sharing is Sharing.ROW else [[tap] for tap in across]
    for row, stage in itertools.product(down, stages):
        first, last = stage[0], stage[-1]
        for tap in stage:
            yield WindowStep(
                shift=tap.shift - first.shift,
                weight=row.weight * lattice.filter_columns + tap.weight,
                begins=tap is first,
                ends=tap is last,
                row=lattice.rows.source(row),
                column=lattice.columns.source(first),
            )
