"""Builds trials, records and programs for tests. Every argument that a test leaves out has a plain, valid default.

pytest has this folder on its path (`pythonpath` in pyproject.toml), so tests of every folder write
`from builders import trial`. If a type changes its shape, only this file changes and not fifty.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Mapping

from warpsmith.devices.compiler import Binary, BinaryKind, Usage
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Argument, Constant, Launch, Program, Unit, Workspace
from warpsmith.generator.registry import OPERATIONS
from warpsmith.generator.space import Config, Value
from warpsmith.store.record import (
    Baseline,
    Failure,
    FailureKind,
    LeftOut,
    Measurement,
    Provenance,
    Record,
    Timing,
    Trial,
)

SMALL = Filter2d(image=(64, 64), filter=(3, 3))
LARGE = Filter2d(image=(512, 512), filter=(5, 5))
GXX, NVRTC = "g++ 12.2.0", "nvrtc 13.0"
EMPTY = Config.of({})

Size = tuple[int, int, int]
Outcome = float | Timing | FailureKind | Measurement | Failure
"""Outcome of a candidate: its time in ns, or the reason why it has none."""


def count_of_words(text: str) -> Counter[str]:
    """How often each identifier is in a text. A search for each of a hundred names reads the text a hundred times."""
    return Counter(re.findall(r"\w+", text))


def launch(
    *arguments: Argument,
    entry: str = "kernel",
    grid: Size = (1, 1, 1),
    block: Size = (1, 1, 1),
    shared_bytes: int = 0,
    constants: Iterable[Constant] = (),
) -> Launch:
    """A launch of one thread. `grid` in blocks and `block` in threads, x first; `shared_bytes` of dynamic memory."""
    return Launch(entry, grid, block, arguments, shared_bytes, tuple(constants))


def program(
    source: str = "",
    *launches: Launch,
    family: str = "test",
    config: Config = EMPTY,
    workspaces: Iterable[Workspace] = (),
) -> Program:
    """A candidate with a single unnamed unit."""
    return Program.of_source(family, config, source, launches, tuple(workspaces))


def rewritten(
    given: Program, source: str, *launches: Launch, family: str | None = None, config: Config | None = None
) -> Program:
    """Copy of a program with another text, by default with the same launches, family and config."""
    return dataclasses.replace(
        given,
        family=given.family if family is None else family,
        config=given.config if config is None else config,
        units=(Unit("", source),),
        steps=launches or given.steps,
    )


def binary(
    image: bytes = b"",
    kind: BinaryKind = BinaryKind.CUBIN,
    *,
    arch: str | None = None,
    compiler: str = NVRTC,
    registers: int | None = 32,
    spill_bytes: int | None = 0,
    shared_bytes: int | None = 0,
    kernels: Mapping[str, Usage] | None = None,
) -> Binary:
    """Compiled unit for sm_90 or for the host. By default it has one kernel, `kernel`."""
    arch = arch or {BinaryKind.CUBIN: "sm_90", BinaryKind.LIBRARY: "host"}[kind]
    usage = Usage(registers, spill_bytes, shared_bytes)
    return Binary(kind, image, arch, compiler, {"kernel": usage} if kernels is None else kernels)


def timing(
    median_ns: float = 5.0,
    p20_ns: float | None = None,
    p80_ns: float | None = None,
    *,
    samples: int = 9,
    policy: str = "median of 9",
) -> Timing:
    """Timing in ns. All samples are equal unless the 20th and 80th percentiles are given."""
    low, high = (median_ns if bound is None else bound for bound in (p20_ns, p80_ns))
    return Timing(median_ns, low, high, samples, policy)


def measurement(
    time: float | Timing = 5.0,
    *,
    max_error: float = 0.0,
    registers: int | None = None,
    spill_bytes: int | None = None,
    shared_bytes: int | None = None,
    clock_mhz: int | None = None,
) -> Measurement:
    """A verified candidate that took `time` (ns)."""
    timed = time if isinstance(time, Timing) else timing(time)
    return Measurement(timed, max_error, registers, spill_bytes, shared_bytes, clock_mhz)


def failure(kind: FailureKind = FailureKind.COMPILE, message: str = "no") -> Failure:
    """A candidate that has no time."""
    return Failure(kind, message)


def numbered(number: int) -> Config:
    """The config of a family whose kernels differ in one number."""
    return Config.of({"n": number})


def trial(
    number: int = 0,
    outcome: Outcome = FailureKind.COMPILE,
    *,
    family: str = "plain",
    config: Config | Mapping[str, Value] | None = None,
    fingerprint: str | None = None,
    compiler: str = GXX,
    compile_ms: float | None = None,
    gpu: str | None = None,
) -> Trial:
    """A tried candidate. Each `number` has its own config and text, which no generator writes."""
    if not isinstance(config, Config):
        config = numbered(number) if config is None else Config.of(config)
    text = f"f{number}" if fingerprint is None else fingerprint
    return Trial(family, config, text, _outcome(outcome), compiler, compile_ms, gpu)


def _outcome(given: Outcome) -> Measurement | Failure:
    if isinstance(given, FailureKind):
        return failure(given)
    return given if isinstance(given, Measurement | Failure) else measurement(given)


def record(
    problem: Problem = SMALL,
    won: Outcome | Trial = 5.0,
    device: Device = H200,
    *,
    baselines: Iterable[Baseline] = (),
    left_out: Iterable[LeftOut] = (),
    environment: Mapping[str, str] | None = None,
) -> Record:
    """A winner whose program no generator writes. `won` is its trial, or the outcome of trial 0."""
    tried = won if isinstance(won, Trial) else trial(0, won)
    provenance = Provenance("2026-01-02T03:04:05+00:00", "0.1.0", dict(environment or {}))
    return Record(problem, device, tried, tuple(baselines), provenance, tuple(left_out))


def generated(
    problem: Problem = SMALL,
    outcome: Outcome = 5.0,
    device: Device = H200,
    *,
    family: Family | None = None,
    choices: Mapping[str, Value] | None = None,
    compiler: str = GXX,
) -> Trial:
    """A candidate whose text this version of the generator writes: by default the simplest family's default config.
    `choices` replace some of its values.
    """
    of = OPERATIONS[problem.operation].simplest if family is None else family
    config = Config.of({**of.default(problem, device).values(), **(choices or {})})
    text = of.program(problem, config).fingerprint
    return trial(0, outcome, family=of.name, config=config, fingerprint=text, compiler=compiler)


def winner(
    problem: Problem = SMALL,
    outcome: Outcome = 5.0,
    device: Device = H200,
    *,
    family: Family | None = None,
    choices: Mapping[str, Value] | None = None,
    compiler: str = GXX,
    baselines: Iterable[Baseline] = (),
    left_out: Iterable[LeftOut] = (),
    environment: Mapping[str, str] | None = None,
) -> Record:
    """A winner that look-ups find, because this version of the generator writes its text (see `generated`)."""
    won = generated(problem, outcome, device, family=family, choices=choices, compiler=compiler)
    return record(problem, won, device, baselines=baselines, left_out=left_out, environment=environment)


def with_whole_head(source: str) -> str:
    """A generated text with its problem and its config on one line each, however long they are."""
    return re.sub(r"\n// {10}(?=\S)", " ", source)
