"""The testbed on the CPU: operands with gaps, and results that look right although nothing was written."""

from __future__ import annotations

import dataclasses
import fcntl
import re
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from numpy.typing import NDArray

import exhaustive
from builders import launch, rewritten
from builders import program as made_program
from policies import TWO_SAMPLES
from warpsmith.devices.compiler import Compiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.module import Allocation
from warpsmith.devices.select import host_compiler
from warpsmith.generator.conv2d import Conv2d, ImageLayout
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.problem import PIXELS, DType
from warpsmith.generator.program import ByValue, Constant, Pointer, Program, Texture
from warpsmith.store.record import COPY, Failure, FailureKind, LeftOut, Measurement
from warpsmith.tuner.evaluate import buffers
from warpsmith.tuner.evaluate.buffers import GuardedBuffer
from warpsmith.tuner.evaluate.device_lock import DeviceLock
from warpsmith.tuner.evaluate.outcomes import Contender
from warpsmith.tuner.evaluate.testbed import Testbed
from warpsmith.tuner.evaluate.verify import Verdict, verify
from warpsmith.tuner.operations.registry import Peer

ROWS, COLUMNS, PITCH, RESULT_PITCH = 6, 10, 64, 96
STORED = {DType.FLOAT32: "float", DType.FLOAT16: "unsigned short", DType.UINT8: "unsigned char"}
TO_FLOAT = {DType.FLOAT32: "element", DType.FLOAT16: "half_to_float(element)", DType.UINT8: "float(element)"}
FROM_FLOAT = {
    DType.FLOAT32: "value",
    DType.FLOAT16: "float_to_half(value)",
    DType.UINT8: "static_cast<unsigned char>(rintf(fminf(fmaxf(value, 0.0f), 255.0f)))",
}

SCALED = """
struct Weights { float scale; };
__constant__ Weights constant_weights;
extern "C" __global__ void kernel(const char* image, char* result, const __grid_constant__ Weights weights) {
    const int x = threadIdx.x, y = blockIdx.x;
    const STORED element = reinterpret_cast<const STORED*>(image + y * PITCH)[x];
    const float value = TO_FLOAT * weights.scale;
    const STORED out = FROM_FLOAT;
    STORED* row = reinterpret_cast<STORED*>(result + y * RESULT_PITCH);
    row[x] = out;
}
"""
ROW = "row[x] = out;"
BESIDE = f"{ROW} if (x == 0 && y == 2) row[12] = 1;"
BESIDE_AS_POISONED = f"{ROW} if (x == 0 && y == 2) row[12] = 255;"
NEVER_THE_LARGEST = "if (out != 255) row[x] = out;"
NEVER_THE_SMALLEST = "if (out != 0) row[x] = out;"
BEHIND_THE_LAST_ROW = f"{ROW} if (x == 0 && y == 5) row[10] = 1;"


def problem(dtype: DType, **changes: Any) -> Filter2d:
    fields = {"pitch": PITCH, "result_pitch": RESULT_PITCH, **changes}
    return Filter2d(image=(ROWS, COLUMNS), filter=(1, 1), dtype=dtype, **fields)


def program(of: Filter2d, store: str = ROW) -> Program:
    pitches = [operand.strides[-2] for operand in (of.operands[0], of.output)]
    source = SCALED.replace(ROW, store).replace("RESULT_PITCH", str(pitches[1])).replace("PITCH", str(pitches[0]))
    for word, text in (("STORED", STORED), ("TO_FLOAT", TO_FLOAT), ("FROM_FLOAT", FROM_FLOAT)):
        source = source.replace(word, text[of.dtype])
    arguments = (Pointer("image"), Pointer("result"), ByValue("weights"))
    return made_program(source, launch(*arguments, grid=(ROWS, 1, 1), block=(COLUMNS, 1, 1)))


def evaluated(host: HostRuntime, of: Filter2d, candidate: Program) -> Measurement | Failure:
    """Outcome of a candidate. It must be the same for verification on the host and on the device."""
    on_host, on_device = (evaluated_with(host, of, candidate, compiler) for compiler in (None, host_compiler()))
    if isinstance(on_host, Measurement) and isinstance(on_device, Measurement):
        assert on_host.max_error == on_device.max_error
    else:
        assert on_host == on_device
    return on_device


def evaluated_with(
    host: HostRuntime, of: Filter2d, candidate: Program, compiler: Compiler | None
) -> Measurement | Failure:
    testbed = Testbed(host, of, 3, TWO_SAMPLES, guarded=True, compiler=compiler)
    try:
        return testbed.evaluate(candidate, host_compiler().compile_program(candidate), TWO_SAMPLES).outcome
    finally:
        testbed.close()


@exhaustive.one_in(2)
@pytest.mark.parametrize("dtype", PIXELS)
@pytest.mark.parametrize("gaps", [{}, {"pitch": None, "result_pitch": None}], ids=["pitched", "dense"])
def test_a_right_kernel_is_measured(host: HostRuntime, dtype: DType, gaps: dict[str, Any]) -> None:
    of = problem(dtype, **gaps)
    outcome = evaluated(host, of, program(of))
    assert isinstance(outcome, Measurement), outcome


def no_download(buffer: GuardedBuffer) -> NoReturn:
    raise AssertionError(f"{buffer.nbytes} bytes downloaded")


@pytest.mark.parametrize("dtype", PIXELS)
def test_a_right_result_stays_on_the_device(host: HostRuntime, dtype: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    of = problem(dtype)
    candidate = program(of)
    binaries = host_compiler().compile_program(candidate)
    testbed = Testbed(host, of, 3, TWO_SAMPLES, guarded=True, compiler=host_compiler())
    monkeypatch.setattr(GuardedBuffer, "download", no_download)
    try:
        for seed in (4, 5):
            assert isinstance(testbed.evaluate(candidate, binaries, TWO_SAMPLES).outcome, Measurement)
            testbed.renew(seed)  # another reference goes to the device
        assert isinstance(testbed.evaluate(candidate, binaries, TWO_SAMPLES).outcome, Measurement)
    finally:
        testbed.close()


def test_a_reference_that_was_overwritten_there_is_written_again(
    host: HostRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = problem(DType.FLOAT32)
    candidate = program(of)
    binaries = host_compiler().compile_program(candidate)
    allocated: list[Allocation] = []
    allocate = host.allocate

    def noted(nbytes: int) -> Allocation:
        allocated.append(allocate(nbytes))
        return allocated[-1]

    monkeypatch.setattr(host, "allocate", noted)
    testbed = Testbed(host, of, 3, TWO_SAMPLES, guarded=True, compiler=host_compiler())
    try:
        for reference in (each for each in allocated if each.nbytes == ROWS * COLUMNS * 8):
            host.fill(reference.address, 0x3F, reference.nbytes)
        assert isinstance(testbed.evaluate(candidate, binaries, TWO_SAMPLES).outcome, Measurement)
        monkeypatch.setattr(GuardedBuffer, "download", no_download)
        assert isinstance(testbed.evaluate(candidate, binaries, TWO_SAMPLES).outcome, Measurement)
    finally:
        testbed.close()


def test_another_process_has_the_device_while_a_peers_result_is_compared(
    host: HostRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Comparing a large image takes seconds, and the search can go on meanwhile."""
    lock_file = tmp_path / "lock"
    lock_file.touch()
    of = problem(DType.FLOAT32, pitch=None, result_pitch=None)
    noted: list[tuple[str, bool]] = []

    def note(what: str) -> None:
        with lock_file.open("r+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                noted.append((what, True))
            except BlockingIOError:
                noted.append((what, False))

    def run(_index: int = 0, _stream: int | None = None, /) -> None:
        note("run")

    def result() -> NDArray[np.float32]:
        note("result")
        return np.zeros(of.output.shape, np.float32)

    def comparing(*arguments: Any) -> Verdict:
        note("compare")
        return verify(*arguments)

    monkeypatch.setattr("warpsmith.tuner.evaluate.testbed.candidates", lambda *_: (Peer("peer", run, result),))
    monkeypatch.setattr("warpsmith.tuner.evaluate.dataset.verify", comparing)
    testbed = Testbed(host, of, 3, TWO_SAMPLES, guarded=True, lock=DeviceLock(lock_file))
    try:
        testbed.prepare_peers()
    finally:
        testbed.close()
    assert noted == [("run", False), ("result", False), ("compare", True)]


@pytest.mark.parametrize("dtype", PIXELS)
def test_what_is_wrong_is_told_in_the_same_words(host: HostRuntime, dtype: DType) -> None:
    of = problem(dtype)
    outcome = evaluated(host, of, program(of, "row[x] = x == 3 && y == 4 ? 77 : out;"))
    assert isinstance(outcome, Failure)
    assert outcome.kind is FailureKind.WRONG
    assert outcome.message.startswith("1 of 60 elements are wrong; the worst, at (4, 3), is ")


@pytest.mark.parametrize("dtype", PIXELS)
def test_a_write_between_the_rows_is_out_of_bounds(host: HostRuntime, dtype: DType) -> None:
    of = problem(dtype)
    outcome = evaluated(host, of, program(of, BESIDE))
    written = f"result: {dtype.itemsize} bytes written between the rows"
    assert outcome == Failure(FailureKind.OUT_OF_BOUNDS, written)


def test_bytes_that_look_like_poison_are_seen_on_other_poison(host: HostRuntime) -> None:
    of = problem(DType.UINT8)
    outcome = evaluated(host, of, program(of, BESIDE_AS_POISONED))
    assert outcome == Failure(FailureKind.OUT_OF_BOUNDS, "result: 1 bytes written between the rows")


def test_what_follows_the_last_row_is_a_guard(host: HostRuntime) -> None:
    of = problem(DType.FLOAT32)
    outcome = evaluated(host, of, program(of, BEHIND_THE_LAST_ROW))
    assert outcome == Failure(FailureKind.OUT_OF_BOUNDS, "result: 4 bytes written within 65536 bytes after the buffer")


@pytest.mark.parametrize(("store", "weight"), [(NEVER_THE_LARGEST, 300.0), (NEVER_THE_SMALLEST, -1.0)])
def test_an_integer_that_was_never_written_is_wrong(host: HostRuntime, store: str, weight: float) -> None:
    """Each fault would look right if the output were filled with that byte."""
    of = problem(DType.UINT8, weights=(weight,))
    outcome = evaluated(host, of, program(of, store))
    assert isinstance(outcome, Failure)
    assert outcome.kind is FailureKind.WRONG


@pytest.mark.parametrize("dtype", PIXELS)
def test_textures_and_constants_are_evaluated_like_any_other_argument(host: HostRuntime, dtype: DType) -> None:
    of = problem(dtype)
    plain = program(of)
    (plainly,) = plain.launches
    read = f"tex2D<{'unsigned char' if dtype is DType.UINT8 else 'float'}>(image, x + 0.5f, y + 0.5f)"
    source = plain.source.replace("const char* image", "cudaTextureObject_t image")
    source = source.replace(f"reinterpret_cast<const {STORED[dtype]}*>(image + y * {PITCH})[x]", read)
    source = source.replace(f"const {STORED[dtype]} element", "const float element")
    source = source.replace("half_to_float(element)", "element")
    source = source.replace(", const __grid_constant__ Weights weights", "").replace("weights.", "constant_weights.")
    arguments = (Texture("image", dtype, COLUMNS, ROWS, PITCH), Pointer("result"))
    fetched = dataclasses.replace(plainly, arguments=arguments, constants=(Constant("constant_weights", "weights"),))
    outcome = evaluated(host, of, rewritten(plain, source, fetched))
    assert isinstance(outcome, Measurement), outcome


@pytest.mark.parametrize("at_once", [buffers._AT_ONCE, 0])
@pytest.mark.parametrize("dtype", PIXELS)
def test_elements_go_through_a_buffer_with_gaps(
    host: HostRuntime, dtype: DType, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large operands are copied image by image."""
    monkeypatch.setattr(buffers, "_AT_ONCE", at_once)
    of = Filter2d(image=(5, 7), filter=(1, 1), planes=2, channels=3, dtype=dtype, pitch=112)
    operand = of.operands[0]
    values = np.random.default_rng(0).integers(0, 256, operand.shape).astype(str(dtype))
    buffer = GuardedBuffer(host, operand, 64)
    try:
        assert buffer.nbytes == 9 * 112 + 21 * dtype.itemsize
        buffer.upload(values)
        result, between = buffer.download()
        np.testing.assert_array_equal(result, values)
        assert result.flags.c_contiguous
        assert (between, buffer.damage()) == ("", "")
        host.fill(buffer.address + 112 + 100, 0x01, 3)
        host.fill(buffer.address + buffer.nbytes, 0x01, 1)
        assert buffer.download()[1] == "3 bytes written between the rows"
        assert buffer.damage() == "1 bytes written within 64 bytes after the buffer"
    finally:
        buffer.free()


@pytest.mark.parametrize("at_once", [buffers._AT_ONCE, 0])
@pytest.mark.parametrize("layout", ImageLayout)
@pytest.mark.parametrize("is_last", [False, True])
def test_images_of_either_layout_go_to_a_buffer_of_either(
    host: HostRuntime, at_once: int, layout: ImageLayout, is_last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other libraries give results in either layout. An operand of 2 MiB is laid out in two strips of rows."""
    monkeypatch.setattr(buffers, "_AT_ONCE", at_once)
    operand = Conv2d((2, 64, 64, 64), (1, 64, 1, 1), layout=layout).operands[0]
    values = np.random.default_rng(0).standard_normal(operand.shape, np.float32)
    given = np.ascontiguousarray(values.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2) if is_last else values
    buffer = GuardedBuffer(host, operand, 64)
    try:
        buffer.upload(given)
        np.testing.assert_array_equal(buffer.download()[0], values)
        assert buffer.damage() == ""
    finally:
        buffer.free()


def test_what_stands_beside_ours_is_timed_under_its_conditions_or_named(
    host: HostRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = problem(DType.FLOAT32, pitch=None, result_pitch=None)
    runs: list[tuple[int, int | None]] = []
    made: list[int] = []

    def run(index: int = 0, stream: int | None = None, /) -> None:
        runs.append((index, stream))

    def fail(_index: int = 0, _stream: int | None = None, /) -> None:
        raise RuntimeError("out of luck\nand more")

    def found(_of: Filter2d, operands: Any, _kind: Any, sets: int, _judge: Any) -> tuple[Peer | LeftOut, ...]:
        made.append(sets)
        right = operands["image"] * operands["weights"][0, 0]
        return (
            Peer("right", run, lambda: right),
            Peer("coarse", run, lambda: right * np.float32(1.0005), tolerance=1e-3),
            Peer("wrong", run, lambda: right * np.float32(1.0005)),
            Peer("fails", fail, lambda: right),
            LeftOut("absent", "it is not installed"),
        )

    monkeypatch.setattr("warpsmith.tuner.evaluate.testbed.candidates", found)
    candidate = program(of)
    binaries = host_compiler().compile_program(candidate)
    testbed = Testbed(host, of, 3, TWO_SAMPLES, guarded=True)
    try:
        measured = testbed.evaluate(candidate, binaries, TWO_SAMPLES).outcome
        assert isinstance(measured, Measurement)
        contenders = (Contender(candidate, binaries, measured),)
        alone = testbed.side_by_side(contenders, TWO_SAMPLES, peers=False)
        assert made == []
        beside = testbed.side_by_side(contenders, TWO_SAMPLES)
    finally:
        testbed.close()
    assert ([each.name for each in alone.baselines], alone.left_out) == ([COPY], ())
    assert made == [1]
    assert set(runs) == {(0, None)}
    assert [each.name for each in beside.baselines] == ["right", "coarse", COPY]
    assert {each.timing.conditions for each in beside.baselines} == {beside.ours[0].conditions}
    wrong, *others = beside.left_out
    assert wrong.name == "wrong"
    assert re.fullmatch(r"its error of [0-9.e-]+ is over the bound of 2.0e-05", wrong.reason)
    assert others == [
        LeftOut("fails", "failed: RuntimeError: out of luck"),
        LeftOut("absent", "it is not installed"),
    ]
