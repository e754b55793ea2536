"""`conv2d_winograd`: its algorithms in exact numbers, errors, tiles, parts of the batch, and refusals."""

from __future__ import annotations

import dataclasses
import itertools
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.products.wgmma.wgmma_family import Conv2dWarpgroup
from warpsmith.generator.conv2d.products.winograd.minimal import Matrix, Minimal
from warpsmith.generator.conv2d.products.winograd.winograd_family import Conv2dWinograd
from warpsmith.generator.conv2d.products.winograd.winograd_image import (
    LEAST_SUMMED,
    TILES,
    WinogradImageGeometry,
    expected_ns,
    product_of,
)
from warpsmith.generator.conv2d.products.winograd.winograd_transforms import WinogradAxis
from warpsmith.generator.conv2d.products.winograd.winograd_weight import WinogradWeightGeometry, gradient_ns
from warpsmith.generator.presets import H200
from warpsmith.generator.ranking import default_answer
from warpsmith.generator.space import Config
from warpsmith.generator.steps import Pointer, aligned
from warpsmith.tuner.operations.conv2d.oracle import reference
from warpsmith.tuner.operations.conv2d.stress import stress_inputs, stress_slack

FAMILY = Conv2dWinograd()
LAYERS: dict[str, dict[str, Any]] = {
    "vgg": {"input": (64, 512, 28, 28), "weight": (512, 512, 3, 3), "padding": 1},
    "overfeat": {"input": (128, 1024, 12, 12), "weight": (1024, 1024, 3, 3), "padding": 1},
    "resnet": {"input": (32, 64, 56, 56), "weight": (64, 64, 3, 3), "padding": 1},
    "odd": {"input": (6, 33, 9, 13), "weight": (20, 33, 3, 3), "padding": ((2, 0), (1, 5))},
    "one result": {"input": (1, 3, 3, 3), "weight": (2, 3, 3, 3)},
}
every_layer = pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
every_pass = pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])
every_tile = pytest.mark.parametrize("tile", TILES)


def configs(problem: Conv2d, count: int) -> list[Config]:
    """The default and some random configs."""
    space, rng = FAMILY.space(problem, H200), random.Random(problem.key())
    found = [space.drawn(rng) for _ in range(count)]
    return [FAMILY.default(problem, H200), *(each for each in found if each is not None)]


def times(matrix: Matrix, numbers: list[Fraction]) -> list[Fraction]:
    return [sum((a * b for a, b in zip(row, numbers, strict=True)), Fraction(0)) for row in matrix]


class TestMinimal:
    @every_tile
    def test_gives_the_results_of_the_filter_in_exact_numbers(self, tile: int) -> None:
        rng, minimal = random.Random(tile), Minimal.of(tile)
        pixels = [Fraction(rng.randint(-99, 99)) for _ in range(minimal.window)]
        weights = [Fraction(rng.randint(-99, 99)) for _ in range(3)]
        points = zip(times(minimal.pixels, pixels), times(minimal.weights, weights), strict=True)
        found = times(minimal.results, [pixel * weight for pixel, weight in points])
        assert found == [sum(w * d for w, d in zip(weights, pixels[i : i + 3], strict=True)) for i in range(tile)]

    @every_tile
    def test_nothing_that_is_transformed_is_larger_than_before(self, tile: int) -> None:
        minimal = Minimal.of(tile)
        for row in (*minimal.pixels, *minimal.weights):
            assert Fraction(1, 2) < sum(map(abs, row)) <= 1

    @every_tile
    def test_constants_of_images_and_results_are_exact(self, tile: int) -> None:
        """The constants of weights divide by differences of points, so they are rounded once."""
        minimal = Minimal.of(tile)
        for each in itertools.chain(*minimal.pixels, *minimal.results):
            assert Fraction(float(np.float32(float(each)))) == each

    def test_text_leaves_out_what_is_zero_or_one(self) -> None:
        minimal = Minimal.of(2)
        assert minimal.pixel_rows[0] == "-0.5f * d[0] + 0.5f * d[2]"
        assert minimal.weight_rows == ("-d[0]", "0.25f * d[0] + 0.25f * d[1] + 0.25f * d[2]", *minimal.weight_rows[2:])

    @pytest.mark.parametrize(("tile", "most"), [(2, 2.2e-7), (4, 7e-7)])
    @pytest.mark.parametrize("kind", ["normal", "relu", "log-normal"])
    def test_errors_of_the_whole_are_below_a_millionth(self, tile: int, most: float, kind: str) -> None:
        """Errors in the L2 norm, with transforms in float32 and products of two fp16 parts for each number."""
        rng, channels = np.random.default_rng(3), 64
        tiles = rng.standard_normal((channels, 50, tile + 2, tile + 2))
        weights = rng.standard_normal((8, channels, 3, 3))
        if kind == "relu":
            tiles = np.maximum(tiles, 0)
        if kind == "log-normal":
            tiles, weights = (np.sign(each) * np.exp(2 * rng.standard_normal(each.shape)) for each in (tiles, weights))
        error = error_of(Minimal.of(tile), tiles.astype(np.float32), weights.astype(np.float32))
        assert most / 20 < error < most * (2 if kind == "log-normal" else 1)


def error_of(minimal: Minimal, tiles: np.ndarray, weights: np.ndarray) -> float:
    """Relative L2 error of all results against float64; sums over channels are exact but for the fp16 split."""
    b, g, a = (np.array(each, np.float32) for each in (minimal.pixels, minimal.weights, minimal.results))
    pixels = halved(np.einsum("ai,ctij->ctaj", b, tiles) @ b.T)
    filters = halved(np.einsum("ai,kcij->kcaj", g, weights) @ g.T)
    products = np.einsum("kcab,ctab->ktab", filters, pixels).astype(np.float32)
    found = np.einsum("ia,ktab->ktib", a, products) @ a.T
    shifted = np.stack([tiles[..., r : r + minimal.tile, s : s + minimal.tile] for r in range(3) for s in range(3)])
    exact = np.einsum("kcw,wctij->ktij", weights.reshape(*weights.shape[:2], 9).astype(float), shifted.astype(float))
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


@pytest.mark.parametrize(("tile", "channels"), [(2, 512), (4, LEAST_SUMMED[4])])
def test_tiles_keep_the_bound_of_stress_data(tile: int, channels: int) -> None:
    """Half of the tolerance is left for truncation in tensor cores, and for the largest error of many filters."""
    layer = Conv2d(input=(5, channels, 12, 12), weight=(32, channels, 3, 3), padding=1)
    inputs = stress_inputs(layer, np.random.default_rng(67))
    expected, scale = reference(layer, inputs)
    worst = max(
        float((np.abs(by_tiles(Minimal.of(tile), image, inputs["w"]) - expected[n]) / scale[n]).max())
        for n, image in enumerate(inputs["x"])
        if np.isfinite(scale[n]).all()
    )
    assert worst < 0.5 * stress_slack(layer) * layer.error_bound


def by_tiles(minimal: Minimal, image: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Results by tiles for an image padded by one pixel; its sides are multiples of the tile, and sums are exact."""
    b, g, a = (np.array(each, np.float32) for each in (minimal.pixels, minimal.weights, minimal.results))
    scale, places = np.float32(2.0 ** -np.ceil(np.log2(np.abs(image).max()))), minimal.tile
    padded = np.pad(image * scale, ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (minimal.window, minimal.window), axis=(1, 2))
    tiles = windows[:, ::places, ::places]
    pixels = halved(np.einsum("ai,cyxij->cyxaj", b, tiles) @ b.T).transpose(3, 4, 0, 1, 2)
    filters = halved(np.einsum("ai,kcij->kcaj", g, weights) @ g.T).transpose(2, 3, 0, 1)
    products = (filters @ pixels.reshape(*pixels.shape[:3], -1)).astype(np.float32)
    found = np.einsum("ia,abkt->ktib", a, products) @ a.T
    rows, columns = tiles.shape[1:3]
    found = found.reshape(len(weights), rows, columns, places, places).transpose(0, 1, 3, 2, 4)
    return np.asarray(found.reshape(len(weights), rows * places, columns * places) / np.float64(scale))


def halved(numbers: np.ndarray) -> np.ndarray:
    """Numbers rounded to two fp16 parts, scaled by a power of two, as float64."""
    scale = 2.0 ** (14 - np.floor(np.log2(np.abs(numbers).max())))
    scaled = (numbers * scale).astype(np.float32)
    high = scaled.astype(np.float16)
    low = (scaled - high.astype(np.float32)).astype(np.float16)
    return (high.astype(np.float64) + low.astype(np.float64)) / scale


class TestGeometry:
    @every_tile
    @every_pass
    @every_layer
    def test_each_result_is_of_one_tile_and_each_pixel_in_reach(
        self, layer: dict[str, Any], pass_: Pass, tile: int
    ) -> None:
        problem = Conv2d(**layer, pass_=pass_)
        for axis in (0, 1):
            found = WinogradAxis.of(problem, axis, tile)
            assert (found.tiles - 1) * tile < found.results <= found.tiles * tile
            assert found.results == problem.output.shape[2 + axis]
            assert found.sources == problem.inputs[0].shape[2 + axis]

    @every_pass
    @every_layer
    def test_launches_cover_tiles_channels_and_weights(self, layer: dict[str, Any], pass_: Pass) -> None:
        problem = Conv2d(**layer, pass_=pass_)
        for config in configs(problem, 5):
            geometry = WinogradImageGeometry.of(problem, config)
            pixels, weights, multiply = geometry.pixels, geometry.weights, geometry.multiply
            assert pixels.blocks_across * pixels.block_tiles >= pixels.length >= geometry.tiles
            assert (pixels.blocks_across - 1) * pixels.block_tiles < pixels.length
            assert pixels.chunks * 8 >= problem.inputs[0].shape[1]
            assert weights.blocks_across * weights.block_columns >= weights.tiles * weights.columns >= geometry.results
            assert geometry.blocks_across * geometry.threads >= geometry.tiles
            assert pixels.nbytes == 2 * 16 * pixels.part_length == multiply.images.nbytes
            assert weights.nbytes == multiply.filters.nbytes
            assert geometry.columns.results % geometry.vector == geometry.minimal.tile % geometry.vector == 0

    @every_pass
    def test_parts_take_the_batch_one_after_the_other(self, pass_: Pass) -> None:
        problem = Conv2d(**LAYERS["odd"], pass_=pass_)
        config = Config.of({**FAMILY.default(problem, H200).values(), "parts": 3})
        launches = FAMILY.program(problem, config).launches
        for name, first in ((problem.inputs[0].name, 0), (problem.output.name, -1)):
            offsets = [
                argument.offset
                for launch in launches
                if "largest" not in launch.entry
                for argument in launch.arguments
                if isinstance(argument, Pointer) and argument.buffer == name
            ]
            operand = problem.operands[first]
            assert offsets == [part * 2 * operand.strides[0] for part in range(3)]

    @every_layer
    def test_launches_cover_gradients_of_weights(self, layer: dict[str, Any]) -> None:
        problem = Conv2d(**layer, pass_=Pass.WGRAD, workspace=2**40)
        for config in configs(problem, 5):
            geometry = WinogradWeightGeometry.of(problem, config)
            x, dy, multiply = geometry.x, geometry.dy, geometry.multiply
            assert (x.nbytes, dy.nbytes) == (multiply.x.nbytes, multiply.dy.nbytes)
            assert (x.read, dy.read, x.step, dy.step) == (4, 2, 2, 2)
            assert (dy.rows.sources, dy.columns.sources) == problem.output_size
            assert dy.length % multiply.tile_k == 0
            assert geometry.sum_blocks * 32 * 8 >= problem.weight[0] * problem.weight[1]
            needed = sum(aligned(each.nbytes) for each in geometry.workspaces)
            assert needed <= multiply.workspace_bytes

    def test_products_are_a_layer_with_a_group_for_each_point(self) -> None:
        product = product_of(Conv2d(**LAYERS["vgg"]), 4, 2)
        assert product.groups == 36
        assert product.input == (1, 36 * 512, 1, 32 * 7 * 7)
        assert product.weight == (36 * 512, 512, 1, 1)

    def test_weights_are_made_of_weights_alone(self) -> None:
        """A plan that keeps prepacked weights transforms them once."""
        program = FAMILY.program(problem := Conv2d(**LAYERS["vgg"]), FAMILY.default(problem, H200))
        assert {each.name for each in program.workspaces if each.holds == ("w",)} == {"largest_w", "halves_w"}


class TestChoice:
    @every_pass
    @every_layer
    def test_the_default_is_legal_and_no_worse_than_drawn_ones(self, layer: dict[str, Any], pass_: Pass) -> None:
        problem = Conv2d(**layer, pass_=pass_)
        default, *others = configs(problem, 20)
        assert FAMILY.space(problem, H200).contains(default)
        least = min(expected_ns(problem, each, H200) for each in others)
        assert expected_ns(problem, default, H200) <= 1.15 * least

    @every_layer
    def test_the_default_of_gradients_of_weights_is_legal_and_no_worse(self, layer: dict[str, Any]) -> None:
        problem = Conv2d(**layer, pass_=Pass.WGRAD, workspace=2**40)
        default, *others = configs(problem, 20)
        assert FAMILY.space(problem, H200).contains(default)
        least = min(gradient_ns(problem, each, H200) for each in others)
        assert gradient_ns(problem, default, H200) <= 1.15 * least

    @pytest.mark.parametrize(
        ("name", "pays", "answers"), [("vgg", True, False), ("overfeat", True, True), ("resnet", False, False)]
    )
    def test_answers_where_its_transforms_pay(self, name: str, pays: bool, answers: bool) -> None:
        problem = Conv2d(**LAYERS[name])
        assert (FAMILY.expected_ns(problem, H200) < Conv2dWarpgroup().expected_ns(problem, H200)) == pays
        assert (default_answer(problem, H200)[0].name == FAMILY.name) == answers

    def test_large_tiles_are_for_many_channels(self) -> None:
        """F(4x4) errs more than stress data allow for few channels; the family's docstring has figures."""
        few, many = (Conv2d(input=(8, channels, 32, 32), weight=(64, channels, 3, 3)) for channels in (1023, 1024))
        assert {each.integer("tile") for each in configs(few, 30)} == {2}
        assert {each.integer("tile") for each in configs(many, 30)} == {2, 4}

    def test_a_small_workspace_takes_more_parts(self) -> None:
        whole = Conv2d(**LAYERS["vgg"])
        problem = dataclasses.replace(whole, workspace=2**27)
        default = FAMILY.default(problem, H200)
        assert default.integer("parts") > FAMILY.default(whole, H200).integer("parts")
        assert WinogradImageGeometry.of(problem, default).workspace_bytes <= 2**27


class TestRefusals:
    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"accuracy": "elementwise"}, "relative to whole tiles"),
            ({"padding_mode": "reflect"}, "padding_mode zeros only"),
            ({"precision": "tf32"}, "more than precision tf32 allows"),
            ({"dtype": "float16"}, "float32 only"),
            ({"layout": "nhwc"}, "nchw only"),
            ({"stride": 2}, "stride 1"),
            ({"dilation": 2}, "dilation 1"),
            ({"weight": (512, 256, 3, 3), "groups": 2}, "one group"),
            ({"weight": (512, 512, 3, 5)}, "3x3"),
            ({"workspace": 1000}, "does not fit into 1000 bytes"),
            ({"pass_": "wgrad", "workspace": 1000}, "does not fit into 1000 bytes"),
            ({"pass_": "wgrad", "input": (20, 512, 28, 28)}, "this one sums 15680"),
        ],
    )
    def test_tell_the_reason_in_a_line(self, change: dict[str, Any], reason: str) -> None:
        told = FAMILY.why_not(Conv2d(**{**LAYERS["vgg"], **change}), H200)
        assert told is not None
        assert reason in told
        assert "\n" not in told

    def test_other_gpus_lack_its_products(self) -> None:
        other = dataclasses.replace(H200, compute_capability=(8, 0))
        assert "9.0" in (FAMILY.why_not(Conv2d(**LAYERS["vgg"]), other) or "")
