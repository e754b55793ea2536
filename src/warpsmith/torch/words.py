"""What every operator can be told beside its operands, and what it warns of."""

from __future__ import annotations

import dataclasses
import enum

import torch

from warpsmith.store.location import named_location

CHOICE = ("precision", "fallback", "store", "accuracy", "nonfinite")
"""Keyword arguments of convolutions behind those of PyTorch, in the order in which they are passed on.

The operators of PyTorch's dispatcher have them in this order too: a graph that was exported before there was one of the
later ones is still read.
"""


class Fallback(enum.StrEnum):
    """What an operator does where no winner is stored for a problem, neither of its own size nor of a near one."""

    TORCH = "torch"
    """PyTorch computes it; a warning names the command that tunes it."""
    DEFAULT = "default"
    """The plan's default configuration, which was not measured for this problem."""


class LeftToTorch(UserWarning):
    """A problem is computed by PyTorch's own operator, since no winner is stored for it. Warned of once for each."""


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """Where plans come from.

    Args:
        device: `host`, or `cuda:I`.
        fallback: what is done where nothing fits in the stores.
        store: file or database URL that is searched first; None for WARPSMITH_STORE.
    """

    device: str
    fallback: Fallback
    store: str | None

    @classmethod
    def of(cls, device: torch.device, fallback: str, store: str | None) -> Source | None:
        """From an operand's device and the words of a call; None on a device that has no plans."""
        name = device_name(device)
        return None if name is None else cls(name, Fallback(fallback), named_location(store))


def device_name(device: torch.device) -> str | None:
    """Warpsmith's name of a device; None for what it does not know, such as `meta`."""
    if device.type == "cpu":
        return "host"
    return f"cuda:{device.index}" if device.type == "cuda" else None
