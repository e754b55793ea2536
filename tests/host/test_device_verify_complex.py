"""Verification of complex results by a kernel: findings for both parts of each element equal those of `verify`."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.select import host_compiler
from warpsmith.generator.fft import Fft, Kind, Layout
from warpsmith.generator.problem import DType, Operand, Role
from warpsmith.tuner.evaluate.buffers import POISON, GuardedBuffer
from warpsmith.tuner.evaluate.verify import DeviceVerifier, Findings, verify
from warpsmith.tuner.operations.judge import Reference
from warpsmith.tuner.operations.registry import random_operands, reference

GUARD = 4096
Values = NDArray[Any]
Check = Callable[[Values, Reference], Findings]


@pytest.fixture
def checked(host: HostRuntime) -> Iterator[Callable[[Operand], Check]]:
    """Makes a function that verifies an operand's results on the device and compares the findings with those of
    `verify`.
    """
    with contextlib.ExitStack() as opened:

        def make(output: Operand) -> Check:
            buffer = GuardedBuffer(host, output, GUARD)
            opened.callback(buffer.free)
            verifier = DeviceVerifier(host, host_compiler(), [{output.name: buffer}], output)
            opened.callback(verifier.close)

            def check(result: Values, of: Reference) -> Findings:
                buffer.poison(POISON)
                buffer.upload(result)
                verifier.upload(of)
                findings = verifier.findings(POISON)
                verdict = verify(result, of, DType.COMPLEX64)
                assert findings == Findings(verdict.max_error, verdict.wrong, 0)
                assert findings.right is verdict.right
                return findings

            return check

        yield make


def spectrum(shape: tuple[int, ...], *strides: int) -> Operand:
    """Complex result operand. `strides` are in complex numbers; without them the order is C."""
    return Operand("spectrum", Role.OUTPUT, shape, DType.COMPLEX64, tuple(8 * stride for stride in strides))


def right(shape: tuple[int, ...]) -> tuple[Values, Reference]:
    """Random rounded result and its reference. Each part has its own scale."""
    generator = np.random.default_rng(0)
    expected = generator.standard_normal((*shape, 2))
    result = expected.astype(np.float32).view(np.complex64)[..., 0]
    return result, Reference(expected, generator.uniform(1, 3, expected.shape))


LAYOUTS = {
    "dense": ((7, 11), ()),
    "rows with gaps": ((7, 11), (16, 1)),
    "one element in two": ((25,), (2,)),
    "three dimensions": ((3, 4, 5), (100, 7, 1)),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=list(LAYOUTS))
def test_both_parts_of_every_element_are_looked_at(
    checked: Callable[[Operand], Check], layout: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    shape, strides = layout
    check = checked(spectrum(shape, *strides))
    result, of = right(shape)
    assert check(result, of).right
    for i in range(result.size):
        for step in (1, 1j):
            wrong = result.copy()
            wrong.flat[i] += step
            assert check(wrong, of).wrong == 1
    assert check(result + np.complex64(1 + 1j), of).wrong == 2 * result.size


def test_a_part_that_was_never_written_is_wrong(checked: Callable[[Operand], Check]) -> None:
    """Outputs are filled with NaN first, so an unwritten part is NaN."""
    check = checked(spectrum((5, 6)))
    result, of = right((5, 6))
    result.view(np.float32)[2, 7] = np.nan
    found = check(result, of)
    assert (found.max_error, found.wrong, found.right) == (math.inf, 1, False)


@pytest.mark.parametrize("times", [0.9, 1.1])
@pytest.mark.parametrize("part", [0, 1])
def test_the_bound_is_that_of_float32(checked: Callable[[Operand], Check], part: int, times: float) -> None:
    check = checked(spectrum((4, 3)))
    result = np.zeros((4, 3), np.complex64)
    of = Reference(np.zeros((4, 3, 2)), np.full((4, 3, 2), 5.0))
    result[3, 1] = (1, 1j)[part] * times * 1e-6 * 5.0
    assert check(result, of).wrong == (times > 1)


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("inverse", [False, True])
def test_a_result_larger_than_one_round_of_the_threads(
    checked: Callable[[Operand], Check], host: HostRuntime, layout: Layout, inverse: bool
) -> None:
    problem = Fft((16, 16), 8 * host.device.multiprocessors + 3, kind=Kind.C2C, inverse=inverse, layout=layout)
    operands = random_operands(problem, 0)
    of = reference(problem, operands)
    result = of.expected.astype(np.float32).view(np.complex64)[..., 0]
    check = checked(problem.output)
    assert check(result, of).right
    result[::5, 3, ::7] += np.complex64(1e-4j)
    assert check(result, of).wrong == result[::5, 3, ::7].size


def test_bytes_between_the_elements_and_around_them_are_seen(host: HostRuntime) -> None:
    output = spectrum((3, 5), 8, 1)
    buffer = GuardedBuffer(host, output, GUARD)
    verifier = DeviceVerifier(host, host_compiler(), [{"spectrum": buffer}], output)
    buffer.upload(np.ones((3, 5), np.complex64))
    expected = np.zeros((3, 5, 2))
    expected[..., 0] = 1
    verifier.upload(Reference(expected, np.ones((3, 5, 2))))
    assert verifier.findings(POISON) == Findings(0.0, 0, 0)
    places = [buffer.address - 1, buffer.address + 5 * 8, buffer.address + 16 * 8 - 1, buffer.address + buffer.nbytes]
    for seen, place in enumerate(places, 1):
        host.fill(place, 0x7F, 1)
        assert verifier.findings(POISON) == Findings(0.0, 0, seen)
    verifier.close()
    buffer.free()
