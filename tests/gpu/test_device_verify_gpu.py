"""Verification on a GPU: the same verdicts as on the host, for right and for damaged random results."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from builders import launch
from builders import program as made_program
from warpsmith.devices.cuda.runtime import CudaRuntime
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import PIXELS, DType, Operand, Role
from warpsmith.generator.program import ByValue, Pointer
from warpsmith.generator.registry import families_for
from warpsmith.store.record import Failure, FailureKind, Measurement
from warpsmith.tuner.evaluate.buffers import POISON, GuardedBuffer
from warpsmith.tuner.evaluate.testbed import Testbed
from warpsmith.tuner.evaluate.timing_policy import Launching, TimingPolicy
from warpsmith.tuner.evaluate.verify import DeviceVerifier, Findings, verify
from warpsmith.tuner.operations.judge import Reference

pytestmark = pytest.mark.gpu

CUDA = DeviceRef(DeviceKind.CUDA)
SHAPES = {
    "dense": ((2000, 3001), ()),
    "rows with gaps": ((1999, 1000), (1024, 1)),
    "five dimensions": ((2, 3, 200, 300, 3), (700_000, 220_000, 1000, 3, 1)),
}


@pytest.fixture(scope="module")
def runtime() -> Iterator[CudaRuntime]:
    opened = CudaRuntime(0)
    yield opened
    opened.close()


def same(runtime: CudaRuntime, verifier: DeviceVerifier, buffer: GuardedBuffer, result: Any, of: Reference) -> Findings:
    """The GPU's verdict on `result`, which must equal the host's."""
    buffer.poison()
    buffer.upload(result)
    runtime.synchronize()
    found = verifier.findings(POISON)
    with np.errstate(all="ignore"):
        verdict = verify(result, of, DType(str(result.dtype)))
    assert found == Findings(verdict.max_error, verdict.wrong, 0)
    return found


def damaged(result: NDArray[Any], elements: int, rng: np.random.Generator) -> NDArray[Any]:
    """`result` with random bit patterns at random places, NaN and infinities among them."""
    copy = result.copy()
    where = rng.choice(result.size, elements, replace=False)
    size = result.dtype.itemsize
    copy.reshape(-1).view(f"u{size}")[where] = rng.integers(0, 2 ** (8 * size), elements, dtype=f"u{size}")
    return copy


@pytest.mark.parametrize("compiler", [CompilerChoice.NVRTC, CompilerChoice.NVCC])
@pytest.mark.parametrize("dtype", PIXELS)
@pytest.mark.parametrize("layout", SHAPES.values(), ids=list(SHAPES))
def test_right_and_damaged_results(
    runtime: CudaRuntime, dtype: DType, layout: tuple[tuple[int, ...], tuple[int, ...]], compiler: CompilerChoice
) -> None:
    shape, strides = layout
    output = Operand("result", Role.OUTPUT, shape, dtype, tuple(stride * dtype.itemsize for stride in strides))
    rng = np.random.default_rng(0)
    expected = rng.uniform(-20, 280, shape)
    of = Reference(expected, np.abs(expected) * rng.uniform(1, 3, shape))
    right = (np.clip(np.rint(expected), 0, 255) if dtype is DType.UINT8 else expected).astype(str(dtype))
    buffer = GuardedBuffer(runtime, output, 65536)
    verifier = DeviceVerifier(runtime, CUDA.compiler(compiler), [{"result": buffer}], output)
    try:
        verifier.upload(of)
        assert same(runtime, verifier, buffer, right, of).right
        for elements in (1, 30, 100_000):
            assert not same(runtime, verifier, buffer, damaged(right, elements, rng), of).right
        # One element, so that nothing worse hides its error.
        for flat in (0, right.size // 2, right.size - 1):
            wrong = right.copy()
            wrong.reshape(-1)[flat] += 1
            assert same(runtime, verifier, buffer, wrong, of).wrong == 1
    finally:
        verifier.close()
        buffer.free()


def test_every_float16_and_sums_without_terms(runtime: CudaRuntime) -> None:
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    output = Operand("result", Role.OUTPUT, halves.shape, DType.FLOAT16)
    buffer = GuardedBuffer(runtime, output, 65536)
    verifier = DeviceVerifier(runtime, CUDA.compiler(), [{"result": buffer}], output)
    finite = np.where(np.isfinite(halves), halves, np.float16(0))
    with np.errstate(all="ignore"):
        above = np.nextafter(finite, np.float16(np.inf)).astype(np.float64)
    tie = (finite + np.clip(above, -65536, 65536)) / 2
    try:
        for result, expected, scale in (
            (halves, tie, np.abs(tie)),
            (finite, tie, np.abs(tie)),
            (finite, tie * (1 + 9e-7), np.abs(tie)),
            (finite, tie * (1 + 1.1e-6), np.abs(tie)),
            (finite, finite.astype(np.float64), np.zeros(halves.shape)),
            (finite, tie * 1.0001, np.zeros(halves.shape)),
            (np.full(halves.shape, np.inf, np.float16), np.full(halves.shape, 1e9), np.full(halves.shape, 1e9)),
            (finite, np.full(halves.shape, math.nan), np.ones(halves.shape)),
        ):
            verifier.upload(Reference(expected, scale))
            same(runtime, verifier, buffer, result, Reference(expected, scale))
    finally:
        verifier.close()
        buffer.free()


def test_bytes_beside_the_elements(runtime: CudaRuntime) -> None:
    output = Operand("result", Role.OUTPUT, (300, 1000), DType.FLOAT32, (4096, 4))
    buffer = GuardedBuffer(runtime, output, 65536)
    verifier = DeviceVerifier(runtime, CUDA.compiler(), [{"result": buffer}], output)
    ones = np.ones(output.shape)
    try:
        verifier.upload(Reference(ones, ones))
        buffer.upload(ones.astype(np.float32))
        assert verifier.findings(POISON) == Findings(0.0, 0, 0)
        for seen, place in enumerate((-65536, -1, 4000, 4095, 298 * 4096 + 4001, buffer.nbytes), 1):
            runtime.fill(buffer.address + place, 0, 1)
            assert verifier.findings(POISON) == Findings(0.0, 0, seen)
    finally:
        verifier.close()
        buffer.free()


LATER = """
struct Weights { float taps[1]; };
extern "C" __global__ void kernel(float* image, float* result, const __grid_constant__ Weights weights) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= 200 * 400) {
        return;
    }
    const float value = weights.taps[0] * image[i];
    STORE
}
"""
"""A filter of one tap."""


@pytest.mark.parametrize("launching", Launching)
@pytest.mark.parametrize(
    ("store", "told"),
    [
        ("result[i] = value;", ""),
        ("result[i] = result[i] == result[i] ? result[i] + value : value;", "elements are wrong"),
        ("result[i] = value; if (i == 79999) image[i] += 1.0f;", "changed its input image"),
    ],
    ids=["right", "adds to its result", "changes its input"],
)
def test_what_only_later_runs_show_is_found_in_one_of_many_sets(
    runtime: CudaRuntime, launching: Launching, store: str, told: str
) -> None:
    problem = Filter2d(image=(200, 400), filter=(1, 1))
    policy = TimingPolicy.for_kind(DeviceKind.CUDA, launching=launching)
    assert policy.rotation(problem.bytes, runtime.device.l2_bytes).sets > 1
    arguments = (Pointer("image"), Pointer("result"), ByValue("weights"))
    run = launch(*arguments, grid=(313, 1, 1), block=(256, 1, 1))
    program = made_program(LATER.replace("STORE", store), run)
    testbed = Testbed(runtime, problem, 3, policy, guarded=True, compiler=CUDA.compiler())
    try:
        outcome = testbed.evaluate(program, CUDA.compiler().compile_program(program), policy).outcome
    finally:
        testbed.close()
    if not told:
        assert isinstance(outcome, Measurement), outcome
    else:
        assert isinstance(outcome, Failure)
        assert outcome.kind is FailureKind.WRONG
        # A changed input makes the next result of the same set wrong.
        assert told in outcome.message or "elements are wrong" in outcome.message
        assert "in buffer set" in outcome.message


@pytest.mark.parametrize("dtype", PIXELS)
def test_candidates_are_verified_without_a_download(
    runtime: CudaRuntime, dtype: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Filter2d(image=(700, 900), filter=(3, 5), dtype=dtype, border=Border.REFLECT, result_pitch=4096)
    policy = TimingPolicy.for_kind(DeviceKind.CUDA)
    outcomes = []
    for verifying in (None, CUDA.compiler()):
        testbed = Testbed(runtime, problem, 3, policy, guarded=True, compiler=verifying)
        if verifying:
            monkeypatch.setattr(GuardedBuffer, "download", None)
        try:
            for family in families_for(problem, runtime.device):
                program = family.program(problem, family.default(problem, runtime.device))
                outcome = testbed.evaluate(program, CUDA.compiler().compile_program(program), policy).outcome
                assert isinstance(outcome, Measurement), outcome
                outcomes.append((family.name, outcome.max_error))
        finally:
            testbed.close()
    assert outcomes[: len(outcomes) // 2] == outcomes[len(outcomes) // 2 :]
