"""Where stores lie, and in which order they are asked."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar

import platformdirs

from warpsmith.errors import StoreError
from warpsmith.store.record import Record
from warpsmith.store.store_reader import Winners, open_winners

if TYPE_CHECKING:
    from warpsmith.store.store import Store

_PASSWORD = re.compile(r"^([\w+]+://[^:/]*):[^@]*@")
_SECRET_OPTION = re.compile(r"(?<=[?&])(?:ssl)?password=[^&]*(?:&|$)")

Asked = TypeVar("Asked", bound=Winners)
Asked_co = TypeVar("Asked_co", bound=Winners, covariant=True)

ENVIRONMENT_VARIABLE = "WARPSMITH_STORE"


def own_store() -> Path:
    """The user's own file, in the platform's folder for data that cannot be made again."""
    return Path(platformdirs.user_data_dir("warpsmith", appauthor=False)) / "store.db"


def shipped_store() -> Path:
    """The winners that came with the package."""
    return Path(__file__).parent.parent / "cache.db"


def named_location(explicit: str | None) -> str | None:
    """The location that the user named: `explicit` (`--store`), else WARPSMITH_STORE, else None."""
    return explicit or os.environ.get(ENVIRONMENT_VARIABLE) or None


def write_location(explicit: str | None) -> str:
    """Where results go: the named location, else the user's own file."""
    return named_location(explicit) or str(own_store())


def shown(location: str) -> str:
    """A location as output may tell it: a URL without its passwords."""
    if "://" not in location:
        return location
    return _SECRET_OPTION.sub("", _PASSWORD.sub(r"\1:***@", location)).rstrip("?&")


class StoreChain(Generic[Asked_co]):
    """Stores open for reading, asked in order; the first answer wins. Close it, or use it in a `with`."""

    def __init__(self, stores: tuple[Asked_co, ...]) -> None:
        self.stores = stores

    def winners(self, problem_key: str, device_key: str) -> Iterator[Record]:
        """Each store's winner of `Problem.key()` on `Device.key()`, store by store; a store is asked when it is due."""
        answers = (store.winner(problem_key, device_key) for store in self.stores)
        return (record for record in answers if record is not None)

    def records(self, operation: str | None = None) -> tuple[Record, ...]:
        """All winners, store by store; of one problem and device only the first store's."""
        found: dict[tuple[str, str], Record] = {}
        for store in self.stores:
            for record in store.records(operation):
                found.setdefault((record.problem.key(), record.device.key()), record)
        return tuple(found.values())

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

    The own file may be missing, or empty as a writer killed at its very start leaves it.

    Raises:
        StoreError: the named location is missing, or a store cannot be read.
    """
    return _opened(explicit, _winners_of)


def open_with_trials(explicit: str | None) -> StoreChain[Store]:
    """Opens the same stores as `open_for_reading`, for all that they hold, which needs the extra `tune`."""
    from warpsmith.store.store import Store

    return _opened(explicit, lambda location, immutable: Store.open(location, write=False, immutable=immutable))


def _opened(explicit: str | None, opening: Callable[[str, bool], Asked]) -> StoreChain[Asked]:
    stores: list[Asked] = []
    with contextlib.ExitStack() as opened:
        for store in _stores(explicit, opening):
            opened.callback(store.close)
            stores.append(store)
        opened.pop_all()
    return StoreChain(tuple(stores))


@contextlib.contextmanager
def open_beside(store: Store) -> Iterator[StoreChain[Winners]]:
    """The stores that a look-up asks where `store`, which is open and stays so, is the one that the user named.

    Raises StoreError as `open_for_reading`.
    """
    with contextlib.ExitStack() as opened:
        others: list[Winners] = []
        for other in _unnamed_stores(_winners_of):
            opened.callback(other.close)
            others.append(other)
        yield StoreChain((store, *others))


def _winners_of(location: str, immutable: bool) -> Winners:
    return open_winners(location, immutable=immutable)


def _stores(explicit: str | None, opening: Callable[[str, bool], Asked]) -> Iterator[Asked]:
    named = named_location(explicit)
    if named is not None:
        yield opening(named, False)
    yield from _unnamed_stores(opening)


def _unnamed_stores(opening: Callable[[str, bool], Asked]) -> Iterator[Asked]:
    """The user's own file and the shipped one, where they are there."""
    own, shipped = own_store(), shipped_store()
    if _has_content(own):
        yield opening(str(own), False)
    if _has_content(shipped):
        # Where we cannot write, an installation nobody else writes either: no locks needed.
        yield opening(str(shipped), not os.access(shipped, os.W_OK))


def _has_content(path: Path) -> bool:
    """Whether a file is there and not empty. Raises StoreError where its folder may not be looked into."""
    try:
        return path.stat().st_size > 0
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StoreError(f"cannot look for the store {path}: {error.strerror}; name another with --store") from None
