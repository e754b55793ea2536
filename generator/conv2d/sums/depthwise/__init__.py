"""Layers whose groups have few channels: windows over planes in shared memory, sums and weights in registers."""
