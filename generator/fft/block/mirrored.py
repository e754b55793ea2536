"""Passes that reach the spectra of two real signals in memory: each thread has two sets of frequencies, mirror images.

The spectrum of a real signal is its own mirror image, conjugated, so that those of two signals, transformed as one
complex one, come from a frequency and the one that mirrors it (Cooley, Lewis and Welch 1970, "The Fast Fourier
Transform Algorithm: Programming Considerations in the Calculation of Sine, Cosine and Laplace Transforms", section 3).
Along a row of X columns the last pass of radix R has the frequencies (y, d + M j) for j = 0 to R - 1 in one thread,
where M = X / R. Their mirror images (-y, -d - M j) are one set too, that of row -y and digit M - d. A thread that has
both sets can split them without another exchange through the tile. An inverse transform's first pass is the same the
other way round.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from warpsmith.generator.fft.axes import modulo
from warpsmith.generator.fft.block.tile import Address, PassWork, Pool, TileShape
from warpsmith.generator.fft.problem import Fft, Layout


def may_mirror(problem: Fft) -> bool:
    """Whether spectra lie so that both of a pair can be reached at once, and rows so that sets come in pairs."""
    is_flat_or_complex = len(problem.size) == 1 or not problem.is_real
    side_by_side = problem.batch if problem.product is None else problem.product.columns
    if is_flat_or_complex or not problem.may_pair or problem.layout is not Layout.FREQUENCY or side_by_side % 2:
        return False
    return problem.size[0] % 2 == 0 and problem.size[1] % 4 == 0


def set_address(work: PassWork, row: str, digit: str) -> Address:
    """Where a set's first element lies in the tile, for `t` and variables with these names."""
    own = "later" if work.step.later > 1 else "earlier"
    names = {"t": "t", "y": row, own: digit}
    return Address(tuple((names[name], place) for name, place in work.address.terms if name in names))


def has_pairs(problem: Fft, x_radices: tuple[int, ...]) -> bool:
    """Whether the pass that reaches the spectrum has an even radix, and an even number of sets in a row."""
    radix = radix_of_sets(problem, x_radices)
    return radix % 2 == 0 and problem.size[-1] // radix % 2 == 0


def radix_of_sets(problem: Fft, x_radices: tuple[int, ...]) -> int:
    """Points of each of a thread's two sets in the pass that reaches the spectrum."""
    return x_radices[0] if problem.inverse else x_radices[-1]


@dataclasses.dataclass(frozen=True, slots=True)
class Sets:
    """The pairs of sets of one pass, numbered by t, y and `part`; digit 0 and the middle one mirror themselves.

    Their rows come in pairs (y, -y), so that rows 0 and Y / 2, which are alone, make one more: `here` and `there` are
    then two sets that mirror themselves each.
    """

    transforms: int
    rows: int
    """Y."""
    digits: int
    """M: sets of a row."""

    @classmethod
    def of_pass(cls, shape: TileShape, work: PassWork) -> Sets:
        """Those of a pass along x, the first or the last one of a tile of that shape."""
        return cls(shape.transforms, shape.y, work.step.later * work.step.earlier)

    @property
    def pool(self) -> Pool:
        """Neighbours in memory first."""
        return Pool.of(t=self.transforms, y=self.rows, part=self.digits // 2)

    def indices(self, values: dict[str, Any], *, is_there: bool) -> dict[str, Any]:
        """Transform `t`, row `y` and `digit` of one of the sets, of items with these values; also of arrays of them."""
        y, part, half = values["y"], values.get("part", 0), self.rows // 2
        is_own = 1 * (part == 0)
        here_y = is_own * (y % half) + (1 - is_own) * y
        here = part + is_own * (y >= half) * (self.digits // 2)
        is_alone = is_own * (here_y == 0)
        there_y = is_alone * half + (1 - is_alone) * (-here_y % self.rows)
        there = is_own * here + (1 - is_own) * (self.digits - part)
        row, digit = (there_y, there) if is_there else (here_y, here)
        return {"t": values.get("t", 0), "y": row, "digit": digit}

    def lines(self) -> tuple[str, ...]:
        """The same as definitions in CUDA, from t, y and part on."""
        half, middle = self.rows // 2, self.digits // 2
        return (
            "const bool is_own = part == 0;  // columns whose mirror images are in the same set of them",
            f"const int here_y = is_own ? {modulo('y', half) if half > 1 else '0'} : y;",
            f"const int here = is_own ? (y < {half} ? 0 : {middle}) : part;",
            "const bool is_alone = is_own && here_y == 0;  // and so is the row",
            f"const int there_y = is_alone ? {half} : here_y == 0 ? 0 : {self.rows} - here_y;",
            f"const int there = is_own ? here : {self.digits} - part;",
        )
