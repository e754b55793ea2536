"""Borders of images: rules for pixels outside, and the names that other libraries have for them."""

from __future__ import annotations

import enum

from warpsmith.errors import BadArgument


class Border(enum.StrEnum):
    """Rule for pixels outside the image, by the names and meaning of scipy.ndimage."""

    VALID = "valid"
    """No pixels outside: only outputs whose whole window lies inside the image (rows-R+1 by columns-S+1)."""
    CONSTANT = "constant"
    """k k k | a b c d | k k k, with k = cval."""
    NEAREST = "nearest"
    """a a a | a b c d | d d d."""
    REFLECT = "reflect"
    """c b a | a b c d | d c b (NumPy calls it symmetric)."""
    MIRROR = "mirror"
    """d c b | a b c d | c b a (NumPy calls it reflect)."""
    WRAP = "wrap"
    """b c d | a b c d | a b c."""

    @classmethod
    def of(cls, name: str) -> Border:
        """Border from SciPy's, OpenCV's, NumPy's or PyTorch's name.

        `reflect` has SciPy's and OpenCV's meaning; NumPy's and PyTorch's `reflect` is `mirror`.

        Raises:
            BadArgument: there is none of that name; the message lists all names.
        """
        plain = str(name).lower().removeprefix("border_")
        if plain in BORDER_ALIASES:
            return BORDER_ALIASES[plain]
        try:
            return cls(plain)
        except ValueError:
            others = ", ".join(f"{alias} ({border})" for alias, border in BORDER_ALIASES.items())
            told = f"unknown border {plain!r}; choose one of {', '.join(cls)}, or by another name {others}"
            raise BadArgument(told) from None


BORDER_ALIASES = {
    "edge": Border.NEAREST,
    "replicate": Border.NEAREST,
    "symmetric": Border.REFLECT,
    "reflect101": Border.MIRROR,
    "reflect_101": Border.MIRROR,
    "default": Border.MIRROR,
    "circular": Border.WRAP,
    "grid-constant": Border.CONSTANT,
    "grid-mirror": Border.REFLECT,
    "grid-wrap": Border.WRAP,
}
"""Other libraries' names that differ from SciPy's: of `numpy.pad`, PyTorch's `padding_mode`, OpenCV's `BorderTypes`
without their prefix, and SciPy's second names of its modes, of which `grid-mirror` is not `mirror`. NumPy's and
PyTorch's `reflect` is missing, since SciPy's and OpenCV's `reflect` is another border."""
