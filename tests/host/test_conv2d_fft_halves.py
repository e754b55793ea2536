"""Layers with split fp16 spectra on the CPU: transforms that store them, products that read them, and inverses."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import exhaustive
import sanitized
from joined import plan_of
from verified import check
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.fourier.variants import FOURIER
from warpsmith.generator.conv2d.products.split16 import split16_maximum
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.fft.block.block_choice import Access
from warpsmith.generator.space import Config
from warpsmith.tuner.operations.conv2d.oracle import reference
from warpsmith.tuner.operations.registry import random_operands

WHOLE, TILED = FOURIER["conv2d_fft_halves"], FOURIER["conv2d_fft_tiled_halves"]
DEVICE = DeviceRef(DeviceKind.HOST).device()
SHAPES: dict[str, dict[str, Any]] = {
    "odd points": {"input": (9, 32, 5, 5), "weight": (64, 32, 3, 3)},
    "sets of frequencies": {"input": (8, 32, 7, 7), "weight": (32, 32, 2, 3), "padding": ((0, 1), (1, 1))},
    "more rows than a warpgroup has": {"input": (70, 32, 3, 3), "weight": (32, 32, 2, 2), "padding": 1},
    "a batch in parts": {"input": (4, 32, 5, 5), "weight": (32, 32, 3, 3), "workspace": 1 << 19},
    "an end": {"input": (8, 64, 5, 5), "weight": (32, 64, 3, 3), "bias": True, "relu": True},
}
CASES = [
    *(("odd points", pass_) for pass_ in Pass),
    *(("more rows than a warpgroup has", pass_) for pass_ in (Pass.FPROP, Pass.DGRAD)),
    *(("a batch in parts", pass_) for pass_ in (Pass.FPROP, Pass.WGRAD)),
    ("an end", Pass.FPROP),
]
every_pass = pytest.mark.parametrize("pass_", Pass)


def test_is_right_by_default(host: Runtime, quick: HostCompiler) -> None:
    """Every shape and every pass."""
    problems = [Conv2d(**SHAPES[shape], pass_=pass_) for shape, pass_ in exhaustive.chosen(CASES, frozenset)]
    check(host, quick, [(each, WHOLE.program(each, WHOLE.default(each, DEVICE))) for each in problems])


@every_pass
def test_is_right_by_sets_of_frequencies(host: Runtime, quick: HostCompiler, pass_: Pass) -> None:
    problem = Conv2d(**SHAPES["sets of frequencies"], pass_=pass_)
    values = WHOLE.default(problem, DEVICE).values()
    for stage in WHOLE.stages(problem)[:2]:
        starts = stage.family.starts(stage.problem, DEVICE)
        by_sets = next(each for each in starts if each.text("spectrum") == Access.MIRRORED)
        values |= Config.joined({stage.name: by_sets}).values()
    check(host, quick, [(problem, WHOLE.program(problem, Config.of(values)))])


@every_pass
def test_is_right_at_random(host: Runtime, quick: HostCompiler, pass_: Pass) -> None:
    problem = Conv2d((9, 64, 5, 5), (96, 64, 3, 3), pass_=pass_)  # type: ignore[arg-type]
    config = WHOLE.space(problem, DEVICE).drawn(random.Random(str(pass_)))
    assert config is not None
    check(host, quick, [(problem, WHOLE.program(problem, config))])


KINDS: dict[str, Callable[[NDArray[np.float32]], NDArray[np.float32]]] = {
    "normal": lambda deviates: deviates,
    "positive": lambda deviates: np.maximum(deviates, 0),
    "log-normal, sigma 2": lambda deviates: np.exp(2 * deviates) * np.sign(np.roll(deviates, 1)),
    "log-normal, sigma 3": lambda deviates: np.exp(3 * deviates) * np.sign(np.roll(deviates, 1)),
    "tiny": lambda deviates: deviates * np.float32(1e-6),
    "huge": lambda deviates: deviates * np.float32(1e4),
}


@every_pass
def test_errors_are_those_of_float32_on_data_of_all_kinds(host: Runtime, quick: HostCompiler, pass_: Pass) -> None:
    problem = Conv2d((16, 32, 5, 5), (64, 32, 3, 3), pass_=pass_)  # type: ignore[arg-type]
    plan = plan_of(host, quick, problem, WHOLE.program(problem, WHOLE.default(problem, DEVICE)))
    deviates = random_operands(problem, 5)
    for kind, made in KINDS.items():
        operands = {name: made(each) for name, each in deviates.items()}
        expected, _ = reference(problem, operands)
        error = np.linalg.norm(np.asarray(plan(*operands.values())) - expected) / np.linalg.norm(expected)
        assert error <= 1e-6, kind


def scaled_by_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the maximum kernel sample small images too, as it samples large ones: 4 vectors of 4 numbers."""
    monkeypatch.setattr(split16_maximum, "SAMPLED_SIZE", 1)
    monkeypatch.setattr(split16_maximum, "SAMPLE", 4)


@exhaustive.meeting()
@pytest.mark.parametrize("spike", [1.0, 1e6, 1e30])
@pytest.mark.parametrize("least", [1.0, 0.0])
def test_what_a_sample_did_not_tell_is_transformed_again(
    host: Runtime, quick: HostCompiler, monkeypatch: pytest.MonkeyPatch, spike: float, least: float
) -> None:
    scaled_by_a_sample(monkeypatch)
    problem = Conv2d((8, 32, 5, 5), (32, 32, 3, 3), pass_=Pass.WGRAD)  # type: ignore[arg-type]
    program = WHOLE.program(problem, WHOLE.default(problem, DEVICE))
    assert sum(step.unit == "second" for step in program.launches) == 2
    plan = plan_of(host, quick, problem, program)
    operands = random_operands(problem, 5)
    operands["x"] *= least
    operands["x"][1, 3, 2, 2] = spike  # no multiple of the sample's step
    operands["x"][5, 3, 2, 2] = -spike / 7
    expected, _ = reference(problem, operands)
    result = np.asarray(plan(*operands.values()))
    assert np.linalg.norm(result - expected) <= 1e-6 * np.linalg.norm(expected)


@pytest.mark.usefixtures("compile_without_optimisation")
def test_clean_under_the_sanitizers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles reach beyond a result. Maxima are sampled or not."""
    cases = []
    for name, pass_ in zip(("sets of frequencies", "more rows than a warpgroup has", "odd points"), Pass, strict=True):
        problem = Conv2d(**SHAPES[name], pass_=pass_)
        cases.append((problem, WHOLE.program(problem, WHOLE.default(problem, DEVICE))))
        scaled_by_a_sample(monkeypatch)
    sanitized.check(cases, tmp_path)
