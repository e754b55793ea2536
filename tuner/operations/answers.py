"""Inputs and references of any problem, by its operation's judge."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsmith.generator.problem import Problem
from warpsmith.tuner.operations.judge import Judge
from warpsmith.tuner.operations.reference import Operands, Reference, References
from warpsmith.tuner.operations.registry import judge_of

MAX_STRESS_TERMS = 1 << 27
"""Largest number of terms of all results for which a search uses stress inputs; above it, only finalists meet them.
NumPy takes about 1 s on two cores for the reference of so many terms (1 s for a 3840x2160 image and a 4x4 filter).
"""

QUICK_TERMS = MAX_STRESS_TERMS
"""Largest number of terms of all results for which the host computes the reference: about a second on two cores, as
long as NVRTC may take to compile the kernels that compute it on a GPU.
"""


def random_operands(problem: Problem, seed: int, judge: Judge[Any] | None = None) -> Operands:
    """Random inputs for `problem`, dense and never all zeros. Inputs whose values the problem knows get these values.

    The operation's judge draws them, or `judge` if it is given. All functions here raise TypeError for an operation
    without a judge.
    """
    return {**(judge or judge_of(problem)).inputs(problem, np.random.default_rng(seed)), **_known(problem)}


def stress_operands(problem: Problem, seed: int) -> Operands:
    """Inputs for `problem` that are hard on rounding errors. Inputs whose values the problem knows get these values."""
    return {**judge_of(problem).stress_inputs(problem, np.random.default_rng((seed, 1))), **_known(problem)}


def _known(problem: Problem) -> Operands:
    return {
        operand.name: np.array(problem.known[operand.name], str(operand.dtype)).reshape(operand.shape)
        for operand in problem.inputs
        if operand.name in problem.known
    }


def references(problem: Problem, operands: Operands, judge: Judge[Any] | None = None) -> References:
    """Float64 references by the names of the problem's results, from the operation's judge or from `judge`."""
    return (judge or judge_of(problem)).references(problem, operands)


def reference(problem: Problem, operands: Operands) -> Reference:
    """Float64 reference of a problem with one result."""
    return references(problem, operands)[problem.output.name]


def is_quick(problem: Problem, most_terms: int | None = None, judge: Judge[Any] | None = None) -> bool:
    """True if the results have at most `most_terms` terms in all; None stands for MAX_STRESS_TERMS."""
    results = sum(operand.size for operand in problem.outputs)
    most = MAX_STRESS_TERMS if most_terms is None else most_terms
    return results * (judge or judge_of(problem)).terms(problem) <= most
