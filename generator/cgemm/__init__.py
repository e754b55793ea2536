"""Batched complex matrix products: the problem and the families that solve it."""

from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.cgemm.words import Op

__all__ = ["Cgemm", "Op"]
