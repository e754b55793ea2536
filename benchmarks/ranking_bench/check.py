"""Leaves problems out, lets each order of families answer them, and compares what the answers lose."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ranking_bench.cases import Case
from ranking_bench.corrections import Chooser, Correction, as_modelled, kind_of, rows_of
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.problem import Problem

Numbers = npt.NDArray[np.float64]

RESAMPLES = 4000
"""Draws of the bootstrap; more move the ends of its interval by less than a tenth of a percent."""
LEAST_LAYERS = 8
"""Least number of layers for a learned order to be better: fewer resampled layers are no check."""


class LeftOut(enum.StrEnum):
    """What an order may not learn from when it answers a problem."""

    LAYERS = "layers"
    """The same layer in any pass, batch and type."""
    DEVICES = "devices"
    """The problem's own device; the same layer on other devices stays."""
    BOTH = "layers and devices"


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """A problem with the family that is stored as the fastest likely one, beside the choices of all orders."""

    case: Case
    layer: int
    modelled: float
    """Logarithm of the time of the models' first family over the fastest one's."""
    learned: Mapping[str, float]
    """The same for each learned order."""


@dataclasses.dataclass(frozen=True, slots=True)
class Loss:
    """Loss of an order over several problems."""

    right: float
    """Share of the problems whose fastest family it names."""
    mean: float
    """Geometric mean of the chosen family's time over the fastest one's, less 1."""
    nearly_most: float
    """95% quantile of the same."""

    @classmethod
    def of(cls, logs: Sequence[float]) -> Loss:
        return cls(
            sum(log == 0.0 for log in logs) / len(logs),
            math.expm1(sum(logs) / len(logs)),
            math.expm1(float(np.quantile(logs, 0.95))),
        )

    def __str__(self) -> str:
        return f"{self.right:.0%}, {self.mean:.1%}, {self.nearly_most:.0%}"


@dataclasses.dataclass(frozen=True, slots=True)
class Compared:
    """A learned order beside the models' order, over several problems."""

    learned: Loss
    least: float
    """Lower end of a 95% interval of the mean of log(learned / modelled), which is negative if the learned order is
    better.
    """
    most: float
    layers: int

    @property
    def is_better(self) -> bool:
        """True if the learned order loses less by more than noise, on enough layers."""
        return self.layers >= LEAST_LAYERS and self.most < 0.0


def layers_of(problems: Iterable[Problem]) -> dict[Problem, int]:
    """Number of each problem's layer: problems of one number are left out together.

    Layers of convolutions differ in image, channels, filters, steps, padding or groups, and not in pass, batch or type.
    Problems of other operations are of one layer if they are sizes of one problem.
    """
    numbers: dict[Problem, int] = {}
    shapes: dict[tuple[object, ...], int] = {}
    heads: list[tuple[Problem, int]] = []
    for problem in problems:
        if isinstance(problem, Conv2d):
            shape = (
                *(problem.input[1:], problem.weight, problem.stride, problem.padding),
                *(problem.padding_mode, problem.dilation, problem.groups),
            )
            numbers[problem] = shapes.setdefault(shape, len(shapes) + len(heads))
            continue
        known = next((number for head, number in heads if problem == head or head.is_resized(problem)), None)
        if known is None:
            known = len(shapes) + len(heads)
            heads.append((problem, known))
        numbers[problem] = known
    return numbers


def ways_of(cases: Sequence[Case]) -> tuple[LeftOut, ...]:
    """Ways of leaving out that leave something to learn from: of a single device, none that leaves devices out."""
    devices = {case.device.key() for case in cases}
    return tuple(LeftOut) if len(devices) > 1 else (LeftOut.LAYERS,)


def outcomes(cases: Sequence[Case], left_out: LeftOut, orders: Mapping[str, Chooser]) -> list[Outcome]:
    """Outcome of each problem with times of two families or more; `orders` learn from the cases not left out."""
    layers = layers_of(case.problem for case in cases)
    marked = [(case, layers[case.problem], case.device.key()) for case in cases]
    found = []
    for case, layer, device in (each for each in marked if len(each[0].timed) > 1):
        learned = [
            other
            for other, its_layer, its_device in marked
            if (left_out is LeftOut.DEVICES or its_layer != layer)
            and (left_out is LeftOut.LAYERS or its_device != device)
        ]
        chosen = {name: _lost(case, order(learned, case)) for name, order in orders.items()}
        found.append(Outcome(case, layer, _lost(case, as_modelled((), case)), chosen))
    return found


def _lost(case: Case, family: str) -> float:
    return math.log(case.time_ns(family) / case.best_ns)


def compared(found: Sequence[Outcome], order: str) -> Compared:
    """A learned order beside the models', with whole layers resampled; the draws are the same for each order."""
    by_layer: dict[int, list[float]] = {}
    for each in found:
        by_layer.setdefault(each.layer, []).append(each.learned[order] - each.modelled)
    sums = np.array([sum(differences) for differences in by_layer.values()])
    counts = np.array([len(differences) for differences in by_layer.values()])
    drawn = np.random.default_rng(0).integers(0, len(sums), (RESAMPLES, len(sums)))
    means: Numbers = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    least, most = (float(end) for end in np.percentile(means, (2.5, 97.5)))
    return Compared(Loss.of([each.learned[order] for each in found]), least, most, len(by_layer))


def by_kind(found: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    """Outcomes by `kind_of`, after those of all problems."""
    listed = list(found)
    kinds: dict[str, list[Outcome]] = {}
    for each in listed:
        kinds.setdefault(kind_of(each.case.problem), []).append(each)
    return {"all": listed, **dict(sorted(kinds.items()))}


def better(checked: Mapping[LeftOut, Sequence[Outcome]], orders: Iterable[str]) -> list[tuple[str, str]]:
    """Kinds and learned orders that are better by every way of leaving out."""
    kinds = {how: by_kind(found) for how, found in checked.items()}
    named = set.intersection(*(set(own) for own in kinds.values())) if kinds else set()
    return [
        (kind, order)
        for kind in sorted(named)
        for order in orders
        if all(own[kind] and compared(own[kind], order).is_better for own in kinds.values())
    ]


def errors_of(cases: Sequence[Case], family: str, correction: Correction | None = None) -> list[float]:
    """Log of each stored time of a family over its expected time, less the correction that other layers of the same
    kind teach.
    """
    rows = rows_of(family, cases)
    if correction is None:
        return [log for _, log in rows]
    layers = layers_of(case.problem for case in cases)
    found = []
    for case, log in rows:
        others = [
            (other, value)
            for other, value in rows
            if layers[other.problem] != layers[case.problem] and kind_of(other.problem) == kind_of(case.problem)
        ]
        found.append(log - correction(others, case))
    return found
