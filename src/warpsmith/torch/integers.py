"""Numbers of a call, as PyTorch's argument parser tells them from what it refuses."""

from __future__ import annotations

import marshal
import numbers
from typing import Any

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
    if isinstance(value, int) or isinstance(value, numbers.Integral):  # noqa: SIM101 - the compiler knows int alone
        return int(value)
    return value if isinstance(value, _SYMBOL) else None  # type: ignore[return-value]  # it counts as one


def whole_numbers(value: Any) -> tuple[int, ...] | None:
    """The integers of a tuple or a list; None where one is none, and for other sequences, which PyTorch refuses."""
    if not isinstance(value, tuple | list):
        return None
    found = tuple(map(whole, value))
    return None if None in found else found  # type: ignore[return-value]  # none of them is None


def pair(value: Any) -> tuple[int, int] | None:
    """Rows and columns of one integer, of one in a tuple or list, or of two; None for what else there is."""
    one = whole(value)
    if one is not None:
        return one, one
    found = whole_numbers(value)
    if found is None or len(found) not in (1, 2):
        return None
    return found[0], found[-1]


def typed(words: tuple[Any, ...]) -> bytes:
    """A key that tells 2, 2.0 and True apart, which are equal: bytes that follow from types and values.

    Words of NumPy have the bytes of their memory: only calls whose words all are `is_plain` may be stored by it.

    Raises ValueError for a word of a type that has no such bytes.
    """
    return marshal.dumps(words, 2)  # later versions tell apart which objects are the same one, too


def is_plain(word: Any) -> bool:
    """Whether the bytes of a word belong to no other: None, a string, integers of Python, alone or in a sequence."""
    if type(word) in (tuple, list):
        return all(type(each) is int for each in word)
    return word is None or type(word) in (int, str)
