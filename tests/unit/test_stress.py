"""Stress data: magnitudes far apart, cancellation, tones, within range of their type and of the promised bound."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from warpsmith.generator.fft import Fft, Tiling
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.filter2d.separable import separable_terms
from warpsmith.generator.problem import PIXELS, DType, Problem
from warpsmith.tuner.operations.registry import judge_of, random_operands, reference, stress_operands

TRANSFORMS = [
    Fft(256, 64),
    Fft((32, 32), 9, valid=(27, 27)),
    Fft((8, 12), 5, kind="c2r", layout="frequency"),
    Fft(49, 33, kind="c2c"),
    Fft(64, 3, kind="c2r", order="reversed"),
    Fft(2, 1),
    Fft((64, 64), 9, valid=(27, 27), border="replicate:18x18"),  # type: ignore[arg-type]
    Fft((32, 32), 9, valid=(13, 13), border="circular:9+8x9"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("dtype", PIXELS)
@pytest.mark.parametrize("result_dtype", [None, *PIXELS])
def test_inputs_are_finite_and_as_the_problem_wants_them(dtype: DType, result_dtype: DType | None) -> None:
    problem = Filter2d((70, 90), (3, 5), dtype=dtype, result_dtype=result_dtype, channels=3, planes=2, filters=2)
    drawn = stress_operands(problem, 5)
    for operand in problem.inputs:
        values = drawn[operand.name]
        assert (values.shape, values.dtype) == (operand.shape, np.dtype(str(operand.dtype)))
        assert np.isfinite(values).all()
    again, other = stress_operands(problem, 5), stress_operands(problem, 6)
    np.testing.assert_array_equal(drawn["image"], again["image"])
    assert (drawn["image"] != other["image"]).any()


def test_magnitudes_are_far_apart_and_sums_cancel() -> None:
    problem = Filter2d((300, 400), (5, 5), border="wrap")
    drawn = stress_operands(problem, 0)
    magnitudes = np.abs(drawn["image"])
    assert magnitudes.max() > 2.0**19
    assert magnitudes.min() < 2.0**-19
    assert abs(drawn["weights"].sum()) < 1e-5 * np.abs(drawn["weights"]).sum()
    of = reference(problem, drawn)
    assert (np.abs(of.expected) < 1e-5 * of.scale).mean() > 0.05  # the constant regions
    beside = magnitudes[:, 1:] / magnitudes[:, :-1]
    assert (beside > 2.0**20).any()
    plain = np.abs(random_operands(problem, 0)["image"])
    assert plain.max() < 8


def test_known_weights_stay_as_they_are() -> None:
    problem = Filter2d((30, 40), (1, 3), weights=(1.0, -2.0, 1.0))
    np.testing.assert_array_equal(stress_operands(problem, 0)["weights"], [[1, -2, 1]])


def test_a_large_image_repeats_what_is_drawn_at_no_round_distance() -> None:
    image = stress_operands(Filter2d((1100, 1200), (1, 1)), 0)["image"]
    np.testing.assert_array_equal(image[1021:, :], image[:79, :])
    np.testing.assert_array_equal(image[:, 1031:], image[:, :169])


@pytest.mark.parametrize("problem", TRANSFORMS, ids=lambda problem: problem.key())
def test_no_frequency_is_higher_than_float32_can_hold(problem: Fft) -> None:
    """An error of half a unit in the last place stays under the bound, which is given as the root mean square."""
    (source,) = stress_operands(problem, 1).values()
    assert np.isfinite(source).all()
    of = reference(problem, {problem.inputs[0].name: source})
    assert np.abs(of.expected).max() * 2.0**-24 < 0.5e-6 * of.scale.flat[0]
    energy = (np.abs(source.astype(np.complex128)) ** 2).mean()
    least = 0.2 if not isinstance(problem, Fft) or problem.border is None else 0.02  # what is repeated is smaller
    assert least < energy < 5


@pytest.mark.parametrize("valid", [None, (19, 52)])
def test_tiles_of_large_planes_have_one_energy(valid: tuple[int, int] | None) -> None:
    """Stress data once put a whole plane's energy into one tile of a 512x512 plane. That failed every kernel of the
    transform: it was 22 times the root mean square of all tiles.
    """
    tiling = Tiling((27, 10), (19, 52), (0, 0) if valid else (-1, -1), (512, 512), 4)
    problem = Fft((21, 54), batch=8 * 270, valid=valid, layout="frequency", tiling=tiling)
    operands = stress_operands(problem, 3)
    found = reference(problem, operands)
    own = np.sqrt(np.square(found.expected).mean(axis=(0, 1, 3)))
    assert own.max() < 2.5 * np.sqrt(np.square(found.expected).mean())
    assert np.abs(found.expected).max() * 2.0**-24 < 0.5e-6 * found.scale.flat[0]
    assert {len(np.unique(plane)) > 100 for plane in operands["signal"]} == {True}


@pytest.mark.parametrize("problem", [Filter2d((100, 100), (3, 5)), Fft(256, 100)], ids=lambda each: each.key())
def test_terms_are_counted(problem: Problem) -> None:
    assert judge_of(problem).terms(problem) == (15 if isinstance(problem, Filter2d) else 64)


def test_separable_terms_may_not_cancel_under_a_tap() -> None:
    """The difference of two Gaussians is small where they meet, and a bright pixel may be there."""
    away = np.hypot(*np.meshgrid(np.arange(-6, 7), np.arange(-6, 7)))
    wide, narrow = (np.exp(-(away**2) / (2 * sigma**2)) / sigma**2 for sigma in (3.0, 1.5))
    for weights, accuracy in itertools.product((narrow, narrow - wide), ("elementwise", "normwise")):
        problem = Filter2d((100, 100), (13, 13), weights=weights, accuracy=accuracy)  # type: ignore[arg-type]
        found = separable_terms(problem)
        if weights is narrow:
            assert len(found) == 1
        else:
            assert len(found) == (0 if accuracy == "elementwise" else 2)


@pytest.mark.parametrize(
    ("problem", "slack"),
    [
        (Filter2d((64, 64), (3, 3)), 1.0),
        (Filter2d((64, 64), (10, 10)), 3.0),
        (Filter2d((64, 64), (31, 31)), pytest.approx(9.3)),
        (Filter2d((64, 64), (9, 9), accuracy="imagewise"), pytest.approx(2.7)),
        (Filter2d((64, 64), (31, 31), accuracy="imagewise"), pytest.approx(2.86, abs=0.01)),
        (Fft(256), 1.0),
    ],
)
def test_room_for_rounding_grows_with_the_root_of_the_taps(problem: Problem, slack: float) -> None:
    assert judge_of(problem).stress_slack(problem) == slack
