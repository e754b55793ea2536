"""CUDA text of a config of `fft_warp` on a problem: the values that its template takes as `g`."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from math import ceil, gcd, prod

from warpsmith.generator.fft.codelets import Codelet, codelets
from warpsmith.generator.fft.problem import Fft
from warpsmith.generator.fft.shapes import dimensions
from warpsmith.generator.fft.text import PACKED, frequency_place, half_scale, scale, text_key
from warpsmith.generator.fft.warp.lanes import Choice, First, Spread, spreads
from warpsmith.generator.fft.warp.twiddles import Factors
from warpsmith.generator.fft.words import Packing, complex_columns
from warpsmith.generator.space import Config


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """Loads or stores of the lanes: the signal or the spectrum."""

    kind: str
    """complex, pair (of real signals), columns (two real ones as a complex one) or spectra (of real signals)."""
    element: str
    """CUDA expression of the place of register j's element in a transform's part of memory."""
    inside: str = ""
    """CUDA condition under which the element exists; empty if it always does."""
    inside_second: str = ""
    """CUDA condition for the second real number of a complex one; empty if it always exists."""
    width: int = 1
    """Consecutive elements per vector access."""


@dataclasses.dataclass(frozen=True)
class FftWarpText:
    """Sizes, places and twiddles of the kernel. A group of lanes has one complex transform at a time."""

    problem: Fft
    choice: Choice

    @classmethod
    def of(cls, problem: Fft, config: Config) -> FftWarpText:
        return cls(problem, Choice.of(config))

    @property
    def summary(self) -> tuple[str, ...]:
        return _summary(self)

    @property
    def is_flat(self) -> bool:
        return len(self.problem.size) == 1

    @property
    def columns(self) -> int:
        """Complex numbers of a row, after packing."""
        return complex_columns(self.problem, self.choice.packing)

    @property
    def lanes(self) -> int:
        """Lanes that share a transform."""
        return self.spreads[0].lanes

    @property
    def lane_shift(self) -> int:
        """Right shift that leaves the bits of a lane of a bit-reversed 32-bit number."""
        return 33 - self.lanes.bit_length()

    @cached_property
    def spreads(self) -> tuple[Spread, Spread]:
        return spreads(self.problem, self.choice)

    @property
    def lanes_first(self) -> bool:
        return self.choice.first is First.LANES

    @property
    def factors(self) -> Factors:
        return Factors(self.problem, self.choice)

    @property
    def transforms(self) -> int:
        """Complex transforms of the batch."""
        return ceil(self.problem.batch / self.choice.packing.transforms)

    @property
    def blocks(self) -> int:
        groups = 32 * self.choice.warps // self.lanes
        return ceil(self.transforms / (groups * self.choice.repeats))

    @property
    def lacks_second(self) -> bool:
        """True if the last pair has only one transform."""
        return self.choice.packing is Packing.PAIR and self.problem.batch % 2 == 1

    @property
    def key(self) -> str:
        return text_key(self.problem)

    @property
    def scale(self) -> str:
        return scale(self.problem)

    @property
    def half_scale(self) -> str:
        return half_scale(self.problem)

    @property
    def codelets(self) -> tuple[Codelet, ...]:
        points = frozenset({self.choice.points} - {1})
        return codelets(points, inverse=self.problem.inverse is True)

    @cached_property
    def input(self) -> Side:
        return self._spectrum(self.spreads[0]) if self.problem.inverse else self._signal(self.spreads[0])

    @cached_property
    def output(self) -> Side:
        return self._signal(self.spreads[1]) if self.problem.inverse else self._spectrum(self.spreads[1])

    @property
    def input_pitch(self) -> int:
        """Elements, of the array's type, from one transform of the problem to the next."""
        return prod(self.problem.spectrum_size if self.problem.inverse else self.problem.signal_size)

    @property
    def output_pitch(self) -> int:
        return prod(self.problem.signal_size if self.problem.inverse else self.problem.spectrum_size)

    @property
    def signal_type(self) -> str:
        return "float" if self.problem.is_real else "float2"

    @property
    def spectrum_place(self) -> str:
        """CUDA expression of the place of frequency x, or (y, x), in a transform's spectrum; empty if it is x."""
        return _spectrum_place(self.problem)

    def _signal(self, spread: Spread) -> Side:
        columns, packing = self.problem.signal_size[-1], self.choice.packing
        inside, inside_second = _inside(self.problem, packing, spread)
        kind = {Packing.COMPLEX: "complex", Packing.PAIR: "pair", Packing.HALF: "columns"}[packing]
        if packing is Packing.HALF and columns % 2 == 0:
            kind, columns = "complex", columns // 2
        x = f"2 * ({spread.text('j')})" if kind == "columns" else spread.text("j")
        element = x if self.is_flat else f"j * {columns} + {x}"
        width = 1
        if kind != "columns" and spread.lane_weight > 1:
            width = gcd(columns, self.choice.points, 4 if kind == "pair" else 2)
        return Side(kind, element, inside, inside_second, width)

    def _spectrum(self, spread: Spread) -> Side:
        kind = "spectra" if self.problem.is_real else "complex"
        place = spread.text("j") if self.is_flat else f"j, {spread.text('j')}"
        if self.problem.is_real or self.spectrum_place:
            return Side(kind, f"spectrum_offset({place})")
        return Side(kind, place, width=gcd(self.choice.points, 2) if spread.lane_weight > 1 else 1)


def _summary(g: FftWarpText) -> tuple[str, ...]:
    size = dimensions((*g.problem.size[:-1], g.columns))
    direction = "Inverse" if g.problem.inverse else "Forward"
    order = "lanes first" if g.lanes_first else "registers first"
    return (
        f"{direction} transforms of {size} complex numbers, each in the registers of {g.lanes} lanes of a warp:",
        f"{g.choice.points} points within a lane, {g.lanes} across by shuffles, {order}.{PACKED[g.choice.packing]}",
    )


def _inside(problem: Fft, packing: Packing, spread: Spread) -> tuple[str, str]:
    """CUDA conditions under which a signal's element, and the second real one beside it, exist; empty if always."""
    rows = []
    if len(problem.size) == 2 and problem.signal_size[0] < problem.size[0]:
        rows.append(f"j < {problem.signal_size[0]}")
    columns, all_columns = problem.signal_size[-1], problem.size[-1]
    first, second = ceil(columns / 2), columns // 2
    if packing is not Packing.HALF:
        first = second = columns
    else:
        all_columns //= 2
    x = spread.text("j")
    inside = [*rows, f"{x} < {first}"] if first < all_columns else rows
    inside_second = [*rows, f"{x} < {second}"] if second < all_columns else rows
    return " && ".join(inside), " && ".join(inside_second)


def _spectrum_place(problem: Fft) -> str:
    y, x = frequency_place(problem)
    if len(problem.size) == 2:
        return f"{y} * {problem.spectrum_size[-1]} + {x}"
    return x if x != "x" or problem.is_real else ""
