"""Image filters and the families that solve them."""

from __future__ import annotations

from warpsmith.generator.filter2d.problem import Filter2d
from warpsmith.generator.operation import Operation, families_in

_FAMILIES = families_in(
    "warpsmith.generator.filter2d",
    {
        "filter2d_window": "window.family:Filter2dWindow",
        "filter2d_matrix": "matrix:Filter2dMatrix",
        "filter2d_warpgroup": "warpgroup.family:Filter2dWarpgroup",
        "filter2d_fft": "fft.family:Filter2dFft",
        "filter2d_overlap_save": "overlap.family:Filter2dOverlapSave",
        "filter2d_plain": "plain:Filter2dPlain",
    },
)

FILTER2D = Operation(Filter2d, _FAMILIES, "filter2d_plain")
"""The simplest family has no prefetch, and no constraint on the problem."""
