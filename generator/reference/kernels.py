"""Common parts of the float64 reference kernels of all operations: results, arguments, and strips of a grid."""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import Generic, TypeVar

from warpsmith.generator.problem import PEAK as PEAK
from warpsmith.generator.problem import Operand, Problem
from warpsmith.generator.program import ByValue, Launch, Pointer, Program
from warpsmith.generator.space import Config
from warpsmith.generator.steps import Workspace

P = TypeVar("P", bound=Problem)

EXPECTED, SCALE, SUMS = "expected", "scale", "sums"
"""Names of the buffers that the kernels write: results, the scales of their errors, and sums of squares."""
FIRST = "first"
"""Argument with the number of a launch's first block (unsigned long long, by value): a grid is launched in strips."""
SLACK = "slack"
"""Argument with the factor by which the last kernel multiplies the scale (double, by value)."""
THREADS = 256
SPAN = 4096
"""Results per block of the kernels that pass over them once."""


class ReferenceKernels(abc.ABC, Generic[P]):
    """Kernels that compute the float64 result of a problem, and the scale of its errors, on the device.

    The program reads the problem's inputs by their names. It writes the results of the output's real numbers in C order
    of its shape to `expected`, and their scales to `scale`. The caller fills all buffers that it writes with zeros
    first: some blocks add to results of others.
    """

    def why_not(self, problem: P) -> str | None:  # noqa: ARG002 - for those with limits
        """Reason why there are no such kernels for `problem`, in one line; None if there are."""
        return None

    @abc.abstractmethod
    def program(self, problem: P) -> Program:
        """The kernels. A grid may have more blocks than one launch, which then takes a strip of them."""

    @abc.abstractmethod
    def multiply_adds(self, problem: P) -> int:
        """Float64 multiply-adds of the kernels; their time follows from that."""


def reference_program(source: str, launches: tuple[Launch, ...], workspaces: tuple[Workspace, ...]) -> Program:
    """Program of one text. It has no config: there is one way to compute a reference."""
    return Program.of_source("reference", Config.of({}), source, launches, workspaces)


def strips_launch(entry: str, blocks: int, *buffers: str) -> Launch:
    """Launch of `blocks` blocks in all; its arguments are these buffers, then the number of the first block."""
    return Launch.of_blocks(entry, blocks, THREADS, (*map(Pointer, buffers), ByValue(FIRST)))


def finishing_launch(blocks: int, *buffers: str) -> Launch:
    """Launch of `finish`, the last kernel of each reference."""
    launch = strips_launch("finish", blocks, *buffers)
    return dataclasses.replace(launch, arguments=(*launch.arguments, ByValue(SLACK)))


def pass_blocks(output: Operand, segments: int = 1) -> int:
    """Blocks of a kernel that passes once over the real numbers of a result in `segments` equal parts."""
    return segments * math.ceil(output.components.size // segments / SPAN)
