"""How `fft_block` reads a signal that has a border: which element stands at each point, as text for CUDA."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.fft.block.text import FftBlockText
from warpsmith.generator.fft.words import Packing
from warpsmith.generator.padding import PaddingMode


@dataclasses.dataclass(frozen=True, slots=True)
class BorderText:
    """What the template of a load needs. Points of the tile count from where the border begins."""

    mode: PaddingMode
    lines: tuple[str, ...]
    """That turn a point into the row and the column of the element there."""
    place: str
    """Of that element in the signal."""
    second: str
    """How far the imaginary part lies from the real one."""
    inside: str
    """Whether a point has an element; empty where all have."""
    inside_second: str


def border_of(text: FftBlockText) -> BorderText | None:
    """That of a transform; None where it has none."""
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
    # As if the border were part of the signal.
    whole = dataclasses.replace(problem, valid=problem.bordered_size, border=None)
    there_text = dataclasses.replace(text, problem=whole)
    second = "second" if packing is Packing.HALF else str(text.second)
    return BorderText(problem.border.mode, tuple(lines), place, second, there_text.inside, there_text.inside_second)


def _source(at: str, before: int, there: int) -> str:
    shift = f" - {before}" if before > 0 else f" + {-before}" if before else ""
    return f"source_of({at}{shift}, {there})"
