"""Float64 references computed on a GPU: they equal NumPy's, are fast enough for large layers, and avoid the host."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import warpsmith as ws
from warpsmith.devices.cuda.compiler import NvrtcCompiler
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.cgemm import Cgemm
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.fft import Fft, Tiling
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.problem import Problem
from warpsmith.store.record import Measurement
from warpsmith.tuner.evaluate.device_reference import (
    DeviceReference,
    ReferenceBuffers,
    sampled_count,
    sampled_indices,
)
from warpsmith.tuner.operations.registry import judge_of, random_operands, references

pytestmark = pytest.mark.gpu

CUDA = DeviceRef(DeviceKind.CUDA)
SMALL: list[Problem] = [
    *(
        Conv2d((2, 40, 30, 33), (72, 20, 3, 2), groups=2, padding=((1, 0), (2, 1)), padding_mode=mode, pass_=pass_)
        for pass_ in Pass
        for mode in ("zeros", "reflect", "replicate", "circular")
    ),
    *(
        Conv2d((2, 32, 20, 20), (32, 32, 3, 3), padding=1, dtype=dtype, precision=precision, pass_=pass_, layout="nhwc")
        for pass_ in Pass
        for dtype, precision in (("float16", "f16"), ("bfloat16", "bf16"))
    ),
    Filter2d((500, 700), (9, 7), border="reflect", dtype="uint8"),
    Filter1d(5000, 129, 2, channels=6, filters=3, dtype="int16", pitch=10_010, convolve=True),
    Filter1d(700, 1100, 2, channels=6, layout="btc", dtype="bfloat16", taps_dtype="bfloat16", mode="same", down=3),
    Filter1d(5000, 65, dtype="complex64", taps_dtype="complex64", lags=(-7, 4000)),
    Cgemm(20, 50, 60, 70, "t", "c", "normwise"),
    Fft((21, 54), batch=500, layout="frequency"),
    Fft((21, 54), batch=8 * 6, layout="frequency", tiling=Tiling((2, 3), (19, 52), (-1, -1), (38, 150), 8)),
    Fft((30, 32), batch=300, kind="c2r"),
]


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    with contextlib.closing(CUDA.open()) as opened:
        yield opened


@contextlib.contextmanager
def made(runtime: Runtime, problem: Problem) -> Iterator[tuple[DeviceReference, ReferenceBuffers]]:
    operands, kernels = random_operands(problem, 1), judge_of(problem).kernels(problem)
    assert kernels is not None
    size = problem.output.components.size
    with contextlib.ExitStack() as opened:
        inputs = {}
        for operand in problem.inputs:
            allocation = runtime.allocate(operand.span_bytes)
            opened.callback(runtime.free, allocation)
            memory = np.zeros(operand.span_bytes, np.uint8)
            values = np.ascontiguousarray(operands[operand.name]).reshape(operand.shape)
            np.ndarray(operand.shape, values.dtype, memory, strides=operand.strides)[...] = values
            runtime.upload(allocation.address, memory)
            inputs[operand.name] = allocation.address
        buffers = ReferenceBuffers(runtime.allocate(8 * size), runtime.allocate(8 * size))
        for allocation in (buffers.expected, buffers.scale):
            opened.callback(runtime.free, allocation)
        compiler = NvrtcCompiler(runtime.device.arch)
        reference = DeviceReference(runtime, compiler, problem, kernels, inputs, buffers)
        opened.callback(reference.close)
        reference.compute()
        indices = sampled_indices(problem.output, sampled_count(judge_of(problem).terms(problem)))
        reference.check(judge_of(problem).samples(problem, operands, indices))
        yield reference, buffers


@pytest.mark.parametrize("problem", SMALL, ids=lambda problem: problem.key())
def test_is_the_host_s_reference(runtime: Runtime, problem: Problem) -> None:
    with made(runtime, problem) as (_, buffers):
        size = problem.output.components.size
        expected, scale = np.empty(size), np.empty(size)
        runtime.download(expected, buffers.expected.address)
        runtime.download(scale, buffers.scale.address)
    exact = references(problem, random_operands(problem, 1))[problem.output.name]
    assert (np.abs(expected - exact.expected.reshape(-1)) <= 1e-13 * exact.scale.reshape(-1)).all()
    np.testing.assert_allclose(scale, exact.scale.reshape(-1), rtol=1e-12)


@pytest.mark.parametrize("pass_", Pass)
def test_a_layer_of_39_billion_multiply_adds_takes_a_fraction_of_a_second(runtime: Runtime, pass_: Pass) -> None:
    """Both sums take 13 to 15 ms on an H100: 10 to 12 TFLOP/s."""
    layer = Conv2d((1, 128, 512, 512), (128, 128, 3, 3), padding=1, pass_=pass_)
    with made(runtime, layer) as (reference, _):
        start = time.monotonic()
        reference.compute()
        assert time.monotonic() - start < 0.5


def test_a_large_layer_is_tuned_without_a_reference_on_the_host(tmp_path: Path) -> None:
    layer = Conv2d((1, 128, 512, 512), (128, 128, 3, 3), padding=1)
    layer = dataclasses.replace(layer, dtype="float16", precision="f16")
    start = time.monotonic()
    report = ws.tune(layer, trials=20, time_limit=3.0, store=str(tmp_path / "store.db"))
    took = time.monotonic() - start
    assert report.record is not None
    assert isinstance(report.record.trial.outcome, Measurement)
    assert 0 < report.record.trial.outcome.max_error <= 1e-3
    assert [each.message for each in report.part_failures] == []
    assert took < 30
