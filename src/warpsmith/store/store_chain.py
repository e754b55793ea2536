"""The stores of a look-up, opened in the order in which they are read; the first answer wins."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from warpsmith.errors import StoreError
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.problem import Problem
from warpsmith.store import sqlite
from warpsmith.store.ceilings import StoredCeilings
from warpsmith.store.changes import BUSY_STORES, REST_S, busy_key
from warpsmith.store.location import ENVIRONMENT_VARIABLE, Place, file_of, places, unnamed_places
from warpsmith.store.record import Failure, FamilyTime, Record
from warpsmith.store.sqlite import StoreBusy
from warpsmith.store.store_reader import Winners, open_winners

if TYPE_CHECKING:
    from warpsmith.store.store import Store

Answer = TypeVar("Answer")
Opened = TypeVar("Opened", bound=Winners)
Opened_co = TypeVar("Opened_co", bound=Winners, covariant=True)


class StorePassedOver(UserWarning):
    """Warning that a store which the user did not name cannot be read. The look-up goes on with the next one."""


class StoreChain(Generic[Opened_co]):
    """Stores that are open for reading, in order; the first answer wins. Close it, or use it in a `with`.

    Args:
        stores: the stores.
        optional: those of the stores that are skipped, with a warning, if they turn out to be damaged.
        unopened: number of stores that were skipped already.
        patient: whether a store that another process has locked raises an error; else it is skipped, even if the user
            named it.
    """

    def __init__(
        self,
        stores: tuple[Opened_co, ...],
        optional: tuple[Opened_co, ...] = (),
        unopened: int = 0,
        *,
        patient: bool = True,
    ) -> None:
        self.stores = stores
        self._optional = optional
        self._unopened = unopened
        self._patient = patient
        self._passed_over: list[Winners] = []

    @property
    def is_whole(self) -> bool:
        """True if every existing store was read. A store that was skipped may be readable the next time."""
        return not self._passed_over and not self._unopened

    def winners(self, problem_key: str, device_key: str | None = None) -> Iterator[Record]:
        """Winners of `Problem.key()` on `Device.key()`, or on all devices, store by store, each in the order of
        `Store.winners`.

        A store is read only when its turn comes.
        """
        return self._all(lambda store: store.winners(problem_key, device_key))

    def records(self, operation: str | None = None) -> tuple[Record, ...]:
        """All winners, store by store. For one problem, device and conditions only the first store's winner is
        returned.
        """
        found: dict[tuple[str, str, str], Record] = {}
        for record in self._all(lambda store: store.records(operation)):
            found.setdefault((record.problem.key(), record.device.key(), record.conditions), record)
        return tuple(found.values())

    def answers(self, operation: str | None = None) -> tuple[Record, ...]:
        """One of `records` for each problem and device: the one under the preferred conditions, of the first store."""
        found: dict[tuple[str, str], Record] = {}
        for record in self.records(operation):
            found.setdefault((record.problem.key(), record.device.key()), record)
        return tuple(found.values())

    def answers_for(self, problem: Problem) -> tuple[Record, ...]:
        """Records of `answers` that are winners of one problem; no other records are read."""
        found: dict[str, Record] = {}
        for record in self.winners(problem.key()):
            found.setdefault(record.device.key(), record)
        return tuple(found.values())

    def runners_up(self, problem_key: str, device_key: str) -> Iterator[Record]:
        """Runners-up of `Problem.key()` on `Device.key()`, store by store, each in the order of `Store.runners_up`."""
        return self._all(lambda store: store.runners_up(problem_key, device_key))

    def pinned_winners(self, problem_key: str, device_key: str) -> Iterator[Record]:
        """Winners of pinned searches, store by store, each in the order of `Store.pinned_winners`."""
        return self._all(lambda store: store.pinned_winners(problem_key, device_key))

    def beaten(self, family: str) -> tuple[Record, ...]:
        """All runners-up of a family, store by store."""
        return tuple(self._all(lambda store: store.beaten(family)))

    def family_times(self, operation: str) -> tuple[FamilyTime, ...]:
        """Times of all runners-up of an operation, store by store."""
        return tuple(self._all(lambda store: store.family_times(operation)))

    def poisoned(self, device: Device) -> dict[str, Failure]:
        """Programs that must not be run again on a device, by `Program.fingerprint`, with the reason, from all
        stores.
        """
        return dict(self._all(lambda store: store.poisoned(device).items()))

    def ceilings(self, device: Device) -> StoredCeilings | None:
        """What was measured on a device, of the first store that has it; None if nothing was."""
        of_stores = self._all(lambda store: filter(None, (store.ceilings(device),)))
        return next(of_stores, None)

    def measured(self, device: Device) -> Device:
        """The device with its stored ceilings, if there are any; as it is if it has some, or is the host."""
        if device.kind is DeviceKind.HOST or device.ceilings is not None:
            return device
        stored = self.ceilings(device)
        return device if stored is None else dataclasses.replace(device, ceilings=stored.ceilings)

    def _all(self, query: Callable[[Winners], Iterable[Answer]]) -> Iterator[Answer]:
        """Answers of one store after the other. An optional store that turns out to be damaged or locked is skipped
        from now on.
        """
        for store in self.stores:
            if store in self._passed_over:
                continue
            try:
                answers = query(store)
            except StoreError as error:
                if store not in self._optional and (self._patient or not isinstance(error, StoreBusy)):
                    raise
                self._passed_over.append(store)
                _warn_of_skipped(store.location, error)
            else:
                yield from answers

    def close(self) -> None:
        for store in self.stores:
            store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_for_reading(explicit: str | None) -> StoreChain[Winners]:
    """Opens the named location, the user's own file and the shipped one, in this order, for their winners.

    The own file may be missing, or empty after a writer was killed at its very start. So may the one that
    WARPSMITH_STORE names, with a warning.

    Raises:
        StoreError: the location that `explicit` names is missing, or a store cannot be read.
    """
    return _opened(places(explicit), lambda location, immutable: open_winners(location, immutable=immutable))


def open_with_trials(explicit: str | None) -> StoreChain[Store]:
    """Opens the same stores as `open_for_reading`, with their trials. It needs the extra `tune`."""
    from warpsmith.store.store import Store

    def opening(location: str, immutable: bool) -> Store:
        return Store.open(location, write=False, immutable=immutable)

    return _opened(places(explicit), opening)


def open_for_look_up(explicit: str | None) -> StoreChain[Winners]:
    """`open_for_reading` for plans. They go on without an unreadable store that the user did not name, because a store
    only makes them faster.

    The user's own file and the shipped one are skipped if they are damaged, unreadable or of a newer schema, each with
    one warning, a StorePassedOver. This also holds if the damage shows only during a query. Any store that another
    process keeps locked for changes.PATIENCE_S is skipped too, and not read again for changes.REST_S.

    Raises:
        StoreError: the location that `explicit` names is missing, or the named one cannot be read.
    """
    return _opened(places(explicit), _winners_at_once, passes_over=True)


@contextlib.contextmanager
def open_beside(store: Store) -> Iterator[StoreChain[Winners]]:
    """The stores of a look-up for which the user names `store`. `store` is open already and stays open.

    Other stores that cannot be read are skipped, as by `open_for_look_up`.
    """
    with _opened(unnamed_places(), _winners_at_once, passes_over=True) as others:
        yield StoreChain((store, *others.stores), others.stores)


def _winners_at_once(location: str, immutable: bool) -> Winners:
    """Opens the winners of a store without waiting long for locks."""
    return open_winners(location, immutable=immutable, wait_s=BUSY_STORES.patience_s(busy_key(location)))


def _opened(
    places: Iterable[Place], opening: Callable[[str, bool], Opened], *, passes_over: bool = False
) -> StoreChain[Opened]:
    stores: list[Opened] = []
    optional: list[Opened] = []
    unopened = 0
    with contextlib.ExitStack() as opened:
        for place in places:
            is_optional = passes_over and not place.is_named
            if passes_over and BUSY_STORES.rests(busy_key(place.location)):
                unopened += 1
                continue
            try:
                store = _open(place, opening)
            except StoreError as error:
                if not is_optional and not (passes_over and isinstance(error, StoreBusy)):
                    raise
                _warn_of_skipped(place.location, error)
                unopened += 1
                continue
            if passes_over:
                BUSY_STORES.answered(busy_key(place.location))
            if store is not None:
                opened.callback(store.close)
                stores.append(store)
                optional += [store] * is_optional
        opened.pop_all()
    return StoreChain(tuple(stores), tuple(optional), unopened, patient=not passes_over)


def _open(place: Place, opening: Callable[[str, bool], Opened]) -> Opened | None:
    """Opens the store at a place; None if it does not exist yet. Raises StoreError.

    An empty file is no store yet: a writer that was killed at its very start leaves one. It warns if the environment
    names a store that does not exist yet.
    """
    file = file_of(place.location)
    if not place.may_be_missing or file in (None, ":memory:"):
        return opening(place.location, False)
    assert file is not None
    path = sqlite.path_of(file)
    if not _has_content(path):
        if place.is_named:
            _warn_of_none(place.location)
        return None
    # If this user cannot write an installed file, nobody else does: no locks are needed.
    return opening(place.location, place.is_installed and not os.access(path, os.W_OK))


def _warn_of_skipped(location: str, error: StoreError) -> None:
    """Warns that a store is skipped. For a store that stays locked it warns once, not at each look-up."""
    if isinstance(error, StoreBusy):
        if BUSY_STORES.note(busy_key(location)):
            message = f"{error}; going on without this store, which is asked again every {REST_S:g} s"
            warnings.warn(message, StorePassedOver, stacklevel=2)
        return
    hint = f"`warpsmith db check --store {location}` says what is wrong with it"
    warnings.warn(f"{error}; going on without this store: {hint}", StorePassedOver, stacklevel=2)


def _warn_of_none(location: str) -> None:
    message = f"there is no store at {location} yet, which {ENVIRONMENT_VARIABLE} names: `warpsmith tune` makes it"
    warnings.warn(f"{message}; going on without it", StorePassedOver, stacklevel=2)


def _has_content(path: Path) -> bool:
    """True if a file exists and is not empty. Raises StoreError if its folder cannot be searched, and for a dangling
    link.
    """
    try:
        if sqlite.leads_nowhere(path):
            sqlite.check_path(path, write=False)
        return path.stat().st_size > 0
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StoreError(f"cannot look for the store {path}: {error.strerror}; name another with --store") from None
