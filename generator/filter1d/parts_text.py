"""CUDA text of lines for convolution in parts: the values that the templates of `filter1d_lags` and `filter1d_parts`
take as `g`.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property

from warpsmith.generator.fft.axes import modulo, quotient
from warpsmith.generator.fft.codelets import Codelet, codelets
from warpsmith.generator.fft.text import Table, Twiddles
from warpsmith.generator.render import float_literal
from warpsmith.generator.tiles.lines import Lines
from warpsmith.generator.tiles.lines_text import LinesText


@dataclasses.dataclass(frozen=True, slots=True)
class LinePasses:
    """Lines of a thread block, and where their twiddles come from."""

    lines: Lines
    twiddles: Twiddles


@dataclasses.dataclass(frozen=True)
class PartsText:
    """Passes of lines, their tables, and the transforms within a thread."""

    passes: LinePasses

    @classmethod
    def of(cls, lines: Lines, twiddles: Twiddles) -> PartsText:
        return cls(LinePasses(lines, twiddles))

    @cached_property
    def lines(self) -> LinesText:
        return LinesText(self.passes.lines, self.passes.twiddles)

    @cached_property
    def single(self) -> LinesText:
        """One of these lines, at the place of the first."""
        return LinesText(dataclasses.replace(self.passes.lines, count=1), self.passes.twiddles)

    @cached_property
    def codelets(self) -> tuple[Codelet, ...]:
        return codelets(frozenset(self.passes.lines.axis.radices), inverse=False)

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """Tables of twiddles, each once."""
        return tuple({step.table: step.twiddles for step in self.lines.steps if step.powers}.values())

    @property
    def scale(self) -> str:
        """Literal factor of results that undoes the factor of the forward and the inverse transform."""
        return float_literal(1 / self.passes.lines.points)

    @staticmethod
    def over(number: str, divisor: int) -> str:
        """`number / divisor` in CUDA."""
        return quotient(number, divisor)

    @staticmethod
    def rest(number: str, divisor: int) -> str:
        """`number % divisor` in CUDA; "0" for a divisor of 1."""
        return "0" if divisor == 1 else modulo(number, divisor)
