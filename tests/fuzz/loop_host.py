"""Every family's default, starts and random configs are right on the host device, for operands of integers.

Sums of small integers are exact in float32 and in split arithmetic, whatever their order, so results must be equal.
Transforms and similar algorithms round, so their results must keep within the bound of the operation's judge.
"""

from __future__ import annotations

import itertools
import random
import sys
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from candidates import Candidate, candidates, is_quick
from host_runs import verified
from problems import SMALL
from warpsmith.devices.elements import numpy_dtype
from warpsmith.generator.presets import HOST
from warpsmith.generator.problem import DType, Operand, Problem
from warpsmith.tuner.operations.judge import Judge
from warpsmith.tuner.operations.registry import judge_of, random_operands

ROUNDING = ("fft", "winograd", "overlap", "circular", "filter1d_lags", "filter1d_part")
"""Parts of names of families, or of values of configs, that transform their operands."""
LARGEST = 4


def cases(seed: int, count: int) -> Iterator[Candidate]:
    """`count` candidates for the host device."""
    found = candidates(random.Random(seed), sys.maxsize, SMALL, (HOST,))
    return itertools.islice(filter(is_quick, found), count)


def check(case: Candidate) -> str | None:
    """The error of the result, in one line; None if it is right."""
    problem, judge = case.question.problem, judge_of(case.question.problem)
    seed = zlib.crc32(str(case).encode())
    operands = random_operands(problem, seed)
    if is_exact(case):
        judge = exactly(judge)
        generator = np.random.default_rng(seed)
        operands = {**operands, **{each.name: _integers(each, generator) for each in _drawn(problem)}}
    wrong = verified(case, operands, judge)
    return None if wrong is None else f"{case.family.name}: {wrong}"


parse = Candidate.parse


def is_exact(case: Candidate) -> bool:
    """True if the candidate only sums products of its operands, without transforms and activations that round."""
    if getattr(case.question.problem, "activation", None) is not None:
        return False
    words = (case.question.problem.operation, case.family.name, *map(str, case.config.values().values()))
    return not any(part in word for part in ROUNDING for word in words)


def exactly(judge: Judge[Any]) -> Judge[Any]:
    """A judge of the same operation that allows no error."""

    class Exact(type(judge)):
        def error_bound(self, problem: Problem, output: Operand) -> float:  # noqa: ARG002 - none of any
            return 0.0

    return Exact()


def _drawn(problem: Problem) -> tuple[Operand, ...]:
    """Operands of any numbers. Those of int32 are places: rows of states, and where sequences start."""
    return tuple(each for each in problem.inputs if each.name not in problem.known and each.dtype is not DType.INT32)


def _integers(operand: Operand, generator: np.random.Generator) -> NDArray[Any]:
    lowest, highest = (0, 255) if operand.dtype is DType.UINT8 else (-LARGEST, LARGEST)
    parts = operand.components if operand.dtype is DType.COMPLEX64 else operand
    values = generator.integers(lowest, highest, parts.shape, endpoint=True)
    if operand.dtype is DType.COMPLEX64:
        return values.astype(np.float32).view(np.complex64).reshape(operand.shape)
    return values.astype(numpy_dtype(operand.dtype))
