"""Layers in the frequency domain whose spectra are stored as split fp16 numbers."""
