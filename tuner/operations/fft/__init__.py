"""Fourier transforms: float64 references by NumPy, and the peers cuFFT and SciPy."""
