"""Layers as implicit GEMMs by warp-level mma instructions, on tensor cores from compute capability 8.0 on."""
