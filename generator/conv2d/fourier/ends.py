"""Last steps of a layer in the frequency domain: bias, ReLU, or the fold of the gradient of padded images.

The bias is added to frequency 0 of each plane. The ReLU works in place.
"""

from __future__ import annotations

import dataclasses

from warpsmith.generator.conv2d.fourier.parts import FourierParts
from warpsmith.generator.conv2d.layer.text import Conv2dText, text_key
from warpsmith.generator.program import Launch, Pointer, Program, Step, Unit
from warpsmith.generator.render import float_literal, render

THREADS = 256
UNIT = "ends"
FOLD = "fold"
"""Name of the unit that folds."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ends:
    """Variables of the template."""

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
    """A layer's program with its bias and its ReLU.

    Args:
        program: program of the layer without them.
        parts: parts of the layer.
        spectra: workspace of the result's spectra, frequency by frequency.
        last: name of the unit with the inverse transform.
    """
    layer = parts.layer
    if not parts.has_bias_behind and not layer.relu:
        return program
    ends = Ends.of(parts, program.family)
    steps: list[Step] = []
    for step in program.steps:
        if parts.has_bias_behind and isinstance(step, Launch) and step.unit == last:
            steps.append(_launch("add_bias", ends.planes, (Pointer("b"), Pointer(spectra))))
        steps.append(step)
    if layer.relu:
        steps.append(_launch("apply_relu", ends.count, (Pointer(layer.output.name),)))
    unit = Unit(UNIT, render("conv2d/fourier_ends.cu.jinja", g=ends, config=program.config.key()))
    return dataclasses.replace(program, units=(*program.units, unit), steps=tuple(steps))


def with_fold(program: Program, parts: FourierParts, last: str) -> Program:
    """A layer's program with the fold of padded images' gradient, if the padding repeats pixels.

    Args:
        program: program of the layer without the fold; what its inverse transforms write is folded, part by part.
        parts: parts of the layer.
        last: name of the unit with the inverse transform.
    """
    fold = parts.fold
    if fold is None:
        return program
    steps: list[Step] = []
    output = parts.layer.output
    launches = (
        fold.launch(Pointer(output.name, number * (output.nbytes // parts.count)), FOLD)
        for number in range(parts.count)
    )
    for step in program.steps:
        steps.append(step)
        if isinstance(step, Launch) and step.unit == last:
            steps.append(next(launches))
    text = Conv2dText.of(parts.layer)
    source = render("conv2d/fourier_fold.cu.jinja", f=fold, p=text, family=program.family)  # one text for all configs
    return dataclasses.replace(program, units=(*program.units, Unit(FOLD, source)), steps=tuple(steps))


def _launch(entry: str, count: int, arguments: tuple[Pointer, ...]) -> Launch:
    return Launch(entry, (-(-count // THREADS), 1, 1), (THREADS, 1, 1), arguments, unit=UNIT)
