"""Layers with one tap as products of float32 matrices on tensor cores, split into fp16 parts where they are read."""
