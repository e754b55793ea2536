"""Shared parts of the families that compute layers as GEMMs of 16-bit numbers on tensor cores."""
