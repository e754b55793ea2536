"""Twiddle factors of `fft_warp` as CUDA text: between registers and lanes, between lanes, and for packed columns."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.fft.factors import root
from warpsmith.generator.fft.problem import Fft
from warpsmith.generator.fft.text import Power, half_root, powers_of
from warpsmith.generator.fft.warp.lanes import (
    Choice,
    First,
    LaneStep,
    lane_steps,
    spreads,
    twiddle_exponent,
)
from warpsmith.generator.fft.words import Packing, Table, Twiddles, complex_columns
from warpsmith.generator.render import float_literal


@dataclasses.dataclass(frozen=True, slots=True)
class Factors:
    """Factors by which a lane multiplies its numbers; it loads or computes all of them before its first transform."""

    problem: Fft
    choice: Choice

    @property
    def steps(self) -> tuple[LaneStep, ...]:
        """Steps between lanes."""
        return lane_steps(self._lanes)

    @property
    def are_twiddles(self) -> bool:
        """True if twiddles lie between registers and lanes; in two dimensions the two are independent axes."""
        return len(self.problem.size) == 1 and self.choice.points > 1

    @property
    def twiddles(self) -> tuple[tuple[int, str], ...]:
        """Registers and CUDA expressions of their twiddles: a table's entry, a root, or a product of two."""
        found = list[tuple[int, str]]()
        for power in self._powers:
            if power.row >= 0:
                factor = f"kTwiddles[{f'{power.row} * kLanes + ' if power.row else ''}lane]"
            elif power.angle:
                factor = f"exp_pi_i({power.angle} * {self._root_lane})"
            else:
                factor = f"times(twiddle[{power.factors[0]}], twiddle[{power.factors[1]}])"
            found.append((power.exponent, factor))
        return tuple(found)

    @property
    def half_roots(self) -> tuple[str, ...]:
        """CUDA expressions of the factors that separate or pack two columns, for each register that needs one."""
        if self.choice.packing is not Packing.HALF:
            return ()
        inverse, size = self.problem.inverse, self.problem.size[-1]
        spread = spreads(self.problem, self.choice)[0 if inverse else 1]
        # Forward, a register's frequencies and their mirror images have one factor.
        count = self.choice.points if inverse else self.choice.points // 2 + (spread.register_weight <= 1)
        first = f"{'times_i' if inverse else 'times_minus_i'}(exp_pi_i({self.angle(size)} * {spread.text('0')}))"
        found = []
        for j in range(count if len(self.problem.size) == 1 else 1):
            factor = root((j if inverse else -j) * spread.register_weight, size)
            product = f"times(packing_twiddle[0], {float_literal(factor.real)}, {float_literal(factor.imag)})"
            is_computed = self.choice.twiddles is Twiddles.COMPUTED
            found.append((product if j else first) if is_computed else f"kPackingTwiddles[{spread.text(str(j))}]")
        return tuple(found)

    @property
    def half_meaning(self) -> str:
        """Formula of the factors `half_roots` for frequency x."""
        return half_root(self.problem)

    @property
    def tables(self) -> tuple[Table, ...]:
        """Tables that the kernel reads from memory."""
        if self.choice.twiddles is Twiddles.COMPUTED:
            return ()
        sign, tables = self._sign, []
        powers = [power.exponent for power in self._powers if power.row >= 0]
        if powers:
            exponents = [twiddle_exponent(self.choice.first, self._lanes, lane) for lane in range(self._lanes)]
            values = [self._turned(root(j * exponent, self._columns)) for j in powers for exponent in exponents]
            told = f"j = {', '.join(map(str, powers))} and each lane"
            meaning = f"exp({sign}2 pi i j {self._root_lane} / {self._columns}) for {told}."
            tables.append(Table.of("kTwiddles", values, meaning))
        for step in (step for step in self.steps if step.span):
            values = [self._turned(root(step.exponent(lane), step.span)) for lane in range(step.span)]
            meaning = f"exp({sign}2 pi i ({step.exponent_text}) / {step.span})."
            tables.append(Table.of(f"kRoots{step.span}", values, meaning))
        if self.half_roots:
            values = [self._turned(root(x, self.problem.size[-1]) * 1j) for x in range(self._columns)]
            tables.append(Table.of("kPackingTwiddles", values, f"{self.half_meaning}."))
        return tuple(tables)

    def angle(self, order: int) -> str:
        """Literal angle of the first root of that order, in units of pi."""
        return float_literal(self._turn / order)

    @property
    def _powers(self) -> tuple[Power, ...]:
        count = self.choice.points if self.are_twiddles else 1
        return powers_of(count, self._columns, self.choice.twiddles, self._turn)

    @property
    def _lanes(self) -> int:
        return spreads(self.problem, self.choice)[0].lanes

    @property
    def _columns(self) -> int:
        return complex_columns(self.problem, self.choice.packing)

    @property
    def _root_lane(self) -> str:
        """CUDA name of the number whose root is the twiddle of register 1."""
        return "lane" if self.choice.first is First.REGISTERS else "reversed"

    @property
    def _sign(self) -> str:
        return "" if self.problem.inverse else "-"

    @property
    def _turn(self) -> int:
        """A full circle in units of pi, with the sign of the direction."""
        return 2 if self.problem.inverse else -2

    def _turned(self, value: complex) -> complex:
        return value if self.problem.inverse else value.conjugate()
