"""Whole search spaces: design-space sweeps, recordings, and replays of searches without a GPU."""
