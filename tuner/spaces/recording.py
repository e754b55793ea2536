"""Recorded spaces: the time of every config in a part of a family's space, as a file, for replays without a GPU."""

from __future__ import annotations

import dataclasses
import datetime
import gzip
import json
import math
import zlib
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from warpsmith.errors import BadArgument
from warpsmith.files import write_whole
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.gate import Gate
from warpsmith.generator.problem import Problem
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value
from warpsmith.store.record import FailureKind

FORMAT, VERSION = "warpsmith recording", 1
"""Format name and version, at the start of the header."""

_UNREADABLE = (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""Exceptions raised by reading a damaged or foreign file."""

Outcome = float | FailureKind
"""Time in ns, or the kind of failure."""


@dataclasses.dataclass(frozen=True)
class Recording:
    """Outcome of every config of a space, measured on one device."""

    problem: Problem
    device: Device
    family: str
    parameters: tuple[Parameter, ...]
    default: Config
    """The recorded config that shares the most values with the family's default."""
    outcomes: Mapping[Config, Outcome]
    created: str
    """UTC, ISO 8601."""
    environment: Mapping[str, str]

    @cached_property
    def space(self) -> Space:
        """The recorded configs as a space, independent of later changes to the family's rules."""
        names = tuple(parameter.name for parameter in self.parameters)
        rows = [tuple(values[name] for name in names) for values in map(Config.values, self.outcomes)]
        # One rule per parameter lets a walk leave unrecorded branches early.
        rules = (
            Constraint("it was not recorded", _is_among({row[:depth] for row in rows}), names[:depth])
            for depth in range(1, len(names) + 1)
        )
        return Space(self.parameters, tuple(rules))

    def from_the_middle(self) -> Recording:
        """The recording with the config of the median time as its default, whose neighbours might be among the best."""
        return dataclasses.replace(self, default=list(self.times_ns)[len(self.times_ns) // 2])

    @cached_property
    def times_ns(self) -> Mapping[Config, float]:
        """Times in ns of the configs that have one, fastest first."""
        times = {config: outcome for config, outcome in self.outcomes.items() if not isinstance(outcome, FailureKind)}
        return dict(sorted(times.items(), key=lambda item: item[1]))

    @property
    def best(self) -> Config:
        return next(iter(self.times_ns))

    @property
    def best_ns(self) -> float:
        """Nanoseconds that the fastest config takes."""
        return self.times_ns[self.best]

    @classmethod
    def read(cls, path: Path) -> Recording:
        """Reads a recording that `write` wrote to `path`.

        Raises:
            BadArgument: the file cannot be read, is no recording, is truncated, or is of another version.
        """
        try:
            with gzip.open(path, "rt", encoding="utf-8") as file:
                header, *lines = map(json.loads, file)
            return _from_lines(header, lines)
        except FileNotFoundError:
            raise BadArgument(f"there is no recording {path}") from None
        except _UNREADABLE as error:
            raise BadArgument(f"{path} is not a readable recording: {error}") from None

    def write(self, path: Path) -> None:
        """Writes the whole file, or none of it: compressed JSON lines, equal bytes for equal content.

        Raises OSError.
        """
        names = [parameter.name for parameter in self.parameters]
        header = {
            "format": FORMAT,
            "version": VERSION,
            "operation": self.problem.operation,
            "problem": self.problem.spec(),
            "device": self.device.spec(),
            "family": self.family,
            "parameters": [dataclasses.asdict(parameter) for parameter in self.parameters],
            "default": [self.default.values()[name] for name in names],
            "created": self.created,
            "environment": dict(self.environment),
            "configs": len(self.outcomes),
        }
        lines = [header, *(_line(names, config, outcome) for config, outcome in self.outcomes.items())]
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        write_whole(path, gzip.compress(text.encode(), mtime=0))


def record(
    path: Path,
    problem: Problem,
    device: Device,
    family: Family,
    space: Space,
    outcomes: Iterable[tuple[Config, Outcome]],
    environment: Mapping[str, str],
) -> Recording:
    """Writes the measured outcomes of a space to a file.

    Args:
        path: the file, in an existing folder; `NAME.jsonl.gz` by custom.
        problem: measured problem.
        device: device that was measured on.
        family: measured family.
        space: measured part of the family's space, as returned by `Space.narrowed`.
        outcomes: each config with its time in ns or its failure. They are consumed one by one, so the iterator may
            measure.
        environment: driver, toolkit, compiler.

    Raises:
        IllegalConfig: the family has no legal default; nothing is measured.
        ValueError: a config is outside `space`, a time is invalid, or there is no time at all; nothing is written.
        OSError: the file cannot be written.
    """
    wanted = set(Gate(problem, device).default(family).items)
    measured = dict(outcomes)
    if outside := next((config for config in measured if not space.contains(config)), None):
        raise ValueError(f"{outside} is not in the recorded space: {space.why_not(outside)}")
    _check(measured)
    recording = Recording(
        problem=problem,
        device=device,
        family=family.name,
        parameters=space.parameters,
        default=max(measured, key=lambda config: len(wanted.intersection(config.items))),
        # One decimal, as in the file, so that a recording equals the one read back.
        outcomes={c: each if isinstance(each, FailureKind) else round(each, 1) for c, each in measured.items()},
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        environment=dict(environment),
    )
    recording.write(path)
    return recording


def _check(outcomes: Mapping[Config, Outcome]) -> None:
    times = [outcome for outcome in outcomes.values() if not isinstance(outcome, FailureKind)]
    if wrong := [time_ns for time_ns in times if not 0 < time_ns < math.inf]:
        raise ValueError(f"{wrong[0]} ns is no time")
    if not times:
        raise ValueError("no config has a time")


def _line(names: list[str], config: Config, outcome: Outcome) -> list[Value | float]:
    values = config.values()
    return [*(values[name] for name in names), str(outcome) if isinstance(outcome, FailureKind) else round(outcome, 1)]


def _from_lines(header: dict[str, Any], lines: list[list[Any]]) -> Recording:
    if header["format"] != FORMAT:
        raise ValueError(f"its first line does not say {FORMAT!r}")
    if header["version"] != VERSION:
        raise ValueError(f"it is of version {header['version']}; this one reads {VERSION}")
    parameters = tuple(Parameter(each["name"], tuple(each["values"]), each["meaning"]) for each in header["parameters"])
    names = [parameter.name for parameter in parameters]
    outcomes = {
        Config.of(dict(zip(names, values, strict=True))): FailureKind(outcome) if isinstance(outcome, str) else outcome
        for *values, outcome in lines
    }
    if not len(outcomes) == len(lines) == header["configs"]:
        raise ValueError(f"it has {len(lines)} lines with {len(outcomes)} of {header['configs']} configs")
    _check(outcomes)
    recording = Recording(
        problem=Problem.from_spec(header["operation"], header["problem"]),
        device=Device.from_spec(header["device"]),
        family=header["family"],
        parameters=parameters,
        default=Config.of(dict(zip(names, header["default"], strict=True))),
        outcomes=outcomes,
        created=header["created"],
        environment=header["environment"],
    )
    if outside := next((each for each in (*outcomes, recording.default) if not recording.space.contains(each)), None):
        raise ValueError(f"{outside} is not in its space")
    return recording


def _is_among(known: set[tuple[Value, ...]]) -> Callable[..., bool]:
    return lambda *values: values in known
