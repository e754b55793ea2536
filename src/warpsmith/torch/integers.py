"""Integers among a call's arguments, accepted and refused as PyTorch's argument parser does."""

from __future__ import annotations

import marshal
import numbers
from typing import Any

import torch

_SYMBOL = torch.SymInt
"""Type of a size that PyTorch traces, whose value may be unknown."""


def whole(value: Any) -> int | None:
    """The value as an integer; None for values that only equal one, such as 2.0 and True, which PyTorch refuses.

    PyTorch also accepts tensors of one integer and anything that has `__index__`. They give None here, so that PyTorch
    computes such calls.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int) or isinstance(value, numbers.Integral):  # noqa: SIM101 - the compiler knows int alone
        return int(value)
    return value if isinstance(value, _SYMBOL) else None  # type: ignore[return-value]  # it counts as one


def whole_numbers(value: Any) -> tuple[int, ...] | None:
    """The integers of a tuple or a list; None if an element is no integer, and for other sequences, which PyTorch
    refuses.
    """
    if not isinstance(value, tuple | list):
        return None
    found = tuple(map(whole, value))
    return None if None in found else found  # type: ignore[return-value]  # none of them is None


def pair(value: Any) -> tuple[int, int] | None:
    """Rows and columns, from one integer, a tuple or list of one, or of two; None for anything else."""
    one = whole(value)
    if one is not None:
        return one, one
    found = whole_numbers(value)
    if found is None or len(found) not in (1, 2):
        return None
    return found[0], found[-1]


def typed(words: tuple[Any, ...]) -> bytes:
    """A cache key that distinguishes 2, 2.0 and True, which compare equal: bytes made from types and values.

    NumPy's values are encoded by the bytes of their memory, so a key may be stored only if `is_plain` holds for all
    words.

    Raises ValueError for a word of a type that `marshal` cannot encode.
    """
    return marshal.dumps(words, 2)  # later versions also encode which objects are identical


def is_plain(word: Any) -> bool:
    """True if no other value has the same bytes: None, a string, a Python int, or a sequence of Python ints."""
    if type(word) in (tuple, list):
        return all(type(each) is int for each in word)
    return word is None or type(word) in (int, str)
