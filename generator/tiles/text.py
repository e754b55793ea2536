"""A tile's passes as text for CUDA: what `shared/tile_passes.cu.jinja` is given as `g`."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from math import ceil

from warpsmith.generator.fft.axes import modulo, quotient
from warpsmith.generator.fft.codelets import Codelet, codelets
from warpsmith.generator.fft.factors import root
from warpsmith.generator.fft.text import Power, powers_of
from warpsmith.generator.fft.words import Table
from warpsmith.generator.literals import float_literal
from warpsmith.generator.tiles.passes import Passes
from warpsmith.generator.tiles.tile import Axis


@dataclasses.dataclass(frozen=True, slots=True)
class StepText:
    """The two steps of an axis."""

    first: int
    second: int
    text: str
    """Both, as a config names them."""
    table: str
    """Name of its twiddles."""
    roots: str
    """And of its roots of unity."""
    powers: tuple[Power, ...]


@dataclasses.dataclass(frozen=True)
class TileText:
    """Sizes, tables and the transforms within a thread."""

    passes: Passes

    @cached_property
    def codelets(self) -> tuple[Codelet, ...]:
        g = self.passes
        return codelets(frozenset((g.y.first, g.y.second, g.x.first, g.x.second)), inverse=False)

    @cached_property
    def y(self) -> StepText:
        return self._step(self.passes.y)

    @cached_property
    def x(self) -> StepText:
        return self._step(self.passes.x)

    def _step(self, axis: Axis) -> StepText:
        powers = powers_of(axis.first, axis.points, self.passes.twiddles, -2)
        return StepText(axis.first, axis.second, axis.text, f"kTwiddles{axis.text}", f"kRoots{axis.points}", powers)

    def tables(self, roots: bool = True) -> tuple[Table, ...]:
        """Twiddles, and roots where they are wanted, of each axis, or of both."""
        found: dict[str, Table] = {}
        for axis, step in ((self.passes.y, self.y), (self.passes.x, self.x)):
            exponents = [power.exponent for power in step.powers if power.row >= 0]
            values = [root(-exponent * j, axis.points) for exponent in exponents for j in range(axis.second)]
            told = ", ".join(map(str, exponents))
            meaning = f"exp(-2 pi i k j / {axis.points}) for k = {told}, j = 0 to {axis.second - 1}."
            found[step.table] = Table.of(step.table, values, meaning)
            if not roots:
                continue
            every = [root(j, axis.points) for j in range(axis.points)]
            told = f"exp(2 pi i j / {axis.points}) for j = 0 to {axis.points - 1}."
            found[step.roots] = Table.of(step.roots, every, told)
        return tuple(found.values())

    @property
    def column_place(self) -> str:
        """Where column x lies in a row."""
        x, digit = self.passes.x, self.passes.layout.digit
        return "x" if digit == x.second else f"{quotient('x', x.second)} * {digit} + {modulo('x', x.second)}"

    @property
    def valid_digits(self) -> int:
        """Values of a row's first digit that have results."""
        return ceil(self.passes.valid_columns / self.passes.x.second)

    @property
    def scale(self) -> str:
        """Of the spectrum: what both transforms multiply by, undone."""
        return float_literal(1 / self.passes.shape.points)

    @staticmethod
    def over(number: str, divisor: int) -> str:
        """`number / divisor` in CUDA."""
        return quotient(number, divisor)

    @staticmethod
    def rest(number: str, divisor: int) -> str:
        """`number % divisor` in CUDA."""
        return modulo(number, divisor)
