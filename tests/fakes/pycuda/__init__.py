"""A PyCUDA for machines without an NVIDIA driver: the parts that warpsmith calls, with PyCUDA 2026.1's signatures."""

VERSION_TEXT = "2026.1"
