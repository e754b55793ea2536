"""Parameters of `filter1d_fft_long` and their values."""

from __future__ import annotations

import enum

COLUMNS = (
    *("4x4", "8x4", "8x8", "12x8", "16x8", "12x16", "16x16", "20x16", "24x16", "32x16"),
    *("8x8x16", "16x8x16", "16x16x16"),
)
"""Radices of columns. Two passes do up to 512 points; more serve filters of millions of taps."""
ROWS = (
    *("8x8", "16x8", "16x16", "24x16", "32x16", "8x8x8", "12x8x8", "16x8x8", "12x16x8", "16x16x8", "20x16x8"),
    *("12x16x16", "16x16x16", "20x16x16", "24x16x16", "32x16x16"),
)
"""Radices of rows."""
WIDTHS = (4, 8, 16, 32)
HEIGHTS = (1, 2, 4, 8, 16)
THREADS = (32, 64, 128, 256, 512)
MIN_BLOCKS = (1, 2, 3, 4, 5, 6, 8)
LAGS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 32)


class Spectra(enum.StrEnum):
    """Time at which the filters' spectra are made."""

    FIRST = "first"
    """Two launches make all of them; a plan with bound weights makes them once."""
    WITH = "with"
    """The columns and the rows of a block's filter are transformed with the block's own."""
