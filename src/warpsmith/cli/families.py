"""Compares the families of a problem by the fastest stored candidate of each."""

from __future__ import annotations

import dataclasses
from typing import Any

from warpsmith.cli.output import table
from warpsmith.plans.lookup import regenerate
from warpsmith.store.location import StoreChain
from warpsmith.store.record import Measurement, Record
from warpsmith.store.store_reader import Winners
from warpsmith.units import format_time

IN_TURNS = "in turns"
"""Word of `Timing.policy` for a time that was taken sample by sample in turns with others."""


@dataclasses.dataclass(frozen=True, slots=True)
class Standing:
    """The fastest candidate of a family, compared with the winner."""

    record: Record
    winner: Record

    @property
    def ratio(self) -> float:
        """Its time over the winner's."""
        return self.record.timing.median_ns / self.winner.timing.median_ns

    @property
    def timed(self) -> str:
        """How its time was taken, as text."""
        if self.record is self.winner:
            told = "the winner"
        elif IN_TURNS not in self.record.timing.policy.split(", "):
            told = "alone, in a search"
        elif self.record.provenance.created == self.winner.provenance.created:
            told = "in turns with the winner"
        else:
            told = "in turns, in another run"
        return told if regenerate(self.record) is not None else f"{told}; of an earlier kernel text"

    def spec(self) -> dict[str, Any]:
        """JSON values, with times in ns."""
        trial = self.record.trial
        return {
            "family": trial.family,
            "time_ns": trial.median_ns,
            "ratio": self.ratio,
            "config": trial.config.values(),
            "fingerprint": trial.fingerprint,
            "max_error": trial.outcome.max_error if isinstance(trial.outcome, Measurement) else None,
            "conditions": self.record.conditions,
            "timed": self.timed,
        }


def standings(record: Record, stores: StoreChain[Winners]) -> tuple[Standing, ...]:
    """The fastest candidate of each family for the problem, device and conditions of a stored `record`.

    The winner comes first, then the fastest first. For each family the first store's candidate is used.
    """
    subject = record.problem.key(), record.device.key()
    alike = [
        each
        for each in (*stores.winners(*subject), *stores.runners_up(*subject))
        if each.conditions == record.conditions
    ]
    if not alike:  # it was removed meanwhile
        alike = [record]
    winner, found = alike[0], {each.trial.family: each for each in reversed(alike)}
    others = sorted(found.values(), key=lambda each: (each is not winner, each.timing.median_ns))
    return tuple(Standing(each, winner) for each in others)


def standings_table(found: tuple[Standing, ...]) -> str:
    """Markdown table with one line per family."""
    header = ("family", "time", "of the winner's", "config", "timed")
    return table(
        header,
        (
            (
                each.record.trial.family,
                format_time(each.record.timing.median_ns),
                f"{each.ratio:.2f}",
                str(each.record.trial.config),
                each.timed,
            )
            for each in found
        ),
    )
