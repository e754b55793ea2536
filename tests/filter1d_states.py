"""Problems of filter1d with states and packed sequences that combine every two values of their options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pairs import covering
from warpsmith.generator.filter1d import Filter1d, SignalLayout, SignalState

FACTORS: dict[str, Sequence[Any]] = {
    # Samples and taps: shorter than taps - 1, around the sizes of vectors and blocks, and sums of several parts.
    "sizes": ((1, 2), (1, 4), (2, 4), (3, 9), (7, 4), (8, 3), (65, 33), (129, 4), (257, 17), (1026, 5), (40, 300)),
    "state": (None, "before", "after", "both", "carried", "wide", "indexed", "ring", "ring of indexed"),
    "types": (
        ("float32", None, None),
        ("float16", "float16", None),
        ("bfloat16", None, None),
        ("bfloat16", "bfloat16", "float32"),
        ("complex64", "complex64", None),
        ("int16", None, None),
        ("uint8", None, "bfloat16"),
    ),
    "layout": tuple(SignalLayout),
    "channels": ((1, 1), (6, 1), (6, 2), (6, 6), (8, 8), (40, 40)),
    "rows": (("batch", 1), ("batch", 3), ("packed", 1), ("packed", 2), ("packed", 7)),
    "convolve": (False, True),
    "gaps": (0, 3),
    "down": (1, 2),
    "weights": ("given", "known"),
    "epilogue": ("none", "both"),
}


def is_problem(case: Mapping[str, Any]) -> bool:
    """Whether one problem can combine these values of some or all FACTORS."""
    state, (kind, _) = case.get("state", "carried"), case.get("rows", ("batch", 1))
    if kind == "packed":
        return not str(state).startswith("ring")
    return state is not None


def problem_of(case: Mapping[str, Any]) -> Filter1d:
    """Problem with the given values of all FACTORS, but for those that do not fit the others: `down`, known weights,
    bias and activation.
    """
    (samples, taps), (channels, filters), (dtype, taps_dtype, result_dtype) = (
        case[name] for name in ("sizes", "channels", "types")
    )
    state, (kind, rows) = case["state"], case["rows"]
    is_known = case["weights"] == "known" and taps_dtype is None and filters * taps <= 4096
    is_finished = case["epilogue"] == "both" and dtype != "complex64"
    fields: dict[str, Any] = {
        "signal": samples,
        "taps": taps,
        "mode": "causal",
        "channels": channels,
        "filters": filters,
        "dtype": dtype,
        "taps_dtype": taps_dtype,
        "result_dtype": result_dtype,
        "weights": tuple((i * 5 % 7 - 3) / 8 for i in range(filters * taps)) if is_known else None,
        "bias": is_finished,
        "activation": "silu" if is_finished else None,
        "state": state if state in (None, *SignalState) else "carried",
        "state_width": taps + 1 if state in ("wide", "ring", "ring of indexed") else None,
        "state_rows": rows + 2 if state in ("indexed", "ring of indexed") else None,
        "circular": state in ("ring", "ring of indexed"),
        "down": case["down"] if kind == "batch" and samples % case["down"] == 0 else 1,
        "layout": case["layout"],
        "convolve": case["convolve"],
        kind: rows,
    }
    dense = Filter1d(**fields)
    row = dense.channels if dense.layout is SignalLayout.BTC else samples
    return Filter1d(**fields, pitch=(row + case["gaps"]) * dense.dtype.itemsize)


STATES = tuple(problem_of(case) for case in covering(FACTORS, is_problem))
"""Problems that combine every two values of two FACTORS."""
