"""Reference kernels of first use: float64 sums of some results, by one binary for all problems of one pair of types."""

from __future__ import annotations

import abc
import dataclasses
import enum
import functools
import struct
from collections.abc import Iterable, Mapping

from warpsmith.generator.problem import DType
from warpsmith.generator.program import Argument, ByValue, Launch, Pointer, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config

GPU_THREADS = 128
"""Threads of a block, which computes one sum. The host has one: threads that wait for each other are slow there."""

SAMPLE_BYTES = 16
"""Bytes of the template's `Sample`: the number of a result and its place, two 64-bit integers."""
FOUND_BYTES = 40
"""Bytes of the template's `Found`: four doubles and eight bytes of the result."""
MOMENTS_BYTES = 16
"""Bytes of the template's `Moments`: two doubles."""

INPUTS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh")
"""Names of the kernels' arguments for the operands that sums read."""


class Scale(enum.StrEnum):
    """Quantity that the error of a result is relative to."""

    TERMS = "terms"
    """Sum of |terms|."""
    WINDOW = "window"
    """Sum of |weights| times the largest |pixel| of the window."""
    PLANE = "plane"
    """Filter's largest gain times the largest |element| of the plane, or the sum of |terms| if that is larger."""
    NORM = "norm"
    """`bounds.PEAK` root mean squares of the result's group, or the sum of |terms| if that is larger."""
    RMS = "rms"
    """`bounds.PEAK` root mean squares of the whole result."""


class ResultFunction(enum.StrEnum):
    """Function that makes a result of a sum."""

    IDENTITY = "identity"
    RELU = "relu"
    SILU = "silu"


class Entry(enum.StrEnum):
    """Names of a reference's kernels."""

    SUMS = "first_use_sums"
    FILL = "first_use_fill"
    INPUT_MOMENTS = "first_use_moments_of_input"
    RESULT_MOMENTS = "first_use_moments_of_result"
    MIRROR = "first_use_mirror"


@dataclasses.dataclass(frozen=True, slots=True)
class Mirrored:
    """Spectra of real signals in an operand: a kernel makes the self-mirrored columns of random numbers Hermitian."""

    operand: str
    batch: int
    strides: tuple[int, int, int]
    """Elements from one transform, one row and one column to the next."""


@dataclasses.dataclass(frozen=True, slots=True)
class Planes(abc.ABC):
    """Planes of an input, which filters of the second input turn into results, for `Scale.PLANE`."""

    rows: int
    row_elements: int
    """Real numbers of a row."""
    row_bytes: int
    """Bytes from one row to the next."""
    filters: int
    filter: tuple[int, int]
    """Rows and columns of a filter."""
    outside: float = 0.0
    """Largest |value| that stands for elements outside of a plane."""
    source: int = 0
    """Number of the input that has the planes; its elements have the type of the program's `source`."""

    @property
    def factor(self) -> str | None:
        """Operand, laid out as the planes, that multiplies them."""
        return None

    @abc.abstractmethod
    def of(self, result: int) -> tuple[int, int]:
        """Number of the filter of a result, and bytes from the start of the operand to its plane."""


@dataclasses.dataclass(frozen=True, slots=True)
class ImagePlanes(Planes):
    """Images one after the other, each filtered by all filters."""

    results: int = 1
    """Results of one filter on one plane."""

    def of(self, result: int) -> tuple[int, int]:
        plane, filter_ = divmod(result // self.results, self.filters)
        return filter_, plane * self.rows * self.row_bytes


@dataclasses.dataclass(frozen=True, slots=True)
class ChannelPlanes(Planes):
    """Channels of signals, each filtered by one filter."""

    channels: int = 1
    outputs: int = 1
    """Results of a channel."""
    is_btc: bool = False
    """True if the channels of a result's samples lie side by side."""
    batch_bytes: int = 0
    channel_bytes: int = 0
    """Bytes from one signal, and from one channel, to the next."""
    gate: str | None = None

    @property
    def factor(self) -> str | None:
        return self.gate

    def of(self, result: int) -> tuple[int, int]:
        batch, rest = divmod(result, self.channels * self.outputs)
        channel = rest % self.channels if self.is_btc else rest // self.outputs
        return channel * self.filters // self.channels, batch * self.batch_bytes + channel * self.channel_bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Reference:
    """Kernels that check results of a problem, and the scale of the errors."""

    program: Program
    values: bytes
    """The problem's numbers as bytes, as the kernels take them."""
    inputs: tuple[str, ...]
    """Operands that the sums read, in the order of the kernel's arguments; repeated if there are fewer than three."""
    terms: int
    """Most terms of one sum."""
    term_cost: int
    """Multiply-adds that take as long as one term."""
    scale: Scale
    groups: int = 1
    """Groups of neighbouring results, each with a root mean square of its own."""
    function: ResultFunction = ResultFunction.IDENTITY
    slope: float = 1.0
    """Upper bound of the function's slope, which multiplies the scale."""
    mirrored: tuple[Mirrored, ...] = ()
    from_host: frozenset[str] = frozenset()
    """Inputs whose random values are drawn in host memory: a scale needs them, or they have another type than `source`.
    """
    deviations: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Standard deviations of inputs that are drawn in host memory, if they are not 1."""
    planes: Planes | None = None
    """Given if `scale` is PLANE."""
    given: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    """Contents of inputs that are not random."""
    unchecked: frozenset[str] = frozenset()
    """Operands that a program writes besides the result and that are not checked."""
    output: str | None = None
    """The result that it checks, of a problem with several."""
    has_factor: bool = False
    """True if the sums' `largest` is a factor that multiplies the function of a sum."""


def reference_program(
    operation: str,
    threads: int,
    integers: Iterable[str],
    reals: Iterable[str],
    source: DType,
    result: DType,
    parts: int = 1,
    inputs: int = 3,
) -> Program:
    """Cached program of an operation's kernels; `integers` and `reals` name the problem's numbers in order, and sums
    read so many inputs.
    """
    return _program(operation, threads, tuple(integers), tuple(reals), source, result, parts, inputs)


@functools.cache
def _program(
    operation: str,
    threads: int,
    integers: tuple[str, ...],
    reals: tuple[str, ...],
    source: DType,
    result: DType,
    parts: int,
    inputs: int,
) -> Program:
    """Kernels of an operation for one pair of types.

    Args:
        operation: operation whose template is rendered.
        threads: threads per block.
        integers: names of the problem's integers, 64 bits each.
        reals: names of its float64 numbers, which follow the integers.
        source: element type of the inputs, float32 for complex ones.
        result: element type of the result, float32 for a complex one.
        parts: real numbers per element of the result.
        inputs: operands that the sums read.
    """
    text = render(
        f"first_use/{operation}.cu.jinja",
        threads=threads,
        integers=integers,
        reals=reals,
        source=str(source),
        result=str(result),
        parts=parts,
        inputs=INPUTS[:inputs],
    )
    arguments: dict[Entry, tuple[Argument, ...]] = {
        Entry.SUMS: (
            ByValue("problem"),
            *map(Pointer, (*INPUTS[:inputs], "result", "samples", "found")),
        ),
        Entry.FILL: (Pointer("target"), ByValue("elements"), ByValue("seed"), ByValue("way")),
        Entry.INPUT_MOMENTS: (Pointer("target"), ByValue("layout"), Pointer("moments")),
        Entry.RESULT_MOMENTS: (Pointer("target"), ByValue("layout"), Pointer("moments")),
    }
    if operation == "fft":
        arguments[Entry.MIRROR] = (ByValue("problem"), Pointer("target"), ByValue("layout"))
    launches = tuple(Launch(str(entry), (1, 1, 1), (threads, 1, 1), given) for entry, given in arguments.items())
    return Program.of_source(f"first_use_{operation}", Config.of({}), text, launches)


def packed(integers: Mapping[str, int], reals: Mapping[str, float]) -> bytes:
    """Numbers of a problem as bytes, as the kernels take them."""
    return struct.pack(f"<{len(integers)}q{len(reals)}d", *integers.values(), *reals.values())
