"""The three passes over a tile: their sizes under a config, and the CUDA text of `shared/tile_passes.cu.jinja`."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from math import ceil

from warpsmith.generator.fft.axes import modulo, quotient, root
from warpsmith.generator.fft.codelets import Codelet, codelets
from warpsmith.generator.fft.text import Power, Table, Twiddles, powers_of
from warpsmith.generator.render import float_literal
from warpsmith.generator.space import Config
from warpsmith.generator.tiles.tile import COMPLEX_BYTES, WARP, TileAxis, TileLayout, TileShape, fitted


@dataclasses.dataclass(frozen=True, slots=True)
class Passes:
    """A tile and the threads that transform it."""

    shape: TileShape
    layout: TileLayout
    warps: int
    min_blocks: int
    twiddles: Twiddles
    valid_columns: int
    """Columns of a tile that have results; the inverse transform may leave the others undone."""
    spectrum_columns: int
    """Columns of a filter's spectrum that one block computes; more columns share the reads of the same taps."""

    @classmethod
    def of(cls, config: Config, valid_columns: int, spectrum_columns: int = 1) -> Passes:
        """Passes for a config with the parameters of `tile_parameters`.

        `valid_columns` of the tile's columns may have results.
        """
        shape = TileShape(
            y=TileAxis.of(config.text("y_radices")),
            x=TileAxis.of(config.text("x_radices")),
            group=config.integer("group"),
            gaps=config.integer("gaps"),
        )
        return cls(
            shape=shape,
            layout=fitted(shape),
            warps=config.integer("warps"),
            min_blocks=config.integer("min_blocks"),
            twiddles=Twiddles(config.text("twiddles")),
            valid_columns=valid_columns,
            spectrum_columns=spectrum_columns,
        )

    @property
    def y(self) -> TileAxis:
        return self.shape.y

    @property
    def x(self) -> TileAxis:
        return self.shape.x

    @property
    def threads(self) -> int:
        """Threads per block."""
        return WARP * self.warps

    @property
    def elements(self) -> int:
        """Complex numbers that the tile takes in shared memory, gaps included."""
        return self.layout.elements(self.shape)

    @property
    def shared_bytes(self) -> int:
        return COMPLEX_BYTES * self.elements

    @property
    def turns(self) -> int:
        return self.shape.turns

    @property
    def spectrum_vector(self) -> int:
        """Complex numbers of a filter's spectrum that one vector load brings."""
        return 2 if self.x.second % 2 == 0 else 1

    @property
    def spectrum_elements(self) -> int:
        return self.shape.spectrum_elements

    @property
    def spectrum_threads(self) -> int:
        """Threads per block of the kernel that computes columns of a filter's spectrum."""
        return min(256, WARP * ceil(self.y.points * self.spectrum_columns / WARP))

    @property
    def spectrum_blocks(self) -> int:
        """Blocks per filter of the kernel that computes the filter's spectrum."""
        return ceil(self.x.points / self.spectrum_columns)


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

    def _step(self, axis: TileAxis) -> StepText:
        powers = powers_of(axis.first, axis.points, self.passes.twiddles, -2)
        return StepText(axis.first, axis.second, axis.text, f"kTwiddles{axis.text}", f"kRoots{axis.points}", powers)

    def tables(self, roots: bool = True) -> tuple[Table, ...]:
        """Tables of twiddles and, if `roots`, of roots of unity; axes with equal radices share theirs."""
        found: dict[str, Table] = {}
        for axis, step in ((self.passes.y, self.y), (self.passes.x, self.x)):
            exponents = [power.exponent for power in step.powers if power.row >= 0]
            values = [root(-exponent * j, axis.points) for exponent in exponents for j in range(axis.second)]
            listed = ", ".join(map(str, exponents))
            meaning = f"exp(-2 pi i k j / {axis.points}) for k = {listed}, j = 0 to {axis.second - 1}."
            found[step.table] = Table.of(step.table, values, meaning)
            if not roots:
                continue
            every = [root(j, axis.points) for j in range(axis.points)]
            meaning = f"exp(2 pi i j / {axis.points}) for j = 0 to {axis.points - 1}."
            found[step.roots] = Table.of(step.roots, every, meaning)
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
