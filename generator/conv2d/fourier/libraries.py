"""Workspace of library calls: a library gets what the program leaves of the layer's workspace.

The kernels of cuBLAS need no more than they are given, so a call to it says how much that is. cuFFT takes as much as it
needs, which only the library on a device knows.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from warpsmith.generator.conv2d.fourier.parts import FourierParts
from warpsmith.generator.library_calls import LEAST_CUBLAS_BYTES, USUAL_CUBLAS_BYTES, CublasProduct
from warpsmith.generator.program import Program
from warpsmith.generator.steps import ALIGNMENT, LibraryCall, Step, aligned


class PartsForCublas(FourierParts):
    """Parts of a batch that leave cuBLAS the least workspace that it needs."""

    beside: ClassVar[int] = LEAST_CUBLAS_BYTES


def with_room(program: Program, workspace: int) -> Program:
    """A program whose cuBLAS products get what its own workspaces leave of `workspace` bytes.

    The streams of a step have equal shares, and no stream gets more than is usual. Steps use the same memory one after
    the other.

    Raises ValueError if a share is less than cuBLAS needs.
    """
    left = workspace - sum(aligned(each.nbytes) for each in program.workspaces)
    return dataclasses.replace(program, steps=tuple(_with_room(step, left) for step in program.steps))


def most_streams(left: int) -> int:
    """Most streams over which cuBLAS products may be spread in `left` bytes of workspace, a share for each stream."""
    return left // LEAST_CUBLAS_BYTES


def _with_room(step: Step, left: int) -> Step:
    if not isinstance(step, LibraryCall) or not isinstance(step.parameters, CublasProduct):
        return step
    share = left // step.parameters.streams // ALIGNMENT * ALIGNMENT
    product = dataclasses.replace(step.parameters, workspace_bytes=min(share, USUAL_CUBLAS_BYTES))
    return dataclasses.replace(step, parameters=product)
