"""`conv2d_warpgroup`: lines of pixels, tiles, arithmetic, and defaults."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.products.split16.split16_arithmetic import Arithmetic
from warpsmith.generator.conv2d.products.split16.split16_folding import Folding, folded
from warpsmith.generator.conv2d.products.split16.split16_lattice import Lattice, LatticeLine
from warpsmith.generator.conv2d.products.split16.split16_maximum import MOST_SHARES, SAMPLE, Maximum
from warpsmith.generator.conv2d.products.wgmma.wgmma_family import Conv2dWarpgroup
from warpsmith.generator.conv2d.products.wgmma.wgmma_image import (
    GROUP_M,
    WgmmaImageGeometry,
    image_ns,
    least_image,
)
from warpsmith.generator.conv2d.products.wgmma.wgmma_weight import WgmmaWeightGeometry, weight_ns
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import DType, Operand, Role
from warpsmith.generator.ranking import default_answer
from warpsmith.generator.space import Config
from warpsmith.tuner.operations.conv2d.oracle import reference

FAMILY = Conv2dWarpgroup()
SHAPES: dict[str, dict[str, Any]] = {
    "padded": {"input": (2, 3, 6, 5), "weight": (4, 3, 3, 3), "padding": 1},
    "valid": {"input": (2, 3, 7, 9), "weight": (2, 3, 5, 2)},
    "uneven": {"input": (1, 2, 5, 7), "weight": (3, 2, 2, 4), "padding": ((1, 0), (0, 3))},
    "strides": {"input": (2, 2, 11, 9), "weight": (3, 2, 3, 5), "stride": (2, 3), "padding": (1, 2)},
    "strides beyond the filter": {"input": (2, 2, 9, 8), "weight": (3, 2, 1, 2), "stride": (2, 3), "padding": (0, 3)},
    "dilation": {"input": (2, 2, 11, 12), "weight": (3, 2, 3, 3), "dilation": (2, 3), "padding": (2, 1)},
    "both": {"input": (1, 2, 14, 13), "weight": (2, 2, 3, 4), "stride": (3, 2), "dilation": (2, 3)},
    "much padding": {"input": (2, 2, 3, 4), "weight": (3, 2, 1, 2), "padding": (3, 5)},
}
every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
LAYERS: tuple[dict[str, Any], ...] = (
    {"input": (128, 192, 13, 13), "weight": (384, 192, 3, 3), "padding": 1},
    {"input": (128, 3, 224, 224), "weight": (64, 3, 11, 11), "stride": 4, "padding": 2},
    {"input": (1, 64, 64, 64), "weight": (64, 64, 5, 5), "padding": 2},
    {"input": (32, 128, 56, 56), "weight": (128, 128, 3, 3), "padding": 1, "stride": 2},
    {"input": (16, 256, 65, 65), "weight": (256, 256, 3, 3), "padding": 2, "dilation": 2},
    {"input": (8, 100, 30, 30), "weight": (33, 100, 1, 1)},
    {"input": (4, 64, 40, 40), "weight": (64, 2, 3, 3), "groups": 32},
    {"input": (2, 5, 70, 70), "weight": (7, 5, 31, 31), "padding": 15},
)


def on_line(image: NDArray[np.float64], line: LatticeLine, plane: int) -> dict[int, int]:
    """Image row at each position of a plane, by the rule that `line` states."""
    rows = range(line.planes[plane], image.shape[0], line.multiple)
    return {place: row for index, row in enumerate(rows) if 0 <= (place := index + line.before) < line.pitch}


def planes_of(images: NDArray[np.float64], lattice: Lattice) -> NDArray[np.float64]:
    """All planes of one channel, with room after the last image."""
    found = np.zeros((lattice.planes, lattice.positions + lattice.reach + 1))
    for down, across in itertools.product(range(len(lattice.rows.planes)), range(len(lattice.columns.planes))):
        plane = down * len(lattice.columns.planes) + across
        for n, image in enumerate(images):
            for place, row in on_line(image, lattice.rows, down).items():
                for left, column in on_line(image.T, lattice.columns, across).items():
                    found[plane, n * lattice.image_pitch + place * lattice.columns.pitch + left] = image[row, column]
    return found


def operands(problem: Conv2d) -> dict[str, NDArray[np.float32]]:
    generator = np.random.default_rng(5)
    return {each.name: generator.standard_normal(each.shape).astype(np.float32) for each in problem.inputs}


class TestLattice:
    @every_shape
    @pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])
    def test_a_tap_is_a_shift(self, shape: dict[str, Any], pass_: Pass) -> None:
        problem = Conv2d(**shape, pass_=pass_)
        lattice, given = Lattice.of(problem), operands(problem)
        source = given["x" if pass_ is Pass.FPROP else "dy"].astype(np.float64)
        weights = given["w"].astype(np.float64).reshape(*problem.weight[:2], -1)
        result = np.full(problem.output.shape, np.nan)
        lines = [planes_of(source[:, channel], lattice) for channel in range(source.shape[1])]
        for number, taps in enumerate(lattice.phases):
            first = divmod(number, len(lattice.columns.phases))
            for own in range(result.shape[1]):
                sums = np.zeros(lattice.positions)
                for tap, (channel, line) in itertools.product(taps, enumerate(lines)):
                    pair = (own, channel) if pass_ is Pass.FPROP else (channel, own)
                    sums += weights[(*pair, tap.weight)] * line[tap.plane, tap.shift :][: lattice.positions]
                images = sums.reshape(problem.input[0], lattice.rows.pitch, lattice.columns.pitch)
                step = len(lattice.rows.phases), len(lattice.columns.phases)
                target = result[:, own, first[0] :: step[0], first[1] :: step[1]]
                target[...] = images[:, : target.shape[1], : target.shape[2]]
        np.testing.assert_allclose(result, reference(problem, given)[0], atol=1e-12)

    @every_shape
    def test_a_gradient_of_weights_sums_along_the_line(self, shape: dict[str, Any]) -> None:
        problem = Conv2d(**shape, pass_=Pass.WGRAD)
        lattice, given = Lattice.of(problem), operands(problem)
        dy = np.zeros((problem.weight[0], problem.input[0], lattice.rows.pitch, lattice.columns.pitch))
        rows, columns = problem.output_size
        dy[:, :, :rows, :columns] = given["dy"].transpose(1, 0, 2, 3)
        result = np.full((*problem.weight[:2], problem.weight[2] * problem.weight[3]), np.nan)
        for channel in range(problem.input[1]):
            line = planes_of(given["x"][:, channel].astype(np.float64), lattice)
            for tap in lattice.phases[0]:
                read = line[tap.plane, tap.shift :][: lattice.positions]
                result[:, channel, tap.weight] = dy.reshape(len(dy), -1) @ read
        np.testing.assert_allclose(result.reshape(problem.weight), reference(problem, given)[0], atol=1e-12)

    def test_images_share_their_zeros(self) -> None:
        """13 rows with a row of zeros above and below take 14 positions instead of 15."""
        lattice = Lattice.of(Conv2d(**LAYERS[0]))
        assert (lattice.rows.pitch, lattice.columns.pitch) == (14, 14)
        assert lattice.fill == 13 * 13 / 14**2


def drawn(problem: Conv2d, count: int) -> list[Any]:
    space, rng = FAMILY.space(problem, H200), random.Random(problem.key())
    found = [space.drawn(rng) for _ in range(count)]
    return [FAMILY.default(problem, H200), *(each for each in found if each is not None)]


class TestTiles:
    @pytest.mark.parametrize("layer", LAYERS)
    def test_each_position_and_channel_is_of_one_tile(self, layer: dict[str, Any]) -> None:
        for pass_ in (Pass.FPROP, Pass.DGRAD):
            problem = Conv2d(**layer, pass_=pass_)
            for config in drawn(problem, 3):
                geometry = WgmmaImageGeometry.of(problem, config)
                positions = GROUP_M * geometry.warpgroups
                assert geometry.tiles_down * positions >= geometry.lattice.positions
                assert (geometry.tiles_down - 1) * positions < geometry.lattice.positions
                assert geometry.tiles_across * geometry.columns >= geometry.results
                assert geometry.blocks <= geometry.tiles

    @pytest.mark.parametrize("layer", LAYERS)
    def test_stages_lie_within_what_is_written(self, layer: dict[str, Any]) -> None:
        for pass_ in (Pass.FPROP, Pass.DGRAD):
            problem = Conv2d(**layer, pass_=pass_)
            for config in drawn(problem, 3):
                geometry = WgmmaImageGeometry.of(problem, config)
                last = (geometry.tiles_down - 1) * GROUP_M * geometry.warpgroups
                for step in geometry.steps:
                    in_plane = step.first % geometry.images.length
                    assert last + in_plane + geometry.run <= geometry.images.length
                    assert step.shift + GROUP_M * geometry.warpgroups <= geometry.run
                assert sum(step.begins for step in geometry.steps) == sum(step.ends for step in geometry.steps)

    @pytest.mark.parametrize("layer", LAYERS)
    def test_each_weight_has_a_sum_and_each_position_a_split(self, layer: dict[str, Any]) -> None:
        problem = Conv2d(**layer, pass_=Pass.WGRAD)
        for config in drawn(problem, 3):
            geometry = WgmmaWeightGeometry.of(problem, config)
            found = Counter(weight for each in geometry.tap_sets for weight in each.weights if weight >= 0)
            assert found == Counter(range(geometry.tap_count))
            assert geometry.weights == math.prod(folded(problem).weight)
            assert geometry.steps * geometry.tile_k == geometry.dy.length >= geometry.lattice.positions
            assert (geometry.splits - 1) * geometry.split_steps < geometry.steps
            assert geometry.splits * geometry.split_steps >= geometry.steps
            for each in geometry.tap_sets:
                in_plane = each.first % geometry.x.length
                assert geometry.dy.length - geometry.tile_k + in_plane + geometry.run <= geometry.x.length
                assert max(each.shifts) + geometry.tile_k <= geometry.run


class TestArithmetic:
    @pytest.mark.parametrize(
        ("dtype", "precision", "expected"),
        [
            ("float32", "ieee", (DType.FLOAT16, 2, True, True)),
            ("float32", "tf32", (DType.FLOAT16, 1, True, False)),
            ("float32", "bf16", (DType.FLOAT16, 1, True, False)),
            ("float16", "ieee", (DType.FLOAT16, 1, False, True)),
            ("float16", "f16", (DType.FLOAT16, 1, False, False)),
            ("bfloat16", "bf16", (DType.BFLOAT16, 1, False, False)),
        ],
    )
    def test_follows_from_the_data_and_what_is_asked(
        self, dtype: str, precision: str, expected: tuple[Any, ...]
    ) -> None:
        problem = Conv2d(**LAYERS[0], dtype=dtype, precision=precision)  # type: ignore[arg-type]
        found = Arithmetic.of(problem)
        assert (found.element, found.parts, found.scales, found.promotes) == expected

    def test_images_have_powers_of_their_own_where_results_are_images(self) -> None:
        layer = {"input": (5, 16, 9, 8), "weight": (8, 16, 3, 3)}
        images = [Arithmetic.of(Conv2d(**layer, pass_=pass_)).images for pass_ in Pass]  # type: ignore[arg-type]
        assert images == [5, 5, 1]
        assert Arithmetic.of(Conv2d(**layer, dtype="float16")).images == 1  # type: ignore[arg-type]

    def test_takes_three_products_for_each_of_float32(self) -> None:
        assert Arithmetic.of(Conv2d(**LAYERS[0])).products == 3


class TestMaximum:
    @pytest.mark.parametrize(
        "shape", [(128, 3, 227, 227), (8, 64, 97, 97), (2, 3, 1001, 999), (1056, 65, 8, 8), (3, 3, 5, 7)]
    )
    def test_blocks_of_an_image_read_no_other(self, shape: tuple[int, ...]) -> None:
        found = Maximum.of("", Operand("x", Role.INPUT, shape, DType.FLOAT32), shape[0])
        size = math.prod(shape[1:])
        for image in range(shape[0]):
            first = -(-image * size // 4)  # a vector of four that lies in the image
            read = found.fours // found.step
            assert image * size <= 4 * first
            assert 4 * (first + (read - 1) * found.step + 1) <= (image + 1) * size
        assert found.shares * shape[0] == found.blocks
        assert found.shares <= MOST_SHARES

    def test_an_image_is_sampled_where_that_reads_less(self) -> None:
        """A quarter of all vectors would be read of large batches of small images."""
        large, many = ((16, 64, 96, 96), (4096, 64, 4, 4))
        found = [Maximum.of("", Operand("x", Role.INPUT, each, DType.FLOAT32), each[0]) for each in (large, many)]
        assert [each.is_sampled for each in found] == [True, False]
        assert found[0].fours // found[0].step >= SAMPLE // 16
        assert found[0].step % 2 == 1


def time_ns(problem: Conv2d, config: Config) -> float:
    """Nanoseconds that the model expects."""
    if problem.pass_ is Pass.WGRAD:
        return weight_ns(WgmmaWeightGeometry.of(problem, config), H200)
    return image_ns(WgmmaImageGeometry.of(problem, config), H200)


class TestChoice:
    @pytest.mark.parametrize("pass_", Pass)
    @pytest.mark.parametrize("layer", LAYERS)
    def test_the_default_is_legal_and_no_worse_than_drawn_ones(self, layer: dict[str, Any], pass_: Pass) -> None:
        problem = Conv2d(**layer, pass_=pass_)
        default, *others = drawn(problem, 20)
        assert FAMILY.space(problem, H200).contains(default)
        least = min(time_ns(problem, each) for each in others)
        assert time_ns(problem, default) <= 1.15 * least

    @pytest.mark.parametrize("pass_", Pass)
    @pytest.mark.parametrize("layer", [LAYERS[3], LAYERS[4]], ids=["stride", "dilation"])
    def test_answers_layers_of_many_channels_that_transforms_do_not_solve(
        self, layer: dict[str, Any], pass_: Pass
    ) -> None:
        assert default_answer(Conv2d(**layer, pass_=pass_), H200)[0].name == FAMILY.name


def folded_images(folding: Folding, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Images folded as the docstring of the folding's module describes."""
    found = np.zeros(folding.layer.input, np.float32)
    rows, columns = folding.rows, folding.columns
    for a, b, i, j in itertools.product(
        *map(range, (rows.count, columns.count, rows.folded_size, columns.folded_size))
    ):
        row = i * rows.multiple + a * rows.spread - rows.before
        column = j * columns.multiple + b * columns.spread - columns.before
        if 0 <= row < rows.size and 0 <= column < columns.size:
            found[:, a * columns.count + b :: folding.count, i, j] = x[:, :, row, column]
    return found


def folded_filters(folding: Folding, w: NDArray[np.float32]) -> NDArray[np.float32]:
    """Weights folded alike; zero at taps that only the larger folded filter has."""
    found = np.zeros(folding.layer.weight, np.float32)
    rows, columns = folding.rows, folding.columns
    for r, s in itertools.product(range(rows.taps), range(columns.taps)):
        (t, a), (u, b) = divmod(r, rows.count), divmod(s, columns.count)
        found[:, a * columns.count + b :: folding.count, t, u] = w[:, :, r, s]
    return found


class TestFolding:
    @pytest.mark.parametrize(
        ("input_", "weight", "more"),
        [
            ((2, 3, 13, 15), (4, 3, 5, 5), {"stride": 2, "padding": 2}),
            ((2, 2, 15, 14), (3, 2, 4, 3), {"stride": (3, 1), "padding": ((1, 2), 1), "dilation": (1, 2)}),
            ((2, 2, 12, 16), (3, 2, 4, 4), {"stride": 4}),
            ((1, 1, 9, 14), (2, 1, 3, 8), {"dilation": (1, 2), "padding": ((1, 0), (5, 2))}),
        ],
    )
    def test_a_folded_layer_has_the_same_results(
        self, input_: tuple[int, ...], weight: tuple[int, ...], more: dict[str, Any]
    ) -> None:
        layer = Conv2d(input_, weight, **more)  # type: ignore[arg-type]
        folding = Folding.of(layer)
        assert folding is not None
        assert Folding.of(folding.layer) is None
        rng = np.random.default_rng(0)
        x, w = rng.standard_normal(layer.input, np.float32), rng.standard_normal(layer.weight, np.float32)
        expected, _ = reference(layer, {"x": x, "w": w})
        found, _ = reference(folding.layer, {"x": folded_images(folding, x), "w": folded_filters(folding, w)})
        assert np.allclose(found, expected, rtol=1e-12)

    @pytest.mark.parametrize(
        ("channels", "taps", "folds"),
        [(3, 11, True), (3, 3, True), (8, 3, True), (1, 2, True), (3, 1, False), (9, 7, False), (64, 3, False)],
    )
    def test_is_for_few_channels_and_filters_of_several_columns(self, channels: int, taps: int, folds: bool) -> None:
        layer = Conv2d((2, channels, 20, 20), (16, channels, 3, taps))
        assert (Folding.of(layer) is not None) is folds
        assert (folded(layer) is layer) is not folds
        assert Folding.of(dataclasses.replace(layer, pass_=Pass.DGRAD)) is None

    def test_gradients_of_images_are_folded_where_each_pixel_is_read(self) -> None:
        read, unread = (Conv2d((1, 3, size, size), (8, 3, 3, 3), stride=3, pass_=Pass.DGRAD) for size in (9, 10))  # type: ignore[arg-type]
        assert Folding.of(read) is not None
        assert Folding.of(unread) is None

    def test_groups_are_solved_as_they_are(self) -> None:
        assert Folding.of(Conv2d((2, 6, 20, 20), (16, 3, 3, 3), groups=2)) is None

    @pytest.mark.parametrize("pass_", Pass)
    def test_first_layers_of_networks_are_answered(self, pass_: Pass) -> None:
        assert default_answer(Conv2d(**LAYERS[1], pass_=pass_), H200)[0].name == FAMILY.name

    def test_small_layers_are_left_to_one_launch(self) -> None:
        assert not FAMILY.is_likely(Conv2d((1, 4, 8, 8), (4, 4, 3, 3)), H200)


@pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])
def test_sums_that_stay_in_the_tensor_cores_need_two_stages_of_pixels(pass_: Pass) -> None:
    """Measured: with one stage each block waits for ever for pixels whose buffer it has not released."""
    for precision, legal in (("ieee", (1, 2, 3)), ("f16", (2, 3))):
        problem = Conv2d(**LAYERS[0], precision=precision, pass_=pass_)  # type: ignore[arg-type]
        space, least = FAMILY.space(problem, H200), least_image(problem)
        assert space.contains(least)
        stages = [each for each in (1, 2, 3) if space.contains(Config.of({**least.values(), "pixel_stages": each}))]
        assert tuple(stages) == legal


class TestRefusals:
    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"accuracy": "elementwise"}, "relative to the largest"),
            ({"padding_mode": "reflect"}, "zeros between its images"),
            ({"workspace": 1000}, "do not fit into 1000 bytes"),
        ],
    )
    def test_tell_the_reason_in_a_line(self, change: dict[str, Any], reason: str) -> None:
        told = FAMILY.why_not(Conv2d(**LAYERS[0], **change), H200)
        assert told is not None
        assert reason in told

    def test_other_gpus_lack_its_products(self) -> None:
        other = dataclasses.replace(H200, compute_capability=(8, 0))
        assert "9.0" in (FAMILY.why_not(Conv2d(**LAYERS[0]), other) or "")
