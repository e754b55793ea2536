"""Devices as data, checked in the source: only the tables compare architectures and name GPUs."""

from __future__ import annotations

import ast
import enum
import functools
import operator
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

GENERATOR = Path(__file__).parents[2] / "generator"
TABLES = {"architectures.py", "device.py", "presets.py", "tensor_cores.py"}
"""Modules that may contain device facts."""
LIMITS = {48 * 1024, 64 * 1024, 227 * 1024, 228 * 1024}
"""Bytes of shared memory and registers of a multiprocessor; `Device.limits` has them, or `STATIC_SHARED_BYTES`."""
NAMED_LIMITS = {"REGISTERS": 255, "THREADS": 1024, "BLOCKS": 32}
"""Numbers that are limits if the constant's name ends so; `MOST_OFFSET = 255` of a copy is not a limit."""
OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Mult: operator.mul,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
}
UNITS = re.compile(r"_A_(NS|US|CLOCK)$|_(US|us)$|CLOCKS")
"""Name endings whose unit is neither ns, bytes nor a rate per ns."""


class Offence(enum.Enum):
    """Forbidden acts of a module outside the tables."""

    NAMES_A_GPU = enum.auto()
    COMPARES_CAPABILITIES = enum.auto()
    HAS_A_LIMIT = enum.auto()
    HAS_ANOTHER_UNIT = enum.auto()


@functools.cache
def offences() -> dict[Offence, list[str]]:
    """Places of each offence, in one pass over the source."""
    found: dict[Offence, list[str]] = {each: [] for each in Offence}
    modules = [path for path in sorted(GENERATOR.rglob("*.py")) if path.relative_to(GENERATOR).as_posix() not in TABLES]
    assert len(modules) > 150
    for path in modules:
        for node in ast.walk(ast.parse(path.read_text())):
            for each in offences_of(node):
                found[each].append(f"{path.relative_to(GENERATOR)}:{getattr(node, 'lineno', 0)}")
    return found


def offences_of(node: ast.AST) -> Iterator[Offence]:
    match node:
        case ast.ImportFrom(module="warpsmith.generator.presets") | ast.alias(name="warpsmith.generator.presets"):
            yield Offence.NAMES_A_GPU
        case ast.Attribute(attr="compute_capability"):
            yield Offence.COMPARES_CAPABILITIES
        case ast.Constant() | ast.BinOp() if folded(node) in LIMITS:
            yield Offence.HAS_A_LIMIT
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if any(
            name.endswith(end) and folded(value) == limit for end, limit in NAMED_LIMITS.items()
        ):
            yield Offence.HAS_A_LIMIT
    match node:
        case ast.Name(id=name) | ast.FunctionDef(name=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
            if UNITS.search(name):
                yield Offence.HAS_ANOTHER_UNIT


def folded(node: ast.AST) -> int | None:
    """Integer value of literals, as in 48 * 1024; None for any other expression."""
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            ours, theirs = folded(left), folded(right)
            return None if ours is None or theirs is None else OPERATORS[type(op)](ours, theirs)
    return None


def test_no_family_names_a_gpu() -> None:
    """A family must ask its device. A preset in its place would answer for all devices."""
    assert not offences()[Offence.NAMES_A_GPU]
    assert "presets" not in (GENERATOR / "device.py").read_text()


def test_no_family_compares_compute_capabilities() -> None:
    """A family must request a feature or an instruction: `Device.has`, `Device.tensor_instruction`."""
    assert not offences()[Offence.COMPARES_CAPABILITIES]


def test_limits_are_the_devices() -> None:
    assert not offences()[Offence.HAS_A_LIMIT]


def test_times_are_ns_and_rates_are_per_ns() -> None:
    assert not offences()[Offence.HAS_ANOTHER_UNIT]


@pytest.mark.parametrize(
    ("text", "offence"),
    [
        ("from warpsmith.generator.presets import H200", Offence.NAMES_A_GPU),
        ("device.compute_capability >= (9, 0)", Offence.COMPARES_CAPABILITIES),
        ("most = 48 * 1024", Offence.HAS_A_LIMIT),
        ("MAX_REGISTERS = 255", Offence.HAS_A_LIMIT),
        ("BYTES_A_US = 3.0", Offence.HAS_ANOTHER_UNIT),
        ("def total_us(): ...", Offence.HAS_ANOTHER_UNIT),
        ("MOST_OFFSET = 255", None),
    ],
)
def test_offences_are_seen(text: str, offence: Offence | None) -> None:
    found = {each for node in ast.walk(ast.parse(text)) for each in offences_of(node)}
    assert found == ({offence} if offence else set())


@pytest.mark.parametrize(
    ("text", "value"), [("48 * 1024", 49152), ("65536", 65536), ("8 * n", None), ('"x" * 2', None)]
)
def test_expressions_of_literals_are_folded(text: str, value: int | None) -> None:
    assert folded(ast.parse(text, mode="eval").body) == value
