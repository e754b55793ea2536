"""What stands outside of an image or a signal: PyTorch's words, and how much of it there may be."""

from __future__ import annotations

import enum

Pads = tuple[int, int]
"""Elements before and after an axis."""


class PaddingMode(enum.StrEnum):
    """What padding is made of, by the names of torch.nn.Conv2d. `filter2d` has SciPy's names (`Border`)."""

    ZEROS = "zeros"
    """0 0 | a b c d | 0 0."""
    REFLECT = "reflect"
    """c b | a b c d | c b: mirrored, without the element at the edge (NumPy's reflect, SciPy's mirror)."""
    REPLICATE = "replicate"
    """a a | a b c d | d d (NumPy's edge, SciPy's nearest)."""
    CIRCULAR = "circular"
    """c d | a b c d | a b (NumPy's and SciPy's wrap)."""

    def most(self, size: int) -> int | None:
        """How many elements may stand on one side of so many: PyTorch's rule. None for any number."""
        return {PaddingMode.REFLECT: size - 1, PaddingMode.CIRCULAR: size}.get(self)


def told_pads(pads: Pads) -> str:
    """Elements on both sides of an axis: `1`, or `0+1` where the sides differ."""
    return str(pads[0]) if pads[0] == pads[1] else f"{pads[0]}+{pads[1]}"
