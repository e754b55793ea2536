"""Plans of Fourier transforms on the CPU: the arrays that they return, and the arrays that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.fft import Fft
from warpsmith.generator.registry import families_for
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan
from warpsmith.tuner.evaluate.verify import verify
from warpsmith.tuner.operations.registry import random_operands, reference

HOST = DeviceRef(DeviceKind.HOST)


def fft(size: Any, batch: int = 1, **fields: Any) -> Fft:
    """A problem from a caller's arguments."""
    return Fft(size, batch, **fields)


def plan(problem: Fft) -> Plan:
    """Plan with the default config of the preferred family."""
    family = families_for(problem, HOST.device())[0]
    program = family.program(problem, family.default(problem, HOST.device()))
    return Plan.load(
        problem, Match(MatchKind.DEFAULT, program, None, ()), HOST.compiler().compile_program(program), HostRuntime()
    )


class TestPlan:
    @pytest.mark.parametrize(
        "problem", [fft((8, 6), 3, layout="frequency"), fft(16, 4, kind="c2r"), fft(9, 2, kind="c2c")]
    )
    def test_makes_the_result_or_writes_to_out(self, problem: Fft) -> None:
        operands = random_operands(problem, 0)
        (given,), called = operands.values(), plan(problem)
        result = called(given)
        assert (result.shape, str(result.dtype)) == (problem.output.shape, problem.output.dtype.value)
        assert verify(result, reference(problem, operands), problem.output.dtype).right
        out = np.full(problem.output.shape, np.nan, result.dtype)
        assert called(given, out=out) is out
        assert np.array_equal(out, result)

    def test_computes_what_numpy_does_with_s_axes_and_norm(self) -> None:
        images = np.random.default_rng(0).standard_normal((2, 3, 13, 14)).astype(np.float32)
        problem = Fft.of_shape(images.shape, s=(16, 16), axes=(-2, -1), norm="ortho")
        spectra = plan(problem)(images.reshape(6, 13, 14)).reshape(2, 3, 16, 9)
        np.testing.assert_allclose(spectra, np.fft.rfft2(images, (16, 16), norm="ortho"), atol=1e-5)
        back = Fft.of_shape(spectra.shape, "c2r", axes=(2, 3), norm="ortho")
        signals = plan(back)(spectra.reshape(6, 16, 9)).reshape(2, 3, 16, 16)
        np.testing.assert_allclose(signals[..., :13, :14], images, atol=1e-5)

    def test_names_the_array_that_does_not_fit(self) -> None:
        called = plan(fft(16, 4, kind="c2r"))
        given, wide = np.zeros((4, 9), np.complex64), np.zeros((4, 16), np.complex64)
        real = np.zeros((4, 16), np.float32)
        for arrays, out, why in (
            ((given.astype(complex),), None, r"spectrum: expected complex64 of shape \(4, 9\); got complex128"),
            ((wide,), None, r"spectrum: .* got complex64 of shape \(4, 16\)"),
            ((real,), None, r"spectrum: .* got float32"),
            ((np.zeros((9, 4), np.complex64).T,), None, "spectrum: must be C-contiguous"),
            ((given.tolist(),), None, "spectrum: expected a NumPy array"),
            ((given,), wide, r"signal: expected float32 of shape \(4, 16\); got complex64"),
            ((given,), real[:3], r"signal: .* got float32 of shape \(3, 16\)"),
            ((given, given), None, "a plan of fft takes spectrum; got 2 arrays"),
            ((), None, "a plan of fft takes spectrum; got 0 arrays"),
        ):
            with pytest.raises(BadArgument, match=why) as caught:
                called(*arrays, out=out)
            assert "\n" not in str(caught.value)

    def test_takes_no_result_in_the_memory_of_its_input(self) -> None:
        both = np.zeros((2, 9), np.complex64)
        with pytest.raises(BadArgument, match="out: shares memory with signal"):
            plan(fft(9, 2, kind="c2c"))(both, out=both)
