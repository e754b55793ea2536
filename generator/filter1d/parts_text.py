"""CUDA text of lines for convolution in parts: the values that the templates of `filter1d_lags` and `filter1d_parts`
take as `g`.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property

from warpsmith.generator.fft.text import Twiddles
from warpsmith.generator.tiles.lines import Lines
from warpsmith.generator.tiles.lines_text import LinesText, PassesText


@dataclasses.dataclass(frozen=True, slots=True)
class PartsLines:
    """Lines of a thread block, and where their twiddles come from."""

    lines: Lines
    twiddles: Twiddles


class PartsText(PassesText):
    """Passes of lines, their tables, and the transforms within a thread."""

    @classmethod
    def of(cls, lines: Lines, twiddles: Twiddles) -> PartsText:
        return cls(PartsLines(lines, twiddles))

    @cached_property
    def single(self) -> LinesText:
        """One of these lines, at the place of the first."""
        return LinesText(dataclasses.replace(self.passes.lines, count=1), self.passes.twiddles)
