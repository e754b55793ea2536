"""Batched complex matrix products: the problem and the families that solve it."""

from warpsmith.generator.cgemm.problem import Cgemm, Op

__all__ = ["Cgemm", "Op"]
