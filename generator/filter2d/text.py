"""CUDA text of a filter2d problem: the values that every filter2d template takes as `p`."""

from __future__ import annotations

import dataclasses
import enum

from warpsmith.generator.architectures import PARAMETER_BYTES
from warpsmith.generator.filter2d.problem import Border, Filter2d
from warpsmith.generator.filter2d.separable import Term
from warpsmith.generator.problem import DType, NonFinite
from warpsmith.generator.program import Argument, ByValue, Constant, Pointer, Texture
from warpsmith.generator.render import float_literal
from warpsmith.generator.space import Config, Parameter

TEXTURE_PITCH_ALIGNMENT = 32
"""Bytes that row pitches of 2-D textures over linear memory are multiples of
(CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT)."""
MAX_TEXTURE_WIDTH, MAX_TEXTURE_HEIGHT = 131072, 65000
"""Most texels of a 2-D texture over linear memory (CUDA programming guide, technical specifications)."""
MAX_TEXTURE_LINE = 2**27
"""Most texels of a 1-D texture over linear memory on every supported architecture."""

DEFAULT_REACH = 2.0
"""`Family.default_reach` of families whose defaults were compared with winners of other sizes. Of 23 problems that 400
trials searched on an H200, defaults took at most 1.26 times the best time, winners from 2 to 8 octaves away 1.59."""


class MemoryPath(enum.StrEnum):
    """Path of pixels from the image to a thread (Iandola et al. 2013, section 4)."""

    GLOBAL = "global"
    """Straight from global memory."""
    SHUFFLE = "shuffle"
    """A warp loads pixels from global memory once, and its lanes exchange them by shuffles."""
    TEXTURE = "texture"
    """Through a texture object."""
    SHARED = "shared"
    """Through a tile in shared memory, which the block fills from registers."""
    ASYNC = "async"
    """Through a tile in shared memory, filled by asynchronous copies."""


class Weights(enum.StrEnum):
    """Place of the filter's values."""

    ARGUMENT = "argument"
    """Kernel parameters: one kernel for all filters of a size."""
    CONSTANT = "constant"
    """A `__constant__` variable."""
    LITERAL = "literal"
    """Literals in the code."""
    GLOBAL = "global"
    """Global memory: behind a pointer, or in a table of the program if they are known. Used if the other places are too
    small."""

    @classmethod
    def of(cls, config: Config) -> Weights:
        return cls(config.text("weights"))


def weights_parameter(problem: Filter2d) -> Parameter:
    """Parameter for the place of the filter's values; literals only if they are known."""
    if too_many_weights(problem):
        return Parameter("weights", (Weights.GLOBAL.value,), "filter values are too many for all but global memory")
    known = (Weights.LITERAL,) if problem.weights is not None else ()
    meaning = "filter values as a kernel argument, in constant memory, or as literals in the code"
    return Parameter(
        "weights", (Weights.ARGUMENT.value, Weights.CONSTANT.value, *(each.value for each in known)), meaning
    )


def default_weights(problem: Filter2d) -> str:
    """Default place of the filter's values: literals if they are known."""
    if too_many_weights(problem):
        return Weights.GLOBAL.value
    return Weights.ARGUMENT.value if problem.weights is None else Weights.LITERAL.value


def too_many_weights(problem: Filter2d, pointers: int = 2) -> str | None:
    """Reason why a kernel with `pointers` pointers can pass the filters neither as parameters nor in constant memory.

    None if it can.
    """
    room, nbytes = PARAMETER_BYTES - 8 * pointers, problem.operands[1].nbytes
    return None if nbytes <= room else f"weights of {nbytes} bytes do not fit a kernel's parameters ({room} bytes)"


def literals(term: Term) -> dict[str, object]:
    """A separable term as CUDA literals."""
    return {
        "filter": term.filter,
        "column": [float_literal(value) for value in term.column],
        "row": [float_literal(value) for value in term.row],
    }


PIXEL = {DType.FLOAT32: "float", DType.FLOAT16: "unsigned short", DType.UINT8: "unsigned char"}
"""C++ storage type of an element; float16 as its bits, so that no header is needed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Filter2dText:
    """Template values of a problem: sizes in pixels, offsets in elements (a pixel has `channels`), literals as CUDA
    text.
    """

    key: str
    dtype: DType
    result_dtype: DType
    pixel: str
    result: str
    rows: int
    columns: int
    channels: int
    planes: int
    pitch: int
    """Elements from one row of the image to the next."""
    result_pitch: int
    filters: int
    filter_rows: int
    filter_columns: int
    before_rows: int
    before_columns: int
    border: Border
    cval: str
    rotated: bool
    """True if weights of a call must be rotated by 180 degrees; those in `taps` are rotated already."""
    taps: tuple[tuple[tuple[str, ...], ...], ...]
    """Values of known filters; empty if each call brings them."""
    deep: bool
    """True if a window can reach past a whole further image beyond the border."""
    strict: bool
    """`is_strict` of the problem."""

    @classmethod
    def of(cls, problem: Filter2d) -> Filter2dText:
        image, _, result = problem.operands
        reach = zip(problem.before, problem.filter, problem.image, strict=True)
        return cls(
            # Most texts do not depend on `nonfinite`, and their times hold under either rule.
            key=_under_the_usual_rule(problem).key(),
            dtype=image.dtype,
            result_dtype=result.dtype,
            pixel=PIXEL[image.dtype],
            result=PIXEL[result.dtype],
            rows=problem.image[0],
            columns=problem.image[1],
            channels=problem.channels,
            planes=problem.planes,
            pitch=row_pitch(problem),
            result_pitch=result_pitch(problem),
            filters=problem.filters,
            filter_rows=problem.filter[0],
            filter_columns=problem.filter[1],
            before_rows=problem.before[0],
            before_columns=problem.before[1],
            border=problem.border,
            cval=float_literal(problem.cval),
            rotated=problem.convolve,
            taps=tuple(tuple(tuple(map(float_literal, row)) for row in taps) for taps in problem.taps),
            deep=any(max(before, taps - 1 - before) >= size for before, taps, size in reach),
            strict=is_strict(problem),
        )


def row_pitch(problem: Filter2d) -> int:
    """Elements from one row of the image to the next."""
    image = problem.operands[0]
    return (problem.pitch or image.dtype.itemsize * problem.image[1] * problem.channels) // image.dtype.itemsize


def result_pitch(problem: Filter2d) -> int:
    """Elements from one row of the result to the next."""
    size = problem.output.dtype.itemsize
    return (problem.result_pitch or size * problem.output_shape[1] * problem.channels) // size


def _under_the_usual_rule(problem: Filter2d) -> Filter2d:
    if problem.nonfinite is NonFinite.WINDOW:
        return problem  # making it again takes 2 ms if 8000 weights are known
    return dataclasses.replace(problem, nonfinite=NonFinite.WINDOW)


def is_strict(problem: Filter2d) -> bool:
    """True if a NaN or an infinity, if the image can have one, may reach only outputs whose windows contain it."""
    return problem.dtype is not DType.UINT8 and problem.nonfinite is NonFinite.WINDOW


def image_texture(problem: Filter2d) -> Texture | None:
    """The image as a texture: 2-D if pitch and sizes allow it, else one line; None if it is too large for both.

    Planes follow each other down the texture.
    """
    image, pitch = problem.operands[0], row_pitch(problem)
    pitch_bytes, height = pitch * image.dtype.itemsize, problem.image[0] * problem.planes
    width = problem.image[1] * problem.channels
    if pitch_bytes % TEXTURE_PITCH_ALIGNMENT == 0 and width <= MAX_TEXTURE_WIDTH and height <= MAX_TEXTURE_HEIGHT:
        return Texture("image", image.dtype, width, height, pitch_bytes)
    texels = image.span_bytes // image.dtype.itemsize
    return Texture("image", image.dtype, texels) if texels <= MAX_TEXTURE_LINE else None


def filter2d_arguments(
    weights: Weights, texture: Texture | None = None, *, known: bool = False
) -> tuple[Argument, ...]:
    """Kernel arguments that every filter2d template declares; weights elsewhere need none."""
    return (texture or Pointer("image"), Pointer("result"), *weights_arguments(weights, known=known))


def weights_arguments(weights: Weights, *, known: bool) -> tuple[Argument, ...]:
    """Last kernel arguments, if it takes the weights; `known` weights in global memory are a table."""
    if weights is Weights.ARGUMENT:
        return (ByValue("weights"),)
    return (Pointer("weights"),) if weights is Weights.GLOBAL and not known else ()


def filter2d_constants(weights: Weights) -> tuple[Constant, ...]:
    """`__constant__` variables that every filter2d template declares."""
    return (Constant("weights", "weights"),) if weights is Weights.CONSTANT else ()
