"""Ceilings as a store keeps them: one row for each device, which a later probe replaces."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.ceilings import Ceilings
from warpsmith.generator.device import Device
from warpsmith.store.rows import Row, Unreadable, from_json, plain, to_json


@dataclasses.dataclass(frozen=True, slots=True)
class StoredCeilings:
    """Ceilings of a device, and the circumstances in which they were measured."""

    ceilings: Ceilings
    created: str
    """UTC, ISO 8601."""
    driver: str
    compiler: str


def ceilings_row(device: Device, stored: StoredCeilings) -> Row:
    """Ceilings as a row of their table."""
    return {
        "device_key": device.key(),
        "created_at": plain(stored.created),
        "driver": plain(stored.driver),
        "compiler": plain(stored.compiler),
        "spec": to_json(stored.ceilings.spec()),
    }


def ceilings_of(row: Row) -> StoredCeilings:
    """Parses a row of the table of ceilings. Raises Unreadable."""
    facts = row["created_at"], row["driver"], row["compiler"]
    if not all(isinstance(fact, str) for fact in facts):
        raise Unreadable("its time, driver and compiler must be text")
    try:
        return StoredCeilings(Ceilings.from_spec(from_json(row["spec"])), *facts)
    except (ValueError, AttributeError) as error:
        raise Unreadable(f"its JSON is not ceilings ({error})") from None
