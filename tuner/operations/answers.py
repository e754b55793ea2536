"""Inputs and right answers of any problem, by its operation's judge."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsmith.generator.problem import Problem
from warpsmith.tuner.operations.judge import Judge
from warpsmith.tuner.operations.reference import Operands, Reference, References
from warpsmith.tuner.operations.registry import judge_of

MAX_STRESS_TERMS = 1 << 27
"""Terms of all results, past which only finalists meet these inputs: NumPy takes about 1 s on two cores for the
reference of so many (1 s for a 3840x2160 image and a 4x4 filter), for which a search need not wait."""

QUICK_TERMS = MAX_STRESS_TERMS
"""Terms of all results up to which the host makes the reference: about a second on two cores, as long as NVRTC may take
to compile the kernels that do it on a GPU."""


def random_operands(problem: Problem, seed: int, judge: Judge[Any] | None = None) -> Operands:
    """Inputs for `problem`, dense and never all zeros: the values that it knows where it does, else random ones.

    They are as the operation's judge draws them, or another one that is given. Raises TypeError for an operation
    without a judge, as all functions here.
    """
    return {**(judge or judge_of(problem)).inputs(problem, np.random.default_rng(seed)), **_known(problem)}


def stress_operands(problem: Problem, seed: int) -> Operands:
    """Inputs for `problem`: the values that it knows where it does, else such as are hard on rounding errors."""
    return {**judge_of(problem).stress_inputs(problem, np.random.default_rng((seed, 1))), **_known(problem)}


def _known(problem: Problem) -> Operands:
    return {
        operand.name: np.array(problem.known[operand.name], str(operand.dtype)).reshape(operand.shape)
        for operand in problem.inputs
        if operand.name in problem.known
    }


def references(problem: Problem, operands: Operands, judge: Judge[Any] | None = None) -> References:
    """The float64 answers, by the names of the problem's results; by the operation's judge, or one that is given."""
    return (judge or judge_of(problem)).references(problem, operands)


def reference(problem: Problem, operands: Operands) -> Reference:
    """The float64 answer of a problem that has one result."""
    return references(problem, operands)[problem.output.name]


def is_quick(problem: Problem, most_terms: int | None = None, judge: Judge[Any] | None = None) -> bool:
    """Whether the results of a problem have so few terms in all; MAX_STRESS_TERMS where no number is given."""
    results = sum(operand.size for operand in problem.outputs)
    most = MAX_STRESS_TERMS if most_terms is None else most_terms
    return results * (judge or judge_of(problem)).terms(problem) <= most
