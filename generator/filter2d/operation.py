"""Image filters and the families that solve them."""

from __future__ import annotations

from warpsmith.generator.filter2d.problem import Filter2d
from warpsmith.generator.operation import Operation, families_in

_FAMILIES = families_in(
    "warpsmith.generator.filter2d",
    {
        "filter2d_window": "window_family:Filter2dWindow",
        "filter2d_matrix": "matrix_family:Filter2dMatrix",
        "filter2d_warpgroup": "warpgroup_family:Filter2dWarpgroup",
        "filter2d_fft": "fft.fft_family:Filter2dFft",
        "filter2d_overlap_save": "overlap_family:Filter2dOverlapSave",
        "filter2d_plain": "plain_family:Filter2dPlain",
    },
)

FILTER2D = Operation(Filter2d, _FAMILIES, "filter2d_plain")
"""The simplest family has no prefetch, and no constraint on the problem."""
