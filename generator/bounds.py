"""How far from the exact result a result may be: the numbers of the tuner's judges and of the check of first use."""

from __future__ import annotations

FLOAT32_BOUND = 1e-6
"""Largest error over the sum of |terms|. Sums of up to 5000 float32 products stay under 2.3e-7; rounding to float16 or
uint8 comes on top of it and is taken off before."""

PEAK = 2.0
"""Normwise errors are small against so many times the root mean square of the results. With a relative L2 error of
5e-7, the largest of 2^27 normal errors is 5.7 times 5e-7 / sqrt(2) of it: 1.0e-6 of twice the root mean square."""
