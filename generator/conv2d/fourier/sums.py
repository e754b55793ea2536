"""The sum of the spectra that the parts of a batch contribute to a gradient of weights, in the order of the parts."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.conv2d.fourier.parts import FourierParts
from warpsmith.generator.conv2d.layer.text import text_key
from warpsmith.generator.program import Launch, Pointer, Program, Step, Unit
from warpsmith.generator.render import render

THREADS = 256
UNIT = "sum"


@dataclasses.dataclass(frozen=True, slots=True)
class Sums:
    """Variables of the template."""

    key: str
    family: str
    parts: int
    count: int
    """Complex numbers per part."""
    pitch: int
    """Complex numbers from one part to the next."""
    threads: int = THREADS


def with_sums(program: Program, parts: FourierParts, spectra: str, last: str) -> Program:
    """A layer's program with a step that adds up its parts before the inverse transform, if there are several parts.

    Args:
        program: program of the layer without the sum.
        parts: parts of the layer.
        spectra: workspace of the result's spectra, one part behind the other.
        last: name of the unit with the inverse transform.
    """
    if parts.results == 1:
        return program
    count = parts.product.output.size
    sums = Sums(text_key(parts.layer), program.family, parts.results, count, parts.result_pitch_bytes // 8)
    unit = Unit(UNIT, render("conv2d/fourier_sums.cu.jinja", g=sums, config=program.config.key()))
    launch = Launch("add_parts", (-(-count // THREADS), 1, 1), (THREADS, 1, 1), (Pointer(spectra),), unit=UNIT)
    steps: list[Step] = []
    for step in program.steps:
        if isinstance(step, Launch) and step.unit == last:
            steps.append(launch)
        steps.append(step)
    return dataclasses.replace(program, units=(*program.units, unit), steps=tuple(steps))
