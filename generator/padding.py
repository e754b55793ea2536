"""Padding of images and signals by PyTorch's names, and how much of it there may be."""

from __future__ import annotations

import enum

Pads = tuple[int, int]
"""Elements before and after a signal along one axis."""


class PaddingMode(enum.StrEnum):
    """Contents of padding, by the names of torch.nn.Conv2d. `filter2d` has SciPy's names (`Border`)."""

    ZEROS = "zeros"
    """0 0 | a b c d | 0 0."""
    REFLECT = "reflect"
    """c b | a b c d | c b: mirrored, without the element at the edge (NumPy's reflect, SciPy's mirror)."""
    REPLICATE = "replicate"
    """a a | a b c d | d d (NumPy's edge, SciPy's nearest)."""
    CIRCULAR = "circular"
    """c d | a b c d | a b (NumPy's and SciPy's wrap)."""

    def most(self, size: int) -> int | None:
        """Most elements on one side of an axis of `size` elements, by PyTorch's rule; None without a limit."""
        return {PaddingMode.REFLECT: size - 1, PaddingMode.CIRCULAR: size}.get(self)


def pads_text(pads: Pads) -> str:
    """Text of both pads of an axis: `1`, or `0+1` if they differ."""
    return str(pads[0]) if pads[0] == pads[1] else f"{pads[0]}+{pads[1]}"
