"""Properties of `cgemm_tensor` beyond the contract of the cgemm families: fragment layout and accuracy."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
from numpy.typing import NDArray

from warpsmith.generator.cgemm import Cgemm
from warpsmith.generator.cgemm.tensor_family import CHAIN, CgemmTensor, TensorGeometry, TensorSide
from warpsmith.generator.cgemm.tiled_family import PARTS
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.space import Config

TENSOR = CgemmTensor()
PROBLEMS = [
    Cgemm(*each)
    for each in (
        (1, 1, 1, 1),
        (7, 121, 95, 37, "t", "n"),
        (2112, 128, 64, 64, "n", "c"),
        (544, 128, 128, 128, "c", "n"),
        (91, 128, 384, 384, "n", "n"),
        (2047, 16, 16, 16, "t", "t"),
        (40, 64, 64, 16384, "c", "n"),
    )
]
every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key().replace(" ", ","))


def configs(problem: Cgemm) -> list[Config]:
    """The default, the starts and 24 others, the same ones in each run."""
    space, rng = TENSOR.space(problem, H200), random.Random(problem.key())
    drawn = [space.drawn(rng) for _ in range(24)]
    return [TENSOR.default(problem, H200), *TENSOR.starts(problem, H200), *(each for each in drawn if each)]


def geometries(problem: Cgemm) -> list[TensorGeometry]:
    return [TensorGeometry.of(problem, config) for config in configs(problem)]


def places(side: TensorSide) -> NDArray[np.intp]:
    """Rows or columns of successive tensor-core products, as the kernel reads them: for a the 16 rows of a product, for
    b the 8 columns of each of two products.
    """
    number = np.arange(16)
    group, half = number % 8, number // 8
    inside = number if side.terms_inner else 2 * (group // 2 + group % 2 * 4) + half
    return (np.arange(side.tiles * side.block // 16)[:, None] * 16 + inside).ravel()


class TestRefusals:
    def test_older_tensor_cores(self) -> None:
        volta = dataclasses.replace(H200, compute_capability=(7, 0))
        assert TENSOR.why_not(PROBLEMS[0], volta) is not None
        assert TENSOR.why_not(PROBLEMS[0], dataclasses.replace(H200, compute_capability=(8, 0))) is None
        assert TENSOR.why_not(PROBLEMS[0], HOST) is None

    def test_is_likely_where_its_tiles_are_full(self) -> None:
        likely = [each for each in PROBLEMS if TENSOR.is_likely(each, H200)]
        assert likely == [each for each in PROBLEMS if min(each.m, each.n, each.k) >= 32]
        assert not any(TENSOR.is_likely(each, HOST) for each in PROBLEMS)


class TestTiles:
    @every_problem
    def test_every_result_is_of_one_warp(self, problem: Cgemm) -> None:
        for geometry in geometries(problem):
            for side in (geometry.a, geometry.b):
                found = places(side)
                assert np.array_equal(np.sort(found), np.arange(side.tiles * side.block))
                assert (side.tiles - 1) * side.block < side.size <= side.tiles * side.block
            products = -(-problem.batch // geometry.products)
            assert geometry.blocks == geometry.a.tiles * geometry.b.tiles * products * geometry.splits
            assert geometry.threads * geometry.products <= 256

    @every_problem
    def test_every_term_is_added_once(self, problem: Cgemm) -> None:
        for geometry in geometries(problem):
            starts = range(0, geometry.splits * geometry.split_steps, geometry.split_steps)
            counts = [min(geometry.split_steps, geometry.steps - start) for start in starts]
            assert sum(counts) == geometry.steps
            assert min(counts) >= 1
            assert geometry.stages <= geometry.split_steps
            assert (geometry.chain_steps or geometry.split_steps) * geometry.terms <= CHAIN + geometry.terms

    @every_problem
    def test_copies_fill_a_tile_and_are_aligned(self, problem: Cgemm) -> None:
        for geometry in geometries(problem):
            for side in (geometry.a, geometry.b):
                across = side.terms if side.terms_inner else side.block
                assert side.inner % side.vector == across % side.vector == 0
                down, inside = np.divmod(np.arange(0, side.block * side.terms, side.vector), across)
                if side.terms_inner:
                    target = inside // 8 * side.slice + down * 8 + inside % 8
                else:
                    target = down // 8 * side.slice + (down % 8 // 2 + down % 2 * 4) * side.pitch + inside
                assert not (target % side.vector).any()
                assert len(np.unique(target)) == side.copies
                assert target.max() + side.vector <= side.tile

    @every_problem
    def test_threads_that_are_served_at_once_read_different_banks(self, problem: Cgemm) -> None:
        """Eight threads read 16 bytes each."""
        lane = np.arange(32).reshape(4, 8)
        for geometry in geometries(problem):
            for side in (geometry.a, geometry.b):
                pair = lane // 8 + lane // 4 % 2 * 4
                inner, outer = lane // 4 * 8 + lane % 4 * 2, lane % 4 * side.pitch + 2 * pair
                offset = inner if side.terms_inner else outer
                assert not (offset % 2).any()
                assert side.slice % 2 == side.tile % 2 == 0
                assert all(len(set(each)) == 8 for each in (offset // 2 % 8))

    @every_problem
    def test_memory_of_parts_is_a_workspace(self, problem: Cgemm) -> None:
        for config in configs(problem):
            program, splits = TENSOR.program(problem, config), config.integer("splits")
            assert [each.nbytes for each in program.workspaces] == ([problem.output.nbytes * splits] * (splits > 1))
            assert [each.entry for each in program.launches] == ["cgemm_tensor", "cgemm_tensor_sum"][: 1 + (splits > 1)]
            assert all(each.name == PARTS for each in program.workspaces)


def high_of(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return ((values.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def read_by_tensor_cores(values: NDArray[np.float32]) -> NDArray[np.float64]:
    return (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)


def cut_off(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Truncates to 24 significant bits towards zero, as tensor cores do at the end of each product."""
    mantissa, exponent = np.frexp(sums)
    return np.ldexp(np.trunc(np.ldexp(mantissa, 24)), exponent - 24)


def tensor_sum(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
    """Sums along the last axis, with the kernel's arithmetic for one real product."""
    sums = np.zeros(a.shape[:-1], np.float32)
    (a_high, a_low), (b_high, b_low) = ((high_of(each), each - high_of(each)) for each in (a, b))
    for first in range(0, a.shape[-1], 8):
        part, terms = np.zeros(a.shape[:-1]), slice(first, first + 8)
        for left, right in ((a_low, b_high), (a_high, b_low), (a_high, b_high)):
            products = read_by_tensor_cores(left[..., terms]) * read_by_tensor_cores(right[..., terms])
            part = cut_off(part + products.sum(-1))
        sums = sums + part.astype(np.float32)
    return sums


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("low", [-1.0, 0.5])
def test_sums_of_tensor_cores_that_cut_off_stay_within_the_bound(low: float, scale: float) -> None:
    """The bound is half of 1e-6 of the sum of magnitudes; the 512 terms have either sign or are all positive."""
    rng = np.random.default_rng(5)
    a, b = (rng.uniform(low, 1, (2000, 512)).astype(np.float32) for _ in range(2))
    a *= np.float32(scale)
    exact, magnitude = (a.astype(np.float64) * b).sum(-1), (np.abs(a).astype(np.float64) * np.abs(b)).sum(-1)
    assert (np.abs(tensor_sum(a, b) - exact) / magnitude).max() < 5e-7


def test_one_sum_on_the_tensor_cores_would_not_stay_within_it() -> None:
    """One accumulator sums all terms from first to last, so the truncation errors add up."""
    rng = np.random.default_rng(5)
    a, b = (rng.uniform(0.5, 1, (200, 512)).astype(np.float32) for _ in range(2))
    exact, whole = (a.astype(np.float64) * b).sum(-1), np.zeros(200)
    for first in range(0, 512, 8):
        products = a[:, first : first + 8].astype(np.float64) * b[:, first : first + 8]
        for part in (products * 2.0**-12, products * 2.0**-12, products * (1 - 2.0**-11)):
            whole = cut_off(whole + part.sum(-1))
    assert (np.abs(whole - exact) / exact).min() > 1e-6
