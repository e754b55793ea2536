"""Layers as products of matrices of 16-bit numbers: what families share that take them on tensor cores."""
