"""The factors that `fft_block` reads from memory or computes, as text for CUDA."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.families.fft_block_choice import Choice
from warpsmith.generator.families.fft_block_tile import Tile
from warpsmith.generator.families.fft_words import Packing, Table, Twiddles
from warpsmith.generator.fft import Fft
from warpsmith.generator.literals import float_literal
from warpsmith.generator.transforms.factors import root


@dataclasses.dataclass(frozen=True, slots=True)
class Power:
    """Power `exponent` of a twiddle: row `row` of a table, or the root of an angle in units of pi, or a product of the
    powers `factors`.
    """

    exponent: int
    row: int = -1
    angle: str = ""
    factors: tuple[int, int] = (0, 0)


def tables_of(problem: Fft, choice: Choice, tile: Tile) -> tuple[Table, ...]:
    """The factors that the kernel reads from memory."""
    if choice.twiddles is Twiddles.COMPUTED:
        return ()
    tables: dict[str, Table] = {}
    for work in tile.passes:
        step = work.step
        if step.is_last:
            continue
        powers = [power.exponent for power in powers_of(step.radix, step.later, choice.twiddles, 0) if power.row >= 0]
        values = [step.twiddle(p, later) for p in powers for later in range(step.later)]
        turned = [value if problem.inverse else value.conjugate() for value in values]
        sign = "" if problem.inverse else "-"
        told = ", ".join(map(str, powers))
        meaning = (
            f"exp({sign}2 pi i j later / {step.radix * step.later}) for j = {told}, later = 0 to {step.later - 1}."
        )
        name = table_name(step.radix, step.later)
        tables[name] = Table.of(name, turned, meaning)
    if choice.shares == 2:
        roots = [root(y if problem.inverse else -y, problem.size[0]) for y in range(tile.shape.y)]
        tables["share"] = Table.of("kShareRoots", roots, "What share_root(y) returns.")
    if choice.packing is Packing.HALF:
        points = problem.size[-1]
        roots = [root(x, points) for x in range(tile.shape.x // 2 + 1)]
        turned = [each * 1j if problem.inverse else (each * 1j).conjugate() for each in roots]
        tables["half"] = Table.of("kHalfRoots", turned, "What half_root(x) returns.")
    return tuple(tables.values())


def powers_of(radix: int, later: int, twiddles: Twiddles, sign: int) -> tuple[Power, ...]:
    """Where each power of a twiddle comes from, factors first."""
    powers: list[Power] = []
    rows = 0
    for j in range(1, radix):
        highest = 1 << (j.bit_length() - 1)
        is_square_of_square = j == highest and j.bit_length() % 2 == 1
        if twiddles is Twiddles.TABLE or (twiddles is Twiddles.POWERS and j == highest):
            powers.append(Power(j, row=rows))
            rows += 1
        elif twiddles is Twiddles.COMPUTED and is_square_of_square:
            powers.append(Power(j, angle=float_literal(sign * j / (radix * later))))
        else:
            powers.append(Power(j, factors=(j // 2, j // 2) if j == highest else (highest, j - highest)))
    return tuple(powers)


def table_name(radix: int, later: int) -> str:
    """Of the twiddles between a digit and those after it: the same numbers for any axis."""
    return f"kTwiddles{radix}x{later}"
