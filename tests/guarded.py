"""Operands for kernels on the host, between guards that show writes beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.elements import numpy_dtype
from warpsmith.generator.problem import Operand

GUARD, FILL = 1 << 12, 0xFF
"""Bytes before and after an array, and the fill byte of guards and results before a run: NaN in any float type."""


class Guarded:
    """An operand in memory between guards."""

    def __init__(self, operand: Operand) -> None:
        assert operand.is_dense
        self._memory = np.full(operand.nbytes + 3 * GUARD, FILL, np.uint8)
        self._start = GUARD + -self._memory.ctypes.data % GUARD
        self._end = self._start + operand.nbytes
        self.address = self._memory.ctypes.data + self._start
        self.elements: NDArray[Any] = np.ndarray(
            operand.shape, numpy_dtype(operand.dtype), self._memory.data, self._start, operand.strides
        )

    def is_intact(self) -> bool:
        return bool((self._memory[: self._start] == FILL).all() and (self._memory[self._end :] == FILL).all())
