"""Arguments of every kind, in Python and on the command line: each is accepted, or refused in one line.

A case is a seed from which the fields of a problem or the words of a command line are drawn. No case may end in an
uncaught Python error. The loop tunes, compiles and times nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import decimal
import enum
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import typer

import warpsmith as ws
from command_lines import own_folder, ran
from seeded_case import SeededCase
from warpsmith.cli import app
from warpsmith.errors import WarpsmithError
from warpsmith.generator.problem import Problem

PROBLEMS: tuple[type[Problem], ...] = (ws.Filter2d, ws.Fft, ws.Conv2d, ws.Cgemm)
USUAL: dict[str, Any] = {
    **{"image": (9, 12), "filter": (3, 3), "input": (2, 3, 9, 9), "weight": (4, 3, 3, 3)},
    **{"size": (8, 8), "batch": 2, "m": 3, "n": 4, "k": 5},
}
"""Fields that are valid in most problems, so that a problem's other fields are checked too."""


class Index:
    """An integer with only `__index__`, as other libraries have."""

    def __index__(self) -> int:
        return 3


VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 3, 2**31, 2**200, 1.5, 3.0, -0.0, 1e400, 3j),
    *("", "x", "same", "3", "3x3", "float32", "ä\0", b"x", ..., object),
    *((), (3,), (3, 3), (3, 3, 3), (1, 3, 9, 9), ((1, 1), (2, 2)), ((1, 2),)),
    *((3.0, 3), (True, 3), ("3", 3), (None, 3), (2**40, 2**40), (-3, 3), [[]]),
    *({}, {"a": 1}, {3, 5}, range(2), slice(1, 2), decimal.Decimal(3), Index()),
    *(np.int64(3), np.float32(3), np.datetime64("2020"), np.array(["a"]), np.full((3, 3), np.nan)),
    *(np.ones(shape, np.int32) for shape in ((), 2, (2, 2), (3, 3), (2, 2, 2))),
)
"""Values that fields may be given, beside an iterator, which is used up once."""
WORDS = (
    *("", " ", "0", "-1", "1", "2", "1.5", "1e3", "nan", "3x3", "3,3", "8x8", "16x16x16", "1,3,9,9", "0x0", "-3x3"),
    *("9" * 20, "2147483648", "1073741824x4", "ü", "a" * 5000, "--", "=", "/dev/null", "/nonexistent/x", "/", "yes"),
    *("auto", "host", "cuda:0", "cuda:99", "all", "float16", "same", "wrap", "60s", "0s", "1e9h", "nhwc", "dgrad"),
    *("r2c", "tf32", "sm_90", "sm_1", "[]", "{}", "null", "1:2", "1,2;3,4", "(1, 2)", "tpe", "nvrtc", "deep.json"),
    *("list.json", "junk.db", "folder", "new.db", "o.db?x", "sqlite:///x.db", "postgresql://127.0.0.1:1/x"),
)
FITTING = {
    **{"image": ("16x16", "9x31", "1x1"), "filter": ("3x3", "1x5", "7x1"), "input": ("1,3,9,9", "2,4,8,8")},
    **{"weight": ("4,3,3,3", "2,4,1,1"), "size": ("8", "16x16", "37"), "batch": ("1", "5"), "device": ("host",)},
    **{"m": ("3",), "n": ("4",), "k": ("5",), "store": ("new.db",)},
}
RUNNING = ("tune", "bench", "verify", "export")
"""Commands that compile or time something if their arguments are valid; the loop makes their arguments invalid."""
EXIT_CODES = (0, 1, 2, 3)
BAD_ARGUMENT = 2


class Kind(enum.StrEnum):
    """Interface that gets the arguments."""

    PROBLEM = "problem"
    LINE = "line"


Case = SeededCase[Kind]


def cases(seed: int, count: int) -> Iterator[Case]:
    """`count` cases: seven problems for each command line, since that takes a hundred times as long."""
    for number in range(count):
        yield Case(Kind.PROBLEM if number % 8 else Kind.LINE, seed * 10_000_000 + number)


def parse(text: str) -> Case:
    """The case that `str` wrote."""
    return Case.parse(text, Kind)


@contextlib.contextmanager
def opened() -> Iterator[None]:
    """A working folder with the files that the words name, in which commands read none of the user's files."""
    with own_folder() as folder:
        for name, text in (("deep.json", "[" * 100_000), ("list.json", "[{}]"), ("junk.db", "junk" * 100)):
            (folder / name).write_text(text)
        (folder / "folder").mkdir()
        yield


def check(case: Case) -> str | None:
    """The fault of the answer, in one line; None if there is none."""
    rng = random.Random(case.seed)
    return _problem(rng) if case.kind is Kind.PROBLEM else _line(rng)


def _problem(rng: random.Random) -> str | None:
    kind = rng.choice(PROBLEMS)
    given = {}
    for field in dataclasses.fields(kind):
        if field.name in USUAL and rng.random() < 0.85:
            given[field.name] = USUAL[field.name]
        elif rng.random() < 0.12 or field.name in USUAL:
            given[field.name] = _value(rng)
    told = f"{kind.__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"
    try:
        made = kind(**given)
        hash(made)
        made.key()
        ws.query(made, device="host")
    except WarpsmithError as refused:
        return f"{told}: several lines: {refused}" if "\n" in str(refused) else None
    except Exception as error:
        return f"{told}: {type(error).__name__}: {error}"
    return None


def _value(rng: random.Random) -> Any:
    number = rng.randrange(len(VALUES) + 1)
    return VALUES[number] if number < len(VALUES) else iter((3, 3))


def _line(rng: random.Random) -> str | None:
    words = _drawn_line(rng)
    try:
        done = ran(words)
    except Exception as error:
        return f"{words}: {type(error).__name__}: {error}"
    refusals = done.errors.count("warpsmith: error")
    is_told = refusals == 1 if done.code == BAD_ARGUMENT else refusals <= 1
    if done.code not in EXIT_CODES or not is_told or "Traceback" in done.errors:
        return f"{words}: exit code {done.code}: {done.errors}"
    return None


def _drawn_line(rng: random.Random) -> list[str]:
    """Words of a command line. Most of them are valid."""
    path, command = rng.choice(_commands())
    words = list(path)
    for parameter in command.params:
        name = parameter.name.strip("_")
        if "--help" in parameter.opts or rng.random() > (0.9 if name in FITTING else 0.12):
            continue
        value = rng.choice(FITTING[name] if name in FITTING and rng.random() < 0.9 else WORDS)
        if parameter.param_type_name == "argument":
            words.append(value)
        elif getattr(parameter, "is_flag", False):
            words.append(rng.choice((*parameter.opts, *parameter.secondary_opts)))
        else:
            words += [rng.choice(parameter.opts), value]
    if path[0] in RUNNING:
        words += ["--seed", rng.choice(("x", "-1", ""))]
    return words


def _commands() -> list[tuple[tuple[str, ...], Any]]:
    """Every command that is not a group, with its path of words."""

    def below(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
        groups = getattr(command, "commands", {})
        for name, each in groups.items():
            yield from below(each, (*path, name))
        if not groups:
            yield path, command

    return list(below(typer.main.get_command(app.build(app.COMMANDS)), ()))
