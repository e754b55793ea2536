"""Layers in the frequency domain whose spectra are halves in memory."""
