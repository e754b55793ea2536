"""Unified diffs without line numbers, for golden files.

A line that a template gains moves everything below it, so line numbers would change in the stored diff of every
variant. Here text says where a hunk belongs:

    base: direct_wgrad.cu
    @@ __device__ float pixel_at(const float* channel, int row, int column) {
     a line that both have
    -a line of the base alone
    -...
    -another line of the base alone
    +a line of the text alone

The first line names the base. Behind `@@` stands the last heading before the hunk (the first line of a function, a
struct or a table), if the hunk before has not passed it. The hunk's lines that begin with a space or with `-` are lines
of the base: the hunk belongs where they first occur after that heading and after the hunk before. `-...` stands for
any number of removed lines up to those that follow it.

There is one way to apply a diff. Only an update makes diffs, with difflib, so a test does not depend on how a version
of Python chooses among equally good ones.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_NAMES_BASE = "base: "
_HUNK = "@@"
_ELLIPSIS = "-..."
_LONGEST_REMOVAL = 4
"""Lines in a row that a hunk shows when it removes them; of more it shows the first and the last."""
_HEADING = re.compile(r"[A-Za-z_][^;]*$")
"""The first line of a function, a struct or a table."""


class DoesNotApply(ValueError):
    """A hunk's lines are not in the base."""


class _Change(NamedTuple):
    """Lines `old` of the base become lines `new` of the text."""

    old: slice
    new: slice


def base_of(diff: str) -> str:
    """Name of the text that the diff changes."""
    return diff.partition("\n")[0].removeprefix(_NAMES_BASE)


def apply_diff(diff: str, base: str) -> str:
    """Text that the diff makes of its base."""
    source, result, at = base.split("\n"), [], 0
    for heading, body in _hunks(diff):
        start = _located(heading, body, source, at)
        result += source[at:start]
        at = start
        for i, line in enumerate(body):
            if line == _ELLIPSIS:
                at = _found(_old(body[i + 1 :]), source, at)
            elif line[:1] == "+":
                result.append(line[1:])
            else:
                if line[:1] != "-":
                    result.append(source[at])
                at += 1
    return "\n".join(result + source[at:])


def make_diff(text: str, base: str, name: str) -> str:
    """Diff that makes the text of its base, which is called `name`."""
    old, new = base.split("\n"), text.split("\n")
    lines, at = [f"{_NAMES_BASE}{name}"], 0
    for changes in _neighbours(_changes(old, new)):
        body = list(_body(changes, old, new))
        lines += _anchored(body, old, changes[0].old.start, at)
        at = changes[-1].old.stop
    made = "\n".join(lines) + "\n"
    assert apply_diff(made, base) == text, name
    return made


def _hunks(diff: str) -> Iterator[tuple[str, list[str]]]:
    """Heading and body of each hunk."""
    lines = diff.removesuffix("\n").split("\n")
    starts = [i for i, line in enumerate(lines) if line.startswith(_HUNK)]
    for start, end in itertools.pairwise([*starts, len(lines)]):
        yield lines[start].removeprefix(_HUNK)[1:], lines[start + 1 : end]


def _old(body: Sequence[str]) -> list[str]:
    """Lines of the base at the beginning of a hunk, up to its first ellipsis."""
    end = body.index(_ELLIPSIS) if _ELLIPSIS in body else len(body)
    return [line[1:] for line in body[:end] if line[:1] != "+"]


def _located(heading: str, body: Sequence[str], source: Sequence[str], start: int) -> int:
    """Index of a hunk's first line in the base, from `start` on."""
    after = _found([heading], source, start) + 1 if heading else start
    return _found(_old(body), source, after)


def _found(lines: Sequence[str], source: Sequence[str], start: int) -> int:
    """Index from `start` on at which `source` has these lines."""
    for at in range(start, len(source) - len(lines) + 1):
        if source[at : at + len(lines)] == list(lines):
            return at
    raise DoesNotApply(f"the base does not have these lines after its line {start}: {lines}")


def _changes(old: Sequence[str], new: Sequence[str]) -> Iterator[_Change]:
    for tag, start, stop, new_start, new_stop in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield _Change(slice(start, stop), slice(new_start, new_stop))


def _neighbours(changes: Iterator[_Change]) -> list[list[_Change]]:
    """Changes by hunk: at most one line lies between two changes of a hunk."""
    groups: list[list[_Change]] = []
    for change in changes:
        if groups and change.old.start - groups[-1][-1].old.stop <= 1:
            groups[-1].append(change)
        else:
            groups.append([change])
    return groups


def _body(changes: Sequence[_Change], old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    end = changes[0].old.start
    for change in changes:
        yield from _context(old[end : change.old.start])
        end = change.old.stop
        yield from _removal(old, change.old)
        yield from (f"+{line}" for line in new[change.new])


def _removal(old: Sequence[str], removed: slice) -> Iterator[str]:
    """Removed lines; if they are many, the first, an ellipsis and as many of the last as tell where it ends."""
    lines = list(old[removed])
    for last in range(1, len(lines) - _LONGEST_REMOVAL + 1):
        if _found(lines[-last:], old, removed.start + 1) == removed.stop - last:
            lines[1:-last] = [_ELLIPSIS[1:]]
            break
    yield from (f"-{line}" for line in lines)


def _anchored(body: Sequence[str], old: Sequence[str], start: int, previous: int) -> list[str]:
    """The hunk with its heading, and with as many lines of the base before it as make `start` its place."""
    headings = [line for line in old[previous:start] if _HEADING.match(line)]
    fewest = 0 if _old(body) or start == previous else 1  # a line that is only added needs one beside it
    for first in range(start - fewest, previous - 1, -1):
        lines = [*_context(old[first:start]), *body]
        for heading in (*headings[-1:], ""):
            if _is_located(heading, lines, old, previous, first):
                return [f"{_HUNK} {heading}".rstrip(), *lines]
    raise AssertionError("a hunk that begins at the end of the hunk before is always found")


def _is_located(heading: str, body: Sequence[str], old: Sequence[str], previous: int, start: int) -> bool:
    try:
        return _located(heading, body, old, previous) == start
    except DoesNotApply:
        return False


def _context(lines: Sequence[str]) -> list[str]:
    """Lines that both texts have; empty ones without the space, which editors would remove."""
    return [f" {line}" if line else "" for line in lines]
