"""Constraints on float16 results: what older devices cannot do."""

from __future__ import annotations

from warpsmith.generator.architectures import PAIR_CONVERSIONS
from warpsmith.generator.device import Device
from warpsmith.generator.problem import DType
from warpsmith.generator.space import Constraint


def float16_stores(dtype: DType, device: Device, vector: str) -> tuple[Constraint, ...]:
    """Constraint to scalar float16 stores on a device without paired conversion; none for other results and devices.

    Args:
        dtype: element type of the results.
        device: device that stores them.
        vector: name of the parameter for the number of results that a thread stores at once.
    """
    if dtype is not DType.FLOAT16 or device.has(PAIR_CONVERSIONS):
        return ()
    why = "float16 results are stored one by one below compute capability 8.0, which converts no pairs of them"
    return (Constraint(why, lambda count: count == 1, (vector,)),)
