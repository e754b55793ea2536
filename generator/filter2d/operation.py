"""Image filters and the families that solve them."""

from __future__ import annotations

from warpsmith.generator.filter2d.fft.family import Filter2dFft
from warpsmith.generator.filter2d.matrix import Filter2dMatrix
from warpsmith.generator.filter2d.overlap.family import Filter2dOverlapSave
from warpsmith.generator.filter2d.plain import Filter2dPlain
from warpsmith.generator.filter2d.problem import Filter2d
from warpsmith.generator.filter2d.warpgroup.family import Filter2dWarpgroup
from warpsmith.generator.filter2d.window.family import Filter2dWindow
from warpsmith.generator.operation import Operation

_PLAIN = Filter2dPlain()
"""Simplest family: no prefetch, and no constraint on the problem."""

FILTER2D = Operation(
    Filter2d,
    (Filter2dWindow(), Filter2dMatrix(), Filter2dWarpgroup(), Filter2dFft(), Filter2dOverlapSave(), _PLAIN),
    simplest=_PLAIN,
)
