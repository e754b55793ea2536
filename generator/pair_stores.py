"""Stores of 16-bit results, which kernels convert in pairs: what older devices cannot do."""

from __future__ import annotations

from warpsmith.generator.architectures import PAIR_CONVERSIONS
from warpsmith.generator.device import Device
from warpsmith.generator.problem import DType
from warpsmith.generator.space import Constraint

FLOAT16_PAIRS = (DType.FLOAT16,)
"""Types that kernels convert in pairs if they convert bfloat16 results one by one, by integer arithmetic."""


def stores_pairs(dtype: DType, device: Device, paired: tuple[DType, ...] = FLOAT16_PAIRS) -> bool:
    """True if one store may have several results.

    Args:
        dtype: element type of the results.
        device: device that stores them.
        paired: types that the kernel converts in pairs.
    """
    return dtype not in paired or device.has(PAIR_CONVERSIONS)


def pair_stores(
    dtype: DType, device: Device, vector: str, paired: tuple[DType, ...] = FLOAT16_PAIRS
) -> tuple[Constraint, ...]:
    """Constraint to stores of one result where `stores_pairs` is false; none elsewhere. `vector` is the parameter for
    the number of results that a thread stores at once.
    """
    if stores_pairs(dtype, device, paired):
        return ()
    why = f"{dtype} results are stored one by one below compute capability 8.0, which converts no pairs of them"
    return (Constraint(why, lambda count: count == 1, (vector,)),)
