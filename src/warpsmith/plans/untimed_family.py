"""Answer by a family that was not timed beside the stored winner, such as one that is newer than the store.

A stored winner was the fastest of the families that its search knew. About any other family it says nothing, and the
models decide as they do where nothing is stored.
"""

from __future__ import annotations

from warpsmith.generator.gate import Gate
from warpsmith.generator.ranking import defaults
from warpsmith.generator.registry import able_families
from warpsmith.plans.guesses import Guess
from warpsmith.plans.match import MatchKind
from warpsmith.store.store_chain import StoreChain
from warpsmith.store.store_reader import Winners
from warpsmith.units import format_time

EXPECTED_SHARE = 0.8
"""Share of the expected time of the stored winner's family, below which another family answers: most expected times of
defaults are within a fifth of the measured ones.
"""


def untimed_guess(gate: Gate, stores: StoreChain[Winners], ordinary: Guess) -> Guess | None:
    """The default of a family without a stored time beside the ordinary answer's record, if expected to be faster.

    None if the answer comes from no record, or from one without runners-up; and if its family has no expected time, or
    none of the others is expected to take less than EXPECTED_SHARE of that.

    Args:
        gate: gate of the requested problem and its device.
        stores: stores that were searched.
        ordinary: the answer without this rule.
    """
    if ordinary.record is None or (ordinary_ns := gate.likely_ns(ordinary.family)) is None:
        return None
    subject = ordinary.record.problem.key(), ordinary.record.device.key()
    timed = {each.trial.family for each in stores.runners_up(*subject)}
    if not timed:  # the search had one family alone, or nobody kept what it knew
        return None
    timed.add(ordinary.family.name)
    untimed = [each for each in able_families(gate) if each.name not in timed and each.may_answer]
    expected = {each: time_ns for each in untimed if (time_ns := gate.likely_ns(each)) is not None}
    fast = sorted(
        (each for each in expected if expected[each] < EXPECTED_SHARE * ordinary_ns), key=expected.__getitem__
    )
    if (found := next(defaults(gate, [], tuple(fast)), None)) is None:
        return None
    family, config = found
    reason = (
        f"family: {family.name} was not timed beside {ordinary.family.name} of {subject[0]}, and is expected to take "
        f"{format_time(expected[family])} of {format_time(ordinary_ns)}"
    )
    return Guess(MatchKind.DEFAULT, family, config, None, (*ordinary.reasons, reason))
