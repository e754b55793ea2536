"""Passes that access the spectra of two real signals in memory: each thread has two sets of frequencies, mirror images.

The spectrum of a real signal is its own mirror image, conjugated. So the spectra of two signals that are transformed as
one complex signal follow from a frequency and its mirror image (Cooley, Lewis and Welch 1970, "The Fast Fourier
Transform Algorithm: Programming Considerations in the Calculation of Sine, Cosine and Laplace Transforms", section 3).
Along a row of X columns the last pass of radix R has the frequencies (y, d + M j) for j = 0 to R - 1 in one thread,
where M = X / R. Their mirror images (-y, -d - M j) are one set too, that of row -y and digit M - d. A thread that has
both sets can split them without another exchange through the tile. The first pass of an inverse transform is the same
in reverse.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from warpsmith.generator.fft.axes import modulo
from warpsmith.generator.fft.block.block_tile import Address, PassWork, Pool, TileShape
from warpsmith.generator.fft.problem import Fft, Layout


def may_mirror(problem: Fft) -> bool:
    """True if both spectra of a pair are neighbours in memory, and rows and columns let sets come in pairs."""
    is_flat_or_complex = len(problem.size) == 1 or not problem.is_real
    side_by_side = problem.batch if problem.product is None else problem.product.columns
    if is_flat_or_complex or not problem.may_pair or problem.layout is not Layout.FREQUENCY or side_by_side % 2:
        return False
    return problem.size[0] % 2 == 0 and problem.size[1] % 4 == 0


def set_address(work: PassWork, row: str, digit: str) -> Address:
    """Address of a set's first element in the tile, for `t` and variables named `row` and `digit`."""
    own = "later" if work.step.later > 1 else "earlier"
    names = {"t": "t", "y": row, own: digit}
    return Address(tuple((names[name], place) for name, place in work.address.terms if name in names))


def has_pairs(problem: Fft, x_radices: tuple[int, ...]) -> bool:
    """True if the pass that accesses the spectrum has an even radix and an even number of sets in a row."""
    radix = radix_of_sets(problem, x_radices)
    return radix % 2 == 0 and problem.size[-1] // radix % 2 == 0


def radix_of_sets(problem: Fft, x_radices: tuple[int, ...]) -> int:
    """Points of each of a thread's two sets in the pass that accesses the spectrum."""
    return x_radices[0] if problem.inverse else x_radices[-1]


@dataclasses.dataclass(frozen=True, slots=True)
class Sets:
    """Pairs of sets of one pass, numbered by t, y and `part`; digit 0 and the middle digit mirror themselves.

    For these two digits the rows come in pairs (y, -y). Rows 0 and Y / 2 have no partner and form one more pair, in
    which the first and the second set each mirror themselves.
    """

    transforms: int
    rows: int
    """Y, the rows of a transform."""
    digits: int
    """M, the sets of a row."""

    @classmethod
    def of_pass(cls, shape: TileShape, work: PassWork) -> Sets:
        """Sets of a pass along x, the first or the last one of a tile of that shape."""
        return cls(shape.transforms, shape.y, work.step.later * work.step.earlier)

    @property
    def pool(self) -> Pool:
        """Pool over the pairs of sets, neighbours in memory first."""
        return Pool.of(t=self.transforms, y=self.rows, part=self.digits // 2)

    def indices(self, values: dict[str, Any], *, is_there: bool) -> dict[str, Any]:
        """Transform `t`, row `y` and `digit` of one of an item's two sets; `values` may be arrays of items."""
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
        """CUDA definitions of both sets' rows and digits, from t, y and part."""
        half, middle = self.rows // 2, self.digits // 2
        return (
            "const bool is_own_digit = part == 0;  // digits 0 and M / 2, which mirror themselves",
            f"const int first_y = is_own_digit ? {modulo('y', half) if half > 1 else '0'} : y;",
            f"const int first_digit = is_own_digit ? (y < {half} ? 0 : {middle}) : part;",
            "const bool is_self_mirrored = is_own_digit && first_y == 0;  // in rows 0 and Y / 2, their own mirrors",
            f"const int second_y = is_self_mirrored ? {half} : first_y == 0 ? 0 : {self.rows} - first_y;",
            f"const int second_digit = is_own_digit ? first_digit : {self.digits} - part;",
        )
