"""Filters of one-dimensional signals: float64 references, and the peers cuDNN, cuFFT, CuPy, SciPy and PyTorch."""
