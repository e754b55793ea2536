"""Steps of a Fourier layer beside its stages: the sum of its parts, bias, ReLU, fold, and workspace for cuBLAS.

The bias is added to frequency 0 of each plane. The ReLU works in place. The kernels of cuBLAS need no more workspace
than they are given, so a call to it says how much that is: what the program leaves of the layer's workspace. cuFFT
takes as much as it needs, which only the library on a device knows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from warpsmith.generator.conv2d.fourier.parts import FourierParts
from warpsmith.generator.conv2d.layer.fold import Fold
from warpsmith.generator.conv2d.layer.text import Conv2dText, text_key
from warpsmith.generator.library_calls import LEAST_CUBLAS_BYTES, USUAL_CUBLAS_BYTES, CublasProduct
from warpsmith.generator.program import Launch, Pointer, Program, Step, Unit
from warpsmith.generator.render import float_literal, render
from warpsmith.generator.steps import ALIGNMENT, LibraryCall, aligned

THREADS = 256
SUM, ENDS, FOLD = "sum", "ends", "fold"
"""Names of the units that add up parts, that add a bias or apply a ReLU, and that fold."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sums:
    """Variables of the template that adds up, in order, the spectra that the parts of a batch contribute."""

    key: str
    family: str
    parts: int
    count: int
    """Complex numbers per part."""
    pitch: int
    """Complex numbers from one part to the next."""
    threads: int = THREADS

    @classmethod
    def of(cls, parts: FourierParts, family: str) -> Sums:
        count = parts.product.output.size
        return cls(text_key(parts.layer), family, parts.results, count, parts.result_pitch_bytes // 8)


@dataclasses.dataclass(frozen=True, slots=True)
class Ends:
    """Variables of the template for bias and ReLU."""

    key: str
    family: str
    bias: bool
    relu: bool
    planes: int
    """Planes per part of the batch."""
    filters: int
    points: str
    """Points of a plane, as a float literal."""
    vector: int
    """Numbers per thread."""
    count: int
    """Number of vectors of `vector` numbers."""
    threads: int = THREADS

    @classmethod
    def of(cls, parts: FourierParts, family: str) -> Ends:
        size = parts.layer.output.size
        vector = next(each for each in (4, 2, 1) if size % each == 0)
        return cls(
            key=text_key(parts.layer),
            family=family,
            bias=parts.has_bias_behind,
            relu=parts.layer.relu,
            planes=parts.inverse.batch,
            filters=parts.layer.weight[0],
            points=float_literal(float(parts.inverse.points)),
            vector=vector,
            count=size // vector,
        )


def with_ends(program: Program, parts: FourierParts, spectra: str, last: str) -> Program:
    """A layer's program with the sum of its parts, its fold, its bias and its ReLU, as far as it has them.

    Args:
        program: program of the layer without them.
        parts: parts of the layer.
        spectra: workspace of the result's spectra, frequency by frequency, one part behind the other.
        last: name of the unit with the inverse transform.
    """
    if parts.results > 1:
        program = _with_sums(program, parts, spectra, last)
    if parts.fold is not None:
        program = _with_fold(program, parts, parts.fold, last)
    if parts.has_bias_behind or parts.layer.relu:
        program = _with_bias_and_relu(program, parts, spectra, last)
    return program


def _with_sums(program: Program, parts: FourierParts, spectra: str, last: str) -> Program:
    """The program with a step that adds up the parts before the inverse transform."""
    sums = Sums.of(parts, program.family)
    launch = _launch(SUM, "add_parts", sums.count, (Pointer(spectra),))
    steps = [each for step in program.steps for each in ((launch, step) if _is_of(step, last) else (step,))]
    return _with(program, SUM, render("conv2d/fourier_sums.cu.jinja", g=sums, config=program.config.key()), steps)


def _with_fold(program: Program, parts: FourierParts, fold: Fold, last: str) -> Program:
    """The program with a fold, part by part, of the gradient of padded images that its inverse transforms write."""
    output = parts.layer.output
    part_bytes = output.nbytes // parts.count
    launches: Iterator[Launch] = (
        fold.launch(Pointer(output.name, number * part_bytes), FOLD) for number in range(parts.count)
    )
    steps = [each for step in program.steps for each in ((step, next(launches)) if _is_of(step, last) else (step,))]
    text = Conv2dText.of(parts.layer)
    source = render("conv2d/fourier_fold.cu.jinja", f=fold, p=text, family=program.family)  # one text for all configs
    return _with(program, FOLD, source, steps)


def _with_bias_and_relu(program: Program, parts: FourierParts, spectra: str, last: str) -> Program:
    ends = Ends.of(parts, program.family)
    bias = (_launch(ENDS, "add_bias", ends.planes, (Pointer("b"), Pointer(spectra))),) if ends.bias else ()
    steps = [each for step in program.steps for each in ((*bias, step) if _is_of(step, last) else (step,))]
    if ends.relu:
        steps.append(_launch(ENDS, "apply_relu", ends.count, (Pointer(parts.layer.output.name),)))
    return _with(program, ENDS, render("conv2d/fourier_ends.cu.jinja", g=ends, config=program.config.key()), steps)


def _is_of(step: Step, unit: str) -> bool:
    return isinstance(step, Launch) and step.unit == unit


def _with(program: Program, unit: str, source: str, steps: list[Step]) -> Program:
    """The program with these steps, and with the unit that some of them launch."""
    return dataclasses.replace(program, units=(*program.units, Unit(unit, source)), steps=tuple(steps))


def _launch(unit: str, entry: str, count: int, arguments: tuple[Pointer, ...]) -> Launch:
    return Launch(entry, (-(-count // THREADS), 1, 1), (THREADS, 1, 1), arguments, unit=unit)


def with_room(program: Program, workspace: int) -> Program:
    """A program whose cuBLAS products get what its own workspaces leave of `workspace` bytes.

    The streams of a step have equal shares, and no stream gets more than is usual. Steps use the same memory one after
    the other.

    Raises ValueError if a share is less than cuBLAS needs.
    """
    left = workspace - sum(aligned(each.nbytes) for each in program.workspaces)
    return dataclasses.replace(program, steps=tuple(_with_room(step, left) for step in program.steps))


def most_streams(left: int) -> int:
    """Most streams over which cuBLAS products may be spread in `left` bytes of workspace, a share for each stream."""
    return left // LEAST_CUBLAS_BYTES


def _with_room(step: Step, left: int) -> Step:
    if not isinstance(step, LibraryCall) or not isinstance(step.parameters, CublasProduct):
        return step
    share = left // step.parameters.streams // ALIGNMENT * ALIGNMENT
    product = dataclasses.replace(step.parameters, workspace_bytes=min(share, USUAL_CUBLAS_BYTES))
    return dataclasses.replace(step, parameters=product)
