"""GPUs of compute capability 7.5: no asynchronous copies, and float16 numbers are converted one by one."""

from __future__ import annotations

import pytest

from warpsmith.devices.cuda.compiler import NvrtcCompiler, nvrtc_name
from warpsmith.errors import CompileError
from warpsmith.generator.architectures import ARCHITECTURES
from warpsmith.generator.cgemm import Cgemm
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import A100, HOST, PRESETS, T4
from warpsmith.generator.problem import Problem
from warpsmith.generator.registry import OPERATIONS, families_for, family_named
from warpsmith.generator.space import Space

PROBLEMS = (
    Cgemm(4, 33, 40, 17),
    Conv2d(input=(2, 8, 28, 28), weight=(8, 1, 3, 3), padding=1, groups=8),
    Filter2d(image=(96, 128), filter=(3, 5), dtype="uint8", result_dtype="float16"),
    Filter2d(image=(96, 128), filter=(6, 6), dtype="float32"),
    Conv2d(
        input=(2, 16, 14, 14),
        weight=(16, 1, 3, 3),
        padding=1,
        groups=16,
        layout="nhwc",
        dtype="float16",
        precision="f16",
    ),
    Filter1d(signal=5000, taps=33, mode="same"),
    Filter1d(signal=700, taps=4, batch=2, channels=6, filters=6, layout="btc", mode="causal", dtype="float16"),
)


@pytest.mark.parametrize("problem", PROBLEMS, ids=Problem.key)
def test_a_family_compiles_or_refuses_in_one_line(problem: Problem) -> None:
    try:
        nvrtc_name()
    except CompileError as missing:
        pytest.skip(str(missing))
    compiled = set()
    for family in families_for(problem, T4):
        for config in (family.default(problem, T4), *family.starts(problem, T4)[:3]):
            try:
                NvrtcCompiler(T4.arch).compile_program(family.program(problem, config))
            except CompileError as error:
                pytest.fail(f"{family.name} {config}: {error}")
        compiled.add(family.name)
    for family in OPERATIONS[problem.operation].families:
        assert (family.name in compiled) == ((why := family.why_not(problem, T4)) is None)
        assert why is None or "\n" not in why


def test_what_copies_asynchronously_is_for_newer_ones() -> None:
    cgemm, depthwise, to_halves, plain, channels_last, *_ = PROBLEMS
    for name, problem in (("cgemm_tiled", cgemm), ("conv2d_depthwise", depthwise)):
        family = family_named(name)
        assert family is not None
        assert "compute capability 8.0" in (family.why_not(problem, T4) or "")
        assert family.why_not(problem, A100) is family.why_not(problem, HOST) is None
    window = family_named("filter2d_window")
    assert window is not None
    older, newer = (
        {each.name: each.values for each in window.space(plain, device).parameters} for device in (T4, A100)
    )
    assert set(newer["path"]) - set(older["path"]) == {"async"}
    last = family_named("conv2d_depthwise_last")
    assert last is not None
    for family, problem in ((window, to_halves), (last, channels_last)):
        pairs = {device: "converts no pairs" in _why(family.space(problem, device)) for device in (T4, A100)}
        assert pairs == {T4: True, A100: False}


def _why(space: Space) -> str:
    return " ".join(constraint.why for constraint in space.constraints)


def test_presets_are_of_all_architectures() -> None:
    assert [device.compute_capability for device in PRESETS.values()] == list(ARCHITECTURES)
    for device in PRESETS.values():
        assert device.shared_per_block_bytes <= device.shared_per_multiprocessor_bytes
