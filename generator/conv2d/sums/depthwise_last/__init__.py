"""Depthwise channels-last layers: a vector of channels per thread, pixels from global memory, sums in registers."""
