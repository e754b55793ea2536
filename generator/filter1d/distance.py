"""Distance between two filters of signals, in octaves."""

from __future__ import annotations

from warpsmith.generator.distances import FARTHEST, NONFINITE_CHANGED, RULE_CHANGED, SIDE_CHANGED, TYPE_CHANGED, octaves
from warpsmith.generator.filter1d.fields import Filter1dFields

TAP_OCTAVE = 2.0
"""Octaves per factor of 2 in the taps: registers and unrolled code grow with them."""
WEIGHTS_CHANGED = 2.0
"""Octaves between known weights, which become literals, one filter of a call, and several."""
DOWN_OCTAVE = 2.0
"""Octaves per factor of 2 in `down`."""
SIDES = ("mode", "lags", "convolve", "channels", "filters", "weights", "bias", "activation", "state", "circular")
"""Fields that hardly move the best config, besides what the sizes, and the place of the weights, say of them."""


def between_filters(one: Filter1dFields, other: Filter1dFields) -> float | None:
    """`Problem.distance` of two filters; None past FARTHEST, and for different passes."""
    if one.pass_ is not other.pass_:
        return None
    gaps, other_gaps = (
        [each.span_bytes / each.nbytes for each in (problem.inputs[0], problem.output)] for problem in (one, other)
    )
    size = (
        (octaves(one.signal, other.signal) + octaves(one.result_length, other.result_length)) / 2
        + octaves(one.rows, other.rows)
        + sum(octaves(gap, other_gap) for gap, other_gap in zip(gaps, other_gaps, strict=True))
    )
    rest = (
        TAP_OCTAVE * octaves(one.taps, other.taps)
        + DOWN_OCTAVE * octaves(one.down, other.down)
        + TYPE_CHANGED * (one.dtype is not other.dtype)
        + TYPE_CHANGED / 2 * (one.output_dtype.itemsize != other.output_dtype.itemsize)
        + TYPE_CHANGED / 2 * (one.weights_dtype is not other.weights_dtype)
        + RULE_CHANGED * (one.layout is not other.layout)
        + RULE_CHANGED * (one.accuracy is not other.accuracy)
        + RULE_CHANGED * (one.precision is not other.precision)
        + NONFINITE_CHANGED * (one.nonfinite is not other.nonfinite)
        + RULE_CHANGED * ((one.packed is None) != (other.packed is None))
        + RULE_CHANGED * (one.gates is not other.gates)
        + WEIGHTS_CHANGED * (one.features()["weights"] != other.features()["weights"])
        + SIDE_CHANGED * sum(getattr(one, name) != getattr(other, name) for name in SIDES)
    )
    return size + rest if rest <= FARTHEST else None
