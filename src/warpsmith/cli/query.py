"""`warpsmith query`: shows the stored answer for a problem, how it was found, and the fastest stored candidate of each
family.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import typer

from warpsmith.cli.operations.registry import add_commands
from warpsmith.cli.options import DeviceOption, JsonOption, MethodOption, SetOption, StoreOption
from warpsmith.cli.output import match_document, print_facts, print_json, record_facts, table
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import NothingStored
from warpsmith.generator.pins import Pins
from warpsmith.generator.problem import AUTO, Problem
from warpsmith.generator.selection import Selection
from warpsmith.plans.lookup import find, regenerate
from warpsmith.plans.match import Match, MatchKind
from warpsmith.store.record import Measurement, Record
from warpsmith.store.store_chain import StoreChain, open_for_look_up
from warpsmith.store.store_reader import Winners
from warpsmith.units import format_time


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Show the stored answer for a problem; exit 3 where there is none.", no_args_is_help=True)
    add_commands(group, _query)
    app.add_typer(group, name="query")


def _query(
    problem: Problem,
    device: DeviceOption = "auto",
    store: StoreOption = None,
    method: MethodOption = AUTO,
    pinned: SetOption = [],  # noqa: B006 - typer reads the default, and nothing changes it
    json: JsonOption = False,
) -> int:
    # One opening for both queries, so that a damaged store causes one warning.
    selection = Selection(method, Pins.parse(pinned))
    with open_for_look_up(store) as stores:
        match = find(problem, DeviceRef.parse(device).device(), stores, selection)
        if match.record is None:
            of = selection.of_problem(problem.key())
            raise NothingStored(f"nothing is stored for {of}; run `warpsmith tune {problem.operation}` first")
        families = standings(match, match.record, stores)
    if json:
        document = {"problem": problem.spec(), "problem_key": problem.key(), **match_document(match)}
        print_json({**document, "families": [each.spec() for each in families]})
        return 0
    print_facts([("match", str(match.kind)), *(("", reason) for reason in match.reasons)])
    print_facts(record_facts(match.record))
    if len(families) > 1:
        print(f"\n{standings_table(families)}")
    return 0


IN_TURNS = "in turns"
"""Word of `Timing.policy` for a time that was taken sample by sample in turns with others."""


@dataclasses.dataclass(frozen=True, slots=True)
class Standing:
    """The fastest candidate of a family, compared with the winner."""

    record: Record
    winner: Record
    is_winner_current: bool
    """True if this version generates the text that the winner's time belongs to. The texts of the others are not
    generated: with 20 families that takes a second."""

    @property
    def ratio(self) -> float:
        """Its time over the winner's."""
        return self.record.timing.median_ns / self.winner.timing.median_ns

    @property
    def timed(self) -> str:
        """How its time was taken, as text."""
        if self.record is self.winner:
            return "the winner" if self.is_winner_current else "the winner; of an earlier kernel text"
        if IN_TURNS not in self.record.timing.policy.split(", "):
            return "alone, in a search"
        if self.record.provenance.created == self.winner.provenance.created:
            return "in turns with the winner"
        return "in turns, in another run"

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


def standings(match: Match, record: Record, stores: StoreChain[Winners]) -> tuple[Standing, ...]:
    """The fastest candidate of each family for the problem, device and conditions of the stored `record` of a `match`.

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
    is_current = _is_current(winner, match)
    return tuple(Standing(each, winner, is_current) for each in others)


def _is_current(winner: Record, match: Match) -> bool:
    """True if this version generates the winner's text. An exact match has generated its own already."""
    if match.kind is MatchKind.EXACT and match.record == winner:
        return True
    return regenerate(winner) is not None


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
