"""Order of families for a problem that was not tuned, by their own models; nothing stored is asked.

It is the only opinion on this question. Look-ups, searches and training steps begin with it. Stored times of several
families may overrule it (`plans/family_choice.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from warpsmith.errors import BadArgument
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.gate import Gate, IllegalConfig
from warpsmith.generator.pipeline import Pipeline
from warpsmith.generator.problem import Problem
from warpsmith.generator.registry import able_families
from warpsmith.generator.space import Config

FamilyT = TypeVar("FamilyT", bound=Family)
PipelineT = TypeVar("PipelineT", bound=Pipeline)


def likely(families: Iterable[FamilyT], problem: Problem, device: Device) -> list[FamilyT]:
    """Families that win most problems like this one, the one with the least expected time first."""
    gate = Gate(problem, device)
    expected = [(time_ns, family) for family in families if (time_ns := gate.likely_ns(family)) is not None]
    return [family for _, family in sorted(expected, key=lambda each: each[0])]


def likely_first(families: Iterable[FamilyT], problem: Problem, device: Device) -> list[FamilyT]:
    """All of `families`: the `likely` ones, then the others in their order."""
    listed = list(families)
    first = likely(listed, problem, device)
    return [*first, *(each for each in listed if each not in first)]


def default_answer(problem: Problem, device: Device) -> tuple[Family, Config]:
    """First of the `defaults`. Raises BadArgument, with the reasons, if there is none."""
    reasons: list[str] = []
    first = next(defaults(Gate(problem, device), reasons), None)
    if first is None:
        raise BadArgument(f"no kernel family answers {problem.key()} without a search: {'; '.join(reasons)}")
    return first


def defaults(
    gate: Gate, reasons: list[str], families: tuple[Family, ...] | None = None
) -> Iterator[tuple[Family, Config]]:
    """Legal defaults that may answer if nothing is stored, the best first.

    Those of likely families come in the order of their expected times, then the others. A default that takes the
    compiler long comes last.

    Args:
        gate: gate for the problem and the device.
        reasons: receives a line for each default that is not legal.
        families: families that may answer; None for those of the operation with `Family.may_answer`.

    Raises BadArgument if only families without `may_answer` solve the problem.
    """
    slow = []
    for family in _in_order(gate) if families is None else families:
        try:
            config = gate.default(family)
        except IllegalConfig as refused:
            reasons.append(str(refused))
            continue
        if family.is_long(gate.problem, config):
            slow.append((family, config))
        else:
            yield family, config
    yield from slow


def _in_order(gate: Gate) -> list[Family]:
    solving = able_families(gate)
    able = likely_first((each for each in solving if each.may_answer), gate.problem, gate.device)
    if not able:
        solvers = f"{', '.join(each.name for each in solving)} alone, which is chosen by a search and never without"
        operation = gate.problem.operation
        raise BadArgument(f"{gate.problem.key()} is solved by {solvers}: run `warpsmith tune {operation}` first")
    return able


def likeliest_pipeline(pipelines: Sequence[PipelineT], problem: Problem, device: Device) -> PipelineT:
    """The pipeline with the fewest stages that another family would answer by itself; the first of several."""

    def strange_stages(family: PipelineT) -> int:
        stages = family.stages(problem)
        return sum(stage.family.name != default_answer(stage.problem, device)[0].name for stage in stages)

    return min(pipelines, key=strange_stages)
