"""Fourier transforms as problems: canonical form, keys, shapes of their arrays, scales, and refusals."""

from __future__ import annotations

import dataclasses
import itertools
import json
from typing import Any

import numpy as np
import pytest

from warpsmith.errors import BadArgument
from warpsmith.generator.fft import Fft, Kind, Layout, Norm, Order, Product, Tiling
from warpsmith.generator.fft.signals import Border
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.padding import PaddingMode
from warpsmith.generator.problem import DType, Operand, Problem, Role

EVERY_FIELD = Fft(
    size=(8, 16),
    batch=3,
    kind=Kind.C2C,
    inverse=True,
    valid=(5, 7),
    norm=Norm.ORTHO,
    layout=Layout.FREQUENCY,
    order=Order.REVERSED,
    start=(7, 0),
    tiling=Tiling(count=(1, 1), step=(5, 7), origin=(0, 0), plane=(4, 6)),
)
"""A problem in which no field has its default, except the border, which inverse transforms lack, and the product, which
complex transforms lack.
"""
MULTIPLIED = Fft((6, 8), 12, Kind.C2R, layout=Layout.FREQUENCY, product=Product(3, 4, 2, "n", "c"))  # type: ignore[arg-type]
BORDERED = Fft((12, 16), 3, valid=(5, 7), border="reflect:2+1x3", layout="frequency")  # type: ignore[arg-type]

CHANGES: dict[str, Any] = {
    "size": (16, 8),
    "batch": 4,
    "kind": Kind.C2R,
    "inverse": False,
    "valid": None,
    "norm": Norm.FORWARD,
    "layout": Layout.TRANSPOSED,
    "order": Order.NATURAL,
    "start": (7, 1),
    "tiling": Tiling(count=(1, 1), step=(5, 7), origin=(0, 0), plane=(4, 5)),
}
"""Value per field that makes EVERY_FIELD another problem."""
WITH = {"valid": {"tiling": Tiling(count=(1, 1), step=(8, 16), origin=(0, 0), plane=(4, 6))}}
"""Fields that change with it, so that tiles stay as far apart as they are large."""
TILES: dict[str, Any] = {"count": (3, 2), "step": (6, 5), "origin": (-1, 0), "plane": (17, 11), "inner": 4}

DIRECTIONS: list[dict[str, Any]] = [{"kind": "r2c"}, {"kind": "c2r"}, {"kind": "c2c"}, {"kind": "c2c", "inverse": True}]


def fft(size: Any, batch: int = 1, **fields: Any) -> Fft:
    """A problem from a caller's arguments: sizes as numbers, kinds as strings."""
    return Fft(size, batch, **fields)


def changed(field: str) -> Fft:
    """EVERY_FIELD with one field changed."""
    return dataclasses.replace(EVERY_FIELD, **{field: CHANGES[field]}, **WITH.get(field, {}))


def signal(role: Role, *shape: int, dtype: DType = DType.FLOAT32) -> Operand:
    return Operand("signal", role, shape, dtype)


def spectrum(role: Role, *shape: int) -> Operand:
    return Operand("spectrum", role, shape, DType.COMPLEX64)


def test_every_field_has_a_change() -> None:
    assert [field.name for field in dataclasses.fields(Fft)] == [*CHANGES, "border", "product", "together"]


class TestCanonicalForm:
    def test_words_become_members_and_numbers_tuples(self) -> None:
        problem = fft([8, 16], kind="c2c", norm="ortho", layout="transposed", order="reversed")
        assert (type(problem.size), type(problem.kind), type(problem.norm)) == (tuple, Kind, Norm)
        assert (type(problem.layout), type(problem.order)) == (Layout, Order)
        assert hash(problem) == hash(dataclasses.replace(problem))

    @pytest.mark.parametrize(
        ("fields", "usual"),
        [
            ({"size": 32}, {"size": (32,)}),
            ({"size": [32]}, {"size": 32}),
            ({"size": np.int32(32)}, {"size": 32}),
            ({"size": np.array([8, 9])}, {"size": (8, 9)}),
            ({"size": 32, "batch": np.int64(7)}, {"size": 32, "batch": 7}),
            ({"size": 32, "valid": 32}, {"size": 32}),
            ({"size": (8, 9), "valid": [8, 9]}, {"size": (8, 9)}),
            ({"size": 32, "valid": 27}, {"size": 32, "valid": (27,)}),
            ({"size": 32, "start": 0}, {"size": 32}),
            ({"size": (8, 9), "start": np.array([0, 3])}, {"size": (8, 9), "start": (0, 3)}),
            ({"size": 32, "inverse": False}, {"size": 32}),
            ({"size": 32, "kind": "c2r", "inverse": True}, {"size": 32, "kind": "c2r"}),
            ({"size": 32, "kind": "c2c", "inverse": False}, {"size": 32, "kind": "c2c"}),
            ({"size": 32, "kind": "c2c", "inverse": 1}, {"size": 32, "kind": "c2c", "inverse": True}),
        ],
    )
    def test_what_says_the_usual_is_not_said(self, fields: dict[str, Any], usual: dict[str, Any]) -> None:
        said, unsaid = fft(**fields), fft(**usual)
        assert said == unsaid
        assert said.key() == unsaid.key()
        assert json.dumps(said.spec()) == json.dumps(unsaid.spec())

    @pytest.mark.parametrize(("fields", "inverse"), [*zip(DIRECTIONS, (False, True, False, True), strict=True)])
    def test_the_direction_is_always_known(self, fields: dict[str, Any], inverse: bool) -> None:
        assert fft(8, **fields).inverse is inverse


class TestBorder:
    @pytest.mark.parametrize(
        "border",
        [
            "reflect:2+1x3",
            Border(PaddingMode.REFLECT, ((2, 1), (3, 3))),
            {"mode": "reflect", "pads": [[2, 1], [3, 3]]},
        ],
    )
    def test_is_the_same_in_all_words(self, border: Any) -> None:
        assert fft((12, 16), 3, valid=(5, 7), border=border, layout="frequency") == BORDERED

    def test_is_part_of_what_the_transform_reads_and_not_of_the_signal(self) -> None:
        assert BORDERED.bordered_size == (8, 13)
        assert BORDERED.signal_size == (5, 7)
        assert BORDERED.operands[0].shape == (3, 5, 7)
        assert EVERY_FIELD.bordered_size == EVERY_FIELD.signal_size

    def test_shows_in_key_spec_and_distance(self) -> None:
        others = [
            dataclasses.replace(BORDERED, border=border)
            for border in (None, "circular:2+1x3", "reflect:1+2x3", "reflect:2+1x2")
        ]
        assert len({each.key() for each in (BORDERED, *others)}) == 5
        assert len({json.dumps(each.spec()) for each in (BORDERED, *others)}) == 5
        assert all(BORDERED.distance(each) for each in others)
        assert not any(BORDERED.is_resized(each) for each in others)
        assert BORDERED.is_resized(dataclasses.replace(BORDERED, batch=9))

    def test_a_spec_of_before_there_were_borders_has_none(self) -> None:
        spec = dataclasses.replace(BORDERED, border=None).spec()
        del spec["border"]
        assert Problem.from_spec("fft", spec).spec()["border"] is None


class TestKeyAndSpec:
    @pytest.mark.parametrize("field", CHANGES)
    def test_changing_any_field_changes_key_and_spec(self, field: str) -> None:
        other = changed(field)
        assert other != EVERY_FIELD
        assert other.key() != EVERY_FIELD.key()
        assert other.spec() != EVERY_FIELD.spec()

    def test_tells_any_two_problems_apart(self) -> None:
        problems = [
            fft(size, batch, norm=norm, layout=layout, valid=valid, **direction)
            for size, valid in ((11, None), (11, 1), ((11, 11), None), ((11, 11), (1, 11)))
            for batch, norm, layout, direction in itertools.product((1, 11), Norm, Layout, DIRECTIONS)
            if layout is not Layout.TRANSPOSED or isinstance(size, tuple)
        ]
        assert len({problem.key() for problem in problems}) == len(set(problems)) == len(problems) > 200

    def test_names_what_is_unusual(self) -> None:
        assert fft(256).key() == "fft size=256 batch=1 kind=r2c"
        assert fft((32, 32), 4096, kind="c2r").key() == "fft size=32x32 batch=4096 kind=c2r"
        assert EVERY_FIELD.key() == (
            "fft size=8x16 batch=3 kind=c2c inverse=yes valid=5x7 start=7x0 norm=ortho layout=frequency order=reversed"
            " tiles=1x1 step=5x7 plane=4x6"
        )
        assert fft((8, 8), 48, tiling=TILES).key() == (
            "fft size=8x8 batch=48 kind=r2c tiles=3x2 step=6x5 origin=-1x0 plane=17x11 inner=4"
        )
        assert BORDERED.key() == ("fft size=12x16 batch=3 kind=r2c valid=5x7 border=reflect:2+1x3 layout=frequency")

    @pytest.mark.parametrize(
        "problem",
        [
            EVERY_FIELD,
            BORDERED,
            MULTIPLIED,
            fft(12),
            fft((6, 9), 5, kind=Kind.C2R, valid=(6, 4)),
            fft((8, 8), 48, tiling=TILES),
            fft(12, 6, together=3),
        ],
    )
    def test_a_spec_comes_back_through_json(self, problem: Fft) -> None:
        spec = json.loads(json.dumps(problem.spec()))
        back = Problem.from_spec("fft", spec)
        assert back == problem
        assert back.key() == problem.key()
        names = [field.name for field in dataclasses.fields(Fft)]
        assert list(spec) == (names if problem.together else names[:-1])


class TestOperands:
    """Operands for three transforms, worked out by hand."""

    @pytest.mark.parametrize(
        ("problem", "operands"),
        [
            (fft(8, 3), [signal(Role.INPUT, 3, 8), spectrum(Role.OUTPUT, 3, 5)]),
            (fft(7, 3), [signal(Role.INPUT, 3, 7), spectrum(Role.OUTPUT, 3, 4)]),
            (fft(8, 3, valid=5), [signal(Role.INPUT, 3, 5), spectrum(Role.OUTPUT, 3, 5)]),
            (fft((6, 8), 3), [signal(Role.INPUT, 3, 6, 8), spectrum(Role.OUTPUT, 3, 6, 5)]),
            (
                fft((6, 8), 3, valid=(4, 7), layout=Layout.TRANSPOSED),
                [signal(Role.INPUT, 3, 4, 7), spectrum(Role.OUTPUT, 3, 5, 6)],
            ),
            (
                fft((6, 8), 3, layout=Layout.FREQUENCY),
                [signal(Role.INPUT, 3, 6, 8), spectrum(Role.OUTPUT, 6, 5, 3)],
            ),
            (fft(8, 3, layout=Layout.FREQUENCY), [signal(Role.INPUT, 3, 8), spectrum(Role.OUTPUT, 5, 3)]),
            (fft(8, 3, kind=Kind.C2R), [spectrum(Role.INPUT, 3, 5), signal(Role.OUTPUT, 3, 8)]),
            (
                fft((6, 9), 3, kind=Kind.C2R, valid=(6, 8), layout=Layout.TRANSPOSED),
                [spectrum(Role.INPUT, 3, 5, 6), signal(Role.OUTPUT, 3, 6, 8)],
            ),
            (
                fft((6, 9), 3, kind=Kind.C2R, layout=Layout.FREQUENCY),
                [spectrum(Role.INPUT, 6, 5, 3), signal(Role.OUTPUT, 3, 6, 9)],
            ),
            (
                fft(8, 3, kind=Kind.C2C, valid=5),
                [signal(Role.INPUT, 3, 5, dtype=DType.COMPLEX64), spectrum(Role.OUTPUT, 3, 8)],
            ),
            (
                fft((6, 8), 3, kind=Kind.C2C, inverse=True, valid=(5, 3), layout=Layout.TRANSPOSED),
                [spectrum(Role.INPUT, 3, 8, 6), signal(Role.OUTPUT, 3, 5, 3, dtype=DType.COMPLEX64)],
            ),
            (fft(8), [signal(Role.INPUT, 1, 8), spectrum(Role.OUTPUT, 1, 5)]),
            (
                fft((8, 8), 48, layout=Layout.FREQUENCY, tiling=TILES),
                [signal(Role.INPUT, 8, 17, 11), spectrum(Role.OUTPUT, 8, 5, 48)],
            ),
        ],
        ids=lambda value: value.key().replace(" ", ",") if isinstance(value, Fft) else "",
    )
    def test_are_those_of_numpy_fft_with_the_batch_in_its_place(self, problem: Fft, operands: list[Operand]) -> None:
        assert list(problem.operands) == operands
        assert problem.output.role is Role.OUTPUT
        assert [each.role for each in problem.inputs] == [Role.INPUT]
        assert all(each.is_dense for each in operands)

    def test_bytes_are_those_of_both(self) -> None:
        assert fft((32, 32), 3, valid=(27, 27)).bytes == 3 * (27 * 27 * 4 + 32 * 17 * 8)

    def test_a_complex_operand_is_twice_as_many_real_numbers(self) -> None:
        both = fft((6, 8), 3).output.components
        assert (both.shape, both.dtype, both.nbytes) == ((3, 6, 5, 2), DType.FLOAT32, fft((6, 8), 3).output.nbytes)


class TestScale:
    @pytest.mark.parametrize("size", [5, 12, (3, 4), (8, 8)])
    @pytest.mark.parametrize("norm", Norm)
    @pytest.mark.parametrize("fields", DIRECTIONS, ids=str)
    def test_is_that_of_numpy(self, size: Any, norm: Norm, fields: dict[str, Any]) -> None:
        """An impulse as first element or first frequency gives a result that equals the scale everywhere."""
        problem = fft(size, norm=norm, **fields)
        impulse = np.zeros(problem.spectrum_size if problem.inverse else problem.size, complex)
        impulse.flat[0] = 1
        transforms: dict[tuple[Kind, bool], Any] = {
            (Kind.R2C, False): lambda array, **how: np.fft.rfftn(array.real, **how),
            (Kind.C2R, True): np.fft.irfftn,
            (Kind.C2C, False): np.fft.fftn,
            (Kind.C2C, True): np.fft.ifftn,
        }
        transform = transforms[problem.kind, problem.inverse is True]
        axes = tuple(range(impulse.ndim))
        result = transform(impulse, s=problem.size, axes=axes, norm=norm.value)
        np.testing.assert_allclose(result, problem.scale, rtol=1e-14)


class TestCounts:
    def test_flops_are_5_n_log2_n_and_half_of_it_for_real_ones(self) -> None:
        assert fft(8, 3, kind=Kind.C2C).flops == 3 * 5 * 8 * 3
        assert fft(8, 3).flops == fft(8, 3, kind=Kind.C2R).flops == 3 * 5 * 8 * 3 // 2
        assert fft((8, 16), 2, kind=Kind.C2C).flops == 2 * 5 * 128 * 7
        assert fft(3, 1000, kind=Kind.C2C).flops == round(15000 * np.log2(3))

    def test_points_of_a_part_are_those_of_the_whole(self) -> None:
        assert fft((8, 16), valid=(3, 2)).points == 128
        assert fft((8, 16), valid=(3, 2)).flops == fft((8, 16)).flops


class TestDistance:
    def test_is_measured_in_octaves_of_the_batch(self) -> None:
        base = fft((32, 32), 64)
        for batch, octaves in ((64, 0), (128, 1), (32, 1), (512, 3), (1, 6)):
            other = dataclasses.replace(base, batch=batch)
            assert base.distance(other) == other.distance(base) == octaves

    @pytest.mark.parametrize("field", CHANGES)
    def test_of_any_other_field_is_more_than_nothing_and_the_same_both_ways(self, field: str) -> None:
        other = changed(field)
        there, back = EVERY_FIELD.distance(other), other.distance(EVERY_FIELD)
        assert there == pytest.approx(back)
        assert there is None or there > 0

    def test_of_what_moves_the_best_config_more_is_longer(self) -> None:
        base = fft(250, 100)
        others = (fft(250, 100, norm=Norm.ORTHO), fft(256, 100), fft(240, 100), fft(250, 100, kind=Kind.C2R))
        distances = [base.distance(other) for other in (*others, fft(250, 100, kind=Kind.C2C))]
        assert None not in distances
        assert distances == sorted(distances, key=lambda each: each or 0)

    def test_is_none_where_the_best_config_is_another(self) -> None:
        assert fft(250, 100).distance(fft(1000, 100)) is None
        assert fft(256, 100).distance(fft((16, 16), 100)) is None

    def test_to_another_operation_is_none(self) -> None:
        assert EVERY_FIELD.distance(Filter2d(image=(8, 8), filter=(3, 3))) is None


class TestProduct:
    def test_its_factors_are_the_inputs(self) -> None:
        def complex_input(name: str, *shape: int) -> Operand:
            return Operand(name, Role.INPUT, shape, DType.COMPLEX64)

        a, b = complex_input("a", 6, 5, 3, 2), complex_input("b", 6, 5, 4, 2)
        assert MULTIPLIED.operands == (a, b, signal(Role.OUTPUT, 12, 6, 8))
        turned = with_product(a="t", b="n")
        assert turned.operands[:2] == (complex_input("a", 6, 5, 2, 3), complex_input("b", 6, 5, 2, 4))
        offset = Operand("offset", Role.INPUT, (4,), DType.FLOAT32)
        assert with_product(offset=True).operands == (a, b, offset, signal(Role.OUTPUT, 12, 6, 8))

    def test_is_the_same_as_its_fields_by_name(self) -> None:
        assert dataclasses.replace(MULTIPLIED, product=MULTIPLIED.spec()["product"]) == MULTIPLIED

    def test_has_a_key_of_its_own(self) -> None:
        assert MULTIPLIED.key() == "fft size=6x8 batch=12 kind=c2r layout=frequency product=3x4x2:nc"
        assert with_product(offset=True).key() == MULTIPLIED.key().replace(":nc", ":nc+offset")

    def test_counts_the_operations_of_its_sums(self) -> None:
        plain = dataclasses.replace(MULTIPLIED, product=None)
        assert MULTIPLIED.flops - plain.flops == 8 * 12 * 6 * 5 * 2

    def test_another_number_of_results_is_another_size(self) -> None:
        larger = dataclasses.replace(MULTIPLIED, batch=24, product=Product(6, 4, 2, "n", "c"))  # type: ignore[arg-type]
        assert MULTIPLIED.is_resized(larger)
        others = (with_product(terms=1), with_product(b="n"), dataclasses.replace(MULTIPLIED, product=None))
        assert not any(MULTIPLIED.is_resized(each) for each in others)
        assert all(MULTIPLIED.distance(each) for each in others)
        assert MULTIPLIED.of_two().batch == 2

    @pytest.mark.parametrize(
        ("fields", "told"),
        [
            ({"layout": Layout.BATCH}, "layout frequency"),
            ({"kind": Kind.C2C, "inverse": True}, "kind c2r"),
            ({"batch": 13}, "no batch of 13"),
            ({"product": {"rows": 3, "columns": 4}}, "product must have"),
            ({"product": {"rows": 3, "columns": 4, "terms": 5}}, "terms of a product"),
            ({"product": {"rows": 3, "columns": 4, "terms": 2, "a": "x"}}, "op of a"),
        ],
    )
    def test_what_does_not_fit_is_refused_in_one_line(self, fields: dict[str, Any], told: str) -> None:
        with pytest.raises(BadArgument, match=told) as raised:
            dataclasses.replace(MULTIPLIED, **fields)
        assert "\n" not in str(raised.value)


def with_product(**fields: Any) -> Fft:
    """MULTIPLIED with other fields of its product changed."""
    assert MULTIPLIED.product is not None
    return dataclasses.replace(MULTIPLIED, product=dataclasses.replace(MULTIPLIED.product, **fields))


class TestTiling:
    def test_planes_that_share_a_number_lie_side_by_side(self) -> None:
        tiling = fft((8, 8), 48, tiling=TILES).tiling
        assert tiling is not None
        assert tiling.planes(48) == 8
        assert [tiling.place(each) for each in (0, 1, 4, 8, 23, 24)] == [
            (0, (-1, 0)),
            (1, (-1, 0)),
            (0, (-1, 5)),
            (0, (5, 0)),
            (3, (11, 5)),
            (4, (-1, 0)),
        ]
        assert [tiling.reach(axis, 8) for axis in (0, 1)] == [(-1, 19), (0, 13)]

    def test_every_number_of_a_result_is_of_one_transform(self) -> None:
        for plane, step, inner in itertools.product([(17, 11), (5, 5), (12, 6)], [(6, 5), (5, 8), (1, 3)], (1, 3)):
            count = tuple(-(-points // each) for points, each in zip(plane, step, strict=True))
            batch = 2 * inner * count[0] * count[1]
            found = fft((8, 8), batch, kind="c2r", valid=step, tiling=Tiling(count, step, (0, 0), plane, inner))
            stored = np.zeros(found.output.shape, int)
            for transform in range(batch):
                assert found.tiling is not None
                at, (row, column) = found.tiling.place(transform)
                stored[at, row : row + step[0], column : column + step[1]] += 1
            assert (stored == 1).all()

    def test_another_number_of_planes_or_of_tiles_is_another_size(self) -> None:
        base = fft((8, 8), 48, tiling=TILES)
        larger = {"count": (9, 4), "step": (6, 5), "origin": (-1, 0), "plane": (60, 19), "inner": 3}
        assert base.is_resized(fft((8, 8), 3 * 36, tiling=larger))
        for other in (fft((8, 8), 48), fft((8, 8), 24, tiling=TILES | {"origin": (0, 0)})):
            assert not base.is_resized(other)
            assert not other.is_resized(base)
            assert base.distance(other) == other.distance(base)
            assert (base.distance(other) or 9) >= 1


class TestRefusals:
    @pytest.mark.parametrize(
        ("fields", "says"),
        [
            ({"size": 1}, "each dimension of a transform needs at least 2 points"),
            ({"size": (1, 8)}, "each dimension of a transform needs at least 2 points"),
            ({"size": (8, 1)}, "each dimension of a transform needs at least 2 points"),
            ({"size": 0}, "size must be one or two positive sizes below 32768, N or ROWSxCOLUMNS; got 0"),
            ({"size": -8}, "size must be one or two positive sizes below 32768, N or ROWSxCOLUMNS; got -8"),
            ({"size": (8, 8, 8)}, "size must be one or two positive sizes .* got 8x8x8"),
            ({"size": ()}, "size must be one or two positive sizes"),
            ({"size": 2**15}, "size must be one or two positive sizes .* got 32768"),
            ({"size": 8.0}, r"size must be one or two positive sizes .* got 8\.0"),
            ({"size": "8x8"}, "size must be one or two positive sizes .* got '8x8'"),
            ({"size": None}, "size must be one or two positive sizes .* got None"),
            ({"batch": 0}, "batch must be 1 or more; got 0"),
            ({"batch": -3}, "batch must be 1 or more; got -3"),
            ({"batch": 2.0}, r"batch must be 1 or more; got 2\.0"),
            ({"batch": "2"}, "batch must be 1 or more; got '2'"),
            ({"valid": 9}, "valid must be a part of 8; got 9"),
            ({"valid": 0}, "valid must be one or two positive sizes"),
            ({"valid": (4, 4)}, "valid must be a part of 8; got 4x4"),
            ({"size": (8, 8), "valid": 4}, "valid must be a part of 8x8; got 4"),
            ({"size": (8, 8), "valid": (8, 9)}, "valid must be a part of 8x8; got 8x9"),
            ({"start": 8}, "start must be a point of 8; got 8"),
            ({"start": -1}, "start must be a point of 8; got -1"),
            ({"start": (1, 1)}, "start must be a point of 8; got 1x1"),
            ({"start": "first"}, "start must be a point of 8; got 'first'"),
            ({"border": "reflect"}, "border must be MODE:PADS, such as mirror:1 or mirror:2[+]1x3; got 'reflect'"),
            ({"border": "reflect:1+2+3"}, "border must be MODE:PADS"),
            ({"border": {"mode": "reflect"}}, "border must be MODE:PADS"),
            ({"border": "zeros:1"}, "unknown border 'zeros'; choose one of reflect, replicate, circular"),
            ({"border": "reflect:1"}, "the signal and its border are 10 points, of 8"),
            ({"border": "reflect:1x1"}, "border reflect:1x1 is for 2 axes; the transform has 1"),
            ({"valid": 2, "border": "reflect:2+0"}, r"border reflect has at most 1 on each side of 2; got 2\+0"),
            ({"valid": 2, "border": "circular:0+3"}, r"border circular has at most 2 on each side of 2; got 0\+3"),
            ({"valid": 4, "border": "reflect:0"}, "a border without elements is none"),
            ({"valid": 4, "border": {"mode": "reflect", "pads": [1]}}, "pads of a border must be .before, after. for"),
            (
                {"valid": 4, "border": {"mode": "reflect", "pads": [(1, -1)]}},
                "pads of a border must be 0 to 32767; got -1",
            ),
            ({"kind": "c2r", "valid": 4, "border": "reflect:1"}, "an inverse transform has no border"),
            ({"kind": "c2c", "inverse": True, "valid": 4, "border": "reflect:1"}, "an inverse transform has no border"),
            ({"inverse": True}, "r2c is always forward"),
            ({"kind": "c2r", "inverse": False}, "c2r is always inverse"),
            ({"kind": "d2z"}, "unknown kind 'd2z'; choose one of r2c, c2r, c2c"),
            ({"kind": None}, "unknown kind None; choose one of r2c"),
            ({"norm": "unitary"}, "unknown norm 'unitary'; choose one of backward, ortho, forward"),
            ({"layout": "rows"}, "unknown layout 'rows'; choose one of batch, transposed, frequency"),
            ({"layout": "transposed"}, "layout transposed needs two dimensions; this transform has one"),
            ({"order": "shifted"}, "unknown order 'shifted'; choose one of natural, reversed"),
            ({"size": 12, "order": "reversed"}, "bit-reversed order needs powers of two; got 12"),
            ({"size": (8, 6), "order": "reversed"}, "bit-reversed order needs powers of two; got 8x6"),
            ({"tiling": 3}, "tiling must have count, step, origin, plane and inner; got 3"),
            ({"tiling": {**TILES, "pad": 1}}, "tiling must have count, step, origin, plane and inner; got {'count'"),
            ({"tiling": TILES}, "tiling's count must be 1 numbers above 0; got 3x2"),
            (
                {"size": (8, 8), "batch": 24, "tiling": TILES | {"step": (0, 5)}},
                "tiling's step must be 2 numbers above 0; got 0x5",
            ),
            ({"size": (8, 8), "tiling": TILES | {"origin": "ab"}}, "tiling's origin must be a number for each axis"),
            ({"size": (8, 8), "tiling": TILES | {"inner": 0}}, "tiling's inner must be 1 or more; got 0"),
            (
                {"size": (8, 8), "batch": 36, "tiling": TILES},
                "a batch of 36 has no whole planes: 4 planes of 3x2 tiles are 24 transforms",
            ),
            ({"size": (8, 8), "batch": 24, "tiling": TILES | {"step": (2**30, 1)}}, r"tiling has 2\^31 tiles or more"),
            (
                {"size": (8, 8), "batch": 24, "kind": "c2r", "tiling": TILES | {"origin": (0, 0)}},
                "tiles of a result lie side by side from the first point on, 8x8 apart; got step 6x5, origin 0x0",
            ),
            (
                {"size": (8, 8), "batch": 24, "kind": "c2r", "valid": (6, 5), "tiling": TILES | {"origin": (0, 0)}},
                "planes of 17x11 have 3x3 tiles of 6x5; got 3x2",
            ),
        ],
    )
    def test_one_line_says_what_is_wrong(self, fields: dict[str, Any], says: str) -> None:
        with pytest.raises(BadArgument, match=says) as caught:
            fft(**{"size": 8, **fields})
        assert "\n" not in str(caught.value)

    def test_a_spec_of_another_version_names_what_it_does_not_know(self) -> None:
        with pytest.raises(BadArgument, match="unknown kind"):
            Problem.from_spec("fft", {**EVERY_FIELD.spec(), "kind": "z2z"})
