"""Converts between types and table rows. Every value that enters or leaves a table passes through here."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from warpsmith.errors import BadArgument
from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.generator.space import Config
from warpsmith.store.conditions import ANY, UNKNOWN, conditions_key, rank
from warpsmith.store.record import Failure, FailureKind, Measurement, Record, Trial, trial_from_spec, trial_spec

Parsed = TypeVar("Parsed")

Row = Mapping[str, Any]
"""Column values by name."""

MAX_STARTS = 3
"""Starts without an end after which a program is given up. One may be a power cut, and two may be bad luck."""


class Unreadable(ValueError):
    """A row that this version cannot parse; the message says why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Contents:
    """Rows of a whole store, each table in its own order."""

    problems: tuple[Row, ...]
    devices: tuple[Row, ...]
    trials: tuple[Row, ...]
    winners: tuple[Row, ...]
    runners_up: tuple[Row, ...] = ()
    ceilings: tuple[Row, ...] = ()


def now() -> str:
    """Current time in the format of stores: UTC, ISO 8601."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def to_json(value: Any) -> str:
    """JSON with one spelling for each value, so that equal values are equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def from_json(text: str) -> Any:
    """Raises Unreadable."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:  # a damaged file has numbers or NULL in text columns
        raise Unreadable(f"its JSON is damaged ({error})") from None


def plain(text: str) -> str:
    """Text that every database can store: without NUL, which PostgreSQL refuses, and without lone surrogates."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def config_text(config: Config) -> str:
    """A config as the text of a column."""
    return to_json(config.values())


def problem_row(problem: Problem) -> Row:
    """A problem as a row of its table."""
    return {"key": problem.key(), "operation": problem.operation, "spec": to_json(problem.spec())}


def device_row(device: Device) -> Row:
    """A device as a row of its table."""
    return {"key": device.key(), "name": plain(device.name), "spec": to_json(device.spec())}


def trial_row(problem: Problem, device: Device, trial: Trial, created_at: str) -> Row:
    """A trial as a row of its table; `created_at` is UTC, ISO 8601."""
    failure = trial.outcome.kind if isinstance(trial.outcome, Failure) else None
    return {
        "problem_key": problem.key(),
        "device_key": device.key(),
        **_program_columns(trial),
        "conditions": _trial_conditions(trial),
        **_time_columns(trial),
        "failure_kind": str(failure) if failure else None,
        "created_at": plain(created_at),
        "spec": to_json(trial_spec(trial)),
    }


def winner_row(record: Record) -> Row:
    """A winner as a row of its table. Raises ValueError for a record whose trial failed."""
    if record.trial.median_ns is None:
        raise ValueError("a winner needs a measurement, and this trial failed")
    return {**_winner_columns(record), "spec": to_json(record.spec())}


def _winner_columns(record: Record) -> Row:
    return {
        "problem_key": record.problem.key(),
        "device_key": record.device.key(),
        "conditions": record.conditions,
        **_program_columns(record.trial),
        **_time_columns(record.trial),
        "created_at": plain(record.provenance.created),
    }


def program_columns(family: str, config: Config, fingerprint: str, compiler: str) -> dict[str, str]:
    """Columns that identify a program in trials, winners and claims."""
    return {
        "family": plain(family),
        "config": config_text(config),
        "fingerprint": plain(fingerprint),
        "compiler": plain(compiler),
    }


def _program_columns(trial: Trial) -> dict[str, str]:
    return program_columns(trial.family, trial.config, trial.fingerprint, trial.compiler)


def _trial_conditions(trial: Trial) -> str:
    """Conditions that distinguish the times of one program: one of USUAL_FIRST, or ANY for a failure."""
    return conditions_key(trial.outcome.timing.policy) if isinstance(trial.outcome, Measurement) else ANY


def _time_columns(trial: Trial) -> dict[str, float | None]:
    timing = trial.outcome.timing if isinstance(trial.outcome, Measurement) else None
    return {name: getattr(timing, name, None) for name in ("median_ns", "p20_ns", "p80_ns")}


def problem_of(row: Row) -> Problem:
    """Parses a row of the table of problems. Raises Unreadable."""
    problem = problem_from_spec(row["operation"], from_json(row["spec"]))
    _agree(problem_row(problem), row)
    return problem


def device_of(row: Row) -> Device:
    """Parses a row of the table of devices. Raises Unreadable."""
    device = device_from_spec(from_json(row["spec"]))
    _agree(device_row(device), row)
    return device


def trial_of(row: Row) -> Trial:
    """Parses a row of the table of trials. Raises Unreadable."""
    trial = checked_trial(from_json(row["spec"]))
    _agree({**_program_columns(trial), "conditions": _trial_conditions(trial), **_time_columns(trial)}, row)
    return trial


def record_of(row: Row) -> Record:
    """Parses a winner's row. Equal rows are cached: one takes 0.1 ms, and a look-up reads hundreds. Raises
    Unreadable.
    """
    return _record_of(tuple(row.items()))


@functools.lru_cache(maxsize=1024)
def _record_of(columns: tuple[tuple[str, Any], ...]) -> Record:
    row = dict(columns)
    record = checked_record(from_json(row["spec"]))
    _agree(_winner_columns(record), row)
    return record


def with_conditions(row: Row) -> Row:
    """A winner of a schema before 3, which has no column for conditions, with the conditions of its JSON."""
    return {**row, "conditions": _conditions_at(row, "trial", "measurement", "timing", "policy")}


def trial_with_conditions(row: Row) -> Row:
    """A trial as a row of the current schema. Schemas before 4 have no column for conditions."""
    if "conditions" in row:
        return row
    failed = row["failure_kind"] is not None
    return {**row, "conditions": ANY if failed else _conditions_at(row, "measurement", "timing", "policy")}


def _conditions_at(row: Row, *path: str) -> str:
    """Conditions of the policy at `path` of a row's JSON."""
    try:
        found = from_json(row["spec"])
        for name in path:
            found = found[name]
        return conditions_key(found)
    except (Unreadable, LookupError, TypeError, AttributeError):
        return UNKNOWN


def winners_in_order(found: Iterable[Row]) -> tuple[Row, ...]:
    """Winners as rows of the current schema, by problem and device, and then with the preferred conditions first."""
    today = (row if "conditions" in row else with_conditions(row) for row in found)
    return in_order(sorted(today, key=_usual_first), "problem_key", "device_key")  # a stable sort


def _usual_first(row: Row) -> int:
    """Rank of a winner among those of its problem and device."""
    return rank(row["conditions"])


def readable(parse: Callable[[Row], Parsed], found: Iterable[Row]) -> tuple[Parsed, ...]:
    """Parses rows and skips those that cannot be parsed."""
    parsed = []
    for row in found:
        with contextlib.suppress(Unreadable):
            parsed.append(parse(row))
    return tuple(parsed)


def of_pins(found: Iterable[Row], *, pinned: bool) -> tuple[Row, ...]:
    """Winners of pinned searches among the rows of a table of runners-up of any schema, or the runners-up."""
    return tuple(row for row in found if bool(row.get("pins")) is pinned)


def in_order(unordered: Iterable[Row], *names: str) -> tuple[Row, ...]:
    """Rows sorted by text columns in byte order; a server's order would depend on its locale."""
    # A damaged file has NULL or numbers in such a column.
    return tuple(sorted(unordered, key=lambda row: [str(row[name]) for name in names]))


def _agree(expected: Row, row: Row) -> None:
    for name, value in expected.items():
        if name != "spec" and row[name] != value:
            raise Unreadable(f"its column {name} is {row[name]!r}, but its JSON gives {value!r}")


def problem_from_spec(operation: str, spec: Any) -> Problem:
    """Raises Unreadable."""
    return _parsed("a problem", lambda: Problem.from_spec(operation, spec))


def device_from_spec(spec: Any) -> Device:
    """Raises Unreadable."""
    return _parsed("a device", lambda: _keyed(Device.from_spec(spec)))


def _keyed(device: Device) -> Device:
    """The device. Raises TypeError if an integer field holds no integer, and various errors of `Device.key` for other
    damage.
    """
    for each in dataclasses.fields(device):
        if each.type in ("int", int) and not isinstance(getattr(device, each.name), int):
            raise TypeError(f"its {each.name} is no number")
    device.key()
    return device


def checked_trial(spec: Any) -> Trial:
    """Parses what `trial_spec` wrote. Raises Unreadable."""
    trial = _parsed("a trial", lambda: trial_from_spec(spec))
    _check_values(trial)
    return trial


def checked_record(spec: Any) -> Record:
    """Parses what `Record.spec` wrote. Raises Unreadable, also if its keys are not those of its problem and device."""
    record = _parsed("a winner", lambda: Record.from_spec(spec))
    _parsed("a winner", lambda: _keyed(record.device))
    _check_values(record.trial)
    if record.trial.median_ns is None:
        raise Unreadable("it is a winner without a measurement")
    _check_soft_facts(record)
    check_keys((spec.get("problem_key"), spec.get("device_key")), record.problem, record.device)
    return record


def check_keys(keys: tuple[Any, Any], problem: Problem, device: Device) -> None:
    """Raises Unreadable if `keys` are not the problem's and the device's own."""
    for kept, own in zip(keys, (problem.key(), device.key()), strict=True):
        if plain(own) != own:
            raise Unreadable(f"its key {own!r} holds characters that no database keeps")
        if kept != own:
            raise Unreadable(f"it is filed under {kept!r}, but its own key is {own!r}")


def _check_values(trial: Trial) -> None:
    """Raises Unreadable for values that do not fit a column or a comparison of times."""
    if not all(isinstance(text, str) for text in (trial.family, trial.fingerprint, trial.compiler)):
        raise Unreadable("its family, fingerprint and compiler must be text")
    if not all(isinstance(value, int | str) for value in trial.config.values().values()):
        raise Unreadable("the values of its config must be whole numbers or words")
    if isinstance(trial.outcome, Measurement) and not isinstance(trial.outcome.timing.policy, str):
        raise Unreadable("the policy of its timing must be text")
    times = [time for time in _time_columns(trial).values() if time is not None]
    if not all(isinstance(time, int | float) and 0 < time < math.inf for time in times):
        raise Unreadable(f"its times {times} must be finite and above 0")


def _check_soft_facts(record: Record) -> None:
    """Raises Unreadable for baselines or provenance that cannot be printed or compared."""
    provenance, timings = record.provenance, [each.timing for each in record.baselines]
    texts = (provenance.created, provenance.warpsmith, *(each.name for each in record.baselines))
    if not all(isinstance(text, str) for text in (*texts, *(timing.policy for timing in timings))):
        raise Unreadable("the names of its baselines, their policies and its origin must be text")
    environment = provenance.environment
    if not isinstance(environment, dict) or not all(isinstance(fact, str) for fact in environment.values()):
        raise Unreadable("the facts of its environment must be words")
    times = [time for timing in timings for time in (timing.median_ns, timing.p20_ns, timing.p80_ns)]
    if not all(isinstance(time, int | float) and 0 < time < math.inf for time in times):
        raise Unreadable(f"the times of its baselines {times} must be finite and above 0")


def _parsed(what: str, parse: Callable[[], Parsed]) -> Parsed:
    try:
        return parse()
    except BadArgument as error:
        raise Unreadable(str(error)) from None
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise Unreadable(f"its JSON is not {what} ({type(error).__name__}: {error})") from None


def poison_failure(row: Row) -> Failure:
    """The reason why a program must not be run again."""
    if row["failure_kind"] is None:
        return Failure(FailureKind.CRASH, f"the tuner died {row['starts']} times while it ran")
    try:
        return Failure(FailureKind(row["failure_kind"]), row["message"] or "")
    except ValueError:  # a kind of a newer warpsmith; ignoring it would run the program
        return Failure(FailureKind.CRASH, f"{row['failure_kind']}: {row['message']}")
