"""CUDA text: rendering of templates, and numbers as literals. Only this module knows Jinja2."""

from __future__ import annotations

import re
import textwrap
from functools import cache
from importlib import resources
from typing import Any

import jinja2

_BLANK_LINES = re.compile(r"\n{3,}")
MOST_COLUMNS = 120
_WIDE_COMMENT = re.compile(rf"^( *// (?:problem: |config:  )?)(?=.{{{MOST_COLUMNS - 12}}})(.*)$", re.MULTILINE)
"""Comments that may be wider than MOST_COLUMNS, such as the head of a text, which names the problem and the config."""


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(str(resources.files("warpsmith.templates"))),
        undefined=jinja2.StrictUndefined,  # a misspelt name is an error, never an empty string in a kernel
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        auto_reload=False,  # a template does not change while the program runs
    )


def render(template: str, **values: Any) -> str:
    """CUDA text of `template`, a file name in `templates/`, with `values` filled in."""
    text = _environment().get_template(template).render(**values)
    text = _BLANK_LINES.sub("\n\n", text)  # empty pieces leave their blank lines behind
    return _WIDE_COMMENT.sub(_wrapped, text)


def _wrapped(comment: re.Match[str]) -> str:
    """A comment in lines of at most MOST_COLUMNS, broken between words alone; one that fits stays as it is."""
    begin, words = comment.groups()
    if len(comment[0]) <= MOST_COLUMNS:
        return comment[0]
    further = begin.partition("//")[0] + "//".ljust(len(begin.lstrip()))
    return textwrap.fill(
        words,
        MOST_COLUMNS,
        initial_indent=begin,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )


def float_literal(value: float) -> str:
    """CUDA literal of a float32 that reads back to the same bits."""
    text = f"{value:.9g}"
    return f"{text}f" if any(mark in text for mark in ".en") else f"{text}.0f"
