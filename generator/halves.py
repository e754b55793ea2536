"""What devices cannot do with float16 numbers, as constraints of spaces."""

from __future__ import annotations

from warpsmith.generator.architectures import PAIR_CONVERSIONS
from warpsmith.generator.device import Device
from warpsmith.generator.problem import DType
from warpsmith.generator.space import Constraint


def stores_of_halves(dtype: DType, device: Device, vector: str) -> tuple[Constraint, ...]:
    """The constraint on results of a device that converts no two numbers at once; none for other results and devices.

    Args:
        dtype: of the results.
        device: where they are stored.
        vector: the parameter that says how many a thread stores at once.
    """
    if dtype is not DType.FLOAT16 or device.has(PAIR_CONVERSIONS):
        return ()
    told = "float16 results are stored one by one below compute capability 8.0, which converts no pairs of them"
    return (Constraint(told, lambda count: count == 1, (vector,)),)
