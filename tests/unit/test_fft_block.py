"""Configs of `fft_block`: every address, pass and transform once, in allocated memory."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import random
import re
from math import ceil
from typing import Any

import pytest

import exhaustive
from warpsmith.generator.device import Device
from warpsmith.generator.fft import Fft, Product, Tiling
from warpsmith.generator.fft.block.block_family import MOST, FftBlock
from warpsmith.generator.fft.block.block_text import FftBlockText
from warpsmith.generator.fft.block.block_tile import Address, BlockTile, Sets
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.registry import families_for
from warpsmith.generator.space import Config

FAMILY = FftBlock()
SAMPLE = 6
"""Configs that are drawn for each problem, beside the default."""


def fft(size: Any, batch: int = 1, **fields: Any) -> Fft:
    """A problem from a caller's arguments."""
    return Fft(size, batch, **fields)


PROBLEMS = [
    fft(2),
    fft(3, 4),
    fft(8, 37),
    fft(13, 7, kind="c2r"),
    fft(31, 5, kind="c2c"),
    fft(60, 6, valid=57),
    fft(64, 9, kind="c2r", norm="ortho"),
    fft(96, 1000, kind="c2c", inverse=True),
    fft(120, 8, layout="frequency"),
    fft(128, 65, order="reversed", kind="c2c"),
    fft(243, 3, kind="c2r"),
    fft(256, 4096),
    fft(512, 2),
    fft((2, 2), 9),
    fft((5, 7), 1, kind="c2r"),
    fft((6, 10), 1),
    fft((8, 8), 4097),
    fft((9, 2), 3, kind="c2r"),
    fft((12, 13), 5, valid=(9, 7)),
    fft((15, 8), 4, kind="c2c", layout="transposed", norm="forward"),
    fft((16, 16), 6, order="reversed", kind="c2r", layout="transposed"),
    fft((8, 14), 7, kind="c2r", layout="frequency"),
    fft((32, 32), 4096, valid=(27, 27)),
    fft((64, 64), 3, kind="c2r"),
    fft((128, 128), 2),
    fft((128, 32), 3, kind="c2c", inverse=True),
    fft((16, 12), 90, layout="frequency", tiling=Tiling((3, 2), (12, 8), (-2, -3), (36, 16), 5)),
    fft((9, 16), 5, kind="c2r", valid=(7, 13), layout="frequency", tiling=Tiling((5, 1), (7, 13), (0, 0), (33, 12))),
    fft((128, 128), 12, tiling=Tiling((2, 2), (100, 100), (0, 0), (228, 228))),
    fft((12, 16), 96, kind="c2r", layout="frequency", product=Product(8, 12, 3)),
]

every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key().replace(" ", ","))


@functools.cache
def configs(problem: Fft, device: Device = H200) -> tuple[Config, ...]:
    """The default and some random ones, the same in each run."""
    space, rng = FAMILY.space(problem, device), random.Random(problem.key())
    drawn = [space.drawn(rng) for _ in range(SAMPLE)]
    return tuple(dict.fromkeys(each for each in (FAMILY.default(problem, device), *drawn) if each is not None))


@functools.cache
def texts(problem: Fft) -> tuple[FftBlockText, ...]:
    return tuple(FftBlockText.of(problem, config) for config in configs(problem))


def places(tile: BlockTile, *, after: bool) -> list[int]:
    """Addresses in the tile of every element of every transform."""
    address, shape = Address(tile.after if after else tile.before), tile.shape
    indices = itertools.product(range(shape.transforms), range(shape.y), range(shape.x))
    return [address.at({"t": t, "y": y, "x": x}) for t, y, x in indices]


@every_problem
class TestSpace:
    @pytest.mark.parametrize("device", [H200, HOST], ids=lambda device: device.name)
    def test_has_the_default_and_what_is_drawn(self, problem: Fft, device: Device) -> None:
        assert FAMILY.why_not(problem, device) is None
        space = FAMILY.space(problem, device)
        assert [space.why_not(config) for config in configs(problem, device)] == [None] * len(configs(problem, device))

    def test_launches_are_what_a_device_can_do(self, problem: Fft) -> None:
        for config in configs(problem):
            (launch,) = FAMILY.program(problem, config).launches
            assert launch.grid[1:] == launch.block[1:] == (1, 1)
            assert 32 <= launch.block[0] <= 1024
            assert 0 <= launch.shared_bytes <= H200.shared_per_block_bytes


LARGE = [
    fft(4096, 99),
    fft(16384, 5, kind="c2r"),
    fft(20000, 5, kind="c2c"),
    fft((100, 200), 5, kind="c2c"),
    fft((128, 128), 5, kind="c2c", inverse=True),
    fft((160, 250), 5),
    fft((32, 32), 999, layout="frequency"),
]
"""Problems whose tiles fill the shared memory of a block."""


@pytest.mark.parametrize("problem", LARGE, ids=lambda problem: problem.key().replace(" ", ","))
class TestSharedMemory:
    def test_suffices_for_the_default(self, problem: Fft) -> None:
        text = FftBlockText.of(problem, FAMILY.default(problem, H200))
        assert text.shared_bytes <= H200.shared_per_block_bytes, text.tile

    def test_suffices_for_whatever_is_drawn_gaps_included(self, problem: Fft) -> None:
        for text in texts(problem):
            assert text.shared_bytes <= H200.shared_per_block_bytes, text.tile


@pytest.mark.parametrize("kind", ["r2c", "c2r", "c2c"])
def test_whatever_is_taken_has_a_default_that_fits(kind: str) -> None:
    """The sizes lie on both sides of the largest one that the family takes."""
    extents = (100, 128, 200, 250, 400)
    sizes = [*itertools.product(extents, extents), *((n,) for n in (16384, 20000, 24000, 25000, 28672, 32000))]
    problems = [fft(size, 5, kind=kind) for size in sizes]
    taken = [problem for problem in problems if FAMILY.why_not(problem, H200) is None]
    assert 0 < len(taken) < len(problems)
    for problem in taken:
        text = FftBlockText.of(problem, FAMILY.default(problem, H200))
        assert text.shared_bytes <= H200.shared_per_block_bytes, problem.key()


class TestSmallBatches:
    @pytest.mark.parametrize("batch", [1, 2])
    @pytest.mark.parametrize("size", [2, 8, (4, 4), (8, 6)])
    @pytest.mark.parametrize("kind", ["r2c", "c2r", "c2c"])
    def test_their_spaces_have_configs_and_the_likes_of_any(self, kind: str, size: Any, batch: int) -> None:
        problem = fft(size, batch, kind=kind)
        space = FAMILY.space(problem, H200)
        first = list(itertools.islice(space.configs(), 50))
        assert first
        listed = space.listed(len(first))
        assert listed is None or list(listed) == first
        large = fft(size, 1 << 20, kind=kind)
        for config in configs(large):
            like = space.like(config.values())
            assert like is not None
            assert space.contains(like)

    def test_have_no_tile_of_more_transforms_than_there_are(self) -> None:
        for problem in (fft(8, 1), fft(8, 2), fft(8, 3), fft((4, 4), 2, kind="c2r")):
            for text in texts(problem):
                assert text.choice.transforms == 1 or text.walk.step <= problem.batch


class TestStarts:
    def test_are_few_different_points_of_the_space(self) -> None:
        for problem in PROBLEMS:
            space, starts = FAMILY.space(problem, H200), FAMILY.starts(problem, H200)
            assert 1 <= len(starts) <= MOST
            assert all(space.contains(config) for config in starts)
            assert len(set(starts)) == len(starts)

    def test_are_what_long_searches_found(self) -> None:
        """Long searches differ only in single changes: twiddles, a few more transforms in a tile."""
        alike = ("packing", "x_radices", "y_radices", "threads", "signal")
        for problem, found in (
            (fft(225, 1 << 18), ("pair", "15x15", None, 128, "direct")),
            (fft(128, 1 << 19), ("half", "8x8", None, 256, "direct")),
            (fft(15, 1 << 22), ("pair", "15", None, 128, "staged")),
            (fft((64, 64), 1 << 14), ("half", "8x4", "8x8", 256, "direct")),
        ):
            values = [config.values() for config in FAMILY.starts(problem, H200)]
            assert found in [tuple(each.get(name) for name in alike) for each in values], problem.key()


class TestRefusals:
    @pytest.mark.parametrize("size", [37, 2 * 37, (8, 37), (41, 8)])
    def test_primes_above_31(self, size: Any) -> None:
        assert FAMILY.why_not(fft(size), H200) == "has no radix for a prime above 31"

    def test_transforms_that_do_not_fit_into_shared_memory(self) -> None:
        for problem in (fft((512, 512)), fft((512, 512), kind="c2c"), fft(32000, kind="c2c")):
            why = FAMILY.why_not(problem, H200) or ""
            assert re.fullmatch(
                r"(half of )?one transform takes \d+ bytes of shared memory; a block has 232448", why
            ), problem.key()
        assert FAMILY.why_not(fft((128, 128), kind="c2c"), H200) is None


class TestPlanes:
    """Signals that are tiles of planes."""

    def test_are_read_and_written_one_by_one(self) -> None:
        """A tile's rows are not adjacent, nor are the signals of two blocks that would share a transform."""
        problem = fft((128, 128), 12, tiling=Tiling((2, 2), (100, 100), (0, 0), (228, 228)))
        values = {each.name: each.values for each in FAMILY.space(problem, H200).parameters}
        assert values["loads"] == ("plain",)
        assert values["shares"] == (1,)
        assert "ahead" not in values
        back = fft((16, 16), 12, kind="c2r", tiling=Tiling((2, 2), (16, 16), (0, 0), (20, 32)))
        values = {each.name: each.values for each in FAMILY.space(back, H200).parameters}
        assert values["loads"] == ("plain", "bulk")
        assert "bulk" not in values["stores"]
        assert "ahead" in {each.name for each in FAMILY.space(dataclasses.replace(back, batch=12000), H200).parameters}

    def test_are_of_no_other_family(self) -> None:
        for kind, layout in (("r2c", "batch"), ("c2r", "batch"), ("r2c", "transposed"), ("r2c", "frequency")):
            problem = fft((16, 16), 4, kind=kind, layout=layout, tiling=Tiling((2, 2), (16, 16), (0, 0), (20, 32)))
            assert [family.name for family in families_for(problem, H200)] == ["fft_block"]
        one = fft((16, 16), layout="transposed", tiling=Tiling((1, 1), (16, 16), (0, 0), (9, 9)))
        assert [family.name for family in families_for(one, H200)] == ["fft_block"]

    @pytest.mark.parametrize(
        ("plane", "step", "origin", "is_vector"),
        [(20, 6, -2, True), (20, 6, 0, True), (21, 6, -2, False), (20, 5, -2, False), (20, 6, -1, False)],
    )
    def test_two_columns_are_one_vector_where_all_begin_at_even_ones(
        self, plane: int, step: int, origin: int, is_vector: bool
    ) -> None:
        problem = fft((8, 8), 12, tiling=Tiling((3, 4), (6, step), (-1, origin), (20, plane)))
        config = Config.of({**FAMILY.default(problem, H200).values(), "packing": "half", "x_radices": "4"})
        source = FAMILY.program(problem, config).source
        assert ("reinterpret_cast<const float2*>" in source) is is_vector

    @pytest.mark.parametrize(
        ("tiling", "valid", "condition"),
        [
            (Tiling((2, 2), (6, 4), (0, 0), (14, 12)), None, ""),
            (Tiling((2, 2), (6, 4), (0, 0), (13, 12)), None, "row < 13"),
            (Tiling((2, 2), (6, 4), (-1, 0), (14, 12)), None, "static_cast<unsigned>(row) < 14u"),
            (Tiling((2, 2), (6, 4), (0, 0), (14, 11)), (8, 6), "x < 6"),
            (Tiling((2, 2), (6, 4), (0, 1), (14, 10)), (7, 6), "y < 7 && x < 6 && column < 10"),
        ],
    )
    def test_threads_ask_only_what_is_not_known(
        self, tiling: Tiling, valid: tuple[int, int] | None, condition: str
    ) -> None:
        (text, *_) = texts(fft((8, 8), 4, valid=valid, tiling=tiling))
        assert text.planes is not None
        assert text.planes.is_inside == condition


class TestProducts:
    """Spectra that are products of two others."""

    PROBLEM = fft((32, 32), 512 * 96, kind="c2r", layout="frequency", product=Product(512, 96, 3))

    def test_tiles_are_alike_and_have_the_fewest_sectors_of_both_factors(self) -> None:
        assert self.PROBLEM.product is not None
        assert self.PROBLEM.product.tile(1024, 8192) == (4, 4)
        default, space = FAMILY.default(self.PROBLEM, H200).values(), FAMILY.space(self.PROBLEM, H200)
        assert (default["rows"], default["transforms"], default["spectrum"]) == (4, 8, "mirrored")
        for change in ({"transforms": 10}, {"rows": 2, "transforms": 1}, {"packing": "half", "x_radices": "4x4"}):
            assert space.why_not(Config.of({**default, **change}))

    def test_results_of_several_rows_are_not_written_at_once(self) -> None:
        space = FAMILY.space(self.PROBLEM, H200)
        config = {**FAMILY.default(self.PROBLEM, H200).values(), "stores": "bulk", "signal": "staged", "transforms": 4}
        assert "not lie together" in (space.why_not(Config.of({**config, "rows": 2})) or "")
        assert space.contains(Config.of({**config, "rows": 1}))

    @pytest.mark.parametrize("size", [(31, 32), (32, 30), (32, 33)])
    def test_needs_frequencies_in_pairs(self, size: tuple[int, int]) -> None:
        problem = fft(size, 24, kind="c2r", layout="frequency", product=Product(4, 6, 2))
        assert "pairs" in (FAMILY.why_not(problem, H200) or "")
        assert FAMILY.why_not(fft((32, 32), 20, kind="c2r", layout="frequency", product=Product(4, 5, 2)), H200)

    def test_are_of_no_other_family(self) -> None:
        assert [family.name for family in families_for(self.PROBLEM, H200)] == ["fft_block"]


class TestTile:
    @pytest.mark.parametrize("after", [False, True])
    def test_every_element_has_a_place_of_its_own(self, after: bool) -> None:
        for number, problem in enumerate(PROBLEMS):
            for text in exhaustive.share(texts(problem), number + after, 2):
                tile = text.tile
                found = places(tile, after=after)
                assert len(set(found)) == len(found)
                assert min(found) >= 0
                assert max(found) < tile.elements
                size = tile.shape.x * tile.shape.y
                for t in range(tile.shape.transforms):
                    mine = found[t * size : (t + 1) * size]
                    assert t * tile.pitch <= min(mine)
                    assert max(mine) < (t + 1) * tile.pitch

    def test_every_pass_takes_every_element_once(self) -> None:
        for number, problem in enumerate(PROBLEMS):
            for text in exhaustive.share(texts(problem), number, 2):
                everywhere = sorted(places(text.tile, after=False))
                radices: dict[str, list[int]] = {"x": [], "y": []}
                for work in text.tile.passes:
                    if not work.has_all_lines:
                        continue  # the next test's
                    radices[work.axis].append(work.step.radix)
                    firsts = [work.address.at(work.pool.values(item)) for item in range(work.pool.items)]
                    elements = [work.step.element_place.at(j) for j in range(work.step.radix)]
                    taken = [first + element for first in firsts for element in elements]
                    assert sorted(taken) == everywhere, (problem.key(), text.choice)
                if all(work.has_all_lines for work in text.tile.passes):
                    assert radices == {"x": list(text.choice.x_radices), "y": list(text.choice.y_radices)}

    def test_a_pass_beside_the_signal_takes_the_lines_that_are_there(self) -> None:
        """The signal has 5 by 6 of 12 by 16 points. The first forward pass transforms 6 columns (3 if `half` packs two
        in one), and the next axis reads only those. The inverse does the same in the opposite order. A signal that
        starts elsewhere needs all lines.
        """
        for kind in ("r2c", "c2r"):
            problem = fft((12, 16), 8, kind=kind, valid=(5, 6), layout="frequency")
            for text in texts(problem):
                columns = 3 if text.choice.packing == "half" else 6
                present, is_forward = {"x": columns, "y": 5}, kind == "r2c"
                works = text.tile.passes
                for work in works:
                    meets_signal = (work.axis == works[0].axis) is is_forward
                    across = "y" if work.axis == "x" else "x"
                    extent = dict(work.pool.variables)[across]
                    assert extent == (present[across] if meets_signal else {"x": text.x, "y": text.y}[across])
                    is_next = not meets_signal and (work.step.earlier == 1 if is_forward else work.step.is_last)
                    limits = (work.read, work.written) if is_forward else (work.written, work.read)
                    assert limits == (present[work.axis] if is_next else 0, 0)
            for text in texts(dataclasses.replace(problem, start=(9, 2))):
                assert all(work.has_all_lines and work.read == work.written == 0 for work in text.tile.passes)

    @pytest.mark.parametrize(("size", "digits"), [((12, 16), 4), ((2, 4), 2), ((8, 24), 6)])
    def test_pairs_of_sets_have_every_frequency_once_and_its_mirror_image_beside_it(
        self, size: tuple[int, int], digits: int
    ) -> None:
        sets, (rows, columns) = Sets(3, size[0], digits), size
        seen = collections.Counter[tuple[int, int, int]]()
        for item in range(sets.pool.items):
            values = sets.pool.values(item)
            here, there = (sets.indices(values, is_there=is_there) for is_there in (False, True))
            both = [here, there]
            seen.update((each["t"], each["y"], each["digit"]) for each in both)
            owners = {(each["y"], x % columns) for each in both for x in range(each["digit"], columns, digits)}
            assert {(-y % rows, -x % columns) for y, x in owners} == owners
        assert set(seen) == set(itertools.product(range(3), range(rows), range(digits)))
        assert set(seen.values()) == {1}

    def test_the_axes_take_turns_as_the_config_says(self) -> None:
        for problem in PROBLEMS:
            for text in texts(problem):
                axes = [axis for axis, _ in itertools.groupby(work.axis for work in text.tile.passes)]
                assert axes == (["x"] if len(problem.size) == 1 else ["y", "x"] if text.choice.y_first else ["x", "y"])


class TestBatch:
    @every_problem
    def test_every_transform_is_computed(self, problem: Fft) -> None:
        """Some tile computes every transform, and only one does if another packing partner would change its rounding.
        Tiles that share transforms each compute their share of all of them.
        """
        for text in texts(problem):
            shares, computed = text.choice.shares, collections.Counter[tuple[int, int]]()
            mine = range(text.walk.blocks * text.choice.tiles)
            walked = range(text.walk.tiles) if text.walk.is_persistent else mine
            assert sorted(n for first in mine for n in range(first, len(walked), text.walk.stride)) == list(walked)
            for number in walked:
                start, share = number // shares * text.walk.step, number % shares
                first = min(start, text.walk.last_first)
                done = min(start, problem.batch) - first if text.walk.overlaps else 0
                assert first >= 0
                assert first + text.walk.step <= problem.batch or problem.batch < text.walk.step == 2
                computed.update({(share, min(first + i, problem.batch - 1)) for i in range(done, text.walk.step)})
            assert sorted(computed) == list(itertools.product(range(shares), range(problem.batch)))
            if text.walk.overlaps:
                assert set(computed.values()) == {1}

    def test_no_block_is_left_without_a_tile(self) -> None:
        for problem in PROBLEMS:
            for text in texts(problem):
                tiles = text.choice.shares * ceil(problem.batch / text.walk.step)
                assert text.walk.tiles == tiles
                assert (text.walk.blocks - 1) * text.choice.tiles < tiles
                assert tiles <= text.walk.stride or text.walk.blocks == text.choice.blocks

    def test_only_data_of_a_later_tile_is_fetched_ahead(self) -> None:
        for problem in PROBLEMS:
            for text in texts(problem):
                walk = text.walk
                assert walk.ahead % walk.step == 0
                assert walk.ahead <= walk.last_first
                assert (walk.ahead > 0) == (text.choice.ahead > 0)

    def test_pairs_of_an_odd_batch_overlap(self) -> None:
        odd, even = fft(9, 7), fft(9, 8)
        assert all(text.walk.overlaps for text in texts(odd) if text.choice.packing.transforms == 2)
        assert not any(
            text.walk.overlaps for problem in (even, dataclasses.replace(odd, batch=1)) for text in texts(problem)
        )
