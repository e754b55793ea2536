"""Layers in the frequency domain by tiles: sizes, reads and stores, and layers for which tiles are likely."""

from __future__ import annotations

import itertools
from math import prod
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from warpsmith.generator.cgemm import Cgemm, Op
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.fourier.cufft import Conv2dCufft
from warpsmith.generator.conv2d.fourier.parts import FourierParts
from warpsmith.generator.conv2d.fourier.plane_transforms import MOST, TILES, WHOLE_PLANES, Basis
from warpsmith.generator.conv2d.fourier.variants import FOURIER, VARIANTS
from warpsmith.generator.conv2d.operation import CONV2D
from warpsmith.generator.fft import Fft
from warpsmith.generator.fft.axes import prime_factors
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.ranking import default_answer
from warpsmith.generator.registry import families_for
from warpsmith.tuner.operations.registry import random_operands, reference

FAMILY, WHOLE = FOURIER["conv2d_fft_tiled"], FOURIER["conv2d_fft"]
L1: dict[str, Any] = {"input": (128, 3, 128, 128), "weight": (96, 3, 11, 11)}
L2: dict[str, Any] = {"input": (128, 64, 64, 64), "weight": (64, 64, 9, 9)}
LARGE: dict[str, Any] = {"input": (4, 64, 512, 512), "weight": (64, 64, 7, 7)}
LAYERS: tuple[tuple[dict[str, Any], tuple[int, int]], ...] = (
    ({"input": (2, 3, 13, 11), "weight": (4, 3, 3, 3)}, (8, 8)),
    ({"input": (2, 3, 13, 11), "weight": (4, 3, 3, 3), "padding": 1}, (8, 9)),
    ({"input": (1, 2, 17, 23), "weight": (3, 2, 5, 2), "padding": ((2, 0), (0, 3))}, (8, 10)),
    ({"input": (3, 1, 9, 8), "weight": (2, 1, 4, 3), "padding": ((3, 1), (2, 2))}, (16, 16)),
    ({"input": (2, 2, 8, 19), "weight": (2, 2, 1, 8), "padding": (0, 7)}, (8, 8)),
    ({"input": (1, 1, 10, 10), "weight": (1, 1, 1, 1)}, (8, 8)),
    ({"input": (1, 2, 9, 9), "weight": (2, 2, 8, 9), "padding": 2}, (8, 9)),
)
every_pass = pytest.mark.parametrize("pass_", Pass)
every_layer = pytest.mark.parametrize(("layer", "size"), LAYERS, ids=lambda value: str(value)[:60])
Values = NDArray[Any]


def spectra(problem: Fft, planes: Values) -> Values:
    """Spectra (frequencies, transforms) of an operand of the layer, in float64."""
    given = planes.reshape(problem.inputs[0].shape)
    found = reference(problem, {"signal": given}).expected
    return found.view(np.complex128)[..., 0].reshape(-1, problem.batch)


def multiplied(product: Cgemm, *factors: Values) -> Values:
    """One matrix product for each frequency."""
    given = zip(factors, (product.a, product.b), product.inputs, strict=True)
    a, b = (
        each.reshape(operand.shape) if op is Op.N else each.reshape(operand.shape).conj().swapaxes(1, 2)
        for each, op, operand in given
    )
    return np.asarray(a @ b)


class TestVariants:
    def test_are_families_of_the_operation(self) -> None:
        listed = {name: family() for name, family in CONV2D.listed.items() if name.startswith("conv2d_fft")}
        assert listed == FOURIER
        assert all(family.name == name for name, family in listed.items())

    def test_on_tiles_have_a_rival_on_whole_planes(self) -> None:
        for variant in VARIANTS:
            rivals = [] if variant.rival is None else [variant.rival.transforms]
            assert rivals == ([WHOLE_PLANES] if variant.transforms is TILES else [])


@every_pass
@every_layer
class TestTiles:
    def test_make_the_layer_in_exact_arithmetic(
        self, layer: dict[str, Any], size: tuple[int, int], pass_: Pass
    ) -> None:
        """The stages' own references in order: every pixel is in the tiles that need it, and nothing wraps around."""
        problem = Conv2d(**layer, pass_=pass_)
        parts = FourierParts(problem, Basis(*size), 1, TILES)
        operands = random_operands(problem, 2)
        first, second = (
            spectra(each, operands[factor.name]) for each, factor in zip(parts.forward, parts.factors, strict=True)
        )
        result = multiplied(parts.product, first, second).reshape(parts.inverse.inputs[0].shape)
        found = reference(parts.inverse, {"spectrum": result}).expected.reshape(problem.output.shape)
        expected = reference(problem, operands).expected
        np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())

    def test_store_every_result_once(self, layer: dict[str, Any], size: tuple[int, int], pass_: Pass) -> None:
        problem = Conv2d(**layer, pass_=pass_)
        inverse = FourierParts(problem, Basis(*size), 1, TILES).inverse
        if inverse.tiling is None:
            assert pass_ is Pass.WGRAD
            assert inverse.output.shape[1:] == problem.weight[2:]
            return
        stored = np.zeros(problem.output.shape, int).reshape(inverse.output.shape)
        for transform in range(inverse.batch):
            plane, (row, column) = inverse.tiling.place(transform)
            rows, columns = inverse.signal_size
            stored[plane, row : row + rows, column : column + columns] += 1
        assert (stored == 1).all()

    def test_are_what_the_products_read(self, layer: dict[str, Any], size: tuple[int, int], pass_: Pass) -> None:
        problem = Conv2d(**layer, pass_=pass_)
        parts = FourierParts(problem, Basis(*size), 1, TILES)
        transforms = (*parts.forward, parts.inverse)
        spectra = [next(each for each in found.operands if each.name == "spectrum") for found in transforms]
        assert [each.nbytes for each in spectra] == [each.nbytes for each in parts.product.operands]
        signals = [next(each for each in found.operands if each.name == "signal") for found in transforms]
        operands = (*parts.factors, problem.output)
        assert [each.nbytes for each in signals] == [each.nbytes for each in operands]


def test_a_gradient_of_weights_adds_up_over_images_and_tiles() -> None:
    parts = FourierParts(Conv2d(**L1, pass_=Pass.WGRAD), Basis(32, 32), 1, TILES)
    assert TILES.tiles(parts.layer, parts.basis) == (6, 6)
    product = parts.product
    assert (product.m, product.n, product.k) == (96, 3, 128 * 36)
    dy, x = parts.forward
    assert (dy.valid, x.valid) == ((22, 22), None)


class TestSizes:
    @every_pass
    @pytest.mark.parametrize("layer", [L1, L2, LARGE, {"input": (2, 3, 9, 300), "weight": (4, 3, 5, 57)}])
    def test_have_small_factors_and_leave_a_result(self, layer: dict[str, Any], pass_: Pass) -> None:
        problem = Conv2d(**layer, pass_=pass_)
        found = TILES.bases(problem, FourierParts.rules)
        assert 1 <= len(found) == len(set(found))
        assert found[:3] == TILES.likely(problem, FourierParts.rules)
        for basis, axis in itertools.product(found, (0, 1)):
            assert max(8, layer["weight"][2 + axis]) <= basis.size[axis] <= MOST
            assert max(prime_factors(basis.size[axis])) <= 7

    def test_that_move_fewest_bytes_come_first(self) -> None:
        """118 results along an axis are two tiles of 60, three of 40, and six of 22."""
        fprop = Conv2d(**L1, workspace=2**40)
        assert TILES.bases(fprop, FourierParts.rules)[0] == Basis(70, 70)
        expected = []
        for points in (70, 50, 64, 32):
            parts = FourierParts.of(fprop, Basis(points, points), TILES)
            assert parts is not None
            expected.append(parts.expected_ns(H200.rates))
        assert expected == sorted(expected)

    def test_are_no_larger_than_what_holds_a_plane(self) -> None:
        small = Conv2d((1, 1, 9, 9), (1, 1, 3, 3), padding=1)  # type: ignore[arg-type]
        for basis in TILES.bases(small, FourierParts.rules):
            assert max(basis.size) <= 12

    def test_of_filters_that_are_too_large_are_told_in_a_line(self) -> None:
        told = FAMILY.why_not(Conv2d((1, 1, 200, 200), (1, 1, 71, 3)), H200)
        assert told == "has tiles of 70 points at the most along an axis, with a filter inside"
        assert FAMILY.why_not(Conv2d((1, 1, 200, 200), (1, 1, 70, 3)), H200) is None

    def test_are_all_those_of_small_factors_up_to_the_largest_tile(self) -> None:
        found = {basis.rows for basis in TILES.bases(Conv2d(**LARGE), FourierParts.rules)}
        sizes = (n for n in range(8, MOST + 1) if max(prime_factors(n)) <= 7)
        assert found == {n for n in sizes if n >= LARGE["weight"][2]}


class TestParts:
    def test_of_spectra_larger_than_an_operand_may_be_fit_nowhere(self) -> None:
        layer = Conv2d((1, 719, 883, 883), (512, 719, 1, 1), workspace=2**45)
        told = f"needs more than {2**45} bytes of workspace"
        assert [each.why_not(layer, H200) for each in (WHOLE, Conv2dCufft())] == [told, told]

    def test_are_images_with_all_of_their_tiles(self) -> None:
        layer = Conv2d(**L1)
        parts = FourierParts.of(layer, Basis(50, 50), TILES)
        assert parts is not None
        assert (parts.count, parts.images, parts.signals) == (2, 64, 64 * 9)
        assert parts.forward[0].batch == 64 * 9 * 3
        assert parts.inverse.batch == 64 * 9 * 96
        assert parts.spectra_bytes <= layer.workspace_limit
        assert sum(each.nbytes for each in FAMILY.workspaces(layer)) <= layer.workspace_limit

    def test_lie_one_behind_the_other(self) -> None:
        layer = Conv2d(**L1, workspace=600 << 20)
        runs = FAMILY.runs(layer)
        offsets = [run.offsets.get("signal", 0) for run in runs if run.stage.name == "result"]
        assert offsets == [0, layer.output.nbytes // 2]

    def test_of_a_gradient_of_weights_each_have_a_result_that_is_kept(self) -> None:
        layer = Conv2d(**L1, pass_=Pass.WGRAD, workspace=600 << 20)
        parts = FourierParts.of(layer, FAMILY.variant.bases(layer)[0], TILES)
        assert parts is not None
        assert (parts.count, parts.results, parts.product.k) == (2, 2, 64 * 4)
        spectra = FAMILY.workspaces(layer)
        assert sum(each.nbytes for each in spectra) <= parts.spectra_bytes <= layer.workspace_limit
        products = [run.offsets["c"] for run in FAMILY.runs(layer) if run.stage.name == "product"]
        assert products == [0, parts.result_pitch_bytes]
        assert products[-1] + parts.product.output.nbytes == spectra[2].nbytes
        for name in ("first", "second"):
            operand = parts.factors[name == "second"]
            offsets = [run.offsets["signal"] for run in FAMILY.runs(layer) if run.stage.name == name]
            assert offsets == [0, operand.nbytes // 2]


class TestLikely:
    @pytest.mark.parametrize(
        ("layer", "likely"),
        [
            (LARGE, True),
            ({"input": (16, 64, 224, 224), "weight": (64, 64, 7, 7), "padding": 3}, True),
            (L2, False),
            ({"input": (128, 384, 13, 13), "weight": (384, 384, 3, 3)}, False),
            ({"input": (2, 16, 400, 400), "weight": (16, 16, 1, 1)}, False),
        ],
    )
    def test_is_where_whole_planes_and_sums_over_taps_take_longer(self, layer: dict[str, Any], likely: bool) -> None:
        for pass_ in Pass:
            problem = Conv2d(**layer, pass_=pass_)
            assert FAMILY.is_likely(problem, H200) is likely
            assert not FAMILY.is_likely(problem, HOST)
            if likely:
                assert default_answer(problem, H200)[0].name == "conv2d_fft_tiled_warpgroup"
                assert FOURIER["conv2d_fft_tiled_tensor"].is_likely(problem, H200)

    def test_is_without_tensor_cores_where_products_are_thin(self) -> None:
        problem = Conv2d((8, 5, 224, 224), (64, 5, 7, 7), padding=3)  # type: ignore[arg-type]
        assert not FOURIER["conv2d_fft_tiled_tensor"].is_likely(problem, H200)
        assert default_answer(problem, H200)[0].name == "conv2d_fft_tiled"

    def test_the_likely_family_that_is_expected_to_be_the_fastest_answers(self) -> None:
        """The first likely family is not the fastest: for one image, tiles beat the few products of whole planes."""
        one, likely = Conv2d((1, 96, 72, 72), (64, 96, 9, 9)), []
        for family in families_for(one, H200):
            if family.may_answer and family.is_likely(one, H200):
                expected_ns = family.expected_ns(one, H200)
                assert expected_ns is not None
                likely.append((expected_ns, family.name))
        assert default_answer(one, H200)[0].name == min(likely)[1] == FAMILY.name
        assert likely[0][0] > 1.5 * min(likely)[0]

    def test_odd_columns_take_longer_than_expected(self) -> None:
        """Measured: 408 us with one tile of 45x45 a plane, 327 us with planes of 45x48."""
        lost = Conv2d((64, 64, 44, 44), (256, 64, 13, 13))
        assert TILES.bases(lost, FourierParts.rules)[0] == Basis(45, 45)
        assert FAMILY.expected_ns(lost, H200) < WHOLE.expected_ns(lost, H200)
        assert not FAMILY.is_likely(lost, H200)
        assert default_answer(lost, H200)[0].name == "conv2d_fft_warpgroup"

    def test_of_whole_planes_counts_sectors_that_are_used_in_part(self) -> None:
        """12,288 planes of 128x128 points back, two per tile: 1093 us measured; all bytes alone would take 601 us."""
        parts = FourierParts(Conv2d(**L1), Basis(128, 128), 1)
        whole = parts.inverse.bytes / 2500
        assert whole < 602_000
        assert 850_000 < parts.expected_ns(H200.rates) - parts.product.bytes / 2500 < 1_100_000
        assert prod(parts.basis.size) == 128 * 128
