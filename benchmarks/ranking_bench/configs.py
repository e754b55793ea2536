"""Whether a prior from other problems' trials names a better config than the family's default."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence

from warpsmith.errors import BadArgument
from warpsmith.generator.ranking import default_answer
from warpsmith.store.trials import Sample
from warpsmith.tuner.search.prior import Prior


@dataclasses.dataclass(frozen=True, slots=True)
class FirstConfigs:
    """What two first configs of one family lose, as logarithms of their times over the family's shortest."""

    operation: str
    default: float
    by_prior: float
    is_believed: bool
    """True if the prior passed its own check; else it leaves the default first."""


def first_configs(samples: Sequence[Sample]) -> Iterator[FirstConfigs]:
    """Yields a comparison for each problem whose default answer is among its samples.

    The prior learns from the samples of other problems of the operation that are not other sizes of this one, and
    orders the configs with a time. Samples have no fingerprints, so some times may belong to earlier texts: the
    comparison is between times of one recording.
    """
    by_subject: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        by_subject.setdefault((sample.problem.key(), sample.device.key()), []).append(sample)
    for own in by_subject.values():
        problem, device = own[0].problem, own[0].device
        try:
            family, default = default_answer(problem, device)
        except BadArgument:  # only a search may choose a family for it
            continue
        times = {each.config: each.time_ns for each in own if each.family == family.name and each.time_ns}
        prior = Prior.fit(_others(own[0], samples))
        if default not in times or prior is None:
            continue
        ordered = prior.order(problem, device, family.name, [default, *(each for each in times if each != default)])
        best_ns = min(times.values())
        lost = (math.log(times[config] / best_ns) for config in (default, ordered[0]))
        yield FirstConfigs(problem.operation, *lost, prior.check().is_passed)


def _others(sample: Sample, samples: Iterable[Sample]) -> Iterator[Sample]:
    problem = sample.problem
    for each in samples:
        other = each.problem
        if other.operation == problem.operation and other != problem and not problem.is_resized(other):
            yield each
