"""Layers by exact sums of int8 products: the same bits whatever the tile."""
