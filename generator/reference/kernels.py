"""What the float64 kernels of every operation have in common: their results, their arguments, their strips."""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import Generic, TypeVar

from warpsmith.generator.bounds import PEAK as PEAK
from warpsmith.generator.problem import Operand, Problem
from warpsmith.generator.program import ByValue, Launch, Pointer, Program
from warpsmith.generator.space import Config
from warpsmith.generator.steps import Workspace

P = TypeVar("P", bound=Problem)

EXPECTED, SCALE, SUMS = "expected", "scale", "sums"
"""Names of the buffers that the kernels write: results, what errors are relative to, and sums of squares."""
FIRST = "first"
"""The number of a launch's first block (unsigned long long, by value), so that a grid is launched in strips."""
SLACK = "slack"
"""What the last kernel multiplies the scale by (double, by value)."""
THREADS = 256
SPAN = 4096
"""Results of one block of the kernels that pass over them once."""


class ReferenceKernels(abc.ABC, Generic[P]):
    """Kernels that compute the float64 result of a problem, and what its errors are relative to, on the device.

    The program reads the problem's inputs by their names. It writes the results of the output's real numbers in C order
    of its shape to `expected`, and their scales to `scale`. Whoever launches it fills all that it writes with zeros
    first: some blocks add to what others have written.
    """

    def why_not(self, problem: P) -> str | None:  # noqa: ARG002 - for those with limits
        """Why there are no such kernels for `problem`, in one line; None where there are."""
        return None

    @abc.abstractmethod
    def program(self, problem: P) -> Program:
        """The kernels; a grid may have more blocks than a launch, which then takes a strip of them."""

    @abc.abstractmethod
    def multiply_adds(self, problem: P) -> int:
        """Float64 multiply-adds of the kernels; how long they take follows from that."""


def reference_program(source: str, launches: tuple[Launch, ...], workspaces: tuple[Workspace, ...]) -> Program:
    """A program of one text. It has no config: there is one way to compute a reference."""
    return Program.of_source("reference", Config.of({}), source, launches, workspaces)


def strips_launch(entry: str, blocks: int, *buffers: str) -> Launch:
    """A launch of so many blocks in all, with these buffers as arguments, then the number of the first block."""
    return Launch.of_blocks(entry, blocks, THREADS, (*map(Pointer, buffers), ByValue(FIRST)))


def finishing_launch(blocks: int, *buffers: str) -> Launch:
    """The launch of `finish`, the last kernel of each reference."""
    launch = strips_launch("finish", blocks, *buffers)
    return dataclasses.replace(launch, arguments=(*launch.arguments, ByValue(SLACK)))


def pass_blocks(output: Operand, segments: int = 1) -> int:
    """Blocks of a kernel that passes once over the real numbers of a result in `segments` equal parts."""
    return segments * math.ceil(output.components.size // segments / SPAN)
