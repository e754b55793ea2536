"""Tables of twiddles and other factors that `fft_block` reads from memory."""

from __future__ import annotations

from warpsmith.generator.fft.block.block_choice import Access, Choice
from warpsmith.generator.fft.block.block_tile import Tile
from warpsmith.generator.fft.factors import root
from warpsmith.generator.fft.problem import Fft
from warpsmith.generator.fft.text import powers_of
from warpsmith.generator.fft.words import Packing, Table, Twiddles


def tables_of(problem: Fft, choice: Choice, tile: Tile) -> tuple[Table, ...]:
    """Tables that the kernel reads from memory."""
    if choice.twiddles is Twiddles.COMPUTED:
        return ()
    tables: dict[str, Table] = {}
    for work in tile.passes:
        step = work.step
        if step.is_last:
            continue
        powers = [power.exponent for power in powers_of(step.radix, 1, choice.twiddles, 0) if power.row >= 0]
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
        tables["share"] = Table.of("kDifTwiddles", roots, "Values of dif_twiddle(y).")
    if choice.packing is Packing.HALF:
        points = problem.size[-1]
        columns = tile.shape.x if choice.spectrum is Access.SEQUENTIAL else tile.shape.x // 2
        roots = [root(x, points) for x in range(columns + 1)]
        turned = [each * 1j if problem.inverse else (each * 1j).conjugate() for each in roots]
        tables["half"] = Table.of("kPackingTwiddles", turned, "Values of packing_twiddle(x).")
    return tuple(tables.values())


def table_name(radix: int, later: int) -> str:
    """Name of the table of twiddles between a digit and the later ones; its numbers are the same for any axis."""
    return f"kTwiddles{radix}x{later}"
