"""Winograd minimal filtering for 3x3 layers: input transforms, one GEMM at each point, and the output transform."""
