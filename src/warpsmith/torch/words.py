"""Keyword arguments that all operators share, and the warning that they give."""

from __future__ import annotations

import dataclasses
import enum

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
