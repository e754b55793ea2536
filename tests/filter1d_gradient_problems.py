"""Gradients of filter1d that combine every two values of its options, for tests of all layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pairs import covering
from warpsmith.generator.filter1d import Filter1d, Filter1dPass, Mode, SignalLayout

FACTORS: dict[str, Sequence[Any]] = {
    # Samples and taps: around vectors, lanes, warps and segments, one tap, and filters longer than the signal.
    "sizes": (
        (1, 1),
        (1, 6),
        (6, 15),
        (63, 3),
        (64, 2),
        (65, 33),
        (127, 1),
        (248, 4),
        (255, 17),
        (257, 32),
        (34, 300),
        (1026, 5),
        (2048, 8),
        (1000, 9),
    ),
    "slice": (*Mode, "first", "last", "middle"),
    "types": (
        ("float32", None, None),
        ("float32", None, "bfloat16"),
        ("float16", None, None),
        ("float16", "float16", "float32"),
        ("bfloat16", "bfloat16", None),
        ("bfloat16", None, "float16"),
    ),
    "layout": tuple(SignalLayout),
    "channels": ((1, 1), (2, 1), (6, 2), (6, 6), (8, 8), (16, 1)),
    "batch": (1, 3),
    "convolve": (False, True),
    "gaps": ((0, 0), (3, 0), (0, 5), (16, 16)),
    "epilogue": ("none", "bias", "silu", "both"),
    "pass": (Filter1dPass.DGRAD, Filter1dPass.WGRAD, Filter1dPass.BACKWARD),
}


def is_problem(case: Mapping[str, Any]) -> bool:
    """Whether one problem can combine these values of some or all FACTORS."""
    samples, taps = case.get("sizes", (9, 1))
    return not (case.get("slice") is Mode.VALID and taps > samples)


def gradient_of(case: Mapping[str, Any]) -> Filter1d:
    """Problem with the given values of all FACTORS; a filter of the gradient where that is the same."""
    (samples, taps), (channels, filters), (dtype, taps_dtype, result_dtype) = (
        case[name] for name in ("sizes", "channels", "types")
    )
    lags = {
        "first": (1 - taps, 1 - taps),
        "last": (samples - 1, samples - 1),
        "middle": (-(taps // 3), samples // 2),
    }
    fields: dict[str, Any] = {
        "signal": samples,
        "taps": taps,
        "mode": case["slice"] if isinstance(case["slice"], Mode) else None,
        "lags": lags.get(case["slice"]),
        "channels": channels,
        "filters": filters,
        "dtype": dtype,
        "taps_dtype": taps_dtype,
        "result_dtype": result_dtype,
        "bias": case["epilogue"] in ("bias", "both"),
        "activation": "silu" if case["epilogue"] in ("silu", "both") else None,
        **{name: case[name] for name in ("batch", "layout", "convolve")},
    }
    dense = Filter1d(**fields)
    row, result_row = (
        dense.channels if dense.layout is SignalLayout.BTC else length for length in (samples, dense.result_length)
    )
    before, after = case["gaps"]
    return Filter1d(
        **fields,
        pitch=(row + before) * dense.dtype.itemsize,
        result_pitch=(result_row + after) * dense.output.dtype.itemsize,
        pass_=case["pass"],
    )


LONG = (
    Filter1d(300, 200, 3, Mode.CAUSAL, 4, 2, convolve=True, pass_=Filter1dPass.WGRAD),
    Filter1d(700, 65, lags=(-20, 600), channels=2, dtype="float16", pitch=1408, pass_=Filter1dPass.WGRAD),  # type: ignore[arg-type]  # a name
    Filter1d(150, 40, 3, Mode.CAUSAL, 4, 2, bias=True, pass_=Filter1dPass.BACKWARD),
    Filter1d(90, 35, 2, Mode.SAME, 3, convolve=True, bias=True, pass_=Filter1dPass.WGRAD),
)
"""Gradients of long filters: of weights alone, and several at once."""
ALL = (*(gradient_of(case) for case in covering(FACTORS, is_problem)), *LONG)
"""Problems that combine every two values of two FACTORS, and long filters."""
SPREAD = tuple(problem for problem in ALL if problem.pass_.is_gradient)
"""Problems of ALL that are no filters of the gradient."""
