"""Convolution layers in the frequency domain."""
