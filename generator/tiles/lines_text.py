"""CUDA text of lines that a block transforms in shared memory: the values of templates/shared/line_passes.cu.jinja."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Protocol

from warpsmith.generator.fft.axes import Pass, modulo, quotient, root
from warpsmith.generator.fft.codelets import Codelet, codelets
from warpsmith.generator.fft.text import Power, Table, Twiddles, powers_of
from warpsmith.generator.render import float_literal
from warpsmith.generator.tiles.lines import Lines, is_spread


@dataclasses.dataclass(frozen=True, slots=True)
class StepText:
    """One pass over lines."""

    number: int
    first: int
    """Radix of the pass."""
    second: int
    """Values of the digits still to come, on which twiddles depend."""
    items: int
    """Transforms per line."""
    element: int
    """Complex numbers from one element of a transform to the next."""
    place: str
    """CUDA expression of the place in shared memory where item `item` of line `line` begins."""
    later: str
    """CUDA definitions of an item's digits."""
    table: str
    """Name of the table of twiddles; the last pass has none."""
    powers: tuple[Power, ...]

    @classmethod
    def of(cls, number: int, step: Pass, lines: Lines, twiddles: Twiddles) -> StepText:
        width = lines.count if lines.side_by_side else 1
        order = step.radix * step.later
        earlier, later = quotient("item", step.later), modulo("item", step.later)
        if lines.spreads and is_spread(step):
            earlier = f"spread<{step.later}>({earlier})"
        if step.later == 1:
            later = "0"
        elif step.earlier == 1:
            earlier, later = "0", "item"
        terms = [
            place.text(name)
            for place, name, value in ((step.earlier_place, "p", earlier), (step.later_place, "q", later))
            if value != "0"
        ]
        inner = " + ".join(terms)
        inner = f"({inner}) * {width} + line" if width > 1 else f"line * {lines.pitch} + {inner}"
        names = [f"p = {earlier}"] * (earlier != "0") + [f"q = {later}"] * (later != "0")
        return cls(
            number=number,
            first=step.radix,
            second=step.later,
            items=lines.points // step.radix,
            element=step.element_place.at(1) * width,
            place=inner,
            later=", ".join(names),
            table=f"kTwiddles{step.radix}x{step.later}",
            powers=() if step.is_last else powers_of(step.radix, order, twiddles, -2),
        )

    @property
    def twiddles(self) -> Table:
        """Table of exp(-2 pi i k q / order), for the powers k that come from memory."""
        order = self.first * self.second
        exponents = [power.exponent for power in self.powers if power.row >= 0]
        values = [root(-exponent * q, order) for exponent in exponents for q in range(self.second)]
        listed = ", ".join(map(str, exponents))
        meaning = f"exp(-2 pi i k q / {order}) for k = {listed}, q = 0 to {self.second - 1}."
        return Table.of(self.table, values, meaning)


@dataclasses.dataclass(frozen=True)
class LinesText:
    """Lines and their passes."""

    lines: Lines
    twiddles: Twiddles

    @cached_property
    def steps(self) -> tuple[StepText, ...]:
        return tuple(
            StepText.of(number, step, self.lines, self.twiddles) for number, step in enumerate(self.lines.axis.passes)
        )

    @property
    def are_spread(self) -> bool:
        """True if some pass has its items in another order."""
        return self.lines.spreads and any(map(is_spread, self.lines.axis.passes))

    @property
    def count(self) -> int:
        return self.lines.count

    @property
    def points(self) -> int:
        return self.lines.points

    @property
    def threads(self) -> int:
        return self.lines.threads

    @property
    def side_by_side(self) -> bool:
        return self.lines.side_by_side


class IndexText:
    """Quotients and remainders of a thread's numbers."""

    @staticmethod
    def over(number: str, divisor: int) -> str:
        """`number / divisor` in CUDA."""
        return quotient(number, divisor)

    @staticmethod
    def rest(number: str, divisor: int) -> str:
        """`number % divisor` in CUDA; "0" for a divisor of 1."""
        return "0" if divisor == 1 else modulo(number, divisor)


class LinePasses(Protocol):
    """What the text of lines needs of a geometry."""

    @property
    def lines(self) -> Lines: ...

    @property
    def twiddles(self) -> Twiddles: ...


@dataclasses.dataclass(frozen=True)
class PassesText(IndexText):
    """Passes of lines, their tables, and the transforms within a thread."""

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

    @property
    def scale(self) -> str:
        """Literal factor that undoes the factor of the forward and the inverse transform."""
        return float_literal(1 / self.passes.lines.points)
