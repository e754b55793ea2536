"""`warpsmith db check`: finds damage in stores, stored times that no longer hold on this device, and winners that were
compared with a library under other conditions.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
from typing import Annotated, Any

import typer

from warpsmith.cli.options import JsonOption, SeedOption, StoreOption
from warpsmith.cli.output import print_error, print_facts, print_json
from warpsmith.cli.verdicts import format_timing, summary
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument, NothingStored, StoreError
from warpsmith.store.contents import check_store
from warpsmith.store.location import named_location, own_store, write_location
from warpsmith.store.record import Record, Verdict, checked_of, marked
from warpsmith.store.store import Store
from warpsmith.store.store_chain import StoreChain, open_with_trials
from warpsmith.tuner.finals.recheck import Rechecked, must_be_measured, recheck
from warpsmith.units import format_time

SAMPLE = 10
"""Winners that --times checks without --sample. With the other libraries beside each, this takes minutes."""


def register(group: typer.Typer) -> None:
    group.command("check")(_check)


def _check(
    times: Annotated[
        bool, typer.Option("--times", help="Verify and time stored winners again, such as after a driver update.")
    ] = False,
    verdicts: VerdictsOption = False,
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample",
            metavar="N",
            min=1,
            help=f"Number of winners to check, those checked longest ago first; default {SAMPLE}.",
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", help="auto, cuda:I or host, for --times; default auto.", show_default=False),
    ] = None,
    seed: SeedOption = 1,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Check every store that is searched for damage; exit 1 for some, for a time that changed, an unfair comparison."""
    if not times and (sample is not None or device is not None):
        raise BadArgument("--sample and --device choose what --times checks; add --times")
    with open_with_trials(store) as stores:
        found = {each.location: list(check_store(each)) for each in stores.stores}
        if not json:
            for location, problems in found.items():
                print_facts([(("damaged" if problems else "good"), location), *(("", problem) for problem in problems)])
        unfair = unfair_winners(stores, quiet=json) if verdicts else []
        looks = _Times(stores, store, DeviceRef.parse(device or "auto"), seed, json) if times else None
        seen = [] if looks is None else looks.of(sample or SAMPLE)
    if json:
        compared = {"unfair": unfair} if verdicts else {}
        print_json({"stores": found, **compared, **({} if looks is None else {"times": looks.document(seen)})})
    bad = [each for each in seen if not each.rechecked.checked.verdict.is_good]
    damaged = [location for location, problems in found.items() if problems]
    if damaged:
        print_error(f"{', '.join(damaged)}: damaged; the findings are on standard output")
    if bad:
        print_error(f"{len(bad)} of {len(seen)} winners have another time or a wrong result; tune them again")
    if unfair:
        print_error(f"{len(unfair)} winners were compared with a library under other conditions; measure them again")
    return 1 if bad or damaged or unfair else 0


@dataclasses.dataclass(frozen=True, slots=True)
class _Seen:
    location: str
    rechecked: Rechecked
    is_noted: bool
    """True if the store now contains this result."""


class _Times:
    """Checks winners again and prints each result at once."""

    def __init__(self, stores: StoreChain[Store], named: str | None, ref: DeviceRef, seed: int, quiet: bool) -> None:
        self._named, self._ref, self._seed, self._quiet = named, ref, seed, quiet
        self._device = ref.device()
        served: dict[tuple[str, str], tuple[Store, Record]] = {}
        for each in stores.stores:
            for record in each.records():
                if record.device.key() == self._device.key():
                    # The first store wins, as in a look-up.
                    served.setdefault((record.problem.key(), record.conditions), (each, record))
        self._winners = list(served.values())

    def of(self, count: int) -> list[_Seen]:
        """Checks `count` winners, or all if there are fewer. Raises NothingStored if there is none."""
        if not self._winners:
            raise NothingStored(f"no winner is stored for {self._device.key()}; run `warpsmith tune` first")
        shuffled = random.Random(self._seed).sample(self._winners, len(self._winners))
        seen = [self._check_winner(*each) for each in sorted(shuffled, key=_last_checked)[:count]]
        if not self._quiet:
            verdicts = [each.rechecked.checked.verdict for each in seen]
            text = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in Verdict if verdict in verdicts)
            print_facts([("checked", f"{len(seen)} of {len(self._winners)} winners of {self._device.name}: {text}")])
        return seen

    def _check_winner(self, store: Store, record: Record) -> _Seen:
        rechecked = recheck(record, self._ref, self._seed)
        seen = _Seen(store.location, rechecked, self._note(store, rechecked))
        if not self._quiet:
            print_facts([(str(rechecked.checked.verdict), f"{record.problem.key()}: {_format(seen)}")])
        return seen

    def _note(self, store: Store, rechecked: Rechecked) -> bool:
        """Stores the result in the record, if the record lies in the store that `tune` would write to. Returns True if
        it did.
        """
        is_ours = named_location(self._named) is not None or store.location == str(own_store() or "")
        if not is_ours or rechecked.checked.verdict is Verdict.UNCHECKED:
            return False  # no store is created only for a check of a shipped winner
        with contextlib.suppress(StoreError), Store.open(write_location(self._named), write=True) as own:
            return own.renew(marked(rechecked.record, rechecked.checked))
        return False  # a read-only file, for example; the result is printed anyway

    def document(self, seen: list[_Seen]) -> dict[str, Any]:
        documents = [_document(each) for each in seen]
        return {"device_key": self._device.key(), "winners": len(self._winners), "looked_at": documents}


def _last_checked(winner: tuple[Store, Record]) -> str:
    checked = checked_of(winner[1])
    return "" if checked is None else checked.at


def _format(seen: _Seen) -> str:
    rechecked, was = seen.rechecked, seen.rechecked.record.trial.median_ns or 0.0
    if rechecked.timing is None:
        text = rechecked.reason or ""
    else:
        moved = rechecked.timing.median_ns / was - 1
        text = f"{format_timing(rechecked.timing)}, was {format_time(was)} ({moved:+.1%})"
        if rechecked.copies is not None:
            then, now = rechecked.copies
            text += f"; a plain copy {format_time(now)}, was {format_time(then)} ({now / then - 1:+.1%})"
    return (
        text if seen.is_noted or rechecked.checked.verdict is Verdict.UNCHECKED else f"{text}; not noted in the store"
    )


def _document(seen: _Seen) -> dict[str, Any]:
    rechecked, record = seen.rechecked, seen.rechecked.record
    then, now = rechecked.copies or (None, None)
    return {
        "store": seen.location,
        "problem_key": record.problem.key(),
        "verdict": str(rechecked.checked.verdict),
        "time_ns": rechecked.checked.median_ns,
        "was_ns": record.trial.median_ns,
        "copy_ns": now,
        "copy_was_ns": then,
        "reason": rechecked.reason,
        "noted": seen.is_noted,
    }


VerdictsOption = Annotated[
    bool,
    typer.Option(
        "--verdicts",
        help="List winners that were compared with a library under other conditions: to be measured again.",
    ),
]


def unfair_winners(stores: StoreChain[Store], *, quiet: bool) -> list[dict[str, Any]]:
    """Winners whose comparison with a library must be repeated, as JSON values. It prints a line for each."""
    found = [(each.location, record) for each in stores.stores for record in each.records() if must_be_measured(record)]
    if not quiet:
        print_facts([("unfair", f"{record.problem.key()}: {summary(record.verdicts)}") for _, record in found])
    return [
        {
            "store": location,
            "problem_key": record.problem.key(),
            "device_key": record.device.key(),
            "conditions": record.conditions,
            "verdict": summary(record.verdicts),
        }
        for location, record in found
    ]
