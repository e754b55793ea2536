"""Kernels that compute some results of a problem once more, in float64, for the check of an untuned answer."""
