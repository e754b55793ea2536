"""Fourier transforms: NumPy's in float64, cuFFT's and SciPy's."""
