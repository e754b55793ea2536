"""Registry of the command line's operations, with one line each. Nothing else lists them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import typer

from warpsmith.cli.operations.cgemm import cgemm
from warpsmith.cli.operations.conv2d import conv2d
from warpsmith.cli.operations.fft import fft
from warpsmith.cli.operations.filter1d import filter1d
from warpsmith.cli.operations.filter2d import filter2d
from warpsmith.cli.options import join
from warpsmith.generator.cgemm import Cgemm
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.fft import Fft
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.problem import Problem

OPERATIONS: Mapping[str, Callable[..., Problem]] = {
    Filter2d.operation: filter2d,
    Fft.operation: fft,
    Filter1d.operation: filter1d,
    Conv2d.operation: conv2d,
    Cgemm.operation: cgemm,
}
"""Function of each operation that makes a problem from the command's options."""


def add_commands(group: typer.Typer, verb: Callable[..., Any]) -> None:
    """Adds one command per operation to `group`. It makes the problem and calls `verb` with it."""
    for name, operation in OPERATIONS.items():
        group.command(name)(join(operation, verb))
