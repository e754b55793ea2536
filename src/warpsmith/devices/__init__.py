"""Devices: compilers, memory, launches, clocks."""
