"""Reference kernels of first use: a float64 sum for each of some results, by one binary for all problems of a type."""

from __future__ import annotations

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
"""Threads of a block, which makes one sum. On the host it has one: threads that wait for each other are slow there."""

SAMPLE_BYTES = 16
"""`Sample` of the template: the number of a result and its place, two 64-bit integers."""
FOUND_BYTES = 40
"""`Found` of the template: four doubles and eight bytes of the result."""
MOMENTS_BYTES = 16
"""`Moments` of the template: two doubles."""


class Scale(enum.StrEnum):
    """What the error of a result is measured against."""

    TERMS = "terms"
    """The sum of |terms|."""
    WINDOW = "window"
    """The sum of |weights| times the largest |pixel| of the window."""
    PLANE = "plane"
    """The filter's largest gain times the largest |pixel| of the plane, or the sum of |terms| where that is larger."""
    NORM = "norm"
    """`bounds.PEAK` root mean squares of the result's group, or the sum of |terms| where that is larger."""
    RMS = "rms"
    """`bounds.PEAK` root mean squares of the whole result."""


class Outside(enum.IntEnum):
    """What stands outside of an image or a signal; the numbers are those of `stand_in` in the template."""

    CONSTANT = 0
    NEAREST = 1
    REFLECT = 2
    """Mirrored with the element at the edge: SciPy's reflect."""
    MIRROR = 3
    """Mirrored without the element at the edge: SciPy's mirror, PyTorch's reflect."""
    WRAP = 4


class Entry(enum.StrEnum):
    """The kernels of a reference."""

    SUMS = "first_use_sums"
    FILL = "first_use_fill"
    INPUT_MOMENTS = "first_use_moments_of_input"
    RESULT_MOMENTS = "first_use_moments_of_result"
    MIRROR = "first_use_mirror"


@dataclasses.dataclass(frozen=True, slots=True)
class Mirrored:
    """Spectra of real signals: what their self-mirrored columns must satisfy is written into random numbers."""

    operand: str
    batch: int
    strides: tuple[int, int, int]
    """Elements from one transform, one row and one column to the next."""


@dataclasses.dataclass(frozen=True, slots=True)
class Reference:
    """The kernels that check results of a problem, and what its results are held against."""

    program: Program
    values: bytes
    """The problem as the kernels take it."""
    inputs: tuple[str, str, str]
    """The operands that the sums read, in the order of the kernel's arguments; repeated where there are fewer."""
    terms: int
    """Terms of one sum, at the most."""
    term_cost: int
    """Multiply-adds that take as long as one term."""
    scale: Scale
    groups: int = 1
    """Groups of neighbouring results, each with a root mean square of its own."""
    is_rectified: bool = False
    """Whether a result is replaced by zero where its sum is negative."""
    mirrored: tuple[Mirrored, ...] = ()


def reference_program(
    operation: str,
    threads: int,
    integers: Iterable[str],
    reals: Iterable[str],
    source: DType,
    result: DType,
    parts: int = 1,
) -> Program:
    """The same as `_program`, whose names are those of a problem's numbers in order."""
    return _program(operation, threads, tuple(integers), tuple(reals), source, result, parts)


@functools.cache
def _program(
    operation: str,
    threads: int,
    integers: tuple[str, ...],
    reals: tuple[str, ...],
    source: DType,
    result: DType,
    parts: int,
) -> Program:
    """The kernels of an operation for one pair of types.

    Args:
        operation: whose template is rendered.
        threads: of a block.
        integers: names of the problem's numbers, each 64 bits.
        reals: names of its float64 numbers, which follow.
        source: element type of the inputs, float32 for complex ones.
        result: likewise of the result.
        parts: real numbers of an element of the result.
    """
    text = render(
        f"first_use/{operation}.cu.jinja",
        threads=threads,
        integers=integers,
        reals=reals,
        source=str(source),
        result=str(result),
        parts=parts,
    )
    arguments: dict[Entry, tuple[Argument, ...]] = {
        Entry.SUMS: (
            ByValue("problem"),
            *map(Pointer, ("first", "second", "third", "result", "samples", "found")),
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
    """The numbers of a problem as the kernels take them."""
    return struct.pack(f"<{len(integers)}q{len(reals)}d", *integers.values(), *reals.values())
