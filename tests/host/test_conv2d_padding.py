"""Layers with non-zero padding modes on the CPU: families, modes and passes, compared with PyTorch's autograd."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import exhaustive
import sanitized
from conv2d_layers import layer
from together import Case, results
from verified import outcomes
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.runtime import Runtime
from warpsmith.generator.conv2d import Conv2d, PaddingMode, Pass
from warpsmith.generator.conv2d.fourier.variants import FOURIER
from warpsmith.generator.conv2d.plain_family import Conv2dPlain
from warpsmith.generator.conv2d.sums.direct_family import Conv2dDirect
from warpsmith.generator.family import Family
from warpsmith.generator.presets import HOST
from warpsmith.store.record import Failure, FailureKind, Measurement
from warpsmith.tuner.operations.registry import random_operands

torch = pytest.importorskip("torch")

PLAIN, DIRECT, FFT = Conv2dPlain(), Conv2dDirect(), FOURIER["conv2d_fft"]
MODES = [mode for mode in PaddingMode if mode is not PaddingMode.ZEROS]
every_pass = pytest.mark.parametrize("pass_", Pass)
Values = NDArray[Any]

SHAPES: tuple[dict[str, Any], ...] = (
    {"input": (2, 3, 7, 9), "weight": (5, 3, 3, 2), "padding": ((1, 2), (2, 0))},
    {"input": (1, 4, 4, 6), "weight": (6, 2, 2, 5), "groups": 2, "stride": (2, 1), "padding": 3, "dilation": (1, 2)},
    {"input": (2, 2, 3, 2), "weight": (3, 2, 4, 4), "padding": ((2, 2), (1, 1))},  # most that reflection allows
    {"input": (1, 2, 1, 8), "weight": (2, 2, 1, 4), "padding": ((0, 0), (7, 5)), "stride": (1, 3)},
    {"input": (1, 2, 19, 23), "weight": (3, 2, 5, 5), "padding": "same"},
)
FOURIER_SHAPES: tuple[dict[str, Any], ...] = (
    {"input": (4, 3, 9, 12), "weight": (5, 3, 3, 4), "padding": ((2, 0), (1, 3))},
    {"input": (2, 2, 3, 4), "weight": (3, 2, 4, 3), "padding": ((2, 2), (3, 1))},
)


def by_autograd(problem: Conv2d, given: Mapping[str, Values]) -> Values:
    """PyTorch's float64 result. Gradients are autograd's, through the convolution and the padding."""
    wide = {name: torch.from_numpy(values.copy()).double() for name, values in given.items()}
    x = wide.get("x", torch.zeros(problem.input, dtype=torch.float64)).requires_grad_()
    w = wide.get("w", torch.zeros(problem.weight, dtype=torch.float64)).requires_grad_()
    pads = [side for axis in reversed(problem.padding) for side in axis]
    padded = torch.nn.functional.pad(x, pads, str(problem.padding_mode))
    y = torch.nn.functional.conv2d(padded, w, wide.get("b"), problem.stride, 0, problem.dilation, problem.groups)
    if problem.pass_ is Pass.FPROP:
        result = y.relu() if problem.relu else y
    else:
        (result,) = torch.autograd.grad(y, x if problem.pass_ is Pass.DGRAD else w, wide["dy"])
    return np.asarray(result.detach().numpy())


def off(problem: Conv2d, result: Values, given: Mapping[str, Values]) -> float:
    """Largest error, relative to the sum of |terms|."""
    plain = dataclasses.replace(problem, relu=False)
    scale = by_autograd(plain, {name: np.abs(values) for name, values in given.items()})
    errors = np.abs(result - by_autograd(problem, given))
    return float(np.max(errors / np.maximum(scale, 1e-30)))


@every_pass
def test_sums_over_taps_are_pytorchs(pass_: Pass, quickest: HostCompiler, host: Runtime) -> None:
    """Default configs for all shapes and modes, and random configs for every fourth. By default families take
    turns: each meets every shape, mode and pass.
    """
    cases: list[Case] = []
    for number, (shape, mode) in enumerate(itertools.product(SHAPES, MODES)):
        problem = layer(pass_, number % 4, **shape, padding_mode=mode)
        for family in exhaustive.share((PLAIN, DIRECT), number + number // 4 + list(Pass).index(pass_), 2):
            assert family.why_not(problem, HOST) is None
            cases.append(Case(problem, family, family.default(problem, HOST)))
            if number % 4 == 0:
                drawn = family.space(problem, HOST).drawn(random.Random(number))
                assert drawn is not None
                cases.append(Case(problem, family, drawn))
    wrong = [
        f"{case}: {error}"
        for case, result, given in results(cases, quickest, host, lambda problem: random_operands(problem, 3))
        if not (error := off(case.problem, result, given)) <= 1e-6
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("mode", "shape", "pass_"),
    [*((PaddingMode.REFLECT, 0, pass_) for pass_ in Pass), *((mode, 1, Pass.DGRAD) for mode in MODES[1:])],
)
def test_in_the_frequency_domain_too(
    mode: PaddingMode, shape: int, pass_: Pass, quickest: HostCompiler, host: Runtime
) -> None:
    """These tests cover folding of a gradient. The transforms' own tests cover reading a signal in each mode."""
    problem = Conv2d(**FOURIER_SHAPES[shape], padding_mode=mode, pass_=pass_)
    (outcome,) = outcomes(host, quickest, [(problem, FFT.program(problem, FFT.default(problem, HOST)))])
    assert isinstance(outcome, Measurement), outcome


def test_parts_of_a_batch_are_folded_each_by_itself(quickest: HostCompiler, host: Runtime) -> None:
    """A small workspace splits the batch into parts. Verification rejects a program that leaves one part unfolded."""
    whole = Conv2d(**FOURIER_SHAPES[0], padding_mode=PaddingMode.REFLECT, pass_=Pass.DGRAD)
    taken = sum(each.nbytes for each in FFT.workspaces(whole))
    problem = dataclasses.replace(whole, workspace=taken // 2)
    program = FFT.program(problem, FFT.default(problem, HOST))
    assert [step.entry for step in program.launches].count("fold") > 1
    assert sum(each.nbytes for each in program.workspaces) <= problem.workspace_limit
    unfolded = dataclasses.replace(program, steps=program.steps[:-1])
    right, wrong = outcomes(host, quickest, [(problem, program), (problem, unfolded)])
    assert isinstance(right, Measurement), right
    assert isinstance(wrong, Failure)
    assert wrong.kind is FailureKind.WRONG


def test_nothing_is_read_or_written_outside_of_a_buffer(tmp_path: Path) -> None:
    """The sanitizers check the largest allowed padding. A gradient also writes intermediate padded images."""
    shape = SHAPES[2]
    cases: list[tuple[Family, Pass, PaddingMode]] = [
        (DIRECT, Pass.FPROP, PaddingMode.REFLECT),
        (DIRECT, Pass.DGRAD, PaddingMode.REFLECT),
        (PLAIN, Pass.DGRAD, PaddingMode.REPLICATE),
        (DIRECT, Pass.WGRAD, PaddingMode.CIRCULAR),
        (FFT, Pass.FPROP, PaddingMode.REFLECT),
    ]
    checked = []
    for family, pass_, mode in cases:
        problem = Conv2d(**shape, pass_=pass_, padding_mode=mode)
        checked.append((problem, family.program(problem, family.default(problem, HOST))))
    sanitized.check(checked, tmp_path)
