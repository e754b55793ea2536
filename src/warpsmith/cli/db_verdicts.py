"""`warpsmith db check --verdicts`: finds winners that were compared with a library under other conditions."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from warpsmith.cli.output import print_facts
from warpsmith.cli.verdicts import summary
from warpsmith.store.store import Store
from warpsmith.store.store_chain import StoreChain
from warpsmith.tuner.finals.recheck import must_be_measured

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
