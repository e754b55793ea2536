"""Layers by matrix products on the tensor cores."""
