"""Options that select stored problems and devices, and the selection itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from warpsmith.cli.operations.registry import OPERATIONS
from warpsmith.errors import BadArgument, NothingStored
from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.store.contents import Scope, count_rows, subjects_of
from warpsmith.store.store import Store

WordsArgument = Annotated[list[str] | None, typer.Argument(metavar="[WORDS]...", help="Words of the problem's key.")]
OperationOption = Annotated[
    str | None,
    typer.Option("--operation", help=f"One of {', '.join(OPERATIONS)}; default all.", show_default=False),
]
DeviceKeyOption = Annotated[
    str | None,
    typer.Option(
        "--device-key", metavar="KEY", help="Key of a device as `db ls` prints it; default all.", show_default=False
    ),
]


def scope_of(operation: str | None, device_key: str | None) -> Scope:
    """The requested part of a store. Raises BadArgument for an unknown operation."""
    if operation is not None and operation not in OPERATIONS:
        raise BadArgument(f"unknown operation {operation!r}; choose one of {', '.join(OPERATIONS)}")
    return Scope(operation, device_key)


def check_scope(scope: Scope, stores: Iterable[Store]) -> None:
    """Raises NothingStored if the stores hold nothing of a requested scope."""
    asked = tuple(stores)
    if scope == Scope():
        return
    for store in asked:
        found = count_rows(store, scope)
        if found.winners or found.trials or found.poisoned or found.runs:
            return
    keys = sorted({device.key() for store in asked for _, device in subjects_of(store)})
    told = f"the devices that are stored are {', '.join(keys)}" if keys else "nothing is stored yet"
    of = f" of {scope.operation}" if scope.operation is not None else ""
    on = f" for the device {scope.device_key}" if scope.device_key is not None else ""
    raise NothingStored(f"nothing{of} is stored{on}; {told}")


def subjects_with(
    store: Store, words: Iterable[str] | None, device_key: str | None
) -> tuple[tuple[Problem, Device], ...]:
    """Problems whose key has all the words, on the device. Words may come one by one, or as a whole key in quotes."""
    wanted = {word for given in words or () for word in given.split()}
    return tuple(
        (problem, device)
        for problem, device in subjects_of(store, Scope(device_key=device_key))
        if wanted <= set(problem.key().split())
    )
