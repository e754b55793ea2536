"""How far the winner of one batch of products is from fitting another, in the unit of `generator.distances`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsmith.generator.distances import RULE_CHANGED, SIDE_CHANGED, octaves

if TYPE_CHECKING:
    from warpsmith.generator.cgemm.problem import Cgemm


def between_products(one: Cgemm, other: Cgemm) -> float:
    """`Problem.distance` of two batches of products: octaves of their sizes, and a conjugate is a sign alone."""
    size = sum(octaves(getattr(one, name), getattr(other, name)) for name in ("batch", "m", "n", "k"))
    pairs = [(getattr(one, name), getattr(other, name)) for name in ("a", "b")]
    turned = sum(here.transposes != there.transposes for here, there in pairs)
    signed = sum(here != there and here.transposes == there.transposes for here, there in pairs)
    return size + RULE_CHANGED * turned + SIDE_CHANGED * signed
