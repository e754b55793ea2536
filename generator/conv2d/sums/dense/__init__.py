"""Layers whose filters cover a whole image, as small matrix products in registers."""
