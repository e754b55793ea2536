"""Where stores lie, and in which order they are asked."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import platformdirs

from warpsmith.errors import StoreError
from warpsmith.store.record import Record
from warpsmith.store.store import Store

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


class StoreChain:
    """Stores open for reading, asked in order; the first answer wins. Close it, or use it in a `with`."""

    def __init__(self, stores: tuple[Store, ...]) -> None:
        self.stores = stores

    def winners(self, problem_key: str, device_key: str) -> Iterator[Record]:
        """Each store's winners of `Problem.key()` on `Device.key()`, store by store, as `Store.winners` orders them.

        A store is asked when it is due.
        """
        return (record for store in self.stores for record in store.winners(problem_key, device_key))

    def records(self, operation: str | None = None) -> tuple[Record, ...]:
        """All winners, store by store; of one problem, device and conditions only the first store's."""
        found: dict[tuple[str, str, str], Record] = {}
        for store in self.stores:
            for record in store.records(operation):
                found.setdefault((record.problem.key(), record.device.key(), record.conditions), record)
        return tuple(found.values())

    def answers(self, operation: str | None = None) -> tuple[Record, ...]:
        """Of `records` one for each problem and device: that under the usual conditions, of the first store."""
        found: dict[tuple[str, str], Record] = {}
        for record in self.records(operation):
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


def open_for_reading(explicit: str | None) -> StoreChain:
    """Opens the named location, the user's own file and the shipped one, in this order.

    The own file may be missing, or empty as a writer killed at its very start leaves it.

    Raises:
        StoreError: the named location is missing, or a store cannot be read.
    """
    with contextlib.ExitStack() as opened:
        stores = tuple(opened.enter_context(store) for store in _stores(explicit))
        opened.pop_all()
    return StoreChain(stores)


def _stores(explicit: str | None) -> Iterator[Store]:
    named = named_location(explicit)
    own, shipped = own_store(), shipped_store()
    if named is not None:
        yield Store.open(named, write=False)
    if _has_content(own):
        yield Store.open(str(own), write=False)
    if _has_content(shipped):
        # Where we cannot write, an installation nobody else writes either: no locks needed.
        yield Store.open(str(shipped), write=False, immutable=not os.access(shipped, os.W_OK))


def _has_content(path: Path) -> bool:
    """Whether a file is there and not empty. Raises StoreError where its folder may not be looked into."""
    try:
        return path.stat().st_size > 0
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StoreError(f"cannot look for the store {path}: {error.strerror}; name another with --store") from None
