"""Layers as products of matrices that warps multiply: tensor cores from compute capability 8.0 on."""
