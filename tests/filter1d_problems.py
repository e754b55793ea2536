"""Problems of filter1d that combine every two values of its options, for tests of all layers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from pairs import covering
from warpsmith.generator.filter1d import Filter1d, Mode, SignalLayout
from warpsmith.generator.filter1d.problem import ACCURACIES
from warpsmith.generator.problem import NonFinite

FACTORS: dict[str, Sequence[Any]] = {
    # Samples and taps: around the sizes of vectors, warps and blocks, one of each, and filters longer than the signal.
    "sizes": (
        (1, 1),
        (1, 6),
        (7, 7),
        (6, 15),
        (63, 3),
        (64, 2),
        (65, 33),
        (127, 1),
        (128, 65),
        (129, 4),
        (255, 17),
        (257, 300),
        (1026, 5),
        (1000, 257),
        (4099, 4),
    ),
    "slice": (*Mode, "first", "last", "middle", "ends"),
    "types": (
        ("float32", None, None),
        ("float32", None, "bfloat16"),
        ("float16", None, None),
        ("float16", "float16", "float32"),
        ("float16", "float16", "bfloat16"),
        ("bfloat16", None, None),
        ("bfloat16", "bfloat16", "float16"),
        ("complex64", None, None),
        ("complex64", "complex64", None),
        ("int16", None, None),
        ("int16", None, "float16"),
        ("uint8", None, None),
        ("uint8", None, "bfloat16"),
    ),
    "layout": tuple(SignalLayout),
    "channels": ((1, 1), (2, 1), (6, 1), (6, 2), (6, 6), (8, 8)),
    "batch": (1, 3),
    "convolve": (False, True),
    "down": (1, 2, 3, 8, 1000),
    "gaps": ((0, 0), (3, 0), (0, 5), (1, 2), (16, 16)),
    "weights": ("given", "known"),
    "epilogue": ("none", "bias", "silu", "both"),
    "rules": tuple(itertools.product(ACCURACIES, NonFinite)),
}


def is_problem(case: Mapping[str, Any]) -> bool:
    """Whether one problem can combine these values of some or all FACTORS."""
    samples, taps = case.get("sizes", (9, 1))
    is_known = case.get("weights") == "known" and case.get("types", FACTORS["types"][0])[1] is not None
    is_complex = case.get("types", FACTORS["types"][0])[0] == "complex64"
    if is_complex and case.get("epilogue", "none") != "none":
        return False
    return not is_known and not (case.get("slice") is Mode.VALID and taps > samples)


def problem_of(case: Mapping[str, Any], **more: Any) -> Filter1d:
    """Problem with the given values of all FACTORS, and more fields."""
    (samples, taps), (channels, filters), (dtype, taps_dtype, result_dtype) = (
        case[name] for name in ("sizes", "channels", "types")
    )
    lags = {
        "first": (1 - taps, 1 - taps),
        "last": (samples - 1, samples - 1),
        "middle": (-(taps // 3), samples // 2),
        "ends": (min(2 - taps, 0), max(0, samples - 3)),
    }
    known = tuple((i * 5 % 7 - 3) / 8 for i in range(filters * taps))  # every seventh is 0
    fields: dict[str, Any] = {
        "signal": samples,
        "taps": taps,
        "mode": case["slice"] if case["slice"] in tuple(Mode) else None,
        "lags": lags.get(case["slice"]),
        "channels": channels,
        "filters": filters,
        "dtype": dtype,
        "taps_dtype": taps_dtype,
        "result_dtype": result_dtype,
        "weights": known if case["weights"] == "known" else None,
        "bias": case["epilogue"] in ("bias", "both"),
        "activation": "silu" if case["epilogue"] in ("silu", "both") else None,
        "accuracy": case["rules"][0],
        "nonfinite": case["rules"][1],
        **{name: case[name] for name in ("batch", "layout", "convolve", "down")},
        **more,
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
    )


SPREAD = tuple(problem_of(case) for case in covering(FACTORS, is_problem))
"""Problems that combine every two values of two FACTORS."""

_GROUPS: dict[str, Any] = {"layout": "btc", "channels": 32, "filters": 2, "dtype": "bfloat16", "taps_dtype": "bfloat16"}
GROUPED = (
    Filter1d(300, 128, 2, mode="causal", **_GROUPS),
    Filter1d(257, 7, mode="same", bias=True, activation="silu", **_GROUPS),
    Filter1d(100, 33, mode="valid", convolve=True, **{**_GROUPS, "taps_dtype": None, "result_dtype": "float32"}),
    Filter1d(129, 300, channels=8, layout="btc", dtype="bfloat16", taps_dtype="bfloat16", lags=(-40, 60)),
    Filter1d(65, 17, 3, channels=24, layout="btc", dtype="float16", pitch=2 * 32, result_pitch=2 * 28, bias=True),
    Filter1d(4, 1, channels=48, filters=3, layout="btc", dtype="float16", taps_dtype="float16"),
    Filter1d(500, 5, channels=16, layout="btc", dtype="bfloat16", weights=range(5), accuracy="elementwise"),
)
"""Problems of groups of channels side by side that have one filter, as tensor cores multiply them: 16-bit samples and
rows of whole vectors.
"""
