"""Verification by a kernel: its findings equal those of `verify` to the last bit, and it sees every byte beside the
result.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import exhaustive
from warpsmith.devices.compiler import Binary, Compiler
from warpsmith.devices.elements import numpy_dtype
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.select import host_compiler
from warpsmith.errors import CompileError, OutOfMemory
from warpsmith.generator.problem import PIXELS, DType, Operand, Role
from warpsmith.generator.program import Program
from warpsmith.tuner.evaluate.buffers import POISON, GuardedBuffer, poisons
from warpsmith.tuner.evaluate.verify import (
    DeviceVerifier,
    Findings,
    device_verifier,
    merged_dimensions,
    verification,
    verify,
)
from warpsmith.tuner.operations.judge import FLOAT32_BOUND, Reference

pytestmark = pytest.mark.usefixtures("compile_quickly")

GUARD = 4096
IMAGE = Operand("image", Role.INPUT, (50,), DType.FLOAT32)
Values = NDArray[Any]


def result_of(dtype: DType, shape: tuple[int, ...], *strides: int) -> Operand:
    """Result operand. `strides` are in elements; without them the order is C."""
    return Operand("result", Role.OUTPUT, shape, dtype, tuple(stride * dtype.itemsize for stride in strides))


@dataclasses.dataclass(frozen=True)
class Bench:
    """A result in guarded memory with its verifier."""

    host: HostRuntime
    buffers: dict[str, GuardedBuffer]
    verifier: DeviceVerifier

    def findings(self, result: Values, reference: Reference, byte: int = POISON) -> Findings:
        self.buffers["result"].poison(byte)
        self.buffers["result"].upload(result)
        self.verifier.upload(reference)
        return self.verifier.findings(byte)


@pytest.fixture
def bench(host: HostRuntime) -> Iterator[Callable[..., Bench]]:
    with contextlib.ExitStack() as opened:

        def make(output: Operand, guard: int = GUARD) -> Bench:
            buffers = {operand.name: GuardedBuffer(host, operand, guard) for operand in (IMAGE, output)}
            for buffer in buffers.values():
                opened.callback(buffer.free)
            verifier = DeviceVerifier(host, host_compiler(), [buffers], output)
            opened.callback(verifier.close)
            return Bench(host, buffers, verifier)

        yield make


def same_as_verify(bench: Bench, result: Values, expected: Values, scale: Values, dtype: DType) -> Findings:
    reference = Reference(expected, scale)
    with np.errstate(all="ignore"):
        verdict = verify(result, reference, dtype)
    findings = bench.findings(result, reference)
    assert findings == Findings(verdict.max_error, verdict.wrong, 0)
    assert findings.right is verdict.right
    return findings


def one_by_one(bench: Bench, result: Values, expected: Values, scale: Values, dtype: DType) -> None:
    """Checks each element among right ones, so that a larger error cannot hide its error."""
    one = np.ones_like(result)
    for i in range(result.size):
        got, wanted, of_terms = one.copy(), np.ones(one.shape), np.ones(one.shape)
        got.flat[i], wanted.flat[i], of_terms.flat[i] = result.flat[i], expected.flat[i], scale.flat[i]
        same_as_verify(bench, got, wanted, of_terms, dtype)


LAYOUTS = {
    "dense": ((7, 11), ()),
    "a line with gaps": ((77,), (3,)),
    "rows": ((7, 11), (16, 1)),
    "planes of rows": ((3, 7, 11), (16 * 7, 16, 1)),
    "planes with gaps of their own": ((3, 7, 11), (16 * 9, 16, 1)),
    "five dimensions": ((2, 3, 4, 5, 3), (3 * 4 * 16, 4 * 16, 16, 3, 1)),
    "five dimensions, gaps in each": ((2, 3, 4, 5, 3), (1000, 300, 70, 8, 2)),
}


@exhaustive.meeting()
@pytest.mark.parametrize("dtype", PIXELS)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=list(LAYOUTS))
def test_every_element_of_every_layout_is_looked_at(
    bench: Callable[..., Bench], dtype: DType, layout: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    shape, strides = layout
    made = bench(result_of(dtype, shape, *strides))
    rng = np.random.default_rng(0)
    expected = rng.uniform(1, 254, shape)
    scale = expected * rng.uniform(1, 3, shape)
    right = (np.rint(expected) if dtype is DType.UINT8 else expected).astype(str(dtype))
    assert same_as_verify(made, right, expected, scale, dtype).right
    for i in range(right.size):
        wrong = right.copy()
        wrong.flat[i] += 1
        assert same_as_verify(made, wrong, expected, scale, dtype).wrong == 1


def test_a_result_larger_than_one_round_of_the_threads(bench: Callable[..., Bench], host: HostRuntime) -> None:
    shape = (8 * host.device.multiprocessors + 3, 300)
    made = bench(result_of(DType.FLOAT32, shape))
    expected = np.random.default_rng(1).standard_normal(shape)
    right = expected.astype(np.float32)
    assert same_as_verify(made, right, expected, np.abs(expected), DType.FLOAT32).right
    right[::5, ::7] += 1
    assert not same_as_verify(made, right, expected, np.abs(expected), DType.FLOAT32).right


NOT_FINITE = (math.nan, math.inf, -math.inf)


@pytest.mark.parametrize("dtype", [*PIXELS, DType.BFLOAT16])
def test_what_is_not_finite_and_sums_without_terms(bench: Callable[..., Bench], dtype: DType) -> None:
    results = (0, 1, 200) if dtype is DType.UINT8 else (0.0, -0.0, 1.0, -1.0, 2.0**-24, *NOT_FINITE)
    cases = [
        (got, expected, scale)
        for got in results
        for expected in (0.0, -0.0, 1.0, 1e-300, -1e300, *NOT_FINITE)
        for scale in (0.0, 1.0, 1e-310, 1e300, math.inf, math.nan)
    ]
    result, expected, scale = (np.array(each) for each in zip(*cases, strict=True))
    made = bench(result_of(dtype, result.shape))
    same_as_verify(made, result.astype(numpy_dtype(dtype)), expected, scale, dtype)
    few = bench(result_of(dtype, (1,)))
    for got, wanted, of_terms in cases:
        arrays = (np.array([got]).astype(numpy_dtype(dtype)), np.array([wanted]), np.array([of_terms]))
        same_as_verify(few, *arrays, dtype)


@pytest.mark.parametrize("beyond", [0.0, 0.9, 1.1, 1e3])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("dtype", "power"), [(DType.FLOAT16, 16), (DType.BFLOAT16, 128)])
def test_every_16_bits_at_both_ends_of_what_rounds_to_them(
    bench: Callable[..., Bench], dtype: DType, power: int, beyond: float, sign: int
) -> None:
    """All 16-bit patterns: ties, subnormals, the largest, overflow, infinities. NumPy's rounding gives the ends."""
    kind = numpy_dtype(dtype)
    halves = np.arange(65536, dtype=np.uint16).view(kind)
    with np.errstate(all="ignore"):
        beside = np.nextafter(halves, np.asarray(sign * np.inf, kind))
        both = [np.clip(each.astype(np.float64), -(2.0**power), 2.0**power) for each in (halves, beside)]
        ends = (both[0] + both[1]) / 2
        numbers = ~np.isnan(halves.astype(np.float64))
    scale = np.maximum(np.abs(ends), float(np.array(1, np.uint16).view(kind)))
    scale[np.isnan(scale)] = 1.0
    expected = ends + sign * beyond * FLOAT32_BOUND * scale
    made = bench(result_of(dtype, halves.shape))
    found = same_as_verify(made, halves, expected, scale, dtype)
    assert found.wrong >= np.count_nonzero(~numbers)
    tame = np.where(numbers, halves, np.zeros((), kind)), np.where(numbers, expected, 0.0)
    found = same_as_verify(made, *tame, scale, dtype)
    # A value that overflows has no outer end.
    assert found.right if beyond < 1 else found.wrong > 60000


def test_every_uint8_about_its_ties_and_beyond_the_range(bench: Callable[..., Bench]) -> None:
    away = np.array([-400, -0.6, -0.5000021, -0.5000011, -0.5, -0.4, 0, 0.4, 0.5, 0.5000011, 0.5000021, 0.6, 400])
    pixels = np.repeat(np.arange(256, dtype=np.uint8)[:, None], len(away), axis=1)
    scale = np.full(pixels.shape, 1.5)
    made = bench(result_of(DType.UINT8, pixels.shape))
    same_as_verify(made, pixels, pixels + away, scale, DType.UINT8)
    for column in range(len(away)):
        few = np.full(pixels.shape, pixels[:, column : column + 1])
        same_as_verify(made, few, few + away[column], scale, DType.UINT8)


def test_float32_just_under_and_just_over_the_bound(bench: Callable[..., Bench]) -> None:
    made = bench(result_of(DType.FLOAT32, (2, 4)))
    under = np.float32(1e-6)
    over = np.nextafter(under, np.float32(1))
    tiny = np.finfo(np.float32).smallest_subnormal
    result = np.array([[under, -under, over, -over], [tiny, 3e38, -tiny, 0]], np.float32)
    expected, scale = np.zeros(result.shape), np.ones(result.shape)
    expected[1, 1], scale[1, 1], scale[1, 2] = 3e38, 3e38, 0.0
    assert same_as_verify(made, result, expected, scale, DType.FLOAT32).wrong == 3
    one_by_one(made, result, expected, scale, DType.FLOAT32)


@pytest.mark.parametrize("dtype", PIXELS)
def test_random_results_right_and_damaged(bench: Callable[..., Bench], dtype: DType) -> None:
    rng = np.random.default_rng(2)
    made = bench(result_of(dtype, (3, 40, 21), 40 * 24, 24, 1))
    for damaged in (0, 1, 17, 2520):
        expected = rng.uniform(-20, 280, (3, 40, 21))
        scale = np.abs(expected) * rng.uniform(1, 3, expected.shape)
        result = (np.clip(np.rint(expected), 0, 255) if dtype is DType.UINT8 else expected).astype(str(dtype))
        where = rng.choice(result.size, damaged, replace=False)
        result.reshape(-1)[where] = rng.integers(0, 256, damaged)
        assert same_as_verify(made, result, expected, scale, dtype).right is (damaged == 0)


class TestBytesBeside:
    SHAPE, STRIDES = (3, 5), (8, 1)

    def findings(self, bench: Bench, byte: int = POISON) -> Findings:
        """Findings for a right result. The memory around it is not touched."""
        bench.verifier.upload(Reference(np.ones(self.SHAPE), np.ones(self.SHAPE)))
        return bench.verifier.findings(byte)

    def ready(self, bench: Callable[..., Bench], dtype: DType, byte: int = POISON, guard: int = GUARD) -> Bench:
        made = bench(result_of(dtype, self.SHAPE, *self.STRIDES), guard)
        made.buffers["result"].poison(byte)
        made.buffers["result"].upload(np.ones(self.SHAPE, str(dtype)))
        return made

    @pytest.mark.parametrize("dtype", PIXELS)
    def test_each_byte_between_the_rows_is_seen(self, bench: Callable[..., Bench], dtype: DType) -> None:
        made, size = self.ready(bench, dtype), dtype.itemsize
        assert self.findings(made) == Findings(0.0, 0, 0)
        address = made.buffers["result"].address
        gaps = [*range(5 * size, 8 * size), *range(13 * size, 16 * size)]
        for seen, gap in enumerate(gaps, 1):
            made.host.fill(address + gap, 0x7F, 1)
            assert self.findings(made) == Findings(0.0, 0, seen)
        assert not self.findings(made).right

    @pytest.mark.parametrize("name", ["image", "result"])
    def test_both_guards_of_every_buffer(self, bench: Callable[..., Bench], name: str) -> None:
        made = self.ready(bench, DType.FLOAT16)
        buffer = made.buffers[name]
        places = [
            buffer.address - GUARD,
            buffer.address - 1,
            buffer.address + buffer.nbytes,
            buffer.address + buffer.nbytes + GUARD - 1,
        ]
        for seen, place in enumerate(places, 1):
            made.host.fill(place, 0x00, 1)
            assert self.findings(made) == Findings(0.0, 0, seen)

    @pytest.mark.parametrize("byte", poisons(DType.UINT8))
    def test_what_was_filled_with_another_byte(self, bench: Callable[..., Bench], byte: int) -> None:
        made = self.ready(bench, DType.UINT8, byte)
        assert self.findings(made, byte).right
        made.host.fill(made.buffers["result"].address + 6, 0xFF, 1)
        made.host.fill(made.buffers["result"].address - 1, 0x00, 1)
        assert self.findings(made, byte).written == 1

    def test_no_guards(self, bench: Callable[..., Bench]) -> None:
        made = self.ready(bench, DType.FLOAT32, guard=0)
        assert self.findings(made).right


class Refusing(Compiler):
    """A compiler that is missing."""

    @property
    def identity(self) -> str:
        raise CompileError("no compiler")

    def compile(self, program: Program) -> Binary:  # noqa: ARG002
        raise CompileError("no compiler")


class TestFallback:
    OUTPUT = result_of(DType.FLOAT32, (1000,))

    @pytest.fixture
    def buffers(self, host: HostRuntime) -> Iterator[dict[str, GuardedBuffer]]:
        buffers = {"result": GuardedBuffer(host, self.OUTPUT, GUARD)}
        yield buffers
        buffers["result"].free()

    def test_no_compiler(self, host: HostRuntime, buffers: dict[str, GuardedBuffer]) -> None:
        assert device_verifier(host, Refusing(), [buffers], self.OUTPUT) is None

    @pytest.mark.parametrize("which", [1, 2, 3])
    def test_memory_that_does_not_suffice_is_given_back(
        self, host: HostRuntime, buffers: dict[str, GuardedBuffer], which: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        allocate, taken = host.allocate, []

        def scarce(nbytes: int) -> Any:
            if len(taken) == which - 1:
                raise OutOfMemory("no more")
            taken.append(allocate(nbytes))
            return taken[-1]

        live = set(host._live)
        monkeypatch.setattr(host, "allocate", scarce)
        assert device_verifier(host, host_compiler(), [buffers], self.OUTPUT) is None
        assert len(taken) == which - 1
        assert host._live == live

    @pytest.mark.parametrize(("memory", "fits"), [(64_000, True), (63_999, False)])
    def test_a_reference_of_more_than_a_quarter_of_the_memory(
        self,
        host: HostRuntime,
        buffers: dict[str, GuardedBuffer],
        memory: int,
        fits: bool,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(host, "device", dataclasses.replace(host.device, memory_bytes=memory))
        verifier = device_verifier(host, host_compiler(), [buffers], self.OUTPUT)
        assert (verifier is not None) is fits
        if verifier:
            verifier.close()


@pytest.mark.parametrize(
    ("shape", "strides", "merged"),
    [
        ((7, 11), (44, 4), ((77, 4),)),
        ((7, 11), (64, 4), ((7, 64), (11, 4))),
        ((3, 7, 11), (448, 64, 4), ((21, 64), (11, 4))),
        ((3, 7, 11), (500, 64, 4), ((3, 500), (7, 64), (11, 4))),
        ((2, 3, 4, 5, 3), (3 * 4 * 60, 4 * 60, 60, 12, 4), ((360, 4),)),
    ],
)
def test_dimensions_without_a_gap_are_one(shape: Any, strides: Any, merged: Any) -> None:
    assert merged_dimensions(Operand("result", Role.OUTPUT, shape, DType.FLOAT32, strides)) == merged


def test_a_huge_result_has_no_more_threads_than_the_device_holds() -> None:
    program = verification(result_of(DType.UINT8, (9216, 9216), 9472, 1), 65536, 132)
    assert [launch.grid for launch in program.launches] == [(1056, 1, 1), (256, 1, 1), *[(1056, 1, 1)] * 3]
    assert [launch.entry for launch in program.launches] == [
        "verify_elements",
        "verify_guard",
        "sum_input",
        "find_worst",
        "verify_gaps",
    ]
