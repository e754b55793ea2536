"""Error bounds of results: the numbers of the tuner's verification and of the check on first use."""

from __future__ import annotations

FLOAT32_BOUND = 1e-6
"""Largest error, relative to the sum of |terms|. Sums of up to 5000 float32 products stay under 2.3e-7. The rounding to
float16 or uint8 is subtracted before the comparison."""

PEAK = 2.0
"""Normwise errors are relative to this multiple of the root mean square of the results. With a relative L2 error of
5e-7, the largest of 2^27 normal errors is 5.7 times 5e-7 / sqrt(2) of it: 1.0e-6 of twice the root mean square."""
