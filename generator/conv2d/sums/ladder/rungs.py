"""The rungs of "Optimizing a CNN in CUDA" as configs: each changes one thing in the rung that it is built on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from warpsmith.generator.conv2d.sums.ladder import ladder_image, ladder_weight
from warpsmith.generator.conv2d.sums.ladder.ladder_choices import (
    Batch,
    Bounds,
    Kept,
    LastStep,
    Mask,
    Reduction,
    Sums,
)
from warpsmith.generator.conv2d.sums.ladder.ladder_image import BASELINE
from warpsmith.generator.space import Config, Value


@dataclasses.dataclass(frozen=True, slots=True)
class Rung:
    """One step of a ladder."""

    name: str
    config: Config
    before: str | None
    """Name of the rung whose config this one changes; None for the first."""


Change = tuple[str, Mapping[str, Value]]
"""Name of a rung, and the values that it changes."""


def forward_rungs(rows: int) -> tuple[Rung, ...]:
    """Rungs of the forward convolution, whose threads compute `rows` rows of results from the third rung on.

    Unasked, ptxas 13.0 keeps these kernels at 32 registers, and spills the window of eight rows: the last two rungs
    tell it how many blocks of 256 threads an SM is to hold.
    """
    inner: Mapping[str, Value] = {"kept": Kept.WEIGHTS.value, "batch": Batch.INNER.value}
    start = {**BASELINE, **ladder_image.SIMPLEST}
    return _rungs(
        start,
        ("padded input", {"bounds": Bounds.PADDED.value}),
        ("more outputs per thread", {"rows": rows}),
        ("weights and window in registers", {"kept": Kept.WINDOW.value, "min_blocks": 4}),
        ("loop over the batch inside", {**inner, "min_blocks": 2}),
    )


def error_rungs(rows: int) -> tuple[Rung, ...]:
    """Rungs of the error, whose threads compute `rows` rows of results in the last one."""
    start = {**BASELINE, **ladder_image.SIMPLEST, "mask": Mask.FUSED.value}
    return _rungs(
        start,
        ("padded error and output", {"bounds": Bounds.PADDED.value}),
        ("mask in a kernel before", {"mask": Mask.APART.value}),
        ("more outputs per thread", {"rows": rows}),
    )


def gradient_rungs(rows: int) -> tuple[Rung, ...]:
    """Rungs of the gradient of the weights, whose threads take `rows` rows of gradients in the last one."""
    shuffles: Mapping[str, Value] = {"reduction": Reduction.SHUFFLE.value, "last_step": LastStep.DOUBLE.value}
    work: Mapping[str, Value] = {"bounds": Bounds.PADDED.value, "rows": rows, "reduction": Reduction.TWO_LEVELS.value}
    rungs = _rungs(
        {**BASELINE, **ladder_weight.SIMPLEST},
        ("shuffles at the end of the reduction", shuffles),
        ("sums in registers", {"sums": Sums.REGISTERS.value}),
        ("padded input, more rows, shuffles at two levels", work),
    )
    return tuple(_with_variants_in_float(rungs))


def _with_variants_in_float(rungs: Iterable[Rung]) -> Iterator[Rung]:
    """The rungs, each that ends in double precision followed by one that does not."""
    for rung in rungs:
        yield rung
        if rung.config.text("last_step") == LastStep.DOUBLE:
            config = Config.of({**rung.config.values(), "last_step": LastStep.FLOAT.value})
            yield Rung(f"{rung.name}, in float", config, rung.name)


def _rungs(start: Mapping[str, Value], *changes: Change) -> tuple[Rung, ...]:
    values, found = dict(start), [Rung("baseline", Config.of(start), None)]
    for name, change in changes:
        values |= change
        found.append(Rung(name, Config.of(values), found[-1].name))
    return tuple(found)
