"""The fastest candidate of each family that the winner beat.

Beside the one winner of a problem, a device and conditions, each family that the winner is not of has a row here with
the same columns: a whole record. So whatever reads, checks, merges and exports winners does the same for these. They
have a table of their own, so that a look-up reads as few rows as before there were any. The winner's own family has
none: nothing is stored twice, and an older store, which lacks the table, is one in which nothing was beaten.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, delete, select

from warpsmith.store import rows
from warpsmith.store.family_time import FamilyTime
from warpsmith.store.layout import RUNNERS_UP_SINCE
from warpsmith.store.rows import Row
from warpsmith.store.schema import RUNNER_UP_IDENTITY, WINNER_IDENTITY, problems, runners_up, winners
from warpsmith.store.statements import found, matches, replace


def found_runners_up(connection: Connection, schema: int, *where: ColumnElement[bool]) -> tuple[Row, ...]:
    """Runners-up of a store of that schema, by problem and device; of one those under the usual conditions first."""
    if schema < RUNNERS_UP_SINCE:
        return ()
    return rows.winners_in_order(rows.in_order(found(connection, select(runners_up).where(*where)), "family"))


def times(connection: Connection, schema: int, operation: str) -> tuple[FamilyTime, ...]:
    """The times of all runners-up of an operation, in no order."""
    if schema < RUNNERS_UP_SINCE:
        return ()
    keys = select(problems.c.key).where(problems.c.operation == operation)
    columns = (runners_up.c[name] for name in FamilyTime._fields)
    query = select(*columns).where(runners_up.c.problem_key.in_(keys))
    return FamilyTime.readable(connection.execute(query))


def crown(connection: Connection, row: Row) -> None:
    """Makes a row the winner, whatever was before: a winner of another family becomes that family's runner-up."""
    for before in found(connection, select(winners).where(matches(winners, row, WINNER_IDENTITY))):
        if before["family"] != row["family"]:
            replace(connection, runners_up, before, RUNNER_UP_IDENTITY)
    replace(connection, winners, row, WINNER_IDENTITY)
    connection.execute(delete(runners_up).where(matches(runners_up, row, RUNNER_UP_IDENTITY)))


def keep(connection: Connection, row: Row) -> None:
    """Makes a row its family's runner-up, whatever was before; nothing where the winner is of that family."""
    if not _is_of_the_winners_family(connection, row):
        replace(connection, runners_up, row, RUNNER_UP_IDENTITY)


def compete(connection: Connection, row: Row) -> bool:
    """`keep` of another store's row, where this one has none or a slower one; whether it has."""
    same = matches(runners_up, row, RUNNER_UP_IDENTITY)
    own_ns = connection.scalar(select(runners_up.c.median_ns).where(same))
    if _is_of_the_winners_family(connection, row) or stays(own_ns, row):
        return False
    replace(connection, runners_up, row, RUNNER_UP_IDENTITY)
    return True


def stays(own_ns: object, row: Row) -> bool:
    """Whether what is stored with a time, None for nothing, stays where another store has a row.

    It does where it is as fast, and where the row cannot be read, which is passed on only where there is nothing yet.
    What a damaged file has in the place of a time is none.
    """
    if not isinstance(own_ns, int | float):
        return False
    return not rows.readable(rows.record_of, (row,)) or own_ns <= row["median_ns"]


def _is_of_the_winners_family(connection: Connection, row: Row) -> bool:
    won_by = select(winners.c.family).where(matches(winners, row, WINNER_IDENTITY))
    return bool(connection.scalar(won_by) == row["family"])
