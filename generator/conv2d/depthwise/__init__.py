"""Layers whose groups have few channels: windows of planes in shared memory, sums and weights in registers."""
