"""Layers by sums over taps in registers, without tensor cores."""
