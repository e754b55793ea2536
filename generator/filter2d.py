"""The image filter as a problem: shapes, borders, weights, operation counts."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import math
import operator
import struct
from collections.abc import Mapping
from typing import Any, ClassVar

from warpsmith.errors import BadArgument
from warpsmith.generator.problem import DType, Operand, Problem, Role, member

MAX_WEIGHTS_BYTES = 32764
"""Largest kernel parameter block on compute capability 7.0 and later (CUDA programming guide, function parameters)."""


class Border(enum.StrEnum):
    """How pixels outside the image are made, by the names and meaning of scipy.ndimage."""

    VALID = "valid"
    """None are: only outputs whose whole window lies inside the image (rows-R+1 by columns-S+1)."""
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


def _float32(value: float, name: str) -> float:
    """`value` rounded to float32 and without a sign on zero, so that equal problems have equal keys."""
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:  # past the largest float32
        rounded = math.inf
    if not math.isfinite(rounded):
        raise BadArgument(f"{name} must be finite as float32; got {value}")
    return rounded + 0.0


def _extent(value: Any, name: str) -> tuple[int, int]:
    try:
        rows, columns = (operator.index(n) for n in value)  # NumPy's integers too
        # From 2^30 on, a column and the width of a thread could overflow the kernels' int.
        if not (0 < rows < 2**30 and 0 < columns < 2**30):
            raise ValueError
    except (TypeError, ValueError):
        told = "x".join(map(str, value)) if isinstance(value, tuple | list) else repr(value)
        raise BadArgument(f"{name} must be two positive sizes below 2^30, ROWSxCOLUMNS; got {told}") from None
    return rows, columns


@dataclasses.dataclass(frozen=True)
class Filter2d(Problem):
    """Correlation of an image with a small filter, as `scipy.ndimage.correlate` computes it.

    result[y, x] = sum over r, s of weights[r, s] * image[y + r - R//2, x + s - S//2], for each plane alike;
    with border `valid` the sum is over image[y + r, x + s].

    Args:
        image: rows and columns of one plane, in pixels.
        filter: rows R and columns S of the filter.
        planes: independent planes, filtered by the same weights; the slowest dimension where above 1.
        dtype: element type of image, weights and result.
        border: how pixels outside the image are made.
        cval: the value outside the image, for border `constant`.
        weights: R*S values in row order, or R rows of S, where they are known at tune time; None to pass them
            at each call.

    Raises:
        BadArgument: a size of 0, a filter larger than the image, an unknown border or dtype.

    Source: the workload of Iandola et al. 2013, "Communication-minimizing 2D convolution in GPU registers".
    """

    operation: ClassVar[str] = "filter2d"

    image: tuple[int, int]
    filter: tuple[int, int]
    planes: int = 1
    dtype: DType = DType.FLOAT32
    border: Border = Border.VALID
    cval: float = 0.0
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # the documented way to canonicalise a frozen dataclass
        set_field(self, "image", _extent(self.image, "image"))
        set_field(self, "filter", _extent(self.filter, "filter"))
        set_field(self, "dtype", member(DType, self.dtype, "dtype"))
        set_field(self, "border", member(Border, self.border, "border"))
        self._check_sizes()
        # Only border `constant` reads cval: with any other, two values of it are one problem.
        set_field(self, "cval", _float32(self.cval, "cval") if self.border is Border.CONSTANT else 0.0)
        if self.weights is not None:
            set_field(self, "weights", self._canonical_weights(self.weights))

    def _check_sizes(self) -> None:
        if not isinstance(self.planes, int) or self.planes < 1:
            raise BadArgument(f"planes must be 1 or more; got {self.planes}")
        (rows, columns), (r, s) = self.image, self.filter
        if r > rows or s > columns:
            raise BadArgument(f"the filter ({r}x{s}) is larger than the image ({rows}x{columns})")
        if r * s * self.dtype.itemsize > MAX_WEIGHTS_BYTES:
            raise BadArgument(f"a filter of {r}x{s} is too large for a kernel parameter ({MAX_WEIGHTS_BYTES} bytes)")
        if self.planes * rows * columns >= 2**31:
            raise BadArgument(f"{self.planes} planes of {rows}x{columns} are 2^31 pixels or more; split the batch")

    def _canonical_weights(self, weights: Any) -> tuple[float, ...]:
        rows = [tuple(row) if hasattr(row, "__iter__") else (row,) for row in weights]
        flat = [value for row in rows for value in row]
        r, s = self.filter
        if len(flat) != r * s:
            raise BadArgument(f"weights hold {len(flat)} values; a filter of {r}x{s} needs {r * s}")
        if [len(row) for row in rows] not in ([1] * (r * s), [s] * r):
            raise BadArgument(f"weights must be flat, or {r} rows of {s} values")
        return tuple(_float32(float(value), "weights") for value in flat)

    @property
    def weight_rows(self) -> tuple[tuple[float, ...], ...]:
        """The weights, where they are known, as R rows of S values; empty where they come at each call."""
        flat, columns = self.weights or (), self.filter[1]
        return tuple(flat[start : start + columns] for start in range(0, len(flat), columns))

    @property
    def known(self) -> Mapping[str, tuple[tuple[float, ...], ...]]:
        return {} if self.weights is None else {"weights": self.weight_rows}

    @property
    def output_shape(self) -> tuple[int, int]:
        """Rows and columns of one plane of the result."""
        (rows, columns), (r, s) = self.image, self.filter
        return (rows - r + 1, columns - s + 1) if self.border is Border.VALID else self.image

    @property
    def anchor(self) -> tuple[int, int]:
        """Row and column of the filter that lie on the output pixel (scipy.ndimage, origin 0)."""
        r, s = self.filter
        return (0, 0) if self.border is Border.VALID else (r // 2, s // 2)

    @property
    def operands(self) -> tuple[Operand, ...]:
        planes = (self.planes,) if self.planes > 1 else ()
        image = Operand("image", Role.INPUT, planes + self.image, self.dtype)
        weights = Operand("weights", Role.INPUT, self.filter, self.dtype)
        result = Operand("result", Role.OUTPUT, planes + self.output_shape, self.dtype)
        return (image, weights, result)

    @property
    def flops(self) -> int:
        r, s = self.filter
        return 2 * r * s * self.operands[-1].size

    def distance(self, other: Problem) -> float | None:
        """Images of another size or plane count are near, measured in octaves; any other difference is a miss."""
        if not isinstance(other, Filter2d) or other.filter != self.filter:
            return None
        if dataclasses.replace(other, image=self.image, planes=self.planes) != self:
            return None
        ratios = (
            self.image[0] / other.image[0],
            self.image[1] / other.image[1],
            self.planes / other.planes,
        )
        return sum(abs(math.log2(ratio)) for ratio in ratios)

    def spec(self) -> dict[str, Any]:
        return {
            "image": list(self.image),
            "filter": list(self.filter),
            "planes": self.planes,
            "dtype": str(self.dtype),
            "border": str(self.border),
            "cval": self.cval,
            "weights": list(self.weights) if self.weights is not None else None,
        }

    @classmethod
    def of(cls, spec: dict[str, Any]) -> Filter2d:
        return cls(**spec)

    def key(self) -> str:
        parts = [
            f"image={self.image[0]}x{self.image[1]}",
            f"filter={self.filter[0]}x{self.filter[1]}",
            f"planes={self.planes}",
            f"dtype={self.dtype}",
            f"border={self.border}",
        ]
        if self.border is Border.CONSTANT:
            parts.append(f"cval={self.cval!r}")
        if self.weights is not None:
            packed = struct.pack(f"<{len(self.weights)}f", *self.weights)
            parts.append(f"weights=sha256:{hashlib.sha256(packed).hexdigest()[:16]}")
        return f"{self.operation} {' '.join(parts)}"
