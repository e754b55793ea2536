"""CUDA text of the stages of `fft_block`: the work of its threads between two barriers, and its factors."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator
from math import ceil
from typing import Any

from warpsmith.generator.fft.axes import Pass, Place, root
from warpsmith.generator.fft.block.block_choice import (
    Access,
    BlockChoice,
    columns_pool,
    mirrored_columns,
    seconds_of,
    sequential_pool,
    signal_pool,
    spectrum_pool,
)
from warpsmith.generator.fft.block.block_tile import Address, BlockTile, PassWork, Pool, Sets, set_address
from warpsmith.generator.fft.problem import Fft
from warpsmith.generator.fft.text import Packing, Power, Table, Twiddles, powers_of


def tables_of(problem: Fft, choice: BlockChoice, tile: BlockTile) -> tuple[Table, ...]:
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
        factors = [value if problem.inverse else value.conjugate() for value in values]
        sign = "" if problem.inverse else "-"
        listed = ", ".join(map(str, powers))
        meaning = (
            f"exp({sign}2 pi i j later / {step.radix * step.later}) for j = {listed}, later = 0 to {step.later - 1}."
        )
        name = table_name(step.radix, step.later)
        tables[name] = Table.of(name, factors, meaning)
    if choice.shares == 2:
        roots = [root(y if problem.inverse else -y, problem.size[0]) for y in range(tile.shape.y)]
        tables["share"] = Table.of("kDifTwiddles", roots, "Values of dif_twiddle(y).")
    if choice.packing is Packing.HALF:
        points = problem.size[-1]
        columns = tile.shape.x if choice.spectrum is Access.SEQUENTIAL else tile.shape.x // 2
        roots = [root(x, points) for x in range(columns + 1)]
        factors = [each * 1j if problem.inverse else (each * 1j).conjugate() for each in roots]
        tables["half"] = Table.of("kPackingTwiddles", factors, "Values of packing_twiddle(x).")
    return tuple(tables.values())


def table_name(radix: int, later: int) -> str:
    """Name of the table of twiddles between a digit and the later ones; its numbers are the same for any axis."""
    return f"kTwiddles{radix}x{later}"


class Mirror(enum.StrEnum):
    """Share of a stage's columns that are their own mirror images."""

    NONE = "none"
    SOME = "some"
    ALL = "all"


_PASSES = (Access.DIRECT, Access.MIRRORED)
"""Accesses by which the first or the last pass accesses global memory itself."""
Terms = tuple[tuple[str, Place], ...]
"""Terms of an address: variables and their places."""


@dataclasses.dataclass(frozen=True, slots=True)
class BlockStage:
    """Work of a tile's threads between two barriers."""

    kind: str
    summary: str
    items: int
    steps: int
    is_ragged: bool
    """True if some threads have fewer items than others."""
    variables: tuple[str, ...]
    address: str
    """CUDA expression of the place in the tile."""
    reads: str = "tile"
    writes: str = "tile"
    index: str = ""
    """Transform, y and x of the element that is read or written; in a pass, of element j."""
    frequency: str = ""
    """Transform, y and x of the element j that a pass writes."""
    mirrored_address: str = ""
    mirror: str = ""
    """Value of `Mirror`, in a stage that works on mirrored frequencies."""
    within: tuple[BlockStage, ...] = ()
    """Stages between its reads and its writes."""
    is_followed: bool = False
    """True if a stage that does not depend on this one follows: no barrier comes between them."""
    radix: int = 0
    element: str = ""
    """CUDA expression of the distance from a transform's first element to element j of a pass."""
    is_there: str = ""
    """CUDA condition under which element j, read from the tile by a pass, is not 0; empty if all are in the tile."""
    is_needed: str = ""
    """CUDA condition under which element j, written to the tile by a pass, is read again; empty if all are."""
    later: int = 0
    distance: int = 0
    """Columns from the frequency of element j to that of the next, in a pass over mirrored sets."""
    table: str = ""
    powers: tuple[Power, ...] = ()
    """Powers of the twiddle of frequency 1; none after the last pass over an axis."""


@dataclasses.dataclass(frozen=True, slots=True)
class BlockStages:
    """Makes the stages of a config, in order."""

    problem: Fft
    choice: BlockChoice
    tile: BlockTile

    def all(self) -> tuple[BlockStage, ...]:
        first, last = ("spectrum", "signal") if self.problem.inverse else ("signal", "spectrum")
        stages = list(self._before(first)) if self._is_staged(first) else []
        works = self.tile.passes
        for place, work in enumerate(works):
            reads = first if place == 0 and not self._is_staged(first) else "tile"
            writes = last if place == len(works) - 1 and not self._is_staged(last) else "tile"
            is_mirrored = self.tile.shape.is_mirrored_pass(place, len(works))
            stages.append((self._mirrored_pass if is_mirrored else self._pass)(place, work, reads, writes))
        if self._is_staged(last):
            stages.append(self._after(last))
        return tuple(stages)

    def _before(self, side: str) -> Iterator[BlockStage]:
        """Stages from memory into the tile."""
        if side == "signal" or not self.problem.is_real:
            yield self._copy(side, is_first=True)
        elif not self._has_y:
            pool = spectrum_pool(self.problem, self.tile.shape)
            yield self._mirrored(
                "merge",
                "Merges the half spectra of the real signals into the spectrum of the complex signal.",
                pool,
                Mirror.SOME,
            )
        else:
            yield from self._merges()

    def _merges(self) -> Iterator[BlockStage]:
        """Merges of a half spectrum: columns that mirror another one, then columns that mirror themselves.

        No thread has to tell them apart, and all its loads can be in flight together.
        """
        shape, packing = self.tile.shape, self.choice.packing
        others = mirrored_columns(packing, shape.x)
        own = 2 if packing.pairs and shape.x % 2 == 0 else 1
        summary = "Columns that are their own mirror image: loaded before the others, written after them."
        alone = self._mirrored("merge", summary, columns_pool(self.problem, shape, own), Mirror.ALL)
        if not others:
            yield alone
            return
        pool = columns_pool(self.problem, shape, others)
        rest = self._mirrored(
            "merge",
            "Merges the half spectra of the real signals into the spectrum of the complex signal.",
            pool,
            Mirror.NONE,
        )
        if alone.steps == 1:
            yield dataclasses.replace(alone, within=(rest,))
        else:
            yield dataclasses.replace(rest, is_followed=True)
            yield alone

    def _after(self, side: str) -> BlockStage:
        """Stage from the tile to memory."""
        if side == "signal" or not self.problem.is_real:
            return self._copy(side, is_first=False)
        if self.choice.spectrum is Access.SEQUENTIAL:
            return self._sequence()
        pool = spectrum_pool(self.problem, self.tile.shape)
        summary = "Splits the spectrum of the complex signal into the half spectra of the real signals."
        return self._mirrored("split", summary, pool, Mirror.SOME)

    @property
    def _has_y(self) -> bool:
        return len(self.problem.size) == 2

    @property
    def _names(self) -> tuple[str, ...]:
        return ("t", "y", "x") if self._has_y else ("t", "x")

    def _is_staged(self, side: str) -> bool:
        return (self.choice.signal if side == "signal" else self.choice.spectrum) not in _PASSES

    def _stage(self, kind: str, summary: str, pool: Pool) -> dict[str, Any]:
        """Fields that all stages have."""
        steps = ceil(pool.items / self.choice.threads)
        return {
            "kind": kind,
            "summary": summary,
            "items": pool.items,
            "steps": steps,
            "is_ragged": steps * self.choice.threads != pool.items,
            "variables": pool.lines("i"),
        }

    def _copy(self, side: str, *, is_first: bool) -> BlockStage:
        shape, terms = self.tile.shape, self.tile.before if is_first else self.tile.after
        pool = signal_pool(shape) if side == "signal" else spectrum_pool(self.problem, shape)
        summary = (
            f"Copies the {side} from global memory to the tile." if is_first else f"Copies the tile to the {side}."
        )
        return BlockStage(
            **self._stage("copy", summary, pool),
            address=Address(terms).text(pool),
            reads=side if is_first else "tile",
            writes="tile" if is_first else side,
            index=", ".join(_known(name, pool) for name in self._names),
        )

    def _mirrored(self, kind: str, summary: str, pool: Pool, mirror: Mirror) -> BlockStage:
        """Stage that works on a frequency and its mirror image."""
        terms = self.tile.before if kind == "merge" else self.tile.after
        shape = self.tile.shape
        known = Pool.of(t=shape.transforms, y=shape.y, x=shape.x, mirrored_y=shape.y, mirrored_x=shape.x)
        mirrored = tuple((f"mirrored_{name}" if name in "xy" else name, place) for name, place in terms)
        lines: tuple[str, ...] = ()
        if mirror is not Mirror.SOME:
            lines = (_column(dict(pool.variables).get("column", 1), mirror, shape.x),)
        missing = [name for name in self._names if name not in dict(pool.variables) and (name != "x" or not lines)]
        stage = BlockStage(
            **self._stage(kind, summary, pool),
            address=Address(terms).text(known),
            reads="spectrum" if kind == "merge" else "tile",
            writes="tile" if kind == "merge" else "spectrum",
            mirrored_address=Address(mirrored).text(known),
            mirror=mirror,
        )
        constants = tuple(f"constexpr int {name} = 0;" for name in missing)
        if kind == "split":
            lines = tuple(self._mirror_lines("x"))
        return dataclasses.replace(stage, variables=(*constants, *stage.variables, *lines))

    def _mirror_lines(self, column: str) -> Iterator[str]:
        """CUDA definitions of the frequency that mirrors (y, x), or (y, 0) where `column` is 0."""
        if self.choice.shares == 2:
            yield f"const int mirrored_y = y + parity == 0 ? 0 : {self.tile.shape.y} - parity - y;"
        elif self._has_y:
            yield f"const int mirrored_y = y == 0 ? 0 : {self.tile.shape.y} - y;"
        yield f"const int mirrored_x = {column} == 0 ? 0 : {self.tile.shape.x} - x;"

    def _sequence(self) -> BlockStage:
        """Stage that writes half spectra of real signals; each element needs a frequency and its mirror image."""
        shape, packing = self.tile.shape, self.choice.packing
        pool = sequential_pool(self.problem, shape, seconds_of(self.problem, packing))
        # The last frequency of packed columns comes from the first one again.
        wraps = packing is Packing.HALF
        column = "wrapped_x" if wraps else "x"
        lines = (f"const int wrapped_x = x == {shape.x} ? 0 : x;",) if wraps else ()
        names = (*self._names, "second") if packing.pairs else self._names
        constants = [f"constexpr int {name} = 0;" for name in names if name not in dict(pool.variables)]
        known = Pool.of(t=shape.transforms, y=shape.y, mirrored_y=shape.y, mirrored_x=shape.x, **{column: shape.x})
        here = tuple((column if name == "x" else name, place) for name, place in self.tile.after)
        there = tuple((f"mirrored_{name}" if name in "xy" else name, place) for name, place in self.tile.after)
        stage = self._stage(
            "sequence",
            "Splits the spectrum and writes the half spectra of the real signals in the order of memory.",
            pool,
        )
        return BlockStage(
            **stage | {"variables": (*constants, *stage["variables"], *lines, *self._mirror_lines(column))},
            address=Address(here).text(known),
            mirrored_address=Address(there).text(known),
            writes="spectrum",
        )

    def _pass(self, place: int, work: PassWork, reads: str, writes: str) -> BlockStage:
        step, pool = work.step, work.pool
        names = self._names

        def element(own: str, weight: int) -> str:
            j = "j" if weight == 1 else f"j * {weight}"
            return j if own not in dict(pool.variables) else f"{own} + {j}"

        def coordinates(own: str, weight: int) -> str:
            mine = element(own, weight)
            return ", ".join(mine if name == work.axis else _known(name, pool) for name in names)

        return BlockStage(
            **self._stage("pass", f"Pass {place + 1}: {step.radix} points along {work.axis}.", pool),
            **self._elements(step),
            address=work.address.text(pool),
            reads=reads,
            writes=writes,
            index=coordinates("later", step.later),
            frequency=coordinates("earlier", step.earlier),
            is_there=f"{element('later', step.later)} < {work.read}" if work.read else "",
            is_needed=f"{element('earlier', step.earlier)} < {work.written}" if work.written else "",
        )

    def _mirrored_pass(self, place: int, work: PassWork, reads: str, writes: str) -> BlockStage:
        """Pass from or to the spectra of two real signals, over two sets of frequencies that mirror each other."""
        sets = Sets.of_pass(self.tile.shape, work)
        known = Pool.of(
            t=sets.transforms, first_y=sets.rows, first_digit=sets.digits, second_y=sets.rows, second_digit=sets.digits
        )
        summary = (
            f"Pass {place + 1}: {work.step.radix} points along x, for two sets of frequencies that mirror each other."
        )
        stage = self._stage("merge_pass" if reads == "spectrum" else "split_pass", summary, sets.pool)
        missing = [name for name in ("t", "part") if name not in dict(sets.pool.variables)]
        constants = tuple(f"constexpr int {name} = 0;" for name in missing)
        return BlockStage(
            **stage | {"variables": (*constants, *stage["variables"], *sets.lines())},
            **self._elements(work.step),
            address=set_address(work, "first_y", "first_digit").text(known),
            mirrored_address=set_address(work, "second_y", "second_digit").text(known),
            reads=reads,
            writes=writes,
            distance=sets.digits,
        )

    def _elements(self, step: Pass) -> dict[str, Any]:
        """Fields that describe the elements of a pass's transform."""
        sign = 2 if self.problem.inverse else -2
        return {
            "radix": step.radix,
            "element": step.element_place.text("j", is_constant=True),
            "later": step.later,
            "table": table_name(step.radix, step.later),
            "powers": ()
            if step.is_last
            else powers_of(step.radix, step.radix * step.later, self.choice.twiddles, sign),
        }


def _column(columns: int, mirror: Mirror, points: int) -> str:
    """CUDA definition of x for `column`: columns 0 and X / 2 are their own mirror images, the others count from 1."""
    if columns == 1:
        return f"constexpr int x = {0 if mirror is Mirror.ALL else 1};"
    return f"const int x = column * {points // 2};" if mirror is Mirror.ALL else "const int x = column + 1;"


def _known(name: str, pool: Pool) -> str:
    return name if name in dict(pool.variables) else "0"
