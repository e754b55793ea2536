"""Layers by exact sums of int8 slices (Ozaki scheme): the same bits whatever the tile."""
