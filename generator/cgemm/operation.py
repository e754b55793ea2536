"""Batched complex matrix products and the families that solve them."""

from __future__ import annotations

from warpsmith.generator.cgemm.cublas import CgemmCublas
from warpsmith.generator.cgemm.plain import CgemmPlain
from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.cgemm.tensor import CgemmTensor
from warpsmith.generator.cgemm.thin import CgemmThin
from warpsmith.generator.cgemm.tiled import CgemmTiled
from warpsmith.generator.cgemm.warpgroup import CgemmWarpgroup
from warpsmith.generator.operation import Operation

_PLAIN = CgemmPlain()
"""Simplest family: one thread per result, and no constraint on the problem."""

_FAMILIES = (CgemmThin(), CgemmTiled(), CgemmWarpgroup(), CgemmTensor(), _PLAIN, CgemmCublas())

CGEMM = Operation(Cgemm, _FAMILIES, simplest=_PLAIN)
