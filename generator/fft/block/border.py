"""CUDA text of the loads of a signal with a border: which element stands at each point of the tile."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.fft.block.block_text import FftBlockText
from warpsmith.generator.fft.words import Packing
from warpsmith.generator.padding import PaddingMode


@dataclasses.dataclass(frozen=True, slots=True)
class BorderText:
    """Template values of such a load. Points of the tile count from the first point of the border."""

    mode: PaddingMode
    lines: tuple[str, ...]
    """Lines that turn a point into the row and the column of the element there."""
    place: str
    """CUDA expression of that element's place in the signal."""
    second: str
    """Elements from the real part's element to the imaginary part's."""
    inside: str
    """CUDA condition under which a point has an element; empty if all have one."""
    inside_second: str


def border_of(text: FftBlockText) -> BorderText | None:
    """Border text of a transform; None if it has no border."""
    problem, packing = text.problem, text.choice.packing
    if problem.border is None:
        return None
    *rows, columns = (
        (at, before, there)
        for at, (before, _), there in zip(
            ("y", "x")[-len(problem.size) :], problem.border.pads, problem.signal_size, strict=True
        )
    )
    lines = [f"const int row = {_source(*each)};" for each in rows]
    if packing is Packing.HALF:
        _, before, there = columns
        lines.append(f"const int column = {_source('2 * x', before, there)};")
        lines.append(f"const int second = {_source('2 * x', before - 1, there)} - column;")
    else:
        lines.append(f"const int column = {_source(*columns)};")
    pitch, transforms = text.source_pitch, text.pair if text.is_paired else "t"
    place = f"{transforms} * {pitch}{f' + row * {columns[2]}' if rows else ''} + column"
    # The conditions are those of a signal that contains its border.
    whole = dataclasses.replace(problem, valid=problem.bordered_size, border=None)
    there_text = dataclasses.replace(text, problem=whole)
    second = "second" if packing is Packing.HALF else str(text.second)
    return BorderText(problem.border.mode, tuple(lines), place, second, there_text.inside, there_text.inside_second)


def _source(at: str, before: int, there: int) -> str:
    shift = f" - {before}" if before > 0 else f" + {-before}" if before else ""
    return f"source_of({at}{shift}, {there})"
