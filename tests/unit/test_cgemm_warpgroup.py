"""Properties of `cgemm_warpgroup` beyond the contract of the cgemm families: memory layout and accuracy."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
from numpy.typing import NDArray

import exhaustive
from machine_code import products_of
from warpsmith.generator.cgemm import Cgemm
from warpsmith.generator.cgemm.warpgroup_family import CgemmWarpgroup, stream_k_bytes
from warpsmith.generator.cgemm.warpgroup_geometry import WarpgroupGeometry, WarpgroupShares, WarpgroupSide
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.problem import Accuracy
from warpsmith.generator.space import Config

WARPGROUP = CgemmWarpgroup()
PROBLEMS = [
    Cgemm(*each, accuracy="normwise")  # type: ignore[arg-type, misc]
    for each in (
        (1, 1, 1, 1),
        (7, 121, 95, 37, "t", "n"),
        (2112, 128, 64, 64, "n", "c"),
        (544, 128, 128, 128, "c", "n"),
        (91, 128, 384, 384, "n", "n"),
        (2047, 48, 48, 16, "t", "t"),
        (40, 64, 64, 16384, "c", "n"),
    )
]
every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key().replace(" ", ","))


def configs(problem: Cgemm) -> list[Config]:
    """The default, the starts and 24 others, the same ones in each run."""
    space, rng = WARPGROUP.space(problem, H200), random.Random(problem.key())
    drawn = [space.drawn(rng) for _ in range(24)]
    return [WARPGROUP.default(problem, H200), *WARPGROUP.starts(problem, H200), *(each for each in drawn if each)]


def geometries(problem: Cgemm) -> list[WarpgroupGeometry]:
    return [WarpgroupGeometry.of(problem, config) for config in configs(problem)]


def copies(side: WarpgroupSide) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Positions along and across at which each thread's copies begin, numbered as in the kernel: (copies, threads)."""
    thread, i = np.arange(32 * side.warps), np.arange(side.copies)[:, None]
    warp, lane = thread // 32, thread % 32
    along = warp % side.strips * 16 + lane % side.lanes * side.vector + i % side.turns * 16 * side.warps
    across = warp // side.strips * side.lines + lane // side.lanes + i // side.turns * side.down
    return along, across


def written(side: WarpgroupSide) -> NDArray[np.intp]:
    """Byte offset in a part to which each copy's first half goes, as the kernel computes it."""
    thread, i = np.arange(32 * side.warps), np.arange(side.copies)[:, None]
    warp, lane = thread // 32, thread % 32
    x = warp % side.strips * 16 + lane % side.lanes * side.vector
    y = warp // side.strips * side.lines + lane // side.lanes
    own = x // 8 * side.along_bytes + x % 8 * 2 + y // 8 * 128 + y % 8 * 16
    along, across = i % side.turns * 16 * side.warps, i // side.turns * side.down
    return np.asarray(own + along // 8 * side.along_bytes + across // 8 * 128 + across % 8 * 16)


class TestRefusals:
    def test_other_capabilities_and_a_stricter_accuracy(self) -> None:
        problem = PROBLEMS[3]
        for capability in ((8, 0), (8, 9), (10, 0), (12, 0)):
            other = dataclasses.replace(H200, compute_capability=capability)
            assert "9.0" in str(WARPGROUP.why_not(problem, other))
        elementwise = dataclasses.replace(problem, accuracy="elementwise")
        assert "normwise" in str(WARPGROUP.why_not(elementwise, H200))
        for a, able in (("n", True), ("t", False), ("c", False)):
            rows = dataclasses.replace(problem, accuracy="rowwise", a=a)
            assert (WARPGROUP.why_not(rows, H200) is None) is able
        assert WARPGROUP.why_not(problem, H200) is None
        assert WARPGROUP.why_not(problem, HOST) is None

    def test_is_likely_where_its_tiles_are_full(self) -> None:
        likely = [each for each in PROBLEMS if WARPGROUP.is_likely(each, H200)]
        assert likely == [each for each in PROBLEMS if min(each.m, each.n) >= 48 and each.k >= 16]
        assert not any(WARPGROUP.is_likely(each, HOST) for each in PROBLEMS)


class TestShares:
    @pytest.mark.parametrize("blocks", [1, 2, 132, 396])
    def test_are_of_one_tile_or_more_and_of_less_than_two_beside_whole_ones(self, blocks: int) -> None:
        """Two partial tiles at most make up one tile."""
        for tiles in range(blocks + 1, 5 * blocks):
            shares = WarpgroupShares(tiles, blocks)
            assert blocks <= shares.shared_tiles < 2 * blocks
            assert shares.rounds * blocks + shares.shared_tiles == tiles
            assert shares.counters == 1 + blocks

    def test_are_chosen_where_rounds_of_blocks_leave_most_of_the_last_one_empty(self) -> None:
        """273 tiles are 2.07 rounds of 132 blocks, and 792 are six; 128 do not fill one."""
        for batch, dealt in ((91, True), (264, False), (43, False)):
            config = WARPGROUP.default(Cgemm(batch, 128, 384, 384, "n", "n", accuracy="normwise"), H200)
            assert bool(config.integer("dealt_to")) == dealt, config

    def test_take_workspace_for_a_tile_of_sums_a_block_and_for_counters(self) -> None:
        problem = Cgemm(91, 128, 384, 384, "n", "n", accuracy="normwise")  # type: ignore[arg-type, misc]
        program = WARPGROUP.program(problem, WARPGROUP.default(problem, H200))
        assert {each.name: each.nbytes for each in program.workspaces} == {
            "partials": 132 * 128 * 128 * 8,
            "progress": 4 * 133,
        }
        assert stream_k_bytes(2, 128, 132) == 132 * 128 * 128 * 8 + 768
        assert stream_k_bytes(2, 128, 0) == 0


class TestTiles:
    @every_problem
    def test_every_result_is_of_one_block(self, problem: Cgemm) -> None:
        for geometry in geometries(problem):
            for side in (geometry.a, geometry.b):
                assert (side.tiles - 1) * side.block < side.size <= side.tiles * side.block
            tiles = geometry.a.tiles * geometry.b.tiles * problem.batch
            assert geometry.blocks == (geometry.dealt_to or tiles * geometry.splits)
            assert geometry.dealt_to < tiles
            assert geometry.a.block * 2 == geometry.threads

    @every_problem
    def test_every_term_is_added_once(self, problem: Cgemm) -> None:
        for geometry in geometries(problem):
            starts = range(0, geometry.splits * geometry.split_steps, geometry.split_steps)
            counts = [min(geometry.split_steps, geometry.steps - start) for start in starts]
            assert sum(counts) == geometry.steps
            assert min(counts) >= 1
            assert geometry.stages <= geometry.split_steps

    @every_problem
    def test_copies_fill_a_tile_once_and_are_aligned(self, problem: Cgemm) -> None:
        for geometry in geometries(problem):
            for side in (geometry.a, geometry.b):
                along, across = copies(side)
                assert side.inner % side.vector == 0
                assert not (along % side.vector).any()
                elements = (across * side.along + along).ravel()[:, None] + np.arange(side.vector)
                assert np.array_equal(np.sort(elements.ravel()), np.arange(side.along * side.across))
                assert side.staged == 8 * elements.size
                assert side.copies * 32 * side.warps * side.vector == elements.size

    @every_problem
    def test_parts_lie_where_products_look_for_them(self, problem: Cgemm) -> None:
        """A core matrix is 8 rows of 16 bytes; a descriptor has the offsets along K and across it."""
        for geometry in geometries(problem):
            for side in (geometry.a, geometry.b):
                along, across = copies(side)
                for n in range(side.vector):
                    term, place = (along + n, across) if side.terms_inner else (across, along + n)
                    row, column = (place % 8, term % 8) if side.terms_inner else (term % 8, place % 8)
                    core = term // 8 * side.term_bytes + place // 8 * side.result_bytes
                    assert np.array_equal(written(side) + 2 * n, core + row * 16 + column * 2)
                halves = (written(side).ravel()[:, None] + 2 * np.arange(side.vector)).ravel()
                assert len(np.unique(halves)) == len(halves)
                assert halves.max() < side.part
                assert side.term_bytes % 16 == side.result_bytes % 16 == side.part % 16 == 0
                assert max(side.term_bytes, side.result_bytes) < 2**18

    @every_problem
    def test_threads_of_a_warp_write_to_different_banks(self, problem: Cgemm) -> None:
        """Each thread writes a bank of its own, or two threads write the halves of one word."""
        for geometry in geometries(problem):
            for side in (geometry.a, geometry.b):
                words = (written(side) // 4).reshape(-1, 32)
                for each in words:
                    assert len(np.unique(each)) == 32 * side.vector // 2
                    assert len(np.unique(each % 32)) == len(np.unique(each))

    @every_problem
    def test_memory_is_what_there_is(self, problem: Cgemm) -> None:
        for geometry in geometries(problem):
            blocks = max(geometry.min_blocks, 1)
            assert geometry.shared_bytes <= H200.shared_per_block_bytes
            assert blocks * geometry.shared_bytes <= H200.shared_per_multiprocessor_bytes
            assert blocks * geometry.threads * (geometry.columns * 3 // 2) < H200.registers_per_multiprocessor


class TestDefault:
    @pytest.mark.parametrize(
        ("sizes", "tile"),
        [
            ((91, 384, 384, 128), (128, 128)),
            ((144, 128, 128, 128), (64, 64)),
            ((484, 128, 192, 64), (128, 64)),
            ((112, 128, 1024, 1024), (128, 128)),
            ((2112, 128, 64, 64), (128, 64)),
        ],
    )
    def test_tile_is_the_fastest_that_was_measured(
        self, sizes: tuple[int, int, int, int], tile: tuple[int, int]
    ) -> None:
        """Measured on an H200: 128.9, 32.2, 70.4, 770.8 and 102.4 us, up to a quarter less than with other tiles."""
        config = WARPGROUP.default(Cgemm(*sizes, accuracy=Accuracy.NORMWISE), H200)
        assert (64 * config.integer("groups"), config.integer("columns")) == tile

    def test_is_legal_whatever_the_size(self) -> None:
        rng = random.Random(3)
        for _ in range(300):
            sizes = [int(2 ** rng.uniform(0, 11)) for _ in range(4)]
            problem = Cgemm(*sizes, accuracy=Accuracy.NORMWISE)  # type: ignore[misc]
            assert WARPGROUP.space(problem, H200).contains(WARPGROUP.default(problem, H200)), problem.key()


def split(values: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """High and low fp16 parts of scaled numbers, and the power of two of the scale."""
    exponent = int(np.float32(np.abs(values).max()).view(np.uint32) >> 23)
    power = min(14 + 127 - exponent, 126)
    scaled = values.astype(np.float64) * 2.0**power
    high = scaled.astype(np.float32).astype(np.float16).astype(np.float64)
    return high, (scaled - high).astype(np.float32).astype(np.float16).astype(np.float64), power


def cut_off(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Truncates to 24 significant bits towards zero, as tensor cores do at the end of each product."""
    mantissa, exponent = np.frexp(sums)
    return np.ldexp(np.trunc(np.ldexp(mantissa, 24)), exponent - 24)


def warpgroup_sum(a: NDArray[np.float32], b: NDArray[np.float32], terms: int) -> NDArray[np.float32]:
    """Sums along the last axis, with the kernel's arithmetic for one real product, in tiles of `terms` terms."""
    sums = np.zeros(a.shape[:-1], np.float32)
    for first in range(0, a.shape[-1], terms):
        tile = slice(first, first + terms)
        (a_high, a_low, a_power), (b_high, b_low, b_power) = split(a[..., tile]), split(b[..., tile])
        part = np.zeros(a.shape[:-1])
        steps = [slice(k, k + 16) for k in range(0, terms, 16)]
        pairs = [(a_low, b_high, k) for k in steps] + [(a_high, b_low, k) for k in steps]
        for left, right, k in [*pairs, *((a_high, b_high, k) for k in steps)]:
            part = cut_off(part + (left[..., k] * right[..., k]).sum(-1))
        sums = (sums + part * 2.0 ** -(a_power + b_power)).astype(np.float32)
    return sums


@pytest.mark.parametrize("terms", [16, 64])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("low", [-1.0, 0.5])
def test_sums_of_tensor_cores_that_cut_off_stay_within_the_bound(low: float, scale: float, terms: int) -> None:
    """The bound is half of 1e-6 of the sum of magnitudes; the 512 terms have either sign or are all positive."""
    rng = np.random.default_rng(5)
    a, b = (rng.uniform(low, 1, (2000, 512)).astype(np.float32) for _ in range(2))
    a *= np.float32(scale)
    exact, magnitude = (a.astype(np.float64) * b).sum(-1), (np.abs(a).astype(np.float64) * np.abs(b)).sum(-1)
    assert (np.abs(warpgroup_sum(a, b, terms) - exact) / magnitude).max() < 5e-7


@pytest.mark.parametrize(("octaves", "kept"), [(0, True), (16, True), (26, False)])
def test_numbers_within_16_octaves_of_a_tiles_largest_keep_their_last_bits(octaves: int, kept: bool) -> None:
    """The other numbers are off by 2^-39 of the largest: within 1e-6 of numbers of that size, but not of themselves."""
    values = np.random.default_rng(5).uniform(1, 2, 4000).astype(np.float32) * np.float32(2.0**-octaves)
    values[0] = 1
    high, low, power = split(values)
    left = np.abs((high + low) * 2.0**-power - values.astype(np.float64))
    assert (left <= np.maximum(2.0**-23 * values, 2.0**-39)).all()
    assert bool((left / values <= 2.0**-23).all()) is kept
    assert power == 14


@exhaustive.one_in(2)
@pytest.mark.parametrize("accuracy", [Accuracy.NORMWISE, Accuracy.ROWWISE])
@pytest.mark.parametrize(
    "values",
    [
        {"columns": 32, "terms": 64, "stages": 1},
        {"columns": 64, "terms": 64},
        {"columns": 128, "terms": 32, "stages": 1},
        {"columns": 32, "terms": 64, "stages": 1, "splits": 2},
        {"columns": 32, "terms": 64, "min_blocks": 2, "dealt_to": 264},
        {"columns": 32, "terms": 32, "stages": 1},
    ],
)
def test_the_compiler_drops_no_product(accuracy: Accuracy, values: dict[str, int]) -> None:
    """NVRTC 13.0 dropped one for single tiles with scaled rows: all results had the imaginary part twice (H200)."""
    others = {"groups": 1, "splits": 1, "stages": 0, "min_blocks": 0, "dealt_to": 0}
    config = Config.of({**others, **values})
    splits = config.integer("splits")
    problem = Cgemm(256 // splits**8, 64, 128, values["terms"] * splits, accuracy=accuracy)
    assert WARPGROUP.space(problem, H200).why_not(config) is None
    (unit,) = (each for each in WARPGROUP.program(problem, config).units if "wgmma" in each.source)
    counted = products_of(unit.source)
    assert counted.machine_code == counted.ptx > 0
