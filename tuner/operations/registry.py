"""Registry of the operations' judges, one line each. No other module names them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warpsmith.generator.cgemm import Cgemm
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.fft import Fft
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.problem import Problem
from warpsmith.tuner.operations.cgemm.judge import CgemmJudge
from warpsmith.tuner.operations.conv2d.judge import Conv2dJudge
from warpsmith.tuner.operations.fft.judge import FftJudge
from warpsmith.tuner.operations.filter2d.judge import Filter2dJudge
from warpsmith.tuner.operations.judge import Judge

JUDGES: Mapping[str, Judge[Any]] = {
    Filter2d.operation: Filter2dJudge(),
    Fft.operation: FftJudge(),
    Conv2d.operation: Conv2dJudge(),
    Cgemm.operation: CgemmJudge(),
}
"""Judges by operation."""


def judge_of(problem: Problem) -> Judge[Any]:
    """Judge of the problem's operation. Raises TypeError if it has none."""
    try:
        return JUDGES[problem.operation]
    except KeyError:
        raise TypeError(f"no judge for {problem.operation}") from None
