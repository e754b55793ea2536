"""The float64 reference of Fourier transforms, against sums by definition; verdicts on complex results."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from warpsmith.generator.fft import Fft, Kind, Layout, Norm, Order, Tiling
from warpsmith.generator.problem import DType
from warpsmith.tuner.evaluate.verify import Verdict, verify
from warpsmith.tuner.operations.judge import Reference
from warpsmith.tuner.operations.registry import random_operands, reference
from warpsmith.tuner.operations.strips import STRIP_BYTES

DIRECTIONS: list[dict[str, Any]] = [
    {"kind": Kind.R2C},
    {"kind": Kind.C2R},
    {"kind": Kind.C2C},
    {"kind": Kind.C2C, "inverse": True},
]
every_direction = pytest.mark.parametrize("direction", DIRECTIONS, ids=["r2c", "c2r", "c2c", "inverse"])


def turns(n: int, sign: int) -> NDArray[Any]:
    """exp(sign 2 pi i j k / n) for all j and k."""
    index = np.arange(n)
    return np.asarray(np.exp(sign * 2j * np.pi * (np.outer(index, index) % n) / n))


def along_each_axis(values: NDArray[Any], sign: int) -> NDArray[Any]:
    """Sums over every axis but the first."""
    for axis in range(1, values.ndim):
        values = np.moveaxis(np.tensordot(values, turns(values.shape[axis], sign), (axis, 0)), -1, axis)
    return values


def places(points: int) -> list[int]:
    """Frequency at each place in bit-reversed order."""
    width = points.bit_length() - 1
    return [int(format(i, "b").zfill(width)[::-1], 2) if width else 0 for i in range(points)]


def to_memory(problem: Fft, spectrum: NDArray[Any]) -> NDArray[Any]:
    """Spectrum (batch, rows, columns) in natural order, laid out as the problem needs it in memory."""
    if problem.order is Order.REVERSED:
        for axis, points in enumerate(problem.size, start=1):
            if problem.is_real and axis == len(problem.size):
                spectrum = spectrum.take([*places(points // 2), points // 2], axis)
            else:
                spectrum = spectrum.take(places(points), axis)
    if problem.layout is Layout.TRANSPOSED:
        spectrum = spectrum.transpose(0, 2, 1)
    return np.moveaxis(spectrum, 0, -1) if problem.layout is Layout.FREQUENCY else spectrum


def turned(problem: Fft, signal: NDArray[Any], sign: int) -> NDArray[Any]:
    """Signal shifted circularly so that its first point is at the problem's start (sign 1), or shifted back (-1)."""
    start = problem.start or (0,) * len(problem.size)
    return np.roll(signal, [sign * points for points in start], tuple(range(1, signal.ndim)))


def bordered(problem: Fft, signal: NDArray[Any]) -> NDArray[Any]:
    """Signal with its border, point by point."""
    if problem.border is None:
        return signal
    for axis, (before, after) in enumerate(problem.border.pads, start=1):
        n = signal.shape[axis]
        places = range(-before, n + after)
        sources = {
            "reflect": [-i if i < 0 else 2 * (n - 1) - i if i >= n else i for i in places],
            "replicate": [min(max(i, 0), n - 1) for i in places],
            "circular": [i % n for i in places],
        }[problem.border.mode]
        signal = signal.take(sources, axis)
    return signal


def sums(problem: Fft, values: NDArray[Any]) -> NDArray[Any]:
    """Result of `values`, a signal or spectrum in natural order and layout, batch first, by definition."""
    n = problem.points
    scale = {
        Norm.BACKWARD: 1 / n if problem.inverse else 1.0,
        Norm.ORTHO: 1 / math.sqrt(n),
        Norm.FORWARD: 1.0 if problem.inverse else 1 / n,
    }[problem.norm]
    if not problem.inverse:
        values = bordered(problem, values)
        whole = np.zeros((problem.batch, *problem.size), complex)
        whole[(slice(None), *map(slice, values.shape[1:]))] = values
        whole = turned(problem, whole, 1)
        spectrum = scale * along_each_axis(whole, -1)
        return spectrum[..., : problem.size[-1] // 2 + 1] if problem.is_real else spectrum
    if problem.is_real:
        # A column stands for its mirror image too, but for the first, and the last of an even number.
        columns = problem.size[-1]
        doubled = np.zeros((problem.batch, *problem.size), complex)
        doubled[..., : columns // 2 + 1] = 2 * values
        doubled[..., 0] /= 2
        if columns % 2 == 0:
            doubled[..., columns // 2] /= 2
        return scale * along_each_axis(doubled, 1).real
    return scale * along_each_axis(values, 1)


def drawn(problem: Fft, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    """A random input in natural order and layout, batch first, and the same input in the problem's layout."""
    shape = problem.spectrum_size if problem.inverse else problem.signal_size
    generator = np.random.default_rng(seed)
    values = generator.standard_normal((problem.batch, *shape)).astype(np.float32)
    if problem.inputs[0].dtype is DType.COMPLEX64:
        values = values + 1j * generator.standard_normal(values.shape).astype(np.float32)
    memory = to_memory(problem, values) if problem.inverse else values
    return values, np.ascontiguousarray(memory.astype(problem.inputs[0].dtype.value))


def check(problem: Fft) -> Reference:
    values, given = drawn(problem)
    got = reference(problem, {problem.inputs[0].name: given})
    whole = sums(problem, values)
    if problem.inverse:
        whole = turned(problem, whole, -1)
    inside = (slice(None), *map(slice, problem.signal_size))
    expected = whole[inside] if problem.inverse else to_memory(problem, whole)
    parts = np.ascontiguousarray(expected).view(np.float64).reshape(problem.output.components.shape)
    assert got.expected.dtype == got.scale.dtype == np.float64
    assert got.expected.shape == got.scale.shape == parts.shape
    assert np.abs(got.expected - parts).max() <= 1e-13 * math.sqrt(problem.points) * np.abs(parts).max(), problem.key()
    np.testing.assert_allclose(got.scale, 2 * np.sqrt(np.mean(np.abs(whole) ** 2)), rtol=1e-12)
    return got


class TestReference:
    @every_direction
    @pytest.mark.parametrize("size", [(2,), (3,), (8,), (15,), (64,), (2, 2), (4, 8), (5, 7), (6, 3), (16, 16)])
    @pytest.mark.parametrize("norm", Norm)
    def test_is_the_sum_as_it_is_defined(self, direction: dict[str, Any], size: tuple[int, ...], norm: Norm) -> None:
        check(Fft(size, 3, norm=norm, **direction))

    @every_direction
    @pytest.mark.parametrize(
        ("size", "valid"),
        [((8,), (1,)), ((8,), (7,)), ((9,), (5,)), ((8, 8), (8, 5)), ((8, 8), (5, 8)), ((6, 9), (1, 2))],
    )
    def test_of_a_part(self, direction: dict[str, Any], size: tuple[int, ...], valid: tuple[int, ...]) -> None:
        check(Fft(size, 3, valid=valid, **direction))

    @every_direction
    @pytest.mark.parametrize(
        ("size", "valid", "start"),
        [((8,), (3,), (7,)), ((9,), None, (4,)), ((8, 8), (8, 5), (0, 6)), ((6, 9), (4, 2), (5, 1))],
    )
    def test_of_a_part_that_begins_elsewhere(
        self, direction: dict[str, Any], size: tuple[int, ...], valid: tuple[int, ...] | None, start: tuple[int, ...]
    ) -> None:
        check(Fft(size, 3, valid=valid, start=start, **direction))

    @pytest.mark.parametrize("kind", [Kind.R2C, Kind.C2C])
    @pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
    def test_of_a_part_with_a_border(self, kind: Kind, mode: str) -> None:
        for size, valid, pads, start in (
            ((8,), (3,), "2+1", None),
            ((12, 9), (5, 3), "4+2x0+2", None),
            ((12, 9), (5, 3), "0+4x2", (11, 3)),
        ):
            check(Fft(size, 3, kind, valid=valid, border=f"{mode}:{pads}", start=start))  # type: ignore[arg-type]

    @every_direction
    @pytest.mark.parametrize(("outer", "inner"), [(2, 3), (1, 1), (3, 1)])
    def test_of_tiles_of_planes(self, direction: dict[str, Any], outer: int, inner: int) -> None:
        """The transforms equal those of signals cut out of planes, or written to planes, point by point."""
        is_result = direction["kind"] is Kind.C2R or "inverse" in direction
        tiling = Tiling((3, 2), (4, 5), (0, 0) if is_result else (-3, 2), (10, 9), inner)
        alone = Fft((6, 8), 6 * outer * inner, valid=(4, 5), layout=Layout.FREQUENCY, **direction)
        problem = dataclasses.replace(alone, tiling=tiling)
        given = random_operands(alone if is_result else problem, 3)
        found = reference(problem, given).expected
        if is_result:
            signals, planes = reference(alone, given).expected, np.full(found.shape, np.nan)
        else:
            planes = given["signal"]
            signals = np.zeros(alone.inputs[0].shape, planes.dtype)
        for transform in range(alone.batch):
            plane, corner = tiling.place(transform)
            for y, x in itertools.product(range(4), range(5)):
                row, column = corner[0] + y, corner[1] + x
                if not (0 <= row < 10 and 0 <= column < 9):
                    continue
                if is_result:
                    assert np.isnan(planes[plane, row, column]).all()
                    planes[plane, row, column] = signals[transform, y, x]
                else:
                    signals[transform, y, x] = planes[plane, row, column]
        expected = planes if is_result else reference(alone, {"signal": signals}).expected
        np.testing.assert_array_equal(found, expected)

    @every_direction
    @pytest.mark.parametrize("layout", Layout)
    @pytest.mark.parametrize("order", Order)
    def test_of_every_layout_and_order(self, direction: dict[str, Any], layout: Layout, order: Order) -> None:
        for size, valid in itertools.product(((8,), (2,), (4, 8), (2, 16), (16, 2)), (False, True)):
            if layout is Layout.TRANSPOSED and len(size) == 1:
                continue
            part = tuple(points - 1 for points in size) if valid else None
            check(Fft(size, 3, valid=part, layout=layout, order=order, **direction))

    @every_direction
    @pytest.mark.parametrize("layout", [Layout.BATCH, Layout.FREQUENCY])
    def test_of_a_batch_of_several_strips(self, direction: dict[str, Any], layout: Layout) -> None:
        batch = 2 * STRIP_BYTES // (16 * 8) + 5
        check(Fft((8,), batch, layout=layout, norm=Norm.ORTHO, **direction))

    def test_by_hand(self) -> None:
        """The signal 1, 2, 3, 4 has the spectrum 10, -2 + 2i, -2."""
        signal = np.array([[1, 2, 3, 4]], np.float32)
        spectrum = np.array([[10, -2 + 2j, -2]], np.complex64)
        forward = reference(Fft((4,)), {"signal": signal})
        assert forward.expected.tolist() == [[[10, 0], [-2, 2], [-2, 0]]]
        assert forward.scale.ravel().tolist() == [pytest.approx(2 * math.sqrt((100 + 8 + 4) / 3))] * 6
        back = reference(Fft((4,), kind=Kind.C2R), {"spectrum": spectrum})
        assert back.expected.tolist() == [[1, 2, 3, 4]]
        assert back.scale.ravel().tolist() == [pytest.approx(2 * math.sqrt(30 / 4))] * 4

    def test_is_of_the_float32_that_are_given(self) -> None:
        problem, third = Fft((2,)), np.float32(1 / 3)
        got = reference(problem, {"signal": np.array([[third, -third]])})
        assert got.expected[0, 1, 0] == 2 * float(third)

    @every_direction
    def test_inputs_are_left_as_they_were(self, direction: dict[str, Any]) -> None:
        problem = Fft((4, 8), 3, layout=Layout.TRANSPOSED, **direction)
        operands, again = random_operands(problem, 0), random_operands(problem, 0)
        reference(problem, operands)
        assert all(np.array_equal(operands[name], again[name]) for name in again)


class TestHermitianPart:
    @pytest.mark.parametrize("order", Order)
    @pytest.mark.parametrize("layout", Layout)
    def test_is_all_that_counts_of_a_column_that_mirrors_itself(self, layout: Layout, order: Order) -> None:
        """The rows of the first and last column each mirror themselves, as in numpy.fft.irfft2."""
        problem = Fft((8, 8), 2, kind=Kind.C2R, layout=layout, order=order)
        values, given = drawn(problem)
        generator = np.random.default_rng(5)
        for column in (0, 4):
            noise = generator.standard_normal((2, 8)) + 1j * generator.standard_normal((2, 8))
            values[..., column] += noise - np.roll(noise[:, ::-1], 1, axis=1).conj()  # nothing Hermitian in it
        wild = np.ascontiguousarray(to_memory(problem, values).astype(np.complex64))
        first, second = (reference(problem, {"spectrum": each}).expected for each in (given, wild))
        assert not np.array_equal(wild, given)
        np.testing.assert_allclose(first, second, atol=1e-6)  # `wild` was rounded

    @pytest.mark.parametrize("n", [7, 8])
    def test_of_one_dimension_is_the_real_part(self, n: int) -> None:
        problem = Fft((n,), 3, kind=Kind.C2R)
        _, given = drawn(problem)
        wild = given.copy()
        wild[:, 0] += 5j
        if n % 2 == 0:
            wild[:, -1] -= 3j
        first, second = (reference(problem, {"spectrum": each}).expected for each in (given, wild))
        np.testing.assert_array_equal(first, second)


class TestRandomOperands:
    def test_of_complex_numbers_have_parts_of_their_own(self) -> None:
        problem = Fft((8, 8), 50, kind=Kind.C2C)
        values = random_operands(problem, 0)["signal"]
        assert (values.shape, str(values.dtype)) == ((50, 8, 8), "complex64")
        parts = values.reshape(-1).view(np.float32)
        assert np.unique(parts).size > 0.99 * parts.size
        assert abs(parts.mean()) < 0.05
        assert abs(parts.std() - 1) < 0.05
        assert not np.array_equal(values, random_operands(problem, 1)["signal"])

    @pytest.mark.parametrize("size", [(4,), (7,), (8,), (4, 8), (6, 9), (5, 4)])
    def test_of_half_spectra_have_what_a_real_signal_has(self, size: tuple[int, ...]) -> None:
        """cuFFT does not ignore the rest, so a transform of the inputs to the signal and back changes nothing."""
        for layout, order in itertools.product(Layout, Order):
            if layout is Layout.TRANSPOSED and len(size) == 1:
                continue
            if order is Order.REVERSED and any(points & (points - 1) for points in size):
                continue
            problem = Fft(size, 3, kind=Kind.C2R, layout=layout, order=order)
            spectrum = random_operands(problem, 0)["spectrum"]
            signal = reference(problem, {"spectrum": spectrum}).expected
            again = sums(dataclasses.replace(problem, kind=Kind.R2C, inverse=None), signal)
            np.testing.assert_allclose(to_memory(problem, again), spectrum, atol=1e-5)
            assert np.abs(spectrum).min() > 0


class TestVerify:
    PROBLEM = Fft((4, 8), 3)

    def right(self) -> tuple[NDArray[Any], Reference]:
        """A result rounded to complex64, and its reference."""
        of = check(self.PROBLEM)
        return of.expected.astype(np.float32).view(np.complex64)[..., 0], of

    def test_a_rounded_result_is_right(self) -> None:
        result, of = self.right()
        assert result.shape == self.PROBLEM.output.shape
        verdict = verify(result, of, DType.COMPLEX64)
        assert verdict.right
        assert 0 < verdict.max_error < 2.0**-22

    @pytest.mark.parametrize("part", [0, 1])
    def test_a_wrong_part_is_found_and_its_index_named(self, part: int) -> None:
        result, of = self.right()
        result[2, 3, 1] += np.complex64((0.5, 0.5j)[part])
        verdict = verify(result, of, DType.COMPLEX64)
        assert (verdict.right, verdict.wrong) == (False, 1)
        assert verdict.max_error == pytest.approx(0.5 / of.scale.flat[0], rel=1e-5)
        assert verdict.message == (
            f"1 of {3 * 4 * 5 * 2} elements are wrong; the worst, at (2, 3, 1, {part}), is "
            f"{result.view(np.float32).reshape(3, 4, 5, 2)[2, 3, 1, part]:.9g} "
            f"and should be {of.expected[2, 3, 1, part]:.9g}"
        )

    @pytest.mark.parametrize("value", [complex(0, math.nan), complex(math.inf, 0), complex(math.nan, math.nan)])
    def test_what_is_not_finite_is_wrong(self, value: complex) -> None:
        result, of = self.right()
        result[1, 2, 3] = value
        verdict = verify(result, of, DType.COMPLEX64)
        assert verdict.max_error == math.inf
        assert verdict.wrong >= 1

    def test_an_error_just_over_the_bound_is_wrong(self) -> None:
        """One absolute bound, relative to the whole result, applies to the smallest elements as to the largest."""
        result, of = self.right()
        exact = Reference(result.view(np.float32).reshape(of.expected.shape).astype(np.float64), of.scale)
        assert verify(result, exact, DType.COMPLEX64) == Verdict(0.0, 0, "")
        for times, wrong in ((0.9, 0), (1.1, 1)):
            off = dataclasses.replace(exact, expected=exact.expected.copy())
            off.expected[0, 1, 2, 1] += times * 1e-6 * of.scale.flat[0]
            assert verify(result, off, DType.COMPLEX64).wrong == wrong
