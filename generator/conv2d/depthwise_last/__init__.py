"""Depthwise layers channels last: vectors of channels a thread, pixels straight from memory, sums in registers."""
