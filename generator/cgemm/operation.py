"""Batched complex matrix products and the families that solve them."""

from __future__ import annotations

from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.operation import Operation, families_in

_FAMILIES = families_in(
    "warpsmith.generator.cgemm",
    {
        "cgemm_thin": "thin_family:CgemmThin",
        "cgemm_tiled": "tiled_family:CgemmTiled",
        "cgemm_warpgroup": "warpgroup_family:CgemmWarpgroup",
        "cgemm_tensor": "tensor_family:CgemmTensor",
        "cgemm_plain": "plain_family:CgemmPlain",
        "cgemm_cublas": "cublas_family:CgemmCublas",
    },
)

CGEMM = Operation(Cgemm, _FAMILIES, "cgemm_plain")
"""The simplest family has one thread per result, and no constraint on the problem."""
