"""Numbers of a call, as PyTorch's argument parser tells them from what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

_SYMBOL = torch.SymInt
"""A size that PyTorch traces, and whose value it may not know yet."""


def whole(value: Any) -> int | None:
    """The integer that a value is; None for what else equals one, such as 2.0 and True, which PyTorch refuses.

    PyTorch accepts tensors of one integer and whatever has `__index__` too. Calls with these are PyTorch's, so they are
    None here.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | np.integer):
        return int(value)
    return value if isinstance(value, _SYMBOL) else None  # type: ignore[return-value]  # it counts as one


def whole_numbers(value: Any) -> tuple[int, ...] | None:
    """The integers of a tuple or a list; None where one is none, and for other sequences, which PyTorch refuses."""
    if not isinstance(value, tuple | list):
        return None
    numbers = tuple(map(whole, value))
    return None if None in numbers else numbers  # type: ignore[return-value]  # none of them is None


def pair(value: Any) -> tuple[int, int] | None:
    """Rows and columns of one integer, of one in a tuple or list, or of two; None for what else there is."""
    one = whole(value)
    if one is not None:
        return one, one
    numbers = whole_numbers(value)
    if numbers is None or len(numbers) not in (1, 2):
        return None
    return numbers[0], numbers[-1]
