"""Batched complex matrix products and the families that solve them."""

from __future__ import annotations

from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.operation import Operation, families_in

_FAMILIES = families_in(
    "warpsmith.generator.cgemm",
    {
        "cgemm_thin": "thin:CgemmThin",
        "cgemm_tiled": "tiled:CgemmTiled",
        "cgemm_warpgroup": "warpgroup:CgemmWarpgroup",
        "cgemm_tensor": "tensor:CgemmTensor",
        "cgemm_plain": "plain:CgemmPlain",
        "cgemm_cublas": "cublas:CgemmCublas",
    },
)

CGEMM = Operation(Cgemm, _FAMILIES, "cgemm_plain")
"""The simplest family has one thread per result, and no constraint on the problem."""
