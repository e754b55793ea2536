"""Layers as problems: shapes, axes, operands, checks, distances and the text that all families share."""
