"""Batched complex matrix products on the command line: their options, and their comparison with other libraries."""
