"""Padding of images and signals: the names that libraries have for its contents, and how much of it there may be."""

from __future__ import annotations

import enum
import functools
import warnings
from collections.abc import Iterator, Mapping

from warpsmith.errors import AmbiguousBorder, BadArgument

Pads = tuple[int, int]
"""Elements before and after a signal along one axis."""


class Outside(enum.IntEnum):
    """Elements outside of an image or a signal; the numbers are those of `source_index` in the reference kernels."""

    CONSTANT = 0
    """k k k | a b c d | k k k."""
    NEAREST = 1
    """a a a | a b c d | d d d."""
    SYMMETRIC = 2
    """c b a | a b c d | d c b: mirrored, with the element at the edge."""
    MIRROR = 3
    """d c b | a b c d | c b a: mirrored, without the element at the edge."""
    WRAP = 4
    """b c d | a b c d | a b c."""


OUTSIDE: Mapping[str, Outside] = {
    "constant": Outside.CONSTANT,
    "zeros": Outside.CONSTANT,
    "grid-constant": Outside.CONSTANT,
    "nearest": Outside.NEAREST,
    "edge": Outside.NEAREST,
    "replicate": Outside.NEAREST,
    "symmetric": Outside.SYMMETRIC,
    "grid-mirror": Outside.SYMMETRIC,
    "mirror": Outside.MIRROR,
    "reflect101": Outside.MIRROR,
    "reflect_101": Outside.MIRROR,
    "default": Outside.MIRROR,
    "wrap": Outside.WRAP,
    "circular": Outside.WRAP,
    "grid-wrap": Outside.WRAP,
}
"""Names with one meaning in all libraries that have them: those of `scipy.ndimage`, `numpy.pad` and PyTorch's
`padding_mode`, and OpenCV's `BorderTypes` without their prefix. SciPy's `grid-mirror` is not its `mirror`. `reflect` is
missing: it is SYMMETRIC in SciPy and OpenCV, MIRROR in NumPy and PyTorch. Each operation follows one of the two.
"""


def plain_name(value: object) -> str:
    """Name of a border or a padding in lower case and without OpenCV's prefix."""
    return str(value).lower().removeprefix("border_")


class PaddingMode(enum.StrEnum):
    """Contents of padding, by the names of torch.nn.Conv2d. `filter2d` has SciPy's names (`Border`).

    `PaddingMode(name)` takes the names of `OUTSIDE` too: `mirror`, `edge`, `wrap` and so on. It raises BadArgument for
    `symmetric` and `grid-mirror`, which no mode of padding does.
    """

    ZEROS = "zeros"
    """0 0 | a b c d | 0 0."""
    REFLECT = "reflect"
    """c b | a b c d | c b: mirrored, without the element at the edge (NumPy's reflect, SciPy's mirror)."""
    MIRROR = "reflect"
    """The same as REFLECT."""
    REPLICATE = "replicate"
    """a a | a b c d | d d (NumPy's edge, SciPy's nearest)."""
    CIRCULAR = "circular"
    """c d | a b c d | a b (NumPy's and SciPy's wrap)."""

    @classmethod
    def _missing_(cls, value: object) -> PaddingMode | None:
        plain = plain_name(value)
        match OUTSIDE.get(plain):
            case Outside.SYMMETRIC:
                raise BadArgument(
                    f"{value!r} repeats the element at the edge (b a | a b), which filter2d alone does; padding and "
                    "borders of conv2d and fft are mirror (c b | a b c), replicate (a a | a b) or circular"
                )
            case None:
                return cls.REFLECT if plain == cls.REFLECT else None
            case outside:
                return next(mode for mode in cls if mode.outside is outside)

    @property
    def outside(self) -> Outside:
        return {
            PaddingMode.ZEROS: Outside.CONSTANT,
            PaddingMode.REFLECT: Outside.MIRROR,
            PaddingMode.REPLICATE: Outside.NEAREST,
            PaddingMode.CIRCULAR: Outside.WRAP,
        }[self]

    def most(self, size: int) -> int | None:
        """Most elements on one side of an axis of `size` elements, by PyTorch's rule; None without a limit."""
        return {PaddingMode.REFLECT: size - 1, PaddingMode.CIRCULAR: size}.get(self)


def warn_of_reflect(value: object, outside: Outside, stacklevel: int = 4) -> None:
    """Warns of the text `reflect`, alone or before a colon, the first time that it is given for this meaning.

    Enum members and OpenCV's `BORDER_REFLECT`, which has one meaning, are no such text.

    Args:
        value: what a user gave as a border.
        outside: the meaning that the operation gives to `reflect`.
        stacklevel: frames from here to the caller that the warning names: 4 from `__post_init__` of a problem.
    """
    is_text = isinstance(value, str) and not isinstance(value, enum.Enum)
    if is_text and str(value).partition(":")[0].strip().lower() == "reflect":
        for text in _warning(outside):
            warnings.warn(text, AmbiguousBorder, stacklevel=stacklevel)


@functools.cache
def _warning(outside: Outside) -> Iterator[str]:
    """Text of the warning for a meaning of `reflect`: an iterator that yields it once per process."""
    if outside is Outside.SYMMETRIC:
        text = (
            "border 'reflect' repeats the pixel at the edge here (b a | a b), as in SciPy and OpenCV, but not in NumPy "
            "and PyTorch: write 'symmetric' for this meaning, or 'mirror' for the other"
        )
    else:
        text = (
            "border 'reflect' leaves the element at the edge out here (c b | a b c), as in NumPy and PyTorch, unlike "
            "SciPy and OpenCV: write 'mirror' for this meaning"
        )
    return iter((text,))


def pads_text(pads: Pads) -> str:
    """Text of both pads of an axis: `1`, or `0+1` if they differ."""
    return str(pads[0]) if pads[0] == pads[1] else f"{pads[0]}+{pads[1]}"
