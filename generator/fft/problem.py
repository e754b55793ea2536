"""The batched Fourier transform as a problem: sizes, kinds, padding, layout of the spectrum, operation counts."""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from warpsmith.errors import BadArgument
from warpsmith.generator.canonical import count, flag, sizes
from warpsmith.generator.distances import FARTHEST, RULE_CHANGED, SIDE_CHANGED, octaves
from warpsmith.generator.fft.product import Product
from warpsmith.generator.fft.signals import Border, Tiling, dimensions, last_axes, start_of, tiling_of, valid_of
from warpsmith.generator.padding import Outside, warn_of_reflect
from warpsmith.generator.problem import DType, Operand, Problem, Role, member


class Kind(enum.StrEnum):
    """Types of a transform's two sides: the signal and its spectrum."""

    R2C = "r2c"
    """Real signal to half spectrum: `numpy.fft.rfft`, `rfft2`."""
    C2R = "c2r"
    """Half spectrum to real signal: `numpy.fft.irfft`, `irfft2`."""
    C2C = "c2c"
    """Complex on both sides: `numpy.fft.fft`, `fft2`, and `ifft`, `ifft2`."""


class Norm(enum.StrEnum):
    """Direction that is scaled, by NumPy's names; N is the number of points of one transform."""

    BACKWARD = "backward"
    """The inverse is scaled by 1/N."""
    ORTHO = "ortho"
    """Both directions are scaled by 1/sqrt(N)."""
    FORWARD = "forward"
    """The forward transform is scaled by 1/N."""


class Layout(enum.StrEnum):
    """Memory layout of the spectrum, the slowest dimension first."""

    BATCH = "batch"
    """(batch, rows, columns), as in NumPy."""
    TRANSPOSED = "transposed"
    """(batch, columns, rows): the two inner dimensions of a 2-D spectrum exchanged (fbfft, section 5.1)."""
    FREQUENCY = "frequency"
    """(rows, columns, batch): the operands of one matrix product per frequency are contiguous."""


class Order(enum.StrEnum):
    """Order of the frequencies in the spectrum."""

    NATURAL = "natural"
    """Ascending, as in `numpy.fft`."""
    REVERSED = "reversed"
    """Bit-reversed along each axis: position i holds the frequency whose index has the bits of i in reverse.

    Decimation in frequency leaves this order, and decimation in time reads it. In a half spectrum the first n/2 columns
    are reversed as n/2 numbers, and the last column stays the last."""


PLANES_REACH = 2.0
"""Octaves of the batch from which on a family's default is better than another batch's winner, for planes of 8x8 to
128x128. Winners from 4 octaves and more away took 1.125 times the best of both (c2r, 31 batches, 1.55 at most),
defaults 1.025; winners of lines took 1.015 and their defaults 1.114 (42 batches, H200).
"""

__all__ = ["Fft", "Kind", "Layout", "Norm", "Order"]


@dataclasses.dataclass(frozen=True)
class Fft(Problem):
    """Batched discrete Fourier transforms of one or two dimensions, with the conventions of `numpy.fft`.

    Forward: spectrum[k] = scale * sum over j of signal[j] * exp(-2 pi i j k / n), along each axis; the inverse has a
    plus sign. All arrays have the batch as a dimension, also where it is 1:

    - signal: (batch, rows, columns) or (batch, valid rows, valid columns); float32 for `r2c` and `c2r`, else complex64
    - spectrum: (batch, rows, columns), columns // 2 + 1 of them for `r2c` and `c2r`, or as `layout` says; complex64

    One-dimensional transforms have no rows.

    Args:
        size: points of one transform: n, or rows and columns.
        batch: number of transforms.
        kind: which side of the transform is real.
        inverse: direction of `c2c`. None for the direction of the kind: `c2r` is inverse, the others are forward.
        valid: size of the part of the signal that exists, from its start; None for all of it. A forward transform
            takes the rest as zeros (`numpy.fft` with an `s` larger than the array); an inverse one leaves it out of the
            result.
        start: point at which the valid part begins along each axis, counted cyclically: the part that does not fit
            behind it goes on from the first point. None for the first point.
        norm: which direction is scaled.
        layout: memory layout of the spectrum.
        order: order of the frequencies; `reversed` needs sizes that are powers of two.
        tiling: which tile of which plane each signal is. The signal is then (planes, rows, columns), and `valid` is the
            part of a tile that exists. None for signals that lie side by side.
        border: elements of the signal around its valid part, in place of zeros; also as text, `mirror:2+1x3`. The mode
            is `mirror`, `replicate` or `circular`, or another name of these (`OUTSIDE`). `reflect` has NumPy's and
            PyTorch's meaning, that of `mirror`: it leaves the element at the edge out. As text it gives the warning
            `AmbiguousBorder`.
            Only forward transforms without tiles have one. Its first element is at `start`.
        product: two spectra a and b whose product is the spectrum; they are the inputs in place of the spectrum itself.
            Each is (rows, columns, ...): the frequencies, then a matrix as `Product` says. A product may add an offset.
            Only `c2r` in frequency layout and natural order has one.
        together: number of consecutive signals of the batch that form a group; groups divide the batch evenly. Errors
            are bounded relative to a group's results, and a NaN or an infinity stays in its group. 1 keeps each signal
            to itself, as NumPy does. None, the default, makes the whole batch one group: two real signals may be
            transformed as one complex signal.

    Raises:
        BadArgument: a size below 2, a `valid` part, a `start`, a `tiling`, a `border` or a `product` that does not fit,
            a border and tiles, or an unknown value of an option.

    Errors are bounded relative to the root mean square of the whole result, or, with `together`, of each group's own
    results. For `c2r` the columns of the spectrum that are their own mirror image (the first, and the last of an even
    size) are taken to be Hermitian, as in `numpy.fft.irfft2`: a part that is not Hermitian is ignored.

    Source: Vasilache et al. 2014, "Fast Convolutional Nets With fbfft", section 5.
    """

    operation: ClassVar[str] = "fft"
    error_unit: ClassVar[str] = "of twice the result's root mean square"

    size: tuple[int, ...]
    batch: int = 1
    kind: Kind = Kind.R2C
    inverse: bool | None = None
    valid: tuple[int, ...] | None = None
    norm: Norm = Norm.BACKWARD
    layout: Layout = Layout.BATCH
    order: Order = Order.NATURAL
    start: tuple[int, ...] | None = None
    tiling: Tiling | None = None
    border: Border | None = None
    product: Product | None = None
    together: int | None = None

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # the documented way to canonicalise a frozen dataclass
        set_field(self, "size", sizes(self.size, "size"))
        if min(self.size) < 2:
            raise BadArgument("each dimension of a transform needs at least 2 points")
        set_field(self, "batch", count(self.batch, "batch"))
        set_field(self, "kind", member(Kind, self.kind, "kind"))
        set_field(self, "inverse", self._canonical_direction())
        set_field(self, "valid", valid_of(self.valid, self.size))
        set_field(self, "start", start_of(self.start, self.size))
        set_field(self, "norm", member(Norm, self.norm, "norm"))
        set_field(self, "layout", member(Layout, self.layout, "layout"))
        if self.layout is Layout.TRANSPOSED and len(self.size) == 1:
            raise BadArgument("layout transposed needs two dimensions; this transform has one")
        set_field(self, "order", member(Order, self.order, "order"))
        warn_of_reflect(self.border, Outside.MIRROR)
        set_field(self, "border", Border.of(self.border))
        if self.border is not None:
            self.border.check(self.signal_size, self.size, inverse=self.inverse is True)
            if self.tiling is not None:
                raise BadArgument("a transform has a border or tiles, outside of whose plane there are zeros; not both")
        if self.order is Order.REVERSED and any(points & (points - 1) for points in self.size):
            raise BadArgument(f"bit-reversed order needs powers of two; got {dimensions(self.size)}")
        tiles = tiling_of(self.tiling, self.signal_size, self.batch, is_inverse=bool(self.inverse))
        set_field(self, "tiling", tiles)
        set_field(self, "product", self._checked_product())
        set_field(self, "together", self._checked_group())

    def _checked_product(self) -> Product | None:
        product = Product.of(self.product)
        if product is None:
            return None
        is_by_frequency = self.layout is Layout.FREQUENCY and self.order is Order.NATURAL
        if self.kind is not Kind.C2R or not is_by_frequency:
            raise BadArgument("a product of spectra needs kind c2r, layout frequency and natural order")
        if product.batch != self.batch:
            raise BadArgument(f"a product of {product.rows} by {product.columns} is no batch of {self.batch}")
        return product

    def _checked_group(self) -> int | None:
        if self.together is None:
            return None
        together = count(self.together, "together")
        if self.batch % together:
            raise BadArgument(f"a batch of {self.batch} signals is no whole number of groups of together={together}")
        if self.tiling is not None and together % (self.tiling.tiles * self.tiling.inner):
            planes = self.tiling.tiles * self.tiling.inner
            raise BadArgument(f"tiles of planes belong together in multiples of {planes}; got together={together}")
        return None if together == self.batch else together

    @property
    def may_pair(self) -> bool:
        """True if two consecutive real signals, the first one at an even index, may share their error bound."""
        return self.together is None or self.together % 2 == 0

    @classmethod
    def of_shape(
        cls,
        shape: Sequence[int],
        kind: Kind | str = Kind.R2C,
        *,
        s: Sequence[int] | int | None = None,
        axes: Sequence[int] | int | None = None,
        norm: Norm | str = Norm.BACKWARD,
        inverse: bool | None = None,
    ) -> Fft:
        """The problem that `numpy.fft` or `torch.fft` solves for an array of this shape.

        All dimensions before `axes` are the batch: the plan takes the array reshaped to one batch dimension. If `s`
        pads the signal, the problem has a `valid` part.

        Args:
            shape: shape of the array that is transformed: the spectrum's for `c2r` and for an inverse `c2c`.
            kind: as in the class.
            s: points of the transform along each axis; the signal is padded with zeros up to them. None for the array's
                own size, where `c2r` takes the number of columns to be even.
            axes: the last one or two axes of the array, in order; PyTorch's `dim`. None for as many of the last axes as
                `s` has numbers, or the last axis if there is no `s`.
            norm: as in the class.
            inverse: as in the class.

        Raises:
            BadArgument: `axes` that are not the last ones, or an `s` that would crop the array.
        """
        points = None if s is None else sizes(s, "s")
        chosen, kind = last_axes(shape, points, axes), member(Kind, kind, "kind")
        batch, given = math.prod(shape[:-chosen]), tuple(shape[-chosen:])
        size = (*given[:-1], 2 * (given[-1] - 1)) if kind is Kind.C2R else given
        made = cls(points or size, batch, kind, inverse, norm=member(Norm, norm, "norm"))
        if made.inverse:
            if made.spectrum_size != given:
                mismatch = f"{dimensions(made.spectrum_size)} frequencies; the array has {dimensions(given)}"
                raise BadArgument(f"the inverse transform to {dimensions(made.size)} points takes {mismatch}")
            return made
        if any(part > whole for part, whole in zip(given, made.size, strict=True)):
            raise BadArgument(f"s={dimensions(made.size)} would crop the array's {dimensions(given)}: slice it first")
        return dataclasses.replace(made, valid=given)

    def _canonical_direction(self) -> bool:
        if (own := {Kind.R2C: False, Kind.C2R: True}.get(self.kind)) is None:
            return self.inverse is not None and flag(self.inverse, "inverse")
        if self.inverse is not None and flag(self.inverse, "inverse") is not own:
            raise BadArgument(f"{self.kind} is always {'inverse' if own else 'forward'}")
        return own

    @property
    def is_real(self) -> bool:
        return self.kind is not Kind.C2C

    @property
    def points(self) -> int:
        """Points of one transform."""
        return math.prod(self.size)

    @property
    def signal_size(self) -> tuple[int, ...]:
        """Rows and columns, or length, of the signal of one transform, in elements."""
        return self.valid or self.size

    @property
    def bordered_size(self) -> tuple[int, ...]:
        """Size of the signal with its border, in elements."""
        return self.signal_size if self.border is None else self.border.around(self.signal_size)

    @property
    def spectrum_size(self) -> tuple[int, ...]:
        """Rows and columns, or length, of the spectrum of one transform, in elements; n // 2 + 1 columns if half."""
        *rows, columns = self.size
        return (*rows, columns // 2 + 1 if self.is_real else columns)

    @property
    def scale(self) -> float:
        """Factor of every element of the result."""
        scaled = Norm.BACKWARD if self.inverse else Norm.FORWARD
        if self.norm is Norm.ORTHO:
            return 1 / math.sqrt(self.points)
        return 1 / self.points if self.norm is scaled else 1.0

    @functools.cached_property
    def operands(self) -> tuple[Operand, ...]:
        source, target = (Role.OUTPUT, Role.INPUT) if self.inverse else (Role.INPUT, Role.OUTPUT)
        spectrum = self.spectrum_size
        shape = {
            Layout.BATCH: (self.batch, *spectrum),
            Layout.TRANSPOSED: (self.batch, *spectrum[::-1]),
            Layout.FREQUENCY: (*spectrum, self.batch),
        }[self.layout]
        dtype, tiles = DType.FLOAT32 if self.is_real else DType.COMPLEX64, self.tiling
        signal = (tiles.planes(self.batch), *tiles.plane) if tiles else (self.batch, *self.signal_size)
        signals = Operand("signal", source, signal, dtype)
        if self.product is not None:
            a, b = (
                Operand(name, target, (*spectrum, *matrix), DType.COMPLEX64)
                for name, matrix in zip("ab", self.product.shapes, strict=True)
            )
            offset = Operand("offset", target, (self.product.columns,), DType.FLOAT32)
            return (a, b, *([offset] if self.product.offset else []), signals)
        spectra = Operand("spectrum", target, shape, DType.COMPLEX64)
        return (spectra, signals) if self.inverse else (signals, spectra)

    @property
    def flops(self) -> int:
        """Floating-point operations by the field's convention: 5 N log2 N per transform, half of that for a real one.

        Each term of a product counts 8.
        """
        sums = 0 if self.product is None else 8 * self.batch * math.prod(self.spectrum_size) * self.product.terms
        return sums + round((2.5 if self.is_real else 5) * self.batch * self.points * math.log2(self.points))

    def features(self) -> Mapping[str, float | str]:
        """Batch and points as numbers; dimensions, kind, direction, layout and order as words."""
        kind = f"{len(self.size)}d {self.kind} {'inverse' if self.inverse else 'forward'}"
        place = f"{self.layout} {self.order}{' tiles' if self.tiling else ''}{' product' if self.product else ''}"
        return {"batch": self.batch, "points": self.points, "kind": kind, "place": place}

    def distance(self, other: Problem) -> float | None:
        """Octaves of the batch; other differences count as fixed numbers of octaves, up to a limit."""
        return between_transforms(self, other) if isinstance(other, Fft) else None

    def is_answered_by(self, other: Problem) -> bool:
        """True if the winner of `other`, of another batch, answers this problem when it was not tuned.

        Planes one after the other take none of a batch over PLANES_REACH octaves away.
        """
        far = self.distance(other)
        is_near = far is not None and far <= PLANES_REACH
        has_planes = len(self.size) == 2 and self.layout is Layout.BATCH and self.tiling is None
        return super().is_answered_by(other) and (is_near or not has_planes)

    def is_resized(self, other: Problem) -> bool:
        """True if the problems differ only in the batch, the planes and tiles per plane, or a product's results."""
        return isinstance(other, Fft) and other.of_two() == self.of_two()

    def of_two(self) -> Fft:
        """The same problem with a batch of two, each tile in a plane of its own; odd groups become groups of one."""
        tiling, product = self.tiling, self.product
        return dataclasses.replace(
            self,
            batch=2,
            tiling=tiling and tiling.alike(),
            product=product and product.alike(),
            together=None if self.may_pair else 1,
        )

    def spec(self) -> dict[str, Any]:
        words = {name: str(getattr(self, name)) for name in ("kind", "norm", "layout", "order")}
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        if self.together is None:
            del fields["together"]  # problems stored before groups existed keep their spec
        return {
            **fields,
            **words,
            "size": list(self.size),
            "valid": list(self.valid) if self.valid is not None else None,
            "start": list(self.start) if self.start is not None else None,
            "tiling": self.tiling.spec() if self.tiling is not None else None,
            "border": self.border.spec() if self.border is not None else None,
            "product": self.product.spec() if self.product is not None else None,
        }

    @classmethod
    def of(cls, spec: dict[str, Any]) -> Fft:
        return cls(**spec)

    def key(self) -> str:
        parts = {
            "size": dimensions(self.size),
            "batch": self.batch,
            "kind": self.kind,
            # Other fields only if they differ from the default, so that a key says what is special about its problem.
            "inverse": "yes" if self.inverse and self.kind is Kind.C2C else None,
            "valid": dimensions(self.valid) if self.valid else None,
            "start": dimensions(self.start) if self.start else None,
            "border": self.border,
            "norm": None if self.norm is Norm.BACKWARD else self.norm,
            "layout": None if self.layout is Layout.BATCH else self.layout,
            "order": None if self.order is Order.NATURAL else self.order,
            "product": self.product,
            "together": self.together,
            "tiles": self.tiling.words() if self.tiling else None,
        }
        return " ".join([self.operation, *(f"{name}={value}" for name, value in parts.items() if value is not None)])


POINTS_OCTAVE = 4.0
"""Octaves per factor of 2 in the points of a transform, which then has other radices."""
POINTS_CHANGED = 1.0
"""Octaves that any change of the points adds, however small."""


def between_transforms(one: Fft, other: Fft) -> float | None:
    """`Problem.distance` of two transforms; None past FARTHEST."""
    if len(one.size) != len(other.size):
        return None
    points = sum(octaves(here, there) for here, there in zip(one.size, other.size, strict=True))
    there = sum(octaves(*each) for each in zip(_valid_parts(one), _valid_parts(other), strict=True))
    is_real = one.kind != "c2c", other.kind != "c2c"
    rest = (
        POINTS_CHANGED * (one.size != other.size)
        + POINTS_OCTAVE * points
        + there
        + SIDE_CHANGED * ((one.valid is None) != (other.valid is None))
        + RULE_CHANGED * (one.kind is not other.kind) * (2 if is_real[0] != is_real[1] else 1)
        + SIDE_CHANGED * (one.kind is other.kind and one.inverse != other.inverse)
        + SIDE_CHANGED * (one.norm is not other.norm)
        + RULE_CHANGED * (one.layout is not other.layout)
        + RULE_CHANGED * (one.order is not other.order)
        + SIDE_CHANGED * (one.start != other.start)
        + _between_tilings(one, other)
        + SIDE_CHANGED * (one.border != other.border)
        + SIDE_CHANGED * (one.may_pair != other.may_pair)
        + RULE_CHANGED * (_kind_of_product(one) != _kind_of_product(other))
    )
    return octaves(one.batch, other.batch) + rest if rest <= FARTHEST else None


def _between_tilings(one: Fft, other: Fft) -> float:
    """Octaves between tilings: whole signals against tiles count as another layout, other origins as a small change."""
    if one.tiling is None or other.tiling is None:
        return RULE_CHANGED * (one.tiling is not other.tiling)
    return SIDE_CHANGED * ((one.tiling.alike() != other.tiling.alike()) + 0.5 * (one.tiling != other.tiling))


def _kind_of_product(problem: Fft) -> object:
    """Kind of the product that the transform's loads compute; None without one."""
    return problem.product and problem.product.alike()


def _valid_parts(problem: Fft) -> tuple[float, ...]:
    """Fraction of each axis that the signal fills."""
    return tuple(there / points for there, points in zip(problem.signal_size, problem.size, strict=True))
