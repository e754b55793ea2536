"""Borders: elements before and behind a signal that repeat its own; a transform computes them while it loads."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from warpsmith.errors import BadArgument
from warpsmith.generator.canonical import count
from warpsmith.generator.padding import PaddingMode, Pads, told_pads
from warpsmith.generator.problem import member

REPEATING = tuple(mode for mode in PaddingMode if mode is not PaddingMode.ZEROS)
"""Modes that a border may have; zeros need no border."""
_MAX_PADS = 2**15


@dataclasses.dataclass(frozen=True, slots=True)
class Border:
    """Elements of a signal that a forward transform reads once more, before and behind it along each axis.

    Args:
        mode: which elements; `zeros` is refused.
        pads: numbers of elements before and after the signal along each axis, rows first.

    Raises:
        BadArgument: pads that are no such numbers or are all 0, or an unknown mode.
    """

    mode: PaddingMode
    pads: tuple[Pads, ...]

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # the documented way to canonicalise a frozen dataclass
        set_field(self, "mode", member(PaddingMode, self.mode, "border", REPEATING))
        try:
            pads = tuple((before, after) for before, after in self.pads)
        except (TypeError, ValueError):
            raise BadArgument(f"pads of a border must be (before, after) for each axis; got {self.pads!r}") from None
        set_field(self, "pads", tuple((_pad(before), _pad(after)) for before, after in pads))
        if not any(map(sum, self.pads)):
            raise BadArgument("a border without elements is none")

    @classmethod
    def of(cls, value: Any) -> Border | None:
        """Border from a Border, a spec's mapping or a key (`reflect:2+1x3`); None for None. Raises BadArgument."""
        if value is None or isinstance(value, cls):
            return value
        if isinstance(value, Mapping) and value.keys() == {"mode", "pads"}:
            return cls(**value)
        if match := re.fullmatch(r"\s*(\w+):([\d+x]+)\s*", str(value)):
            sides = [side.split("+") for side in match[2].split("x")]
            if all(1 <= len(side) <= 2 and all(side) for side in sides):
                pads = tuple((int(side[0]), int(side[-1])) for side in sides)
                return cls(member(PaddingMode, match[1], "border", REPEATING), pads)
        raise BadArgument(f"border must be MODE:PADS, such as reflect:1 or reflect:2+1x3; got {value!r}")

    def __str__(self) -> str:
        return f"{self.mode}:{'x'.join(map(told_pads, self.pads))}"

    def spec(self) -> dict[str, Any]:
        """JSON values of the fields."""
        return {"mode": str(self.mode), "pads": [list(pads) for pads in self.pads]}

    def around(self, signal: tuple[int, ...]) -> tuple[int, ...]:
        """Size of a signal with its border."""
        return tuple(there + sum(pads) for there, pads in zip(signal, self.pads, strict=True))

    def check(self, signal: tuple[int, ...], size: tuple[int, ...], *, inverse: bool) -> None:
        """Raises BadArgument if the border does not fit `signal`, or both together exceed `size` points."""
        if inverse:
            raise BadArgument("an inverse transform has no border")
        if len(self.pads) != len(size):
            raise BadArgument(f"border {self} is for {len(self.pads)} axes; the transform has {len(size)}")
        for there, pads, points in zip(signal, self.pads, size, strict=True):
            most = self.mode.most(there)
            if most is not None and max(pads) > most:
                raise BadArgument(
                    f"border {self.mode} has at most {most} on each side of {there}; got {told_pads(pads)}"
                )
            if there + sum(pads) > points:
                raise BadArgument(f"the signal and its border are {there + sum(pads)} points, of {points}")


def _pad(value: Any) -> int:
    return count(value, "pads of a border", most=_MAX_PADS - 1, least=0)
