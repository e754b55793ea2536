"""Distance between two batches of products, in octaves of size (`generator.distances`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsmith.generator.distances import RULE_CHANGED, SIDE_CHANGED, octaves

if TYPE_CHECKING:
    from warpsmith.generator.cgemm.problem import Cgemm


def between_products(one: Cgemm, other: Cgemm) -> float:
    """`Problem.distance` of two batches of products: octaves of their sizes. A conjugate differs in a sign alone."""
    extents = ((one.batch, other.batch), (one.m, other.m), (one.n, other.n), (one.k, other.k))
    size = sum(octaves(here, there) for here, there in extents)
    pairs = ((one.a, other.a), (one.b, other.b))
    turned = sum(here.transposes != there.transposes for here, there in pairs)
    signed = sum(here != there and here.transposes == there.transposes for here, there in pairs)
    return size + RULE_CHANGED * turned + SIDE_CHANGED * (signed + (one.accuracy != other.accuracy))
