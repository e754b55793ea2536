"""The sum of the spectra that the parts of a batch add to a gradient of weights, part by part and in their order."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.conv2d.fourier.parts import FourierParts
from warpsmith.generator.conv2d.text import text_key
from warpsmith.generator.program import Launch, Pointer, Program, Step, Unit
from warpsmith.generator.render import render

THREADS = 256
UNIT = "sum"


@dataclasses.dataclass(frozen=True, slots=True)
class Sums:
    """What the template needs."""

    key: str
    family: str
    parts: int
    count: int
    """Complex numbers of a part."""
    pitch: int
    """From a part to the next."""
    threads: int = THREADS


def with_sums(program: Program, parts: FourierParts, spectra: str, last: str) -> Program:
    """A layer's program with the sum of its parts, where it has such: in the place of the first one.

    Args:
        program: of the layer without it.
        parts: what it is made of.
        spectra: the workspace of the result's spectra, a part behind the other.
        last: the unit that transforms them back.
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
