"""Problems of filter1d with gates that combine every two values of their options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from filter1d_problems import is_problem
from filter1d_problems import problem_of as plain_problem_of
from pairs import covering
from warpsmith.generator.filter1d import Filter1d, Gates, SignalLayout

FACTORS: dict[str, Sequence[Any]] = {
    "sizes": ((1, 1), (7, 4), (65, 33), (128, 65), (257, 17), (1026, 5), (700, 300)),
    "slice": ("full", "causal", "valid", "middle", "ends"),
    "types": (
        ("float32", None, None),
        ("float32", None, "bfloat16"),
        ("float16", None, None),
        ("float16", "float16", "float32"),
        ("float16", "float16", "bfloat16"),
        ("bfloat16", None, None),
        ("bfloat16", "bfloat16", "float16"),
    ),
    "layout": tuple(SignalLayout),
    "channels": ((1, 1), (6, 6), (8, 1), (16, 1)),
    "batch": (1, 3),
    "convolve": (False, True),
    "down": (1, 3),
    "gaps": ((0, 0), (3, 5), (16, 16)),
    "weights": ("given", "known"),
    "epilogue": ("none", "both"),
    "rules": (("signalwise", "window"), ("elementwise", "any")),
    "gates": tuple(Gates),
}


def problem_of(case: Mapping[str, Any]) -> Filter1d:
    """Problem with the given values of all FACTORS."""
    return plain_problem_of(case, gates=case["gates"])


GATED = tuple(problem_of(case) for case in covering(FACTORS, is_problem))
"""Problems that combine every two values of two FACTORS."""

_GROUPS: dict[str, Any] = {"layout": "btc", "channels": 32, "filters": 2, "dtype": "bfloat16", "taps_dtype": "bfloat16"}
GROUPED = (
    Filter1d(300, 128, 2, mode="causal", gates="both", **_GROUPS),
    Filter1d(257, 7, mode="same", bias=True, activation="silu", gates="after", **_GROUPS),
    Filter1d(65, 17, 3, channels=24, layout="btc", dtype="float16", pitch=2 * 32, result_pitch=2 * 28, gates="before"),
    Filter1d(300, 9, channels=48, filters=3, layout="btc", dtype="float16", taps_dtype="float16", gates="both"),
)
"""Problems that `filter1d_toeplitz_channels` solves."""

_HALVES: dict[str, Any] = {"mode": "causal", "dtype": "bfloat16", "taps_dtype": "bfloat16", "gates": "both"}
PROJECTED = (
    Filter1d(1024, 7, 2, channels=8, filters=2, projection=3, **_HALVES),
    Filter1d(777, 128, channels=6, filters=6, projection=3, pitch=2 * 784, result_pitch=2 * 800, **_HALVES),
    Filter1d(300, 5, 2, channels=4, layout="btc", projection=4, convolve=True, bias=True, activation="silu", **_HALVES),
    Filter1d(515, 33, 3, channels=2, filters=2, mode="causal", gates="both", projection=5, convolve=True),
    Filter1d(200, 4, mode="causal", dtype="float16", result_dtype="bfloat16", gates="both", projection=1),
    Filter1d(2600, 20, 2, mode="causal", dtype="float16", taps_dtype="float16", gates="both", projection=3, bias=True),
    Filter1d(5, 3, 4, channels=3, mode="causal", gates="both", projection=9, layout="btc", weights=(0.5, -1.0, 2.0)),
    Filter1d(129, 9, channels=4, mode="causal", accuracy="elementwise", gates="both", projection=2),
)
"""Problems with filters before the gates."""
