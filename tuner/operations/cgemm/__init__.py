"""Batched complex matrix products: float64 references by NumPy; peers cuBLAS through PyTorch, and PyTorch on the
host.
"""
