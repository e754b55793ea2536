"""Messages in docs/troubleshooting.md: each still stands in the file it names."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| `(?P<message>[^`]+)` \| [^|]+ \| `(?P<file>[^`]+\.py)` \|$", re.MULTILINE)
VALUE = "\0"
"""Stands for a value in the text of an f-string."""
ROWS = [(each["message"], each["file"]) for each in ROW.finditer((ROOT / "docs/troubleshooting.md").read_text())]


@functools.cache
def texts(file: str) -> tuple[str, ...]:
    """Strings of a module; in f-strings each value is replaced by VALUE."""
    found = []
    for node in ast.walk(ast.parse((ROOT / file).read_text())):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else VALUE for part in node.values)
            found.append("".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return tuple(found)


@pytest.mark.parametrize(("message", "file"), ROWS, ids=[f"{file}: {message[:40]}" for message, file in ROWS])
def test_a_message_stands_in_its_file(message: str, file: str) -> None:
    pattern = re.compile(".*".join(re.escape(part.strip()) for part in message.split("...")), re.DOTALL)
    assert any(pattern.search(text) for text in texts(file)), message


def test_every_row_is_read() -> None:
    tables = re.findall(r"^\| `.*$", (ROOT / "docs/troubleshooting.md").read_text(), re.MULTILINE)
    assert len(ROWS) == len(tables) >= 60


def test_no_message_is_so_general_that_it_says_nothing() -> None:
    assert [message for message, _ in ROWS if len(re.sub(r"[^a-z]", "", message)) < 5] == []
