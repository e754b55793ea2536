"""Layers as products of matrices on Hopper's tensor cores."""
