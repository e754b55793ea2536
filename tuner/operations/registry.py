"""Registry of the operations' judges, one line each; inputs, references and peers of any problem by its judge."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np

from warpsmith.generator.cgemm import Cgemm
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.fft import Fft
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.problem import Problem
from warpsmith.store.record import LeftOut
from warpsmith.tuner.operations.cgemm.judge import CgemmJudge
from warpsmith.tuner.operations.conv2d.judge import Conv2dJudge
from warpsmith.tuner.operations.fft.judge import FftJudge
from warpsmith.tuner.operations.filter1d.judge import Filter1dJudge
from warpsmith.tuner.operations.filter2d.judge import Filter2dJudge
from warpsmith.tuner.operations.judge import Judge, Operands, Reference, References
from warpsmith.tuner.operations.peer import Peer

JUDGES: Mapping[str, Judge[Any]] = {
    Filter2d.operation: Filter2dJudge(),
    Fft.operation: FftJudge(),
    Conv2d.operation: Conv2dJudge(),
    Cgemm.operation: CgemmJudge(),
    Filter1d.operation: Filter1dJudge(),
}
"""Judges by operation."""


def judge_of(problem: Problem) -> Judge[Any]:
    """Judge of the problem's operation. Raises TypeError if it has none."""
    try:
        return JUDGES[problem.operation]
    except KeyError:
        raise TypeError(f"no judge for {problem.operation}") from None


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


def stress_operands(problem: Problem, seed: int, judge: Judge[Any] | None = None) -> Operands:
    """Inputs for `problem` that are hard on rounding errors, drawn as those of `random_operands` are."""
    able = judge or judge_of(problem)
    return {**able.stress_inputs(problem, np.random.default_rng((seed, 1))), **_known(problem)}


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


def candidates(
    problem: Problem, operands: Operands, kind: DeviceKind, sets: int = 1, judge: Judge[Any] | None = None
) -> tuple[Peer | LeftOut, ...]:
    """Libraries for `problem` on this kind of device, each with `sets` sets of buffers, or the reason why it is left
    out.

    The operation's judge names them, or `judge` if it is given.
    """
    return tuple(maker.made() for maker in (judge or judge_of(problem)).peers(problem, operands, kind, sets))


def peers(
    problem: Problem, operands: Operands, kind: DeviceKind, sets: int = 1, judge: Judge[Any] | None = None
) -> tuple[Peer, ...]:
    """The `candidates` that are installed and solve the problem."""
    return tuple(each for each in candidates(problem, operands, kind, sets, judge) if isinstance(each, Peer))


def import_ahead(problem: Problem, kind: DeviceKind, judge: Judge[Any] | None = None) -> None:
    """Imports the libraries for a problem, in a thread beside others: PyTorch takes 3 s, in which a large problem can
    be laid out. A library that fails here fails again, and is reported, when it is used.
    """
    able = judge or judge_of(problem)
    with contextlib.suppress(Exception):
        small = able.smaller(problem)
        for maker in able.peers(small, random_operands(small, 0, able), kind, 1):
            if package := next(filter(find_spec, maker.packages), None):
                importlib.import_module(package)


def warm_up(problem: Problem, operands: Operands, kind: DeviceKind, judge: Judge[Any] | None = None) -> None:
    """Loads the libraries for a problem and lets them compile what they need, on a problem of a few elements.

    Libraries that are left out of `problem` for the time that they would take are skipped.
    """
    able = judge or judge_of(problem)
    small = able.smaller(problem)
    wanted = {maker.name for maker in able.peers(problem, operands, kind, 1) if maker.why_not is None}
    for maker in able.peers(small, random_operands(small, 0, able), kind, 1):
        peer = maker.made() if maker.name in wanted else None
        if isinstance(peer, Peer):
            with contextlib.suppress(Exception):
                peer.run()
                peer.result()
