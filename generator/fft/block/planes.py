"""CUDA text of the places of transforms that are tiles of planes, for `templates/fft/block_planes.cu.jinja`."""

from __future__ import annotations

import dataclasses
from math import prod

from warpsmith.generator.fft.problem import Fft
from warpsmith.generator.fft.tiling import Tiling
from warpsmith.generator.fft.words import Packing


@dataclasses.dataclass(frozen=True, slots=True)
class Planes:
    """Places of a problem's tiles. Divisors are constants, so that compilers multiply instead."""

    problem: Fft
    packing: Packing
    tiling: Tiling

    @property
    def inside(self) -> str:
        """CUDA expression of the plane's number among those that share a tile's number."""
        return _modulo("number", self.tiling.inner)

    @property
    def tile(self) -> str:
        """CUDA expression of the tile's number within its plane."""
        return _modulo(_quotient("number", self.tiling.inner), self.tiling.tiles)

    @property
    def plane(self) -> str:
        """CUDA expression of the plane's number."""
        inner, together = self.tiling.inner, self.tiling.inner * self.tiling.tiles
        outer = _quotient("number", together)
        return f"{outer} * {inner}u + {self.inside}" if inner > 1 else outer

    @property
    def points(self) -> int:
        """Points of a plane."""
        return prod(self.tiling.plane)

    @property
    def columns(self) -> int:
        """Columns of a plane."""
        return self.tiling.plane[-1]

    @property
    def row(self) -> str:
        """CUDA expression of the row at which a tile begins."""
        return self._corner(0, _quotient("tile", self.tiling.count[-1]))

    @property
    def column(self) -> str:
        """CUDA expression of the column at which a tile begins."""
        axis = len(self.tiling.count) - 1
        return self._corner(axis, _modulo("tile", self.tiling.count[-1]) if axis else "tile")

    @property
    def is_vector(self) -> bool:
        """True if two packed columns always lie at a multiple of 8 bytes, both inside the plane or both outside."""
        numbers = (self.columns, self.tiling.step[-1], self.tiling.origin[-1], self.problem.signal_size[-1])
        return self.packing is Packing.HALF and not any(number % 2 for number in numbers)

    @property
    def element_type(self) -> str:
        """CUDA type of an element that is read or written at once."""
        return "float2" if self.is_vector or not self.problem.is_real else "float"

    @property
    def nothing(self) -> str:
        """CUDA value of an element outside the plane."""
        return "make_float2(0.0f, 0.0f)" if self.element_type == "float2" else "0.0f"

    @property
    def is_inside(self) -> str:
        """CUDA condition under which point (y, x) of a tile, x a column, exists; empty if each does."""
        names = (("y", "row"), ("x", "column"))[-len(self.tiling.count) :]
        return " && ".join(each for axis, (own, at) in enumerate(names) for each in self._conditions(axis, own, at))

    def _conditions(self, axis: int, own: str, at: str) -> tuple[str, ...]:
        """Conditions of one axis: the tile's valid part, and the plane. A negative place is a large unsigned number."""
        there, points, plane = self.problem.signal_size[axis], self.problem.size[axis], self.tiling.plane[axis]
        first, end = self.tiling.reach(axis, there)
        found = [f"{own} < {there}"] if there < points else []
        if first < 0 or end > plane:
            found.append(f"static_cast<unsigned>({at}) < {plane}u" if first < 0 else f"{at} < {plane}")
        return tuple(found)

    def _corner(self, axis: int, number: str) -> str:
        step, origin = self.tiling.step[axis], self.tiling.origin[axis]
        if self.tiling.count[axis] == 1:
            return str(origin)
        moved = f"static_cast<int>({number}) * {step}"
        return f"{moved} {'-' if origin < 0 else '+'} {abs(origin)}" if origin else moved


def _quotient(number: str, divisor: int) -> str:
    return number if divisor == 1 else f"{number} / {divisor}u"


def _modulo(number: str, divisor: int) -> str:
    return "0u" if divisor == 1 else f"{number} % {divisor}u"
