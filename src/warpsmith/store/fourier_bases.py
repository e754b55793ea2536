"""Rows of Fourier families from before schema 8 become rows of families whose basis is a parameter of the config.

Before, some families differed from others in nothing but their basis: `conv2d_fft_2` took the second of the likely
sizes, where `conv2d_fft` took the first. A config of that time does not name its basis, but the radices of its first
transform do: their product is the number of points. The generated text is the same, and so is its fingerprint.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from warpsmith.generator.fingerprint import VERBATIM_DIGITS
from warpsmith.store.layout import BASES_SINCE, RUNNER_UP_IDENTITY
from warpsmith.store.record import FamilyTime
from warpsmith.store.rows import Contents, Row, Unreadable, from_json, to_json

FAMILIES: Mapping[str, str] = {
    **{
        f"conv2d_fft{product}": f"conv2d_fft{product}"
        for product in ("", "_tensor", "_warpgroup", "_halves", "_thin", "_cublas", "_fused")
    },
    **{
        f"conv2d_fft_tiled{product}": f"conv2d_fft_tiled{product}"
        for product in ("", "_tensor", "_warpgroup", "_halves", "_thin", "_fused")
    },
    "conv2d_fft_2": "conv2d_fft",
    "conv2d_fft_3": "conv2d_fft",
    "conv2d_fft_tiled_2": "conv2d_fft_tiled",
    "conv2d_fft_tiled_3": "conv2d_fft_tiled",
    "conv2d_fft_tiled_fused_2": "conv2d_fft_tiled_fused",
}
"""Today's family by each name of before."""
_BASIS = "basis"
_COLUMNS_PER_POINT = {"half": 2, "pair": 1}
"""Columns of a plane for each complex number of a row, by the value of `first.packing`."""


def with_basis(row: Row) -> Row:
    """A trial, a winner or a runner-up as a row of schema 8; the row itself if it is one, or if it cannot be read."""
    family = FAMILIES.get(row["family"])
    if family is None:
        return row
    try:
        config, spec = from_json(row["config"]), from_json(row["spec"])
        if _BASIS in config:
            return row
        changed = {"family": family, "config": {_BASIS: _basis_of(config), **config}}
        spec.get("trial", spec).update(changed)
    except (Unreadable, AttributeError, LookupError, TypeError, ValueError):
        return row
    return {**row, "family": family, "config": to_json(changed["config"]), "spec": to_json(spec)}


def _basis_of(config: Mapping[str, Any]) -> str:
    rows = _product(config["first.y_radices"]) * config["first.shares"]
    columns = _product(config["first.x_radices"]) * _COLUMNS_PER_POINT[config["first.packing"]]
    return f"{rows}x{columns}"


def _product(radices: str) -> int:
    return math.prod(map(int, radices.split("x")))


def fastest_of_families(listed: Iterable[Row]) -> tuple[Row, ...]:
    """The fastest of the runners-up of each family; damaged times count as the slowest."""
    fastest: dict[tuple[str, ...], Row] = {}
    for row in listed:
        identity = tuple(row.get(name, "") for name in RUNNER_UP_IDENTITY)  # older rows have no pins
        if identity not in fastest or _time_ns(row) < _time_ns(fastest[identity]):
            fastest[identity] = row
    return tuple(fastest.values())


def _time_ns(row: Row) -> float:
    return row["median_ns"] if isinstance(row["median_ns"], int | float) else math.inf


def names_before(family: str) -> tuple[str, ...]:
    """Names of a family in stores of any schema, today's first."""
    return (family, *(name for name, today in FAMILIES.items() if today == family != name))


def of_today(listed: Iterable[Row], schema: int) -> tuple[Row, ...]:
    """Trials or winners that were read from a store of that schema. Those with fingerprints of schema 5 stay, since
    these are renewed by the names of that time.
    """
    if schema >= BASES_SINCE:
        return tuple(listed)
    return tuple(with_basis(row) if _is_rekeyed(row) else row for row in listed)


def runners_up_of_today(listed: Iterable[Row], schema: int) -> tuple[Row, ...]:
    """Runners-up that were read from a store of that schema, like `of_today`."""
    return fastest_of_families(of_today(listed, schema)) if schema < BASES_SINCE else tuple(listed)


def times_of_today(times: Iterable[FamilyTime], schema: int) -> tuple[FamilyTime, ...]:
    """Times of runners-up that were read from a store of that schema, one of each family."""
    if schema >= BASES_SINCE:
        return tuple(times)
    fastest: dict[tuple[str, ...], FamilyTime] = {}
    for each in times:
        today = each._replace(family=FAMILIES.get(each.family, each.family))
        identity = (today.problem_key, today.device_key, today.conditions, today.family)
        fastest[identity] = min(today, fastest.get(identity, today), key=lambda time: time.median_ns)
    return tuple(fastest.values())


def _is_rekeyed(row: Row) -> bool:
    return not isinstance(row["fingerprint"], str) or len(row["fingerprint"]) != VERBATIM_DIGITS


def rebased(contents: Contents) -> Contents:
    """Another store's rows, or lines of another time, as rows of schema 8."""
    return Contents(
        problems=contents.problems,
        devices=contents.devices,
        trials=tuple(map(with_basis, contents.trials)),
        winners=tuple(map(with_basis, contents.winners)),
        runners_up=fastest_of_families(map(with_basis, contents.runners_up)),
        ceilings=contents.ceilings,
    )
