"""NVIDIA libraries whose functions a step of a program may call."""

from __future__ import annotations

import enum


class Library(enum.StrEnum):
    """NVIDIA library that a step of a program may call."""

    CUFFT = "cufft"
    """NVIDIA's Fourier transforms. On the host, NumPy's stand in for them."""
    CUBLAS = "cublas"
    """NVIDIA's matrix products. On the host, NumPy's stand in for them."""
