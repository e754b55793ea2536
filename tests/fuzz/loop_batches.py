"""One image of a batch does not affect the results of the others.

One image is NaN, infinite, close to the end of float32, denormal, or a million times as large as the others. The
results of the others must be the same as without it: the same bits, or right within the bound of the operation's judge
for each image alone. Gradients of weights are sums over the batch, and are left out.
"""

from __future__ import annotations

import dataclasses
import math
import random
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from candidates import Candidate, candidates, is_quick
from host_runs import results
from problems import SMALL
from warpsmith.generator.cgemm import Cgemm
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.conv2d.layer.words import Pass
from warpsmith.generator.fft import Fft
from warpsmith.generator.fft.problem import Layout
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import HOST
from warpsmith.generator.problem import DType, Operand, Problem
from warpsmith.tuner.evaluate.verify import verify
from warpsmith.tuner.operations.judge import Operands, Reference
from warpsmith.tuner.operations.registry import judge_of, random_operands

INTEGERS = (DType.UINT8, DType.INT16)
FACTORS = (math.nan, math.inf, 1e38, 1e-38, 1e6)
"""Factors of the one image."""


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """A candidate, the image of its batch that is changed, and the factor that changes it."""

    candidate: Candidate
    image: int
    factor: float

    def __str__(self) -> str:
        return f"image {self.image} times {self.factor} by {self.candidate}"


def cases(seed: int, count: int) -> Iterator[Case]:
    """`count` cases on the host device, one factor after the other."""
    rng, made = random.Random(seed), 0
    while made < count:
        for candidate in candidates(rng, 1, SMALL, (HOST,)):
            problem = candidate.question.problem
            if batch_of(problem) > 1 and problem.inputs[0].dtype not in INTEGERS and is_quick(candidate):
                yield Case(candidate, rng.randrange(batch_of(problem)), FACTORS[made % len(FACTORS)])
                made += 1


def check(case: Case) -> str | None:
    """The effect on another image, in one line; None if there is none."""
    problem, judge = case.candidate.question.problem, judge_of(case.candidate.question.problem)
    operands = random_operands(problem, zlib.crc32(str(case).encode()))
    source = problem.inputs[0]
    changed = operands[source.name].copy()
    with np.errstate(all="ignore"):
        _images(problem, source, changed)[case.image] *= case.factor
    before, after = (
        _images(problem, problem.output, each)
        for each in results(case.candidate, (operands, {**operands, source.name: changed}))
    )
    bound = judge.error_bound(problem, problem.output)
    for number in range(batch_of(problem)):
        if number == case.image or before[number].tobytes() == after[number].tobytes():
            continue
        reference = _alone(problem, operands, number)
        verdict = verify(np.ascontiguousarray(after[number])[np.newaxis], reference, problem.output.dtype, bound)
        if not verdict.right:
            factor = f"{case.factor:g} times image {case.image}"
            return f"{case.candidate.family.name}: {factor} reaches image {number}: {verdict.message}"
    return None


def parse(text: str) -> Case:
    """The case that `str` wrote."""
    head, _, candidate = text.partition(" by ")
    _, image, _, factor = head.split()
    return Case(Candidate.parse(candidate), int(image), float(factor))


def batch_of(problem: Problem) -> int:
    """Number of independent images, planes, signals, transforms or products."""
    match problem:
        case Conv2d():
            return 1 if problem.pass_ is Pass.WGRAD else problem.input[0]
        case Filter2d():
            return problem.planes
        case Fft():
            return problem.batch if getattr(problem, "together", None) == 1 else 1
        case Cgemm() | Filter1d():
            return problem.batch
    raise TypeError(problem.operation)


def _images(problem: Problem, operand: Operand, array: NDArray[Any]) -> NDArray[Any]:
    """A view of an operand, one image after the other."""
    is_last = isinstance(problem, Fft) and problem.layout is Layout.FREQUENCY and operand.name == "spectrum"
    return np.moveaxis(array, -1, 0) if is_last else array


def _alone(problem: Problem, operands: Operands, number: int) -> Reference:
    """The reference of one image alone: errors are relative to its own results."""
    match problem:
        case Conv2d():
            single = dataclasses.replace(problem, input=(1, *problem.input[1:]))
        case Filter2d():
            single = dataclasses.replace(problem, planes=1)
        case _:
            single = dataclasses.replace(problem, batch=1)
    own = {
        each.name: np.ascontiguousarray(_images(problem, each, operands[each.name])[number]).reshape(alone.shape)
        for each, alone in zip(problem.inputs, single.inputs, strict=True)
        if alone.size < each.size
    }
    return judge_of(problem).references(single, {**operands, **own})[problem.output.name]
