"""CUDA text of a config of `filter1d_fft`: the values that its template takes as `g`."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Protocol

from warpsmith.generator.fft.axes import modulo, quotient, root
from warpsmith.generator.fft.codelets import Codelet, codelets
from warpsmith.generator.fft.text import Table, Twiddles
from warpsmith.generator.render import float_literal
from warpsmith.generator.tiles.lines import Lines
from warpsmith.generator.tiles.lines_text import LinesText


class LinePasses(Protocol):
    """What the text needs of a geometry."""

    @property
    def lines(self) -> Lines: ...

    @property
    def twiddles(self) -> Twiddles: ...

    @property
    def points(self) -> int: ...


@dataclasses.dataclass(frozen=True)
class Filter1dFftText:
    """Passes of a line, their tables, and the transforms within a thread."""

    passes: LinePasses

    @cached_property
    def lines(self) -> LinesText:
        return LinesText(self.passes.lines, self.passes.twiddles)

    @cached_property
    def codelets(self) -> tuple[Codelet, ...]:
        return codelets(frozenset(self.passes.lines.axis.radices), inverse=False)

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """Tables of twiddles, each once."""
        return tuple({step.table: step.twiddles for step in self.lines.steps if step.powers}.values())

    @cached_property
    def roots(self) -> Table:
        """Roots that tell the frequencies of one item of the last pass apart."""
        radix = self.passes.lines.axis.radices[-1]
        values = [root(-k, radix) for k in range(radix)]
        return Table.of("kRoots", values, f"exp(-2 pi i k / {radix}) for k = 0 to {radix - 1}.")

    @property
    def scale(self) -> str:
        """Literal factor of the filter's spectrum that undoes the factor of the forward and the inverse transform."""
        return float_literal(1 / self.passes.points)

    @staticmethod
    def over(number: str, divisor: int) -> str:
        """`number / divisor` in CUDA."""
        return quotient(number, divisor)

    @staticmethod
    def rest(number: str, divisor: int) -> str:
        """`number % divisor` in CUDA; "0" for a divisor of 1."""
        return "0" if divisor == 1 else modulo(number, divisor)
