"""Configs of `fft_warp`: every element and frequency once, correct steps between lanes, tidy text."""

from __future__ import annotations

import collections
import functools
import itertools
import random
import re
from collections.abc import Iterator
from math import ceil
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import exhaustive
from builders import with_whole_head
from warpsmith.generator.fft import Fft
from warpsmith.generator.fft.axes import reversed_bits
from warpsmith.generator.fft.text import Packing, Twiddles
from warpsmith.generator.fft.warp_family import MOST_KEPT, FftWarp, FftWarpText
from warpsmith.generator.fft.warp_lanes import First, Spread, lane_steps, twiddle_exponent
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.program import Pointer
from warpsmith.generator.space import Config

FAMILY = FftWarp()
SAMPLE = 8
"""Configs that are drawn for each problem, beside the default."""
LANES = (2, 4, 8, 16, 32)


def fft(size: Any, batch: int = 1, **fields: Any) -> Fft:
    """A problem from a caller's arguments."""
    return Fft(size, batch, **fields)


PROBLEMS = [
    *(fft(1 << bits, batch, kind=kind) for bits in range(1, 10) for batch, kind in [(1, "r2c"), (101, "c2r")]),
    *(fft(1 << bits, 7, kind="c2c", inverse=bits % 2 == 0) for bits in range(1, 10)),
    fft(64, 4096, valid=51),
    fft(64, 100, valid=52),
    fft(128, 33, kind="c2r", valid=100, norm="ortho"),
    fft(128, 33, kind="c2r", valid=99, order="reversed"),
    fft(256, 2, kind="c2c", valid=130, norm="forward"),
    fft(256, 3, order="reversed"),
    fft(32, 65, kind="c2c", order="reversed"),
    fft((2, 2), 3),
    fft((8, 8), 4097),
    fft((8, 16), 5, kind="c2r", valid=(5, 9)),
    fft((32, 32), 2, valid=(27, 26), order="reversed"),
    fft((16, 4), 9, kind="c2c", valid=(9, 3)),
    fft((4, 32), 9, kind="c2c", inverse=True),
]

every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key().replace(" ", ","))


@functools.cache
def texts(problem: Fft) -> tuple[FftWarpText, ...]:
    """Texts of the default config and of random ones, the same in each run."""
    return tuple(FftWarpText.of(problem, config) for config in configs(problem))


@functools.cache
def configs(problem: Fft) -> tuple[Config, ...]:
    space, rng = FAMILY.space(problem, H200), random.Random(problem.key())
    drawn = [space.drawn(rng) for _ in range(SAMPLE)]
    return tuple(dict.fromkeys(each for each in (FAMILY.default(problem, H200), *drawn) if each is not None))


def value(text: str, **names: int) -> int:
    """Value of an integer CUDA expression whose operands are not negative."""
    return int(eval(text.replace("/", "//"), {"__builtins__": {}}, names))


def cells(g: FftWarpText) -> list[tuple[int, int]]:
    """Pairs (lane of a group, register)."""
    return list(itertools.product(range(g.lanes), range(g.choice.points)))


def names(g: FftWarpText, lane: int, j: int) -> dict[str, int]:
    """Names that an address expression may use."""
    return {
        "lane": lane,
        "reversed": reversed_bits(lane, g.lanes),
        "j": j,
        "kLanes": g.lanes,
        "kPoints": g.choice.points,
    }


def mirror_lane(lane: int) -> int:
    """Mirror lane by the kernel's own formula."""
    return 0 if lane == 0 else lane ^ ((1 << (lane.bit_length() - 1)) - 1)


def across_lanes(values: NDArray[Any]) -> NDArray[Any]:
    """Forward steps between lanes on one number in each lane."""
    lanes = np.arange(len(values))
    for step in lane_steps(len(values)):
        is_upper = lanes & step.distance != 0
        values = values[lanes ^ step.distance] + np.where(is_upper, -1, 1) * values
        if step.turns:
            both = step.distance + step.distance // 2
            values = np.where(lanes & both == both, -1j, 1) * values
        if step.span:
            exponents = np.array([step.exponent(lane) for lane in range(len(values))])
            values = values * np.exp(-2j * np.pi * exponents / step.span)
    return values


def transformed(g: FftWarpText, values: NDArray[Any]) -> NDArray[Any]:
    """Forward one-dimensional transform of v[lane, register], by the kernel's steps."""
    lanes, points = values.shape
    exponents = [[j * twiddle_exponent(g.choice.first, lanes, lane) for j in range(points)] for lane in range(lanes)]
    twiddles = np.exp(-2j * np.pi * np.array(exponents) / (lanes * points))
    if g.lanes_first:
        return np.fft.fft(np.apply_along_axis(across_lanes, 0, values) * twiddles, axis=1)
    return np.apply_along_axis(across_lanes, 0, np.fft.fft(values, axis=1) * twiddles)


class TestWhyNot:
    @pytest.mark.parametrize(
        ("problem", "why"),
        [
            (fft(24), "transforms powers of two up to 512 only"),
            (fft(1024), "transforms powers of two up to 512 only"),
            (fft((64, 32)), "transforms powers of two up to 32x32 only"),
            (fft((12, 32)), "transforms powers of two up to 32x32 only"),
            (fft(64, 4, layout="frequency"), "reads and writes spectra in batch layout only"),
            (fft((8, 8), layout="transposed"), "reads and writes spectra in batch layout only"),
            (fft(8, 4, valid=5, border="reflect:1"), "reads signals without a border only"),
        ],
        ids=str,
    )
    def test_says_what_it_cannot_do(self, problem: Any, why: str) -> None:
        assert FAMILY.why_not(problem, H200) == why

    @every_problem
    def test_has_nothing_against_small_powers_of_two(self, problem: Fft) -> None:
        assert FAMILY.why_not(problem, H200) is None


class TestSpace:
    @every_problem
    def test_has_the_default_in_it(self, problem: Fft) -> None:
        for device in (H200, HOST):
            space = FAMILY.space(problem, device)
            assert space.why_not(FAMILY.default(problem, device)) is None
            assert space.contains(next(space.configs()))
            assert all(parameter.meaning and parameter.values for parameter in space.parameters)
            assert all(constraint.why and "\n" not in constraint.why for constraint in space.constraints)

    def test_starts_with_eight_points_to_a_lane_where_there_are_enough(self) -> None:
        def points(size: int) -> int:
            return FAMILY.default(fft(size, 1000), H200).integer("points")

        assert [points(1 << bits) for bits in range(1, 10)] == [1, 1, 2, 4, 8, 8, 8, 8, 16]

    def test_starts_with_what_lets_neighbours_store_side_by_side(self) -> None:
        def first(**fields: Any) -> str:
            return FAMILY.default(fft(64, 1000, **fields), H200).text("first")

        assert first() == first(kind="c2c") == first(kind="c2c", inverse=True) == "lanes"
        assert first(order="reversed") == first(kind="c2c", order="reversed") == "registers"
        assert first(kind="c2r", order="reversed") == "lanes"
        assert first(kind="c2r") == "registers"

    @pytest.mark.parametrize(
        ("problem", "changes", "why"),
        [
            (fft(512, 999), {"points": 8}, "2 to 32 lanes share a transform"),
            (fft(16, 999), {"packing": "half", "points": 8}, "2 to 32 lanes share a transform"),
            (fft(16, 999), {"points": 1, "first": "lanes"}, "with one point to a lane it is all the same"),
            (fft(64, 999), {"points": 2, "twiddles": "powers"}, "powers of a twiddle are more than one"),
            (fft(4, 999), {"twiddles": "computed"}, "a single point to a lane, and 4 lanes, need no twiddles"),
            (fft(64, 31), {"points": 8, "warps": 4}, "there are 31 transforms in all"),
            (fft(64, 31), {"points": 8, "warps": 1, "repeats": 4}, "there are 31 transforms in all"),
            (fft(64, 999), {"points": 32, "repeats": 2, "warps": 1}, f"twiddles of more than {MOST_KEPT} points"),
            (fft(64, 9999), {"warps": 8, "min_blocks": 12}, "a multiprocessor holds 2048 threads"),
            (fft(512, 9999), {"warps": 8, "points": 32, "min_blocks": 4}, "a multiprocessor has 65536 registers"),
        ],
        ids=str,
    )
    def test_says_what_is_wrong_with_a_config(self, problem: Fft, changes: dict[str, Any], why: str) -> None:
        config = Config.of({**FAMILY.default(problem, H200).values(), **changes})
        told = FAMILY.space(problem, H200).why_not(config)
        assert told is not None
        assert told.startswith(why)

    def test_takes_two_columns_as_one_number_from_two_lanes_on(self) -> None:
        def packings(problem: Fft) -> set[str]:
            return {config.text("packing") for config in FAMILY.space(problem, H200).configs()}

        assert packings(fft(2, 9)) == {"pair"}
        assert packings(fft(4, 9)) == packings(fft((2, 4), 9)) == {"pair", "half"}
        assert packings(fft(4, 9, kind="c2c")) == {"complex"}


class TestSpread:
    @every_problem
    def test_every_number_of_a_row_lies_in_one_place(self, problem: Fft) -> None:
        for g in texts(problem):
            for spread in g.spreads:
                registers = range(g.choice.points if g.is_flat else 1)
                found = [spread.at(lane, j) for lane, j in itertools.product(range(g.lanes), registers)]
                assert sorted(found) == list(range(g.columns))

    @exhaustive.one_in(2)
    @every_problem
    def test_the_text_says_the_same(self, problem: Fft) -> None:
        for g in texts(problem):
            for spread, (lane, j) in itertools.product(g.spreads, cells(g)):
                for text in (spread.text("j"), spread.text(str(j))):
                    assert value(text, **names(g, lane, j)) == spread.at(lane, j)

    @pytest.mark.parametrize("first", list(First))
    def test_what_comes_first_decides_which_side_neighbours_share(self, first: First) -> None:
        problem = fft(256, 9, kind="c2c")
        config = Config.of({**FAMILY.default(problem, H200).values(), "first": first.value})
        start, end = FftWarpText.of(problem, config).spreads
        shared, own = (start, end) if first is First.REGISTERS else (end, start)
        assert sorted(shared.at(lane, 0) for lane in range(32)) == list(range(32))
        assert [own.at(5, j) - own.at(5, 0) for j in range(8)] == list(range(8))


class TestLanes:
    @pytest.mark.parametrize("lanes", LANES)
    def test_their_steps_make_a_transform_with_its_bits_turned_round(self, lanes: int) -> None:
        rng = np.random.default_rng(lanes)
        values = rng.standard_normal(lanes) + 1j * rng.standard_normal(lanes)
        places = [reversed_bits(lane, lanes) for lane in range(lanes)]
        np.testing.assert_allclose(across_lanes(values), np.fft.fft(values)[places], atol=1e-12)

    @pytest.mark.parametrize("lanes", LANES)
    def test_no_more_than_two_steps_have_twiddles(self, lanes: int) -> None:
        steps = lane_steps(lanes)
        assert [step.distance for step in steps] == [lanes >> i for i in range(1, lanes.bit_length())]
        assert sum(step.span > 0 for step in steps) == {2: 0, 4: 0, 8: 1, 16: 1, 32: 2}[lanes]

    @pytest.mark.parametrize("lanes", LANES)
    def test_the_text_of_an_exponent_says_the_same(self, lanes: int) -> None:
        for step, lane in itertools.product(lane_steps(lanes), range(lanes)):
            assert value(step.exponent_text, lane=lane) == step.exponent(lane)

    @pytest.mark.parametrize("lanes", LANES)
    def test_the_mirror_has_the_frequencies_on_the_other_side_of_zero(self, lanes: int) -> None:
        for lane in range(lanes):
            assert reversed_bits(mirror_lane(lane), lanes) == -reversed_bits(lane, lanes) % lanes
            assert mirror_lane(mirror_lane(lane)) == lane

    @pytest.mark.parametrize("points", [2, 4, 8, 16, 32])
    @pytest.mark.parametrize("lanes", LANES)
    @pytest.mark.parametrize("first", list(First))
    def test_registers_and_lanes_together_make_the_whole_transform(self, points: int, lanes: int, first: First) -> None:
        n = points * lanes
        if n > 512:
            return
        problem = fft(n, 1, kind="c2c")
        values = {**FAMILY.default(problem, H200).values(), "points": points, "first": first.value}
        g = FftWarpText.of(problem, Config.of(values))
        start, end = g.spreads
        signal = np.random.default_rng(n).standard_normal(n) + 0j
        held = signal[[[start.at(lane, j) for j in range(points)] for lane in range(lanes)]]
        frequencies = [[end.at(lane, j) for j in range(points)] for lane in range(lanes)]
        np.testing.assert_allclose(transformed(g, held), np.fft.fft(signal)[frequencies], atol=1e-10)


class TestTwiddles:
    @staticmethod
    def values(g: FftWarpText, lane: int) -> dict[int, complex]:
        """Twiddles of a lane from the text, in exact arithmetic."""
        table = next((each.values for each in g.factors.tables if each.name == "kTwiddles"), ())
        found: dict[int, complex] = {}
        for j, text in g.factors.twiddles:
            if match := re.fullmatch(r"kTwiddles\[(.*)\]", text):
                re_, im = table[value(match[1], **names(g, lane, 0))]
                found[j] = complex(float(re_.rstrip("f")), float(im.rstrip("f")))
            elif match := re.fullmatch(r"exp_pi_i\((.*)f \* (\w+)\)", text):
                found[j] = np.exp(1j * np.pi * float(match[1]) * names(g, lane, 0)[match[2]])
            else:
                factors = re.findall(r"twiddle\[(\d+)\]", text)
                found[j] = found[int(factors[0])] * found[int(factors[1])]
        return found

    @exhaustive.one_in(2)
    @every_problem
    def test_of_each_register_are_powers_of_its_lane_s_root(self, problem: Fft) -> None:
        sign = 1 if problem.inverse else -1
        for g in texts(problem):
            for lane in range(g.lanes):
                found = self.values(g, lane)
                assert set(found) == (set(range(1, g.choice.points)) if g.is_flat else set())
                exponent = twiddle_exponent(g.choice.first, g.lanes, lane)
                for j, twiddle in found.items():
                    assert abs(twiddle - np.exp(sign * 2j * np.pi * j * exponent / g.columns)) < 1e-7

    @every_problem
    def test_are_read_from_memory_or_computed_but_not_both(self, problem: Fft) -> None:
        for g in texts(problem):
            is_computed = g.choice.twiddles is Twiddles.COMPUTED
            assert not (is_computed and g.factors.tables)
            source = FAMILY.program(problem, configs(problem)[texts(problem).index(g)]).source
            assert ("sincospif" in source) == is_computed


class TestMemory:
    @exhaustive.one_in(2)
    @every_problem
    def test_every_element_of_the_signal_is_reached_once(self, problem: Fft) -> None:
        for g in texts(problem):
            side = g.output if problem.inverse else g.input
            found = collections.Counter(itertools.chain.from_iterable(self.elements(g, *cell) for cell in cells(g)))
            assert found == dict.fromkeys(range(problem.operands[problem.inverse is True].nbytes // self.size(g)), 1)
            assert all(self.is_aligned(g, side.element, *cell) for cell in cells(g))

    @staticmethod
    def size(g: FftWarpText) -> int:
        """Bytes of the elements that an address counts, in all transforms."""
        side = g.output if g.problem.inverse else g.input
        own = 8 if side.kind == "complex" else 4
        return own * g.problem.batch

    @staticmethod
    def elements(g: FftWarpText, lane: int, j: int) -> Iterator[int]:
        """Indices of the signal elements that one register holds."""
        side, known = (g.output if g.problem.inverse else g.input), names(g, lane, j)

        def holds(condition: str) -> bool:
            return not condition or bool(eval(condition.replace("&&", "and"), {"__builtins__": {}}, known))

        if holds(side.inside):
            yield value(side.element, **known)
        if side.kind == "columns" and holds(side.inside_second):
            yield value(side.element, **known) + 1

    @staticmethod
    def is_aligned(g: FftWarpText, element: str, lane: int, j: int) -> bool:
        """True if the elements accessed at once start at a multiple of their number, in every transform."""
        side = g.output if g.problem.inverse else g.input
        pitch = g.output_pitch if g.problem.inverse else g.input_pitch
        if side.kind == "complex" and g.problem.is_real:
            assert pitch % 2 == 0
            pitch //= 2
        return pitch % side.width == 0 and (value(element, **names(g, lane, j)) - j) % side.width == 0

    @every_problem
    def test_every_frequency_is_reached_once(self, problem: Fft) -> None:
        rows = problem.size[0] if len(problem.size) == 2 else 1
        for g in texts(problem):
            transforms = range(g.choice.packing.transforms)
            everything = set(itertools.product(transforms, range(rows), range(problem.spectrum_size[-1])))
            if problem.inverse:  # some are read by the lane of their mirror image too
                assert set(loaded(g)) == everything
            else:
                assert collections.Counter(stored(g)) == dict.fromkeys(everything, 1)

    @every_problem
    def test_every_transform_is_done_and_only_the_last_one_again(self, problem: Fft) -> None:
        for g, config in zip(texts(problem), configs(problem), strict=True):
            (launch,) = FAMILY.program(problem, config).launches
            assert launch.block == (32 * g.choice.warps, 1, 1)
            groups = launch.block[0] // g.lanes
            first = itertools.product(range(launch.grid[0]), range(groups), range(g.choice.repeats))
            done = [block * g.choice.repeats * groups + group + repeat * groups for block, group, repeat in first]
            found = collections.Counter(min(each, g.transforms - 1) for each in done)
            assert sorted(found) == list(range(ceil(problem.batch / g.choice.packing.transforms)))
            assert {number for number, times in found.items() if times > 1} <= {g.transforms - 1}
            assert len(done) - groups * g.choice.repeats < g.transforms  # no idle block


def loaded(g: FftWarpText) -> Iterator[tuple[int, int, int]]:
    """Transform of a pair, row and column of each spectrum load, as in the template."""
    start, points = g.spreads[0], g.choice.points
    for lane, j in cells(g):
        x, y = start.at(lane, j), 0 if g.is_flat else j
        if not g.problem.is_real:
            yield 0, y, x
        elif g.choice.packing is Packing.PAIR:
            is_upper = 2 * x > g.columns
            place = (-y % points if is_upper else y, g.columns - x if is_upper else x)
            yield from ((0, *place), (1, *place))
        else:
            yield from ((0, y, x), (0, -y % points, g.columns - x))


def stored(g: FftWarpText) -> Iterator[tuple[int, int, int]]:
    """Transform of a pair, row and column of each spectrum store, as in the template."""
    end, points, columns = g.spreads[1], g.choice.points, g.columns
    if not g.problem.is_real:
        yield from ((0, 0 if g.is_flat else j, end.at(lane, j)) for lane, j in cells(g))
    elif g.lanes_first:
        yield from stored_lanes_first(g)
    else:
        for lane, j in itertools.product(range(g.lanes), range(points // 2 + 1)):
            is_own = j == 0 or 2 * j == points
            x, y = end.at(lane, j), 0 if g.is_flat else j
            if g.choice.packing is Packing.PAIR:
                yield from stored_of_pair(g, lane, j, is_own)
            elif g.is_flat:
                yield 0, 0, x
                if lane == 0 if j == 0 else 2 * j != points:
                    yield 0, 0, columns - x
            else:
                yield 0, y, x
                if lane == 0:
                    yield 0, y, columns
                if not is_own:
                    yield 0, points - y, columns - x
                    if lane == 0:
                        yield 0, points - y, x


def stored_of_pair(g: FftWarpText, lane: int, j: int, is_own: bool) -> Iterator[tuple[int, int, int]]:
    x, is_upper = g.spreads[1].at(lane, j), lane % 2
    rows = (0, 0) if g.is_flat else (j, -j % g.choice.points)
    column = g.columns - x if is_upper else x
    if is_own:
        yield is_upper, rows[is_upper], column
        if lane < 2 and (j == 0 or not g.is_flat):
            yield 1 - is_upper, rows[is_upper], column
    else:
        yield from ((0, rows[is_upper], column), (1, rows[is_upper], column))
        if lane < 2 and not g.is_flat:
            yield from ((0, rows[1 - is_upper], column), (1, rows[1 - is_upper], column))


def stored_lanes_first(g: FftWarpText) -> Iterator[tuple[int, int, int]]:
    is_pair = g.choice.packing is Packing.PAIR
    for lane, j in itertools.product(range(g.lanes), range(g.choice.points // 2)):
        x = g.spreads[1].at(lane, j)
        yield from ((0, 0, x), (1, 0, x) if is_pair else (0, 0, g.columns - x))
    yield 0, 0, g.columns // 2
    if is_pair:
        yield 1, 0, g.columns // 2


class TestText:
    @exhaustive.one_in(2)
    @every_problem
    def test_is_tidy_and_says_what_it_is(self, problem: Fft) -> None:
        for config in configs(problem):
            program = FAMILY.program(problem, config)
            source = program.source
            assert source == FAMILY.program(problem, Config.of(config.values())).source
            header = with_whole_head(source[: source.index("constexpr")])
            assert problem.key() in header
            assert config.key() in header
            assert source.isascii()
            assert source.endswith("}\n")
            assert not re.search(r"[ \t]+$|\n\n\n|\t|\{%|\{\{|\}\}|None|Undefined", source, re.MULTILINE)

    @every_problem
    def test_has_no_shared_memory_and_no_barrier(self, problem: Fft) -> None:
        for config in configs(problem):
            program = FAMILY.program(problem, config)
            (launch,) = program.launches
            assert launch.shared_bytes == 0
            assert "__shared__" not in program.source
            assert not re.search(r"__sync\w+\(", program.source)
            assert launch.arguments == tuple(Pointer(operand.name) for operand in problem.operands)

    def test_reaches_neighbours_sixteen_bytes_at_a_time(self) -> None:
        def vector(problem: Fft, first: str) -> str:
            config = Config.of({**FAMILY.default(problem, H200).values(), "points": 4, "first": first})
            found = re.search(r"load<\w+>\(in|make_float4\(v", FAMILY.program(problem, config).source)
            assert found is not None
            return found[0]

        assert vector(fft(64, 8), "lanes") == "load<float4>(in"
        assert vector(fft(64, 8, valid=50), "lanes") == "load<float2>(in"
        assert vector(fft(64, 8, valid=51), "lanes") == "load<float>(in"
        assert vector(fft(64, 8), "registers") == "load<float>(in"
        assert vector(fft(64, 8, kind="c2c"), "lanes") == "load<float4>(in"
        assert vector(fft(64, 8, kind="c2c", valid=51), "lanes") == "load<float2>(in"
        assert vector(fft(64, 8, kind="c2r"), "registers") == "make_float4(v"


def test_a_spread_leaves_out_what_is_nothing() -> None:
    assert Spread(8, 1, 8, False).text("0") == "lane"
    assert Spread(8, 4, 1, True).text("0") == "reversed * kPoints"
