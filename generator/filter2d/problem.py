"""The image filter as a problem: shapes, borders, weights, operation counts."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Mapping
from math import ceil
from typing import Any, ClassVar

from warpsmith.errors import BadArgument
from warpsmith.generator.canonical import as_float32, count, digest, extent, flag, flattened, integer, row_pitch
from warpsmith.generator.distances import FARTHEST, NONFINITE_CHANGED, RULE_CHANGED, SIDE_CHANGED, TYPE_CHANGED, octaves
from warpsmith.generator.padding import OUTSIDE, Outside, plain_name, warn_of_reflect
from warpsmith.generator.problem import Accuracy, DType, NonFinite, Operand, Problem, Role, dtype_of, member


class Border(enum.StrEnum):
    """Rule for pixels outside the image, by the names and meaning of scipy.ndimage."""

    VALID = "valid"
    """No pixels outside: only outputs whose whole window lies inside the image (rows-R+1 by columns-S+1)."""
    CONSTANT = "constant"
    """k k k | a b c d | k k k, with k = cval."""
    NEAREST = "nearest"
    """a a a | a b c d | d d d."""
    REFLECT = "reflect"
    """c b a | a b c d | d c b: mirrored, with the pixel at the edge (NumPy's symmetric, SciPy's reflect)."""
    SYMMETRIC = "reflect"
    """The same as REFLECT."""
    MIRROR = "mirror"
    """d c b | a b c d | c b a: mirrored, without the pixel at the edge (NumPy's and PyTorch's reflect)."""
    WRAP = "wrap"
    """b c d | a b c d | a b c."""

    @classmethod
    def of(cls, name: str) -> Border:
        """Border from SciPy's, OpenCV's, NumPy's or PyTorch's name.

        `reflect` has SciPy's and OpenCV's meaning, whose unambiguous name is `symmetric`; NumPy's and PyTorch's
        `reflect` is `mirror`.

        Raises:
            BadArgument: there is none of that name; the message lists all names.
        """
        plain = plain_name(name)
        try:
            return cls(plain)
        except ValueError:
            others = {alias: cls(alias) for alias in OUTSIDE}
            listed = ", ".join(f"{alias} ({border})" for alias, border in others.items() if alias != border)
            message = f"unknown border {plain!r}; choose one of {', '.join(cls)}, or by another name {listed}"
            raise BadArgument(message) from None

    @classmethod
    def _missing_(cls, value: object) -> Border | None:
        outside = OUTSIDE.get(plain_name(value))
        return None if outside is None else next(each for each in cls if each.outside is outside)

    @property
    def outside(self) -> Outside | None:
        """Pixels outside the image; None for `valid`, which has none."""
        return {
            Border.CONSTANT: Outside.CONSTANT,
            Border.NEAREST: Outside.NEAREST,
            Border.REFLECT: Outside.SYMMETRIC,
            Border.MIRROR: Outside.MIRROR,
            Border.WRAP: Outside.WRAP,
        }.get(self)


ACCURACIES = (Accuracy.ELEMENTWISE, Accuracy.NORMWISE, Accuracy.IMAGEWISE)


@dataclasses.dataclass(frozen=True)
class Filter2d(Problem):
    """Correlation of an image with small filters, as `scipy.ndimage.correlate` computes it.

    result[y, x] = sum over r, s of weights[r, s] * image[y + r - anchor row, x + s - anchor column], for each plane,
    filter and channel alike, summed in float32; with border `valid` the sum is over image[y + r, x + s].

    Shapes, without the dimensions that are 1: image (planes, rows, columns, channels), weights (filters, R, S),
    float32, result (planes, filters, rows, columns, channels).

    Args:
        image: rows and columns of one plane, in pixels.
        filter: rows R and columns S of the filter.
        planes: number of independent images, filtered by the same weights.
        dtype: element type of the image: a name, a NumPy dtype or scalar type, or a dtype of PyTorch.
        border: rule for pixels outside the image: a name of `Border`, or NumPy's, PyTorch's or OpenCV's name. `reflect`
            has SciPy's and OpenCV's meaning: it repeats the pixel at the edge. `symmetric` is the same without the
            warning `AmbiguousBorder`; NumPy's and PyTorch's `reflect` is `mirror`. `zeros` is `constant` with cval 0.
        cval: value outside the image, for border `constant`.
        weights: values of the filters in row order, or as rows, if they are known at tune time; None to pass them
            at each call.
        channels: interleaved channels of a pixel, 1 to 4, each filtered by the same weights.
        filters: number of filters that are applied to the image in one pass.
        result_dtype: element type of the result; None for the image's. uint8 is rounded to nearest, half to even,
            and saturated.
        convolve: rotate the filter by 180 degrees about its anchor, as `scipy.ndimage.convolve` does.
        anchor: row and column of the tap that lies on the output pixel; None for (R//2, S//2). SciPy's `origin` is
            the distance of the anchor from there.
        pitch: row pitch of the image in bytes; None if rows are contiguous. Planes follow each other without a gap.
        result_pitch: row pitch of the result in bytes.
        accuracy: quantity that the error bound is relative to; `normwise` admits algorithms that need fewer
            multiplications, `imagewise` Fourier transforms too.
        nonfinite: outputs that a NaN or an infinite pixel may reach; with `any`, matrix products need not check their
            sums.

    Raises:
        BadArgument: a size of 0, a filter larger than an image without a border, an unknown border or dtype.

    Source: the workload of Iandola et al. 2013, "Communication-minimizing 2D convolution in GPU registers".
    """

    operation: ClassVar[str] = "filter2d"
    near_reach: ClassVar[float] = 2.0
    """Filters of 7x7 to 11x11 took 1.53 times as long by the winners of 9216x9216 as by the families' defaults on 21
    images of 160x120 to 3840x2160, 2.15 times at most; 3x3 and 5x5 took 1.03 times as long (H200)."""

    image: tuple[int, int]
    filter: tuple[int, int]
    planes: int = 1
    dtype: DType = DType.FLOAT32
    border: Border = Border.VALID
    cval: float = 0.0
    weights: tuple[float, ...] | None = None
    channels: int = 1
    filters: int = 1
    result_dtype: DType | None = None
    convolve: bool = False
    anchor: tuple[int, int] | None = None
    pitch: int | None = None
    result_pitch: int | None = None
    accuracy: Accuracy = Accuracy.ELEMENTWISE
    nonfinite: NonFinite = NonFinite.WINDOW

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # the documented way to canonicalise a frozen dataclass
        set_field(self, "image", extent(self.image, "image"))
        set_field(self, "filter", extent(self.filter, "filter"))
        set_field(self, "dtype", dtype_of(self.dtype, "dtype"))
        wanted = self.dtype if self.result_dtype is None else self.result_dtype
        result_dtype = dtype_of(wanted, "result dtype")
        # One problem has one key, so a value equal to the default becomes None.
        set_field(self, "result_dtype", None if result_dtype is self.dtype else result_dtype)
        self._set_border()
        set_field(self, "accuracy", member(Accuracy, self.accuracy, "accuracy", ACCURACIES))
        nonfinite = member(NonFinite, self.nonfinite, "nonfinite")
        set_field(self, "nonfinite", NonFinite.WINDOW if self.dtype is DType.UINT8 else nonfinite)
        for name, most in (("planes", None), ("filters", None), ("channels", 4)):
            set_field(self, name, count(getattr(self, name), name, most))
        self._check_sizes()
        set_field(self, "convolve", flag(self.convolve, "convolve"))
        set_field(self, "anchor", self._canonical_anchor())
        set_field(self, "pitch", row_pitch(self.pitch, self.image[1] * self.channels, self.dtype, "pitch"))
        columns = self.output_shape[1] * self.channels
        set_field(self, "result_pitch", row_pitch(self.result_pitch, columns, result_dtype, "result pitch"))
        self._check_offsets()
        if self.weights is not None:
            set_field(self, "weights", self._canonical_weights(self.weights))

    def _set_border(self) -> None:
        set_field, given = object.__setattr__, self.border
        warn_of_reflect(given, Outside.SYMMETRIC, stacklevel=5)
        set_field(self, "border", Border.of(given))
        # Only border `constant` reads cval, so problems with other borders and different cvals are equal.
        set_field(self, "cval", as_float32(self.cval, "cval") if self.border is Border.CONSTANT else 0.0)
        if self.cval and plain_name(given) == "zeros":
            raise BadArgument(f"border zeros has cval 0, got {self.cval:g}; choose border constant")

    def _check_sizes(self) -> None:
        (rows, columns), (r, s) = self.image, self.filter
        if self.border is Border.VALID and (r > rows or s > columns):
            raise BadArgument(
                f"the filter ({r}x{s}) is larger than the image ({rows}x{columns}); choose a border other than valid"
            )

    def _check_offsets(self) -> None:
        """Raises BadArgument if a kernel could not count the elements in int."""
        if self.filters * self.filter[0] * self.filter[1] >= 2**31:
            raise BadArgument("the weights have 2^31 taps or more: no filter is so large")
        for operand in (self.operands[0], self.output):
            if operand.shape[0] * operand.strides[0] // operand.dtype.itemsize >= 2**31:
                raise BadArgument(f"the {operand.name} spans 2^31 elements or more; split the batch")

    def _canonical_anchor(self) -> tuple[int, int] | None:
        if self.anchor is None:
            return None
        if self.border is Border.VALID:
            raise BadArgument("an anchor has no meaning with border valid: every window lies inside the image")
        try:
            row, column = (integer(n) for n in self.anchor)
            if not (0 <= row < self.filter[0] and 0 <= column < self.filter[1]):
                raise ValueError
        except (TypeError, ValueError):
            r, s = self.filter
            raise BadArgument(
                f"the anchor must be a row and a column of the {r}x{s} filter; got {self.anchor}"
            ) from None
        return None if (row, column) == (self.filter[0] // 2, self.filter[1] // 2) else (row, column)

    def _canonical_weights(self, weights: Any) -> tuple[float, ...]:
        flat, shape = flattened(weights)
        r, s = self.filter
        values = self.filters * r * s
        if len(flat) != values:
            needed = f"{self.filters} filters of {r}x{s} need" if self.filters > 1 else f"a filter of {r}x{s} needs"
            raise BadArgument(f"weights hold {len(flat)} values; {needed} {values}")
        if shape not in ((values,), (self.filters * r, s), (self.filters, r, s)):
            raise BadArgument(f"weights must be flat, or {r} rows of {s} values for each filter")
        return tuple(as_float32(value, "weights") for value in flat)

    @property
    def taps(self) -> tuple[tuple[tuple[float, ...], ...], ...]:
        """Known weights as filters of rows, rotated as they are applied to the image; empty if each call brings them.

        Element [f][r][s] multiplies the pixel r rows below and s columns right of the window's first one.
        """
        flat, (r, s) = self.weights or (), self.filter
        filters = [flat[start : start + r * s] for start in range(0, len(flat), r * s)]
        rotated = [each[::-1] if self.convolve else each for each in filters]
        return tuple(tuple(each[start : start + s] for start in range(0, r * s, s)) for each in rotated)

    @property
    def known(self) -> Mapping[str, tuple[float, ...]]:
        return {} if self.weights is None else {"weights": self.weights}

    @property
    def from_host(self) -> frozenset[str]:
        return frozenset({"weights"})

    @property
    def output_shape(self) -> tuple[int, int]:
        """Rows and columns of one plane of the result."""
        (rows, columns), (r, s) = self.image, self.filter
        return (rows - r + 1, columns - s + 1) if self.border is Border.VALID else self.image

    @property
    def output_dtype(self) -> DType:
        return self.result_dtype or self.dtype

    @property
    def before(self) -> tuple[int, int]:
        """Rows above and columns left of an output pixel that its window covers."""
        if self.border is Border.VALID:
            return (0, 0)
        (r, s), (row, column) = self.filter, self.anchor or (self.filter[0] // 2, self.filter[1] // 2)
        return (r - 1 - row, s - 1 - column) if self.convolve else (row, column)

    @functools.cached_property
    def operands(self) -> tuple[Operand, ...]:
        planes, filters, channels = ((n,) if n > 1 else () for n in (self.planes, self.filters, self.channels))
        (rows, columns), (output_rows, output_columns) = self.image, self.output_shape
        pitches = (self.pitch, self.dtype, columns), (self.result_pitch, self.output_dtype, output_columns)
        pitch, result_pitch = (given or kind.itemsize * self.channels * width for given, kind, width in pitches)
        image = Operand(
            "image",
            Role.INPUT,
            (*planes, rows, columns, *channels),
            self.dtype,
            (*((rows * pitch,) if planes else ()), pitch, *_inside_a_row(self.dtype, self.channels)),
        )
        step = output_rows * result_pitch
        outer = (*((self.filters * step,) if planes else ()), *((step,) if filters else ()))
        result = Operand(
            "result",
            Role.OUTPUT,
            (*planes, *filters, output_rows, output_columns, *channels),
            self.output_dtype,
            (*outer, result_pitch, *_inside_a_row(self.output_dtype, self.channels)),
        )
        return (image, Operand("weights", Role.INPUT, (*filters, *self.filter), DType.FLOAT32), result)

    @property
    def flops(self) -> int:
        r, s = self.filter
        return 2 * r * s * self.operands[-1].size

    def features(self) -> Mapping[str, float | str]:
        """Outputs and taps as numbers; types, and whether the weights are known, as words."""
        kinds = f"{self.dtype} to {self.output_dtype}"
        weights = "given" if self.weights is None else "known"
        return {
            "results": self.output.size,
            "taps": self.filter[0] * self.filter[1],
            "types": kinds,
            "weights": weights,
        }

    def distance(self, other: Problem) -> float | None:
        """Octaves of image size, planes and row gaps; other differences count as fixed octaves, up to a limit."""
        return between_filters(self, other) if isinstance(other, Filter2d) else None

    def is_resized(self, other: Problem) -> bool:
        """True if the problems differ only in image size, planes, row gaps, and `nonfinite`.

        A winner under another `nonfinite` is right wherever its config is legal.
        """
        sizes = {"image", "planes", "pitch", "result_pitch", "nonfinite"}
        names = [name for name in self._field_names() if name not in sizes]
        return isinstance(other, Filter2d) and all(getattr(self, name) == getattr(other, name) for name in names)

    def spec(self) -> dict[str, Any]:
        names = ("dtype", "border", "result_dtype", "accuracy", "nonfinite")
        words = {name: str(value) for name in names if (value := getattr(self, name))}
        return {
            **{field.name: getattr(self, field.name) for field in dataclasses.fields(self)},
            **words,
            "image": list(self.image),
            "filter": list(self.filter),
            "weights": list(self.weights) if self.weights is not None else None,
            "anchor": list(self.anchor) if self.anchor is not None else None,
        }

    @classmethod
    def of(cls, spec: dict[str, Any]) -> Filter2d:
        return cls(**{**spec, "border": Border.of(spec.get("border", cls.border))})

    def key(self) -> str:
        parts = {
            "image": f"{self.image[0]}x{self.image[1]}",
            "filter": f"{self.filter[0]}x{self.filter[1]}",
            "planes": self.planes,
            "dtype": self.dtype,
            "border": self.border,
            # Other fields only if they differ from the default, so that a key says what is special about its problem.
            "cval": repr(self.cval) if self.border is Border.CONSTANT else None,
            "channels": self.channels if self.channels > 1 else None,
            "filters": self.filters if self.filters > 1 else None,
            "result_dtype": self.result_dtype,
            "convolve": "yes" if self.convolve else None,
            "anchor": f"{self.anchor[0]},{self.anchor[1]}" if self.anchor else None,
            "pitch": self.pitch,
            "result_pitch": self.result_pitch,
            "accuracy": None if self.accuracy is Accuracy.ELEMENTWISE else self.accuracy,
            "nonfinite": None if self.nonfinite is NonFinite.WINDOW else self.nonfinite,
            "weights": f"sha256:{digest(self.weights)}" if self.weights is not None else None,
        }
        return " ".join([self.operation, *(f"{name}={value}" for name, value in parts.items() if value is not None)])


def _inside_a_row(dtype: DType, channels: int) -> tuple[int, ...]:
    """Strides of the columns and, if there are several, of the channels."""
    return (channels * dtype.itemsize, dtype.itemsize) if channels > 1 else (dtype.itemsize,)


def reach(problem: Filter2d, columns: int) -> int:
    """Elements of a row that the windows of `columns` adjacent outputs cover."""
    return columns + (problem.filter[1] - 1) * problem.channels


def rows_inside(problem: Filter2d, rows_period: int, unroll: int, beyond: int = 0) -> tuple[int, int]:
    """First row and number of rows of the interior, in whole turns of the loop.

    Their windows, and `beyond` rows below, lie within the image.
    """
    before = problem.before[0]
    first = ceil(before / rows_period) * rows_period
    end = problem.image[0] - (problem.filter[0] - 1 - before) - beyond
    return first, max(0, (min(end, problem.output_shape[0]) - first) // unroll * unroll)


def last_column(problem: Filter2d, first: int, columns: int, lead: int, loaded: int, aligned: int) -> int:
    """Column where the last thread or warpgroup begins that computes `columns` elements of a row.

    It is left of `first` if there is none. It lies a multiple of `aligned` right of `first`, where the first one
    begins. Its `loaded` elements, which begin `lead` before its windows, lie within a row of the image.
    """
    start = first - problem.before[1] * problem.channels - lead
    image_end = problem.image[1] * problem.channels - loaded - start
    result_end = problem.output_shape[1] * problem.channels - columns - first
    return first + min(image_end, result_end) // aligned * aligned


def outside(problem: Filter2d, rows: int, columns: int) -> int:
    """Outputs of one plane outside an interior of `rows` by `columns` elements."""
    return problem.output_shape[0] * problem.output_shape[1] * problem.channels - rows * columns


TAP_OCTAVE = 4.0
"""Octaves per factor of 2 in the rows or columns of a filter: registers and unrolled code grow with them."""
WEIGHTS_KNOWN = 3.0
"""Octaves between a filter with known weights, which become literals, and one without."""
WEIGHTS_OTHER = 1.5
"""Octaves between other literals: one filter may be separable or sparse where the other is not."""
BORDER_CHANGED = 0.5
"""Octaves between two borders with pixels outside the image; to or from `valid`, which has none, twice as much."""


def between_filters(one: Filter2d, other: Filter2d) -> float | None:
    """`Problem.distance` of two filters; None past FARTHEST."""
    gaps, other_gaps = ([each.span_bytes / each.nbytes for each in problem.operands] for problem in (one, other))
    size = (
        octaves(one.image[0], other.image[0])
        + octaves(one.image[1], other.image[1])
        + octaves(one.planes, other.planes)
        + sum(octaves(gap, other_gap) for gap, other_gap in zip(gaps, other_gaps, strict=True))
    )
    taps = octaves(one.filter[0], other.filter[0]) + octaves(one.filter[1], other.filter[1])
    is_made_up = (one.border != "valid") + (other.border != "valid")
    rest = (
        TAP_OCTAVE * taps
        + TYPE_CHANGED * (one.dtype is not other.dtype)
        + TYPE_CHANGED / 2 * (one.output.dtype.itemsize != other.output.dtype.itemsize)
        + TYPE_CHANGED / 2 * ((one.output.dtype is one.dtype) != (other.output.dtype is other.dtype))
        + NONFINITE_CHANGED * (one.nonfinite is not other.nonfinite)
        + BORDER_CHANGED * (one.border is not other.border) * (2 if is_made_up == 1 else 1)
        + _between_weights(one.weights, other.weights)
        + 2 * octaves(one.channels, other.channels)
        + 2 * octaves(one.filters, other.filters)
        + RULE_CHANGED * (one.accuracy is not other.accuracy)
        + SIDE_CHANGED * sum(getattr(one, name) != getattr(other, name) for name in ("cval", "convolve", "anchor"))
    )
    return size + rest if rest <= FARTHEST else None


def _between_weights(one: tuple[float, ...] | None, other: tuple[float, ...] | None) -> float:
    if one == other:
        return 0.0
    return WEIGHTS_KNOWN if one is None or other is None else WEIGHTS_OTHER
