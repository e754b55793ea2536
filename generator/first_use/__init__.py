"""Kernels that recompute some results of a problem in float64, to check an untuned answer at first use."""
