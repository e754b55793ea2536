"""Arguments of operators: keywords that all of them share, and integers, which are accepted and refused as PyTorch's
argument parser does.
"""

from __future__ import annotations

import dataclasses
import enum
import marshal
import numbers
from typing import Any

import torch

from warpsmith.store.location import named_location

CHOICE = ("precision", "fallback", "store", "accuracy", "nonfinite")
"""Keyword arguments of convolutions after those of PyTorch, in the order in which they are passed on.

The operators of PyTorch's dispatcher have them in this order too. New ones go to the end, so that graphs exported by
older versions can still be read.
"""


class Fallback(enum.StrEnum):
    """How an operator computes a problem for which no winner is stored, neither of its own size nor of a near one."""

    TORCH = "torch"
    """PyTorch computes it, and a warning names the command that tunes it."""
    DEFAULT = "default"
    """The plan's default configuration runs, which was not measured for this problem."""


class LeftToTorch(UserWarning):
    """Warning that PyTorch's own operator computes a problem because no winner is stored. It is given once per
    problem.
    """


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """Device, fallback and store from which plans are made.

    Args:
        device: `host`, or `cuda:I`.
        fallback: how to compute a problem without a stored winner.
        store: file or database URL that is searched first; None for WARPSMITH_STORE.
    """

    device: str
    fallback: Fallback
    store: str | None

    @classmethod
    def of(cls, device: torch.device, fallback: str, store: str | None) -> Source | None:
        """Makes a source from an operand's device and a call's arguments; None on a device without plans."""
        name = device_name(device)
        return None if name is None else cls(name, Fallback(fallback), named_location(store))


def device_name(device: torch.device) -> str | None:
    """The name by which warpsmith knows a device; None for an unsupported one, such as `meta`."""
    if device.type == "cpu":
        return "host"
    return f"cuda:{device.index}" if device.type == "cuda" else None


_SYMBOL = torch.SymInt
"""Type of a size that PyTorch traces, whose value may be unknown."""


def integer(value: Any) -> int | None:
    """The value as an integer; None for values that only equal one, such as 2.0 and True, which PyTorch refuses.

    PyTorch also accepts tensors of one integer and anything that has `__index__`. They give None here, so that PyTorch
    computes such calls.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int) or isinstance(value, numbers.Integral):  # noqa: SIM101 - the compiler knows int alone
        return int(value)
    return value if isinstance(value, _SYMBOL) else None  # type: ignore[return-value]  # it counts as one


def integers(value: Any) -> tuple[int, ...] | None:
    """The integers of a tuple or a list; None if an element is no integer, and for other sequences, which PyTorch
    refuses.
    """
    if not isinstance(value, tuple | list):
        return None
    found = tuple(map(integer, value))
    return None if None in found else found  # type: ignore[return-value]  # none of them is None


def pair(value: Any) -> tuple[int, int] | None:
    """Rows and columns, from one integer, a tuple or list of one, or of two; None for anything else."""
    one = integer(value)
    if one is not None:
        return one, one
    found = integers(value)
    if found is None or len(found) not in (1, 2):
        return None
    return found[0], found[-1]


def typed_key(words: tuple[Any, ...]) -> bytes:
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
