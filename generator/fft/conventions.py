"""Conventions of a Fourier transform: which side is real, which direction is scaled, how the spectrum lies."""

from __future__ import annotations

import enum


class Kind(enum.StrEnum):
    """Types of a transform's two sides: the signal and its spectrum."""

    R2C = "r2c"
    """Real signal to half spectrum: `numpy.fft.rfft`, `rfft2`."""
    C2R = "c2r"
    """Half spectrum to real signal: `numpy.fft.irfft`, `irfft2`."""
    C2C = "c2c"
    """Complex on both sides: `numpy.fft.fft`, `fft2`, and `ifft`, `ifft2`."""


class Norm(enum.StrEnum):
    """Direction that is scaled, by NumPy's names; N is the number of points of one transform."""

    BACKWARD = "backward"
    """The inverse is scaled by 1/N."""
    ORTHO = "ortho"
    """Both directions are scaled by 1/sqrt(N)."""
    FORWARD = "forward"
    """The forward transform is scaled by 1/N."""


class Layout(enum.StrEnum):
    """Memory layout of the spectrum, the slowest dimension first."""

    BATCH = "batch"
    """(batch, rows, columns), as in NumPy."""
    TRANSPOSED = "transposed"
    """(batch, columns, rows): the two inner dimensions of a 2-D spectrum exchanged (fbfft, section 5.1)."""
    FREQUENCY = "frequency"
    """(rows, columns, batch): the operands of one matrix product per frequency are contiguous."""


class Order(enum.StrEnum):
    """Order of the frequencies in the spectrum."""

    NATURAL = "natural"
    """Ascending, as in `numpy.fft`."""
    REVERSED = "reversed"
    """Bit-reversed along each axis: position i holds the frequency whose index has the bits of i in reverse.

    Decimation in frequency leaves this order, and decimation in time reads it. In a half spectrum the first n/2 columns
    are reversed as n/2 numbers, and the last column stays the last."""
