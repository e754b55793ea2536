"""CUDA text of a config of `filter1d_fft`: the values that its template takes as `g`."""

from __future__ import annotations

from functools import cached_property

from warpsmith.generator.fft.axes import root
from warpsmith.generator.fft.text import Table
from warpsmith.generator.tiles.lines_text import PassesText


class Filter1dFftText(PassesText):
    """Passes of a line, their tables, and the transforms within a thread."""

    @cached_property
    def roots(self) -> Table:
        """Roots that tell the frequencies of one item of the last pass apart."""
        radix = self.passes.lines.axis.radices[-1]
        values = [root(-k, radix) for k in range(radix)]
        return Table.of("kRoots", values, f"exp(-2 pi i k / {radix}) for k = 0 to {radix - 1}.")
