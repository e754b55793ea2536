"""Problems: what is computed, in canonical form, and how accurately."""

from __future__ import annotations

import abc
import dataclasses
import enum
import functools
import math
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from warpsmith.errors import BadArgument

FLOAT32_BOUND = 1e-6
"""Largest error, relative to the sum of |terms|. Sums of up to 5000 float32 products stay under 2.3e-7. The rounding to
float16 or uint8 is subtracted before the comparison."""

PEAK = 2.0
"""Normwise errors are relative to this multiple of the root mean square of the results. With a relative L2 error of
5e-7, the largest of 2^27 normal errors is 5.7 times 5e-7 / sqrt(2) of it: 1.0e-6 of twice the root mean square."""


Word = TypeVar("Word", bound=enum.StrEnum)

AUTO = "auto"
"""Method name that stands for the fastest of all kernel families."""


def member(kind: type[Word], value: str | None, name: str, among: tuple[Word, ...] | None = None) -> Word:
    """Member of `kind`, or of `among`, that `value` spells. Raises BadArgument with the choices."""
    try:
        found = kind(str(value))
        if among is None or found in among:
            return found
    except BadArgument:
        raise  # the kind knows that name, and says why it has no member for it
    except ValueError:
        pass
    choices = tuple(kind) if among is None else among  # torch.compile iterates over no enum, so only here
    spelt = value.value if isinstance(value, enum.Enum) else value
    raise BadArgument(f"unknown {name} {spelt!r}; choose one of {', '.join(choices)}")


def check_method(value: object) -> None:
    """Raises BadArgument for a method that is no text. Whether a family of that name exists depends on the problem."""
    if not isinstance(value, str):
        raise BadArgument(f"a method must be {AUTO!r} or the name of a kernel family, as text; got {value!r}")


def checked_problem(value: object) -> Problem:
    """`value` if it is a problem. Otherwise raises BadArgument, which says how to make one."""
    if isinstance(value, Problem):
        return value
    known = ", ".join(sorted({each.__name__ for each in Problem._operations.values()}))
    raise BadArgument(
        f"a problem must be one of {known}, such as Filter2d(image=(512, 512), filter=(3, 3)); got {value!r}"
    )


class DType(enum.StrEnum):
    """Element types, by NumPy's names."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    """Upper half of a float32: 8 bits of exponent, 7 of mantissa. NumPy has it through the package ml_dtypes."""
    INT16 = "int16"
    """Samples of audio and radio; an input only."""
    UINT8 = "uint8"
    INT32 = "int32"
    """Places in other arrays; an input only."""
    COMPLEX64 = "complex64"
    """Real and imaginary part, interleaved, float32 each."""

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return _ITEM_SIZES[self]


_ITEM_SIZES = {
    DType.FLOAT32: 4,
    DType.FLOAT16: 2,
    DType.BFLOAT16: 2,
    DType.INT16: 2,
    DType.UINT8: 1,
    DType.INT32: 4,
    DType.COMPLEX64: 8,
}

PIXELS = (DType.FLOAT32, DType.FLOAT16, DType.UINT8)
"""Element types of images."""


def dtype_of(value: object, name: str, among: tuple[DType, ...] = PIXELS) -> DType:
    """Element type of a name, a NumPy dtype or scalar type, or a dtype of PyTorch.

    It compares names, so that neither library is loaded. Raises BadArgument with the choices, also for a NumPy dtype of
    the other byte order, whose name is `>f4`.
    """
    if isinstance(value, type):
        return member(DType, value.__name__, name, among)
    if value is None or isinstance(value, str):
        return member(DType, value, name, among)
    return member(DType, str(value).removeprefix("torch."), name, among)


class Accuracy(enum.StrEnum):
    """Quantity that the error bound of a result is relative to, the strictest first."""

    ELEMENTWISE = "elementwise"
    """Each output's own sum of |weight| * |pixel|: an output is accurate whatever its neighbours are."""
    NORMWISE = "normwise"
    """Sum of |weights| times the largest |pixel| of the window: admits algorithms that form sums and differences of
    pixels, such as Winograd's. For a layer it is twice the root mean square of an image's results (for a gradient of
    weights, of all results), or the output's own sum if that is larger, and admits Fourier transforms."""
    ROWWISE = "rowwise"
    """Bound of a product of matrices: twice the root mean square of each row of the result, or the output's own sum if
    that is larger. Admits numbers that are split relative to the largest number of their row."""
    IMAGEWISE = "imagewise"
    """Largest gain of the filter, the largest magnitude of its Fourier transform, times the largest |pixel| of the
    plane and of its surroundings; or each output's own sum of |weight| * |pixel| if that is larger. Admits transforms
    too, whose errors spread over a whole tile."""
    SIGNALWISE = "signalwise"
    """Largest gain of the filter times the largest |sample| of the channel; or each output's own sum of |weight| *
    |sample| if that is larger. Admits transforms and products of split numbers, whose errors spread over a block of a
    channel. For a gradient of weights: the sum, over the channels of the batch that share the filter, of the Euclidean
    norm of the channel times that of its gradient."""


class NonFinite(enum.StrEnum):
    """Outputs that a NaN or an infinity among the inputs may reach."""

    WINDOW = "window"
    """Only outputs whose window contains it. Under a tap that is known to be zero it may have no effect."""
    ANY = "any"
    """Other outputs near it too: pixels outside a window may be multiplied by zero, as matrix products do. In a layer
    these are any results of the same image, or of a gradient of weights, but never results of another image."""


class Role(enum.StrEnum):
    """Role of an operand in its problem."""

    INPUT = "input"
    OUTPUT = "output"
    STATE = "state"
    """Read and written: a call leaves it for the next one, such as the end of a signal that comes in pieces."""


@dataclasses.dataclass(frozen=True, slots=True)
class Operand:
    """One array of a problem: `shape` in elements and `strides` in bytes, slowest dimension first."""

    name: str
    role: Role
    shape: tuple[int, ...]
    dtype: DType
    strides: tuple[int, ...] = ()
    """Bytes from one index to the next of each dimension; C order if none are given."""

    def __post_init__(self) -> None:
        if not self.strides:
            steps = [math.prod(self.shape[depth + 1 :]) * self.dtype.itemsize for depth in range(len(self.shape))]
            object.__setattr__(self, "strides", tuple(steps))

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of its elements, without gaps between rows."""
        return self.size * self.dtype.itemsize

    @property
    def span_bytes(self) -> int:
        """Bytes from its first element to the end of its last one, gaps included."""
        steps = zip(self.shape, self.strides, strict=True)
        return sum((extent - 1) * stride for extent, stride in steps) + self.dtype.itemsize

    @property
    def allocated_bytes(self) -> int:
        """Bytes up to the end of its last row, gap included, so that a library can copy whole rows."""
        return max(extent * stride for extent, stride in zip(self.shape, self.strides, strict=True))

    @property
    def element_strides(self) -> tuple[int, ...]:
        """Strides in elements, as PyTorch counts them."""
        return tuple(stride // self.dtype.itemsize for stride in self.strides)

    @property
    def components(self) -> Operand:
        """This operand as real numbers; complex elements get one more dimension, for real and imaginary part."""
        if self.dtype is not DType.COMPLEX64:
            return self
        part = DType.FLOAT32
        return dataclasses.replace(self, shape=(*self.shape, 2), strides=(*self.strides, part.itemsize), dtype=part)

    @property
    def is_in_row_order(self) -> bool:
        """True if it lies in memory in C order without gaps."""
        return self.strides == dataclasses.replace(self, strides=()).strides

    @property
    def is_dense(self) -> bool:
        """True if there are no gaps between its elements."""
        return self.nbytes == self.span_bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Chunks:
    """How the signals of a problem come in chunks: what a stream needs to know of it."""

    signal: str
    """Name of the input that comes in chunks."""
    state: str
    """Name of the state that is carried from chunk to chunk."""
    axis: int
    """Dimension of the signal and of the result that counts samples."""
    samples: int
    """Samples of the problem's own signal."""
    step: int
    """Samples of each result along that dimension: a chunk has a multiple of them."""
    positions: str | None = None
    """Name of the int32 input that counts the samples before a chunk, if the state is a ring; None if it is none."""
    width: int = 0
    """Samples of a row of the ring."""


class Problem(abc.ABC):
    """A computation without its data. Each operation has one frozen dataclass, which registers itself."""

    operation: ClassVar[str]
    error_unit: ClassVar[str] = "of the sum of |terms|"
    """Unit of a result's error, as text."""
    near_reach: ClassVar[float] = math.inf
    """Octaves (`distance`) beyond which a family's default is likelier to be good than the winner of another size."""
    _operations: ClassVar[dict[str, type[Problem]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # A dataclass with slots is built twice under one name: the second class replaces the first.
        Problem._operations[cls.operation] = cls
        # dataclass() would add its own methods to a class without them.
        cls.__eq__ = Problem.__eq__  # type: ignore[method-assign]
        cls.__hash__ = Problem.__hash__  # type: ignore[method-assign]

    def __eq__(self, other: object) -> bool:
        """Compares all fields, gathered once; a dataclass gathers both problems' fields each time, which takes 1 us."""
        if other.__class__ is not self.__class__:
            return NotImplemented
        return self is other or self._values == other._values

    def __hash__(self) -> int:
        """Hash, computed once: with 225 known weights that takes 4 us."""
        return self._hash

    @functools.cached_property
    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self._field_names())

    @functools.cached_property
    def _hash(self) -> int:
        return hash(self._values)

    def __getstate__(self) -> dict[str, Any]:
        # Cached values stay in this process: hashes of text differ from process to process.
        return {name: getattr(self, name) for name in self._field_names()}

    @classmethod
    @functools.cache
    def _field_names(cls) -> tuple[str, ...]:
        return tuple(field.name for field in dataclasses.fields(cls))  # type: ignore[arg-type]

    @abc.abstractmethod
    def spec(self) -> dict[str, Any]:
        """Every field as JSON values, in canonical form; `Problem.from_spec` reads it back."""

    @classmethod
    @abc.abstractmethod
    def of(cls, spec: dict[str, Any]) -> Problem:
        """The problem of this class that `spec` describes."""

    @abc.abstractmethod
    def key(self) -> str:
        """The problem as one readable line, its key in stores: only equal problems have equal keys."""

    @property
    @abc.abstractmethod
    def operands(self) -> tuple[Operand, ...]:
        """Arrays with their shapes, dtypes and strides, in the order of a plan's inputs; the output comes last, unless
        `output` names another one.

        Callers read it often: implement it as a `functools.cached_property`, which works on a dataclass without slots.
        """

    @property
    @abc.abstractmethod
    def flops(self) -> int:
        """Floating-point operations of the direct method, a multiply and an add counted as two."""

    @abc.abstractmethod
    def distance(self, other: Problem) -> float | None:
        """Octaves that `other`'s winner is from fitting here: 0 for the same problem, None if it never fits."""

    def is_resized(self, other: Problem) -> bool:
        """True if the problems differ in size at most."""
        return self == other

    def is_answered_by(self, other: Problem) -> bool:
        """True if the winner of `other`, of another size and not too far off, answers this problem when it was not
        tuned.
        """
        far = self.distance(other)
        return far is not None and far <= self.near_reach and self.is_resized(other)

    def features(self) -> Mapping[str, float | str]:
        """Numbers and words that a kernel's time is likely to depend on.

        A model takes powers of the numbers, which are above 0. The words of two problems must be equal for the time of
        one to say something about the other. Every problem of an operation has the same names.
        """
        results = self.output.size
        return {"results": results, "work": self.flops / results, "bytes": self.bytes / results}

    @property
    def chunks(self) -> Chunks:
        """How its signals come in chunks. Raises BadArgument if they do not: a stream then cannot be made."""
        raise BadArgument("a stream needs a filter whose state is carried: Filter1d(..., state='carried')")

    def of_samples(self, samples: int) -> Problem:
        """The same problem of chunks with so many samples; only of a problem that has `chunks`."""
        raise NotImplementedError

    @property
    def bytes(self) -> int:
        """Fewest bytes that must move through memory: each input read once, each output written once."""
        return sum(operand.nbytes for operand in self.operands)

    @functools.cached_property
    def inputs(self) -> tuple[Operand, ...]:
        """Operands that are read and that a plan is called with, state included."""
        return tuple(operand for operand in self.operands if operand.role is not Role.OUTPUT)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """Operands that are written, state included."""
        return tuple(operand for operand in self.operands if operand.role is not Role.INPUT)

    @property
    def known(self) -> Mapping[str, tuple[float, ...]]:
        """Values, in C order, of the inputs that are known before any call; a plan does not take them as arguments."""
        return {}

    @property
    def from_host(self) -> frozenset[str]:
        """Names of the inputs that a caller may have in host memory on any device.

        Small ones become kernel parameters, others are copied.
        """
        return frozenset()

    @property
    def workspace_limit(self) -> int | None:
        """Most bytes of scratch memory that a plan may take; None without a limit."""
        return None

    @property
    def error_bound(self) -> float:
        """Largest error of a result relative to the quantity of its accuracy (`Accuracy`), besides the result's
        rounding.
        """
        return FLOAT32_BOUND

    @property
    def output(self) -> Operand:
        """Operand that is written; the last one if there are several."""
        return self.operands[-1]

    @staticmethod
    def from_spec(operation: str, spec: dict[str, Any]) -> Problem:
        """Problem that `spec` describes. Raises BadArgument for an operation this version does not know."""
        try:
            problem_class = Problem._operations[operation]
        except KeyError:
            known = ", ".join(sorted(Problem._operations))
            raise BadArgument(f"unknown operation {operation!r}; this version knows {known}") from None
        problem_class._check_names(spec)
        return problem_class.of(spec)

    @classmethod
    def _check_names(cls, spec: Mapping[str, Any]) -> None:
        """Raises BadArgument for a field that the class does not have, and for a required field that is missing."""
        if unknown := [name for name in spec if name not in cls._field_names()]:
            listed = ", ".join(map(repr, unknown))
            raise BadArgument(f"{cls.operation} has no field {listed}; its fields are {', '.join(cls._field_names())}")
        needed = (each.name for each in dataclasses.fields(cls) if each.default is dataclasses.MISSING)  # type: ignore[arg-type]
        if missing := [name for name in needed if name not in spec]:
            raise BadArgument(f"{cls.operation} needs the field {', '.join(missing)}, which is missing")
