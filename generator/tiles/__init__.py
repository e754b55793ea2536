"""Tiles of two dimensions that a block transforms in shared memory, whatever the operation."""
