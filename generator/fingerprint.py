"""Fingerprints of programs: the keys of stored times, claims and verdicts."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from warpsmith.generator.identity import canonical
from warpsmith.generator.program_spec import step_spec, workspace_spec
from warpsmith.generator.steps import Argument, InMemory, Launch, LibraryCall, Step, Unit, Workspace

AnyArgument = TypeVar("AnyArgument", bound=Argument)

DIGITS = 20
"""Hexadecimal digits of a fingerprint."""
VERBATIM_DIGITS = 16
"""Hexadecimal digits of a fingerprint of schema 5 and older; their number tells the two kinds apart."""


def fingerprint(units: Sequence[Unit], steps: Sequence[Step], workspaces: Sequence[Workspace]) -> str:
    """Hash of a program, equal for programs that differ only in comments and private names.

    It covers the canonical source of each unit (`identity.canonical`), all arguments of launches and library calls, and
    the workspaces. Kernels, `__constant__` variables, units and workspaces count by their order, not by their names.
    """
    texts = {unit.name: canonical(unit.source) for unit in units}
    places = {unit.name: str(place) if place else "" for place, unit in enumerate(units)}
    buffers = {each.name: f"@{place}" for place, each in enumerate(workspaces)}

    def renamed(step: Step) -> Step:
        match step:
            case Launch():
                names = texts[step.unit].names
                return dataclasses.replace(
                    step,
                    entry=names.get(step.entry, step.entry),
                    unit=places[step.unit],
                    arguments=tuple(_renamed(each, buffers) for each in step.arguments),
                    constants=tuple(
                        dataclasses.replace(each, symbol=names.get(each.symbol, each.symbol)) for each in step.constants
                    ),
                )
            case LibraryCall():
                return dataclasses.replace(step, arguments=tuple(_renamed(each, buffers) for each in step.arguments))

    kept = [dataclasses.replace(each, name=buffers[each.name]) for each in workspaces]
    return _hash([each.text for each in texts.values()], [renamed(step) for step in steps], kept, DIGITS)


def verbatim_fingerprint(units: Sequence[Unit], steps: Sequence[Step], workspaces: Sequence[Workspace]) -> str:
    """Hash of a program in stores of schema 5 and bundles of that time; it covers comments and names of the source."""
    is_one_text = [unit.name for unit in units] == [""] and all(isinstance(step, Launch) for step in steps)
    texts = units[0].source if is_one_text else [[unit.name, unit.source] for unit in units]
    return _hash(texts, steps, workspaces, VERBATIM_DIGITS)


def _renamed(argument: AnyArgument, buffers: Mapping[str, str]) -> AnyArgument:
    if isinstance(argument, InMemory) and argument.buffer in buffers:
        return dataclasses.replace(argument, buffer=buffers[argument.buffer])
    return argument


def _hash(texts: Any, steps: Sequence[Step], workspaces: Sequence[Workspace], digits: int) -> str:
    described = [texts, [step_spec(step) for step in steps], [workspace_spec(each) for each in workspaces]]
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()[:digits]
