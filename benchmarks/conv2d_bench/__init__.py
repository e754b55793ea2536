"""Shared parts of the convolution benchmarks: problems, measurement, stored rows and tables."""
