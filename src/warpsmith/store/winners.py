"""Winners, and runners-up: the fastest candidate of each family that the winner beat.

For each problem, device and conditions, every family except the winner's has a row here with the same columns as a
winner: a whole record. So code that reads, checks, merges and exports winners handles these too. They have a table of
their own, so that a look-up of winners reads no additional rows. The winner's own family has no row, so nothing is
stored twice. An older store, which lacks the table, has no runners-up.

The table holds the winners of pinned searches too, with the text of their pins. They answer only questions with pins.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, delete, select, true

from warpsmith.store import rows
from warpsmith.store.fourier_bases import of_today, runners_up_of_today, times_of_today
from warpsmith.store.layout import PINS_SINCE, RUNNER_UP_IDENTITY, RUNNERS_UP_SINCE, WINNER_IDENTITY
from warpsmith.store.record import FamilyTime
from warpsmith.store.rows import Row
from warpsmith.store.tables import found, matches, of_operation, replace, runners_up, winners

NO_PINS = ""
"""Value of the column `pins` of a runner-up."""


def found_winners(connection: Connection, schema: int, *where: ColumnElement[bool]) -> tuple[Row, ...]:
    """Winners as rows of the current schema, by problem and device, and then with the preferred conditions first."""
    kept = [column for column in winners.c if schema >= 3 or column.name != "conditions"]
    return rows.winners_in_order(of_today(found(connection, select(*kept).where(*where)), schema))


def found_runners_up(connection: Connection, schema: int, *where: ColumnElement[bool]) -> tuple[Row, ...]:
    """Runners-up and winners of pinned searches, of a store of that schema, as rows of the current one: by problem and
    device, and then with the preferred conditions first.
    """
    if schema < RUNNERS_UP_SINCE:
        return ()
    kept = [column for column in runners_up.c if schema >= PINS_SINCE or column.name != "pins"]
    listed = [{"pins": NO_PINS, **row} for row in found(connection, select(*kept).where(*where))]
    return rows.winners_in_order(rows.in_order(runners_up_of_today(listed, schema), "family", "pins"))


def family_times(connection: Connection, schema: int, operation: str) -> tuple[FamilyTime, ...]:
    """Times of all runners-up of an operation, in no order."""
    if schema < RUNNERS_UP_SINCE:
        return ()
    columns = (runners_up.c[name] for name in FamilyTime._fields)
    unpinned = runners_up.c.pins == NO_PINS if schema >= PINS_SINCE else true()
    mine = select(*columns).where(of_operation(runners_up, operation), unpinned)
    return times_of_today(FamilyTime.readable(connection.execute(mine)), schema)


def crown(connection: Connection, row: Row) -> None:
    """Makes a row the winner. A previous winner of another family becomes that family's runner-up."""
    for before in found(connection, select(winners).where(matches(winners, row, WINNER_IDENTITY))):
        if before["family"] != row["family"]:
            replace(connection, runners_up, {**before, "pins": NO_PINS}, RUNNER_UP_IDENTITY)
    replace(connection, winners, row, WINNER_IDENTITY)
    connection.execute(delete(runners_up).where(matches(runners_up, {**row, "pins": NO_PINS}, RUNNER_UP_IDENTITY)))


def keep_runner_up(connection: Connection, row: Row) -> None:
    """Makes a row its family's runner-up, or the winner of its pins, replacing any other.

    Does nothing for a runner-up of the winner's family.
    """
    row = {"pins": NO_PINS, **row}
    if row["pins"] != NO_PINS or not _is_of_the_winners_family(connection, row):
        replace(connection, runners_up, row, RUNNER_UP_IDENTITY)


def compete(connection: Connection, row: Row) -> bool:
    """Stores another store's row if this store has no runner-up of the family, or winner of the pins, or a slower one.
    Returns True if it did.
    """
    row = {"pins": NO_PINS, **row}
    same = matches(runners_up, row, RUNNER_UP_IDENTITY)
    own_ns = connection.scalar(select(runners_up.c.median_ns).where(same))
    if (row["pins"] == NO_PINS and _is_of_the_winners_family(connection, row)) or stays(own_ns, row):
        return False
    replace(connection, runners_up, row, RUNNER_UP_IDENTITY)
    return True


def stays(own_ns: object, row: Row) -> bool:
    """True if a stored time stays although another store has a row. `own_ns` is None if nothing is stored.

    It stays if it is as fast, and if the other row cannot be read; an unreadable row is copied only if there is nothing
    yet. A value in a damaged file that is no number counts as nothing.
    """
    if not isinstance(own_ns, int | float):
        return False
    return not rows.readable(rows.record_of, (row,)) or own_ns <= row["median_ns"]


def _is_of_the_winners_family(connection: Connection, row: Row) -> bool:
    won_by = select(winners.c.family).where(matches(winners, row, WINNER_IDENTITY))
    return bool(connection.scalar(won_by) == row["family"])
