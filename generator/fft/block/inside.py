"""CUDA conditions under which a signal has an element of the tile; a signal may have fewer elements than points."""

from __future__ import annotations

from math import ceil

from warpsmith.generator.fft.block.block_choice import Choice
from warpsmith.generator.fft.problem import Fft
from warpsmith.generator.fft.words import Packing


def inside_of(problem: Fft, choice: Choice, row: str) -> tuple[str, str]:
    """CUDA conditions under which a signal's element, and the second real one beside it, exist; empty if always."""
    conditions = []
    if len(problem.size) == 2 and problem.signal_size[0] < problem.size[0]:
        conditions.append(f"{row} < {problem.signal_size[0]}")
    second = list(conditions)
    columns, points = problem.signal_size[-1], problem.size[-1]
    if choice.packing is Packing.HALF:
        if columns < points - 1:
            conditions.append(f"x < {ceil(columns / 2)}")
        if columns < points:
            second.append(f"x < {columns // 2}")
    elif columns < points:
        conditions.append(f"x < {columns}")
        second.append(f"x < {columns}")
    return " && ".join(conditions), " && ".join(second)
