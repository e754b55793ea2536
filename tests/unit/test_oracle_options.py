"""The float64 oracle beyond one float32 correlation: anchors, convolutions, banks, channels, element types."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import exhaustive
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import PIXELS, DType
from warpsmith.tuner.operations.registry import random_operands, reference

ndimage = pytest.importorskip("scipy.ndimage")

SAME_SIZE = [border for border in Border if border is not Border.VALID]
SMALL_IMAGES = [(1, 1), (1, 2), (2, 1), (2, 3), (3, 2), (4, 1), (4, 4)]
FILTERS = [(1, 1), (2, 3), (3, 2), (4, 4), (5, 1), (9, 9), (8, 9)]


def anchors(size: tuple[int, int]) -> list[tuple[int, int]]:
    """The corners, the middle, and one at an edge."""
    r, s = size
    return sorted({(0, 0), (r - 1, s - 1), (0, s - 1), (r // 2, s // 2), (r // 2, 0)})


def by_scipy(problem: Filter2d, image: NDArray[Any], weights: NDArray[Any], cval: float) -> NDArray[np.float64]:
    """SciPy's own convolve or correlate, plane by plane, channel by channel and filter by filter."""
    function = ndimage.convolve if problem.convolve else ndimage.correlate
    middle = tuple(size // 2 for size in problem.filter)
    origin = tuple(np.subtract(problem.anchor or middle, middle).tolist())
    planes = image.astype(np.float64).reshape(problem.planes, *problem.image, problem.channels)
    filters = weights.astype(np.float64).reshape(problem.filters, *problem.filter)
    result = np.empty((problem.planes, problem.filters, *problem.image, problem.channels))
    for plane, index, channel in np.ndindex(problem.planes, problem.filters, problem.channels):
        result[plane, index, ..., channel] = function(
            planes[plane, ..., channel], filters[index], mode=str(problem.border), cval=cval, origin=origin
        )
    return result.reshape(problem.output.shape)


def scipy_reads_outside(problem: Filter2d) -> bool:
    """SciPy 1.17's `reflect` reads a pixel before the image if a window reaches 2n, 4n, ... beyond n pixels."""
    return problem.border is Border.REFLECT and any(
        reach >= 4 * size for reach, size in zip(problem.filter, problem.image, strict=True) if size > 1
    )


def assert_as_scipy(problem: Filter2d, seed: int = 0) -> None:
    operands = random_operands(problem, seed)
    image, weights = operands["image"], operands["weights"]
    got = reference(problem, operands)
    expected = by_scipy(problem, image, weights, problem.cval)
    scale = by_scipy(problem, np.abs(image.astype(np.float64)), np.abs(weights), abs(problem.cval))
    assert got.expected.shape == got.scale.shape == problem.output.shape
    assert np.all(np.abs(got.expected - expected) <= 1e-13 * scale)
    np.testing.assert_allclose(got.scale, scale, rtol=1e-13)


@pytest.mark.parametrize("image", [(19, 23), (37, 1931)])
@pytest.mark.parametrize("border", SAME_SIZE)
def test_in_norm_the_scale_is_the_windows_largest_pixel(border: Border, image: tuple[int, int]) -> None:
    problem = Filter2d(image=image, filter=(4, 3), border=border, cval=2.5, accuracy="normwise")
    operands = random_operands(problem, 5)
    window = {"size": problem.filter, "mode": str(border), "cval": 2.5}
    largest = ndimage.maximum_filter(np.abs(operands["image"].astype(np.float64)), **window)
    scale = largest * np.abs(operands["weights"].astype(np.float64)).sum()
    np.testing.assert_allclose(reference(problem, operands).scale, scale, rtol=1e-13)


@pytest.mark.parametrize("border", [Border.VALID, Border.CONSTANT, Border.WRAP])
def test_imagewise_the_scale_is_the_largest_gain_times_the_largest_pixel(border: Border) -> None:
    """The scale is per plane and filter; if an output's own terms are larger, they are the scale."""
    problem = Filter2d((30, 40), (7, 6), border=border, cval=9.5, accuracy="imagewise", planes=2, filters=3)
    operands = dict(random_operands(problem, 5))
    operands["image"] = operands["image"] * np.array([1, 1e-3], np.float32).reshape(2, 1, 1)
    elementwise = reference(dataclasses.replace(problem, accuracy="elementwise"), operands)
    got = reference(problem, operands)
    np.testing.assert_array_equal(got.expected, elementwise.expected)
    for plane, of in zip(operands["image"], np.moveaxis(got.scale, 0, 0), strict=True):
        largest = max(np.abs(plane).max(), 9.5 if border is Border.CONSTANT else 0)
        for f, taps in enumerate(operands["weights"].astype(np.float64)):
            gain = np.abs(np.fft.fft2(taps, (512, 512))).max()
            np.testing.assert_allclose(of[f].min(), gain * largest, rtol=1e-2)
    assert (got.scale >= elementwise.scale * (1 - 1e-12)).all()


def test_no_wave_is_amplified_by_more_than_the_largest_gain() -> None:
    weights = np.random.default_rng(1).standard_normal((5, 5)).astype(np.float32)
    gains = np.abs(np.fft.fft2(weights, (256, 256)))
    v, u = np.unravel_index(gains.argmax(), gains.shape)
    wave = np.cos(2 * np.pi * np.add.outer(v * np.arange(256), u * np.arange(256)) / 256).astype(np.float32)
    problem = Filter2d((256, 256), (5, 5), border="wrap", accuracy="imagewise")
    of = reference(problem, {"image": wave, "weights": weights})
    gain = gains.max()
    assert 0.99 * gain < np.abs(of.expected).max() < 1.001 * gain
    assert 0.99 * gain < of.scale.min() < 1.01 * gain


class TestWindows:
    @exhaustive.meeting(2)
    @pytest.mark.parametrize("convolve", [False, True])
    @pytest.mark.parametrize("border", SAME_SIZE)
    @pytest.mark.parametrize("size", FILTERS)
    def test_agree_with_scipy_at_every_origin_on_the_smallest_images(
        self, size: tuple[int, int], border: Border, convolve: bool
    ) -> None:
        for image, anchor in itertools.product(SMALL_IMAGES, anchors(size)):
            problem = Filter2d(image, size, border=border, cval=-1.5, convolve=convolve, anchor=anchor)
            if not scipy_reads_outside(problem):
                assert_as_scipy(problem)

    @pytest.mark.parametrize("convolve", [False, True])
    @pytest.mark.parametrize("border", SAME_SIZE)
    @pytest.mark.parametrize("size", [(3, 3), (4, 5), (17, 6)])
    def test_agree_with_scipy_at_every_origin(self, size: tuple[int, int], border: Border, convolve: bool) -> None:
        for anchor in anchors(size):
            assert_as_scipy(Filter2d((13, 11), size, border=border, cval=7, convolve=convolve, anchor=anchor))

    @pytest.mark.parametrize("convolve", [False, True])
    def test_valid_is_the_inside_whatever_the_filter(self, convolve: bool) -> None:
        valid = Filter2d((9, 11), (4, 3), convolve=convolve)
        operands = random_operands(valid, 5)
        same = reference(dataclasses.replace(valid, border=Border.WRAP), operands)
        ahead = 1 if convolve else 2
        inside = (slice(ahead, ahead + 6), slice(1, 10))
        assert np.array_equal(reference(valid, operands).expected, same.expected[inside])
        assert np.array_equal(reference(valid, operands).scale, same.scale[inside])

    def test_a_convolution_leaves_the_filter_where_the_impulse_was(self) -> None:
        weights = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
        impulse = np.zeros((9, 9), np.float32)
        impulse[4, 4] = 1
        problem = Filter2d((9, 9), (3, 4), border=Border.CONSTANT, convolve=True, anchor=(0, 1))
        result = reference(problem, {"image": impulse, "weights": weights}).expected
        assert np.array_equal(result[4:7, 3:7], weights)
        assert np.count_nonzero(result) == 12

    @pytest.mark.parametrize(
        ("name", "pixels"),
        [
            ("BORDER_CONSTANT", "kkkkkkk|abc|kkkkkkk"),
            ("BORDER_REPLICATE", "aaaaaaa|abc|ccccccc"),
            ("BORDER_REFLECT", "aabccba|abc|cbaabcc"),
            ("BORDER_REFLECT_101", "bcbabcb|abc|babcbab"),
            ("BORDER_REFLECT101", "bcbabcb|abc|babcbab"),
            ("BORDER_DEFAULT", "bcbabcb|abc|babcbab"),
            ("BORDER_WRAP", "cabcabc|abc|abcabca"),
            ("grid-mirror", "aabccba|abc|cbaabcc"),
        ],
    )
    def test_opencv_s_borders_are_what_its_documentation_draws(self, name: str, pixels: str) -> None:
        """`cv::BorderTypes` shows six pixels beside `abcdefgh`; here they continue over several widths of the image."""
        self._assert_row("abc", name, pixels)

    @pytest.mark.parametrize(
        ("image", "border", "pixels"),
        [
            ("ab", Border.REFLECT, "abbaabba|ab|baabbaab"),
            ("ab", Border.MIRROR, "abababab|ab|abababab"),
            ("a", Border.MIRROR, "aaaa|a|aaaa"),
            ("a", Border.REFLECT, "aaaa|a|aaaa"),
            ("a", Border.WRAP, "aaaa|a|aaaa"),
            ("a", Border.CONSTANT, "kkkk|a|kkkk"),
        ],
    )
    def test_borders_several_times_as_wide_as_the_image(self, image: str, border: Border, pixels: str) -> None:
        self._assert_row(image, border, pixels)

    @staticmethod
    def _assert_row(image: str, border: str, pixels: str) -> None:
        """`pixels` as the first pixel sees them through a filter of one tap, along a row and down a column."""
        values = {"k": -1.0, **{letter: float(place) for place, letter in enumerate("abc", 1)}}
        before, flat = pixels.index("|"), pixels.replace("|", "")
        row = np.array([[values[letter] for letter in image]], np.float32)
        for place, letter in enumerate(flat):
            weights = np.zeros((1, 2 * len(flat) + 1), np.float32)
            weights[0, len(flat) + place - before] = 1
            for pair in ((row, weights), (row.T, weights.T)):
                problem = Filter2d(pair[0].shape, pair[1].shape, border=border, cval=-1)  # type: ignore[arg-type]
                result = reference(problem, {"image": pair[0], "weights": pair[1]}).expected
                assert result[0, 0] == values[letter], (place, letter)


class TestShapes:
    @pytest.mark.parametrize("border", SAME_SIZE)
    @pytest.mark.parametrize(("planes", "filters", "channels"), list(itertools.product((1, 2), (1, 3), (1, 3))))
    def test_planes_filters_and_channels_agree_with_scipy(
        self, planes: int, filters: int, channels: int, border: Border
    ) -> None:
        for convolve in (False, True):
            assert_as_scipy(
                Filter2d(
                    (7, 6),
                    (3, 4),
                    planes=planes,
                    border=border,
                    cval=0.25,
                    channels=channels,
                    filters=filters,
                    convolve=convolve,
                    anchor=(2, 0),
                )
            )

    def test_a_large_bank_goes_over_several_strips(self) -> None:
        assert_as_scipy(Filter2d((300, 200), (2, 3), channels=3, filters=2, border=Border.MIRROR))

    def test_one_row_of_channels_and_filters_by_hand(self) -> None:
        problem = Filter2d((1, 3), (1, 2), channels=2, filters=2)
        image = np.array([[[1, 10], [2, 20], [4, 40]]], np.float32)
        weights = np.array([[[1, 100]], [[0, -1]]], np.float32)
        result = reference(problem, {"image": image, "weights": weights}).expected
        assert result.tolist() == [[[[201, 2010], [402, 4020]]], [[[-2, -20], [-4, -40]]]]

    def test_gaps_between_rows_change_nothing(self) -> None:
        dense = Filter2d((7, 6), (3, 3), planes=2, border=Border.WRAP)
        padded = dataclasses.replace(dense, pitch=64, result_pitch=128)
        first, second = (random_operands(problem, 3) for problem in (dense, padded))
        assert all(np.array_equal(first[name], second[name]) for name in first)
        assert np.array_equal(reference(dense, first).expected, reference(padded, second).expected)


class TestTypes:
    @pytest.mark.parametrize("result", PIXELS)
    @pytest.mark.parametrize("image", PIXELS)
    def test_the_reference_is_of_the_inputs_as_they_are_and_unrounded(self, image: DType, result: DType) -> None:
        problem = Filter2d((40, 50), (3, 2), dtype=image, result_dtype=result, border=Border.NEAREST)
        operands = random_operands(problem, 0)
        assert {name: str(array.dtype) for name, array in operands.items()} == {"image": image, "weights": "float32"}
        got = reference(problem, operands).expected
        assert got.dtype == np.float64
        by_hand = by_scipy(problem, operands["image"], operands["weights"], 0.0)
        np.testing.assert_allclose(got, by_hand, rtol=1e-12, atol=1e-10)
        assert np.any(got != np.rint(got))

    def test_halves_are_normal_deviates_rounded(self) -> None:
        single = Filter2d((40, 50), (3, 3))
        image = random_operands(dataclasses.replace(single, dtype=DType.FLOAT16), 4)["image"]
        assert np.array_equal(image, random_operands(single, 4)["image"].astype(np.float16))

    def test_bytes_are_uniform(self) -> None:
        image = random_operands(Filter2d((400, 500), (3, 3), dtype=DType.UINT8), 0)["image"]
        counts = np.bincount(image.ravel(), minlength=256)
        assert len(counts) == 256
        assert 600 < counts.min() <= counts.max() < 1000  # 781 on average, give or take 28

    @pytest.mark.parametrize("dtype", PIXELS)
    @pytest.mark.parametrize("size", [(1, 1), (2, 2), (3, 3), (7, 7), (31, 31)])
    def test_results_in_bytes_lie_inside_and_outside_their_range(self, size: tuple[int, int], dtype: DType) -> None:
        problem = Filter2d((64, 64), size, dtype=dtype, result_dtype=DType.UINT8, filters=3, border=Border.WRAP)
        operands = random_operands(problem, 0)
        for result in reference(problem, operands).expected:
            above, below = np.mean(result > 255), np.mean(result < 0)
            assert above + below < 0.5
            assert above > 0.005
            # One tap cannot be negative here.
            assert below > 0.002 or size == (1, 1)

    def test_pixels_for_bytes_have_fractions_where_the_image_has(self) -> None:
        problem = Filter2d((40, 50), (3, 3), dtype=DType.FLOAT16, result_dtype=DType.UINT8)
        image = random_operands(problem, 0)["image"]
        assert image.dtype == np.float16
        assert 0 <= image.min() < 5
        assert 250 < image.max() <= 255
        assert np.mean(image != np.rint(image)) > 0.5

    def test_weights_that_a_bank_knows_are_used_in_its_shape(self) -> None:
        problem = Filter2d((8, 8), (2, 3), filters=2, weights=tuple(range(12)), dtype=DType.UINT8)
        weights = random_operands(problem, 0)["weights"]
        assert np.array_equal(weights, np.arange(12, dtype=np.float32).reshape(2, 2, 3))
        assert weights.dtype == np.float32
