"""CUDA text of a tile's passes: the values that `shared/tile_passes.cu.jinja` takes as `g`."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from math import ceil

from warpsmith.generator.fft.axes import modulo, quotient
from warpsmith.generator.fft.codelets import Codelet, codelets
from warpsmith.generator.fft.factors import root
from warpsmith.generator.fft.text import Power, powers_of
from warpsmith.generator.fft.words import Table
from warpsmith.generator.render import float_literal
from warpsmith.generator.tiles.passes import Passes
from warpsmith.generator.tiles.tile import Axis


@dataclasses.dataclass(frozen=True, slots=True)
class StepText:
    """Both steps of an axis."""

    first: int
    second: int
    text: str
    """Both radices as a config writes them, `16x8`."""
    table: str
    """Name of the axis's table of twiddles."""
    roots: str
    """Name of the axis's table of roots of unity."""
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
        """Tables of twiddles and, if `roots`, of roots of unity; axes with equal radices share theirs."""
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
        """CUDA expression of the place in a row at which column x lies."""
        x, digit = self.passes.x, self.passes.layout.digit
        return "x" if digit == x.second else f"{quotient('x', x.second)} * {digit} + {modulo('x', x.second)}"

    @property
    def valid_digits(self) -> int:
        """First digits of a row whose columns have results."""
        return ceil(self.passes.valid_columns / self.passes.x.second)

    @property
    def scale(self) -> str:
        """Literal factor of the filter's spectrum that undoes the factor of the forward and the inverse transform."""
        return float_literal(1 / self.passes.shape.points)

    @staticmethod
    def over(number: str, divisor: int) -> str:
        """`number / divisor` in CUDA."""
        return quotient(number, divisor)

    @staticmethod
    def rest(number: str, divisor: int) -> str:
        """`number % divisor` in CUDA."""
        return modulo(number, divisor)
