"""Batched complex matrix products: NumPy's in float64, cuBLAS through PyTorch, and PyTorch's on the host."""
