"""Image filters: float64 references, and the peers cuDNN, CuPy, NPP and SciPy."""
