"""Where stores lie, and in which order they are asked."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar

import platformdirs

from warpsmith.errors import BadArgument, StoreError
from warpsmith.generator.device import Device
from warpsmith.store import sqlite
from warpsmith.store.busy import BUSY_STORES, REST_S
from warpsmith.store.conditions import USUAL_FIRST
from warpsmith.store.family_time import FamilyTime
from warpsmith.store.record import Failure, Record
from warpsmith.store.sqlite import StoreBusy
from warpsmith.store.store_reader import Winners, file_of, open_winners
from warpsmith.store.winners_in_memory import WinnersInMemory

if TYPE_CHECKING:
    from warpsmith.store.store import Store

Answer = TypeVar("Answer")
Asked = TypeVar("Asked", bound=Winners)
Asked_co = TypeVar("Asked_co", bound=Winners, covariant=True)

ENVIRONMENT_VARIABLE = "WARPSMITH_STORE"


class StorePassedOver(UserWarning):
    """A store that nobody named cannot be read: a look-up goes on with the next one."""


def own_store() -> Path | None:
    """The user's own file, in the platform's folder for data that cannot be made again.

    None for a user without a home folder, such as a number in a container that no list of users knows.
    """
    try:
        folder = Path(platformdirs.user_data_dir("warpsmith", appauthor=False))
    except RuntimeError:
        return None
    return folder / "store.db" if folder.is_absolute() else None  # older platformdirs return `~` as it is


def shipped_store() -> Path:
    """The winners that came with the package."""
    return Path(__file__).parent.parent / "cache.db"


def named_location(explicit: str | None) -> str | None:
    """The location that the user named: `explicit` (`--store`), else WARPSMITH_STORE, else None.

    Raises BadArgument for what is no text.
    """
    if explicit is not None and not isinstance(explicit, str):
        raise BadArgument(f"a store is named by the path or the URL as text; got {explicit!r}")
    return explicit or os.environ.get(ENVIRONMENT_VARIABLE) or None


def write_location(explicit: str | None) -> str:
    """The store for results: the named location, else the user's own file. Raises StoreError where there is neither."""
    if (location := named_location(explicit) or own_store()) is None:
        raise StoreError("this user has no home folder for a store: name one with --store or WARPSMITH_STORE")
    return str(location)


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    """Where a store may lie that is asked."""

    location: str
    is_named: bool = False
    """Whether the user named it, and then wants that one: it must be sound."""
    may_be_missing: bool = True
    """Whether it need not be there yet: the environment may name a store before the first search makes it."""
    is_installed: bool = False

    def open(self, opening: Callable[[str, bool], Asked]) -> Asked | None:
        """The store; None where it is not made yet. Raises StoreError.

        An empty file, as a writer killed at its very start leaves it, is no store yet. Warns where the environment
        names what is not made yet.
        """
        file = file_of(self.location)
        if not self.may_be_missing or file in (None, ":memory:"):
            return opening(self.location, False)
        assert file is not None
        path = sqlite.path_of(file)
        if not _has_content(path):
            if self.is_named:
                _warn_of_none(self.location)
            return None
        if not self.is_installed:
            return opening(self.location, False)
        # Where we cannot write, an installation nobody else writes either: no locks needed.
        return opening(self.location, not os.access(path, os.W_OK))

    @property
    def key(self) -> str:
        """The name by which locks are remembered."""
        return busy_key(self.location)


def busy_key(location: str) -> str:
    """The name by which `BUSY_STORES` knows a store: one for every spelling of a file's path."""
    file = file_of(location)
    try:
        return location if file is None else str(sqlite.path_of(file).absolute())
    except StoreError:  # no file has such a name
        return location


def _unnamed_places() -> tuple[_Place, ...]:
    """The user's own file and the shipped one."""
    own = own_store()
    return *(() if own is None else (_Place(str(own)),)), _Place(str(shipped_store()), is_installed=True)


def _places(explicit: str | None) -> tuple[_Place, ...]:
    named = named_location(explicit)
    others = _unnamed_places()
    return others if named is None else (_Place(named, is_named=True, may_be_missing=not explicit), *others)


def look_up_locations(explicit: str | None) -> tuple[str, ...]:
    """Where the stores lie that are asked, in order, whether they are there or not."""
    return tuple(place.location for place in _places(explicit))


class StoreChain(Generic[Asked_co]):
    """Stores open for reading, asked in order; the first answer wins. Close it, or use it in a `with`.

    Args:
        stores: the stores.
        optional: those of them that are passed over where they turn out damaged, with a warning.
        unopened: how many were passed over already.
        patient: whether a store that another process has locked is an error; else it is passed over, whoever named it.
    """

    def __init__(
        self,
        stores: tuple[Asked_co, ...],
        optional: tuple[Asked_co, ...] = (),
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
        """Whether every store that is there was asked; those that were passed over may be sound the next time."""
        return not self._passed_over and not self._unopened

    def winners(self, problem_key: str, device_key: str) -> Iterator[Record]:
        """Each store's winners of `Problem.key()` on `Device.key()`, store by store, as `Store.winners` orders them.

        A store is asked when it is due.
        """
        for store in self.stores:
            yield from self._answer(store, lambda each: each.winners(problem_key, device_key)) or ()

    def records(self, operation: str | None = None) -> tuple[Record, ...]:
        """All winners, store by store; of one problem, device and conditions only the first store's."""
        found: dict[tuple[str, str, str], Record] = {}
        for store in self.stores:
            for record in self._answer(store, lambda each: each.records(operation)) or ():
                found.setdefault((record.problem.key(), record.device.key(), record.conditions), record)
        return tuple(found.values())

    def answers(self, operation: str | None = None) -> tuple[Record, ...]:
        """Of `records` one for each problem and device: that under the usual conditions, of the first store."""
        found: dict[tuple[str, str], Record] = {}
        for record in self.records(operation):
            found.setdefault((record.problem.key(), record.device.key()), record)
        return tuple(found.values())

    def runners_up(self, problem_key: str, device_key: str) -> Iterator[Record]:
        """Each store's runners-up of `Problem.key()` on `Device.key()`, store by store, as `Store.runners_up` does."""
        for store in self.stores:
            yield from self._answer(store, lambda each: each.runners_up(problem_key, device_key)) or ()

    def beaten(self, family: str) -> tuple[Record, ...]:
        """All runners-up of a family, store by store."""
        return tuple(
            record for store in self.stores for record in self._answer(store, lambda each: each.beaten(family)) or ()
        )

    def family_times(self, operation: str) -> tuple[FamilyTime, ...]:
        """The times of all runners-up of an operation, store by store."""
        return tuple(
            each
            for store in self.stores
            for each in self._answer(store, lambda asked: asked.family_times(operation)) or ()
        )

    def poisoned(self, device: Device) -> dict[str, Failure]:
        """The programs that some store says must not be run again on a device, by `Program.fingerprint`, and why."""
        found: dict[str, Failure] = {}
        for store in self.stores:
            found |= self._answer(store, lambda each: each.poisoned(device)) or {}
        return found

    def read(self, operation: str) -> StoreChain[Winners]:
        """The winners and runners-up of one operation, each store read once: for whoever asks several times."""
        return StoreChain(
            tuple(
                WinnersInMemory(
                    store.location,
                    self._answer(store, lambda each: each.records(operation)) or (),
                    self._answer(store, lambda each: _all_beaten(each, operation)) or (),
                )
                for store in self.stores
            )
        )

    def _answer(self, store: Winners, ask: Callable[[Winners], Answer]) -> Answer | None:
        """What a store answers; None, from now on, of one that may be passed over and turns out damaged or locked."""
        if store in self._passed_over:
            return None
        try:
            return ask(store)
        except StoreError as error:
            if store not in self._optional and (self._patient or not isinstance(error, StoreBusy)):
                raise
            self._passed_over.append(store)
            _tell(store.location, error)
            return None

    def close(self) -> None:
        """Closes every store."""
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

    The own file may be missing, or empty as a writer killed at its very start leaves it. So may the one that
    WARPSMITH_STORE names, with a warning.

    Raises:
        StoreError: the location that `explicit` names is missing, or a store cannot be read.
    """
    return _opened(_places(explicit), lambda location, immutable: open_winners(location, immutable=immutable))


def open_with_trials(explicit: str | None) -> StoreChain[Store]:
    """Opens the same stores as `open_for_reading`, for all that they hold, which needs the extra `tune`."""
    from warpsmith.store.store import Store

    def opening(location: str, immutable: bool) -> Store:
        return Store.open(location, write=False, immutable=immutable)

    return _opened(_places(explicit), opening)


def open_for_look_up(explicit: str | None) -> StoreChain[Winners]:
    """`open_for_reading` for plans, which go on without a store that nobody named: its answer is only the faster one.

    The user's own file and the shipped one are passed over where they are damaged, of a newer schema or not to be read,
    each with one warning, a StorePassedOver; also where the damage shows only when they are asked. Any store that
    another process keeps locked for busy.PATIENCE_S is passed over too, and not asked again for busy.REST_S.

    Raises:
        StoreError: the location that `explicit` names is missing, or the named one cannot be read.
    """
    return _opened(_places(explicit), _winners_at_once, passes_over=True)


@contextlib.contextmanager
def open_beside(store: Store) -> Iterator[StoreChain[Winners]]:
    """The stores that a look-up asks where `store`, which is open and stays so, is the one that the user named.

    Others that cannot be read are passed over, as by `open_for_look_up`.
    """
    with _opened(_unnamed_places(), _winners_at_once, passes_over=True) as others:
        yield StoreChain((store, *others.stores), others.stores)


def _all_beaten(store: Winners, operation: str) -> tuple[Record, ...]:
    families = sorted({each.family for each in store.family_times(operation)})
    found = (record for family in families for record in store.beaten(family))
    return tuple(sorted(found, key=lambda record: USUAL_FIRST.index(record.conditions)))


def _winners_at_once(location: str, immutable: bool) -> Winners:
    """The winners of a store that does not wait long for locks."""
    return open_winners(location, immutable=immutable, wait_s=BUSY_STORES.patience_s(busy_key(location)))


def _opened(
    places: Iterable[_Place], opening: Callable[[str, bool], Asked], *, passes_over: bool = False
) -> StoreChain[Asked]:
    stores: list[Asked] = []
    optional: list[Asked] = []
    unopened = 0
    with contextlib.ExitStack() as opened:
        for place in places:
            is_optional = passes_over and not place.is_named
            if passes_over and BUSY_STORES.rests(place.key):
                unopened += 1
                continue
            try:
                store = place.open(opening)
            except StoreError as error:
                if not is_optional and not (passes_over and isinstance(error, StoreBusy)):
                    raise
                _tell(place.location, error)
                unopened += 1
                continue
            if passes_over:
                BUSY_STORES.answered(place.key)
            if store is not None:
                opened.callback(store.close)
                stores.append(store)
                optional += [store] * is_optional
        opened.pop_all()
    return StoreChain(tuple(stores), tuple(optional), unopened, patient=not passes_over)


def _tell(location: str, error: StoreError) -> None:
    """Warns of a store that is passed over; of one that stays locked once, not at each look-up."""
    if isinstance(error, StoreBusy):
        if BUSY_STORES.note(busy_key(location)):
            told = f"{error}; going on without this store, which is asked again every {REST_S:g} s"
            warnings.warn(told, StorePassedOver, stacklevel=2)
        return
    told = f"{error}; going on without this store: `warpsmith db check --store {location}` says what is wrong with it"
    warnings.warn(told, StorePassedOver, stacklevel=2)


def _warn_of_none(location: str) -> None:
    told = f"there is no store at {location} yet, which {ENVIRONMENT_VARIABLE} names: `warpsmith tune` makes it"
    warnings.warn(f"{told}; going on without it", StorePassedOver, stacklevel=2)


def _has_content(path: Path) -> bool:
    """Whether a file is there and not empty. Raises StoreError where its folder may not be looked into, and for a link
    to what is not there.
    """
    try:
        if sqlite.leads_nowhere(path):
            sqlite.check_path(path, write=False)
        return path.stat().st_size > 0
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StoreError(f"cannot look for the store {path}: {error.strerror}; name another with --store") from None
