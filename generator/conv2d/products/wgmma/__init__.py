"""Layers as implicit GEMMs by wgmma instructions on Hopper's tensor cores."""
