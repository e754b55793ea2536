"""Whole search spaces: shown in sweeps, recorded, and searched again without a GPU."""
