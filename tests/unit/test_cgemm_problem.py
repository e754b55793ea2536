"""Batched complex products as problems: canonical forms, keys, shapes, and invalid arguments."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

import warpsmith as ws
from warpsmith.errors import BadArgument
from warpsmith.generator.cgemm import Cgemm, Op
from warpsmith.generator.problem import DType, Problem, Role

SIZES: dict[str, Any] = {"batch": 5, "m": 7, "n": 9, "k": 11}
USUAL = Cgemm(**SIZES)


def cgemm(**fields: Any) -> Cgemm:
    """A problem from a caller's arguments."""
    return Cgemm(**{**SIZES, **fields})


class TestCanonicalForm:
    def test_two_ways_to_say_it_are_one_problem(self) -> None:
        for one, other in (
            (cgemm(a="c"), cgemm(a=Op.C)),
            (cgemm(m=np.int64(7)), USUAL),
            (Cgemm(5, 7, 9, 11, "n", "n"), USUAL),  # type: ignore[arg-type]
        ):
            assert one == other
            assert one.key() == other.key()
            assert hash(one) == hash(other)

    @pytest.mark.parametrize("problem", [USUAL, cgemm(a="t", b="c"), cgemm(accuracy="normwise")])
    def test_a_spec_is_json_and_reads_back(self, problem: Cgemm) -> None:
        spec = json.loads(json.dumps(problem.spec()))
        assert Problem.from_spec("cgemm", spec) == problem
        assert spec.keys() == {field.name for field in dataclasses.fields(Cgemm)}

    def test_a_spec_of_before_there_was_a_choice_is_elementwise(self) -> None:
        spec = {name: value for name, value in USUAL.spec().items() if name != "accuracy"}
        assert Problem.from_spec("cgemm", spec) == USUAL

    def test_is_exported_with_its_words(self) -> None:
        assert ws.Cgemm is Cgemm
        assert ws.Op is Op


class TestKey:
    def test_is_one_readable_line(self) -> None:
        assert USUAL.key() == "cgemm batch=5 m=7 n=9 k=11"
        assert cgemm(a="t", b="c").key() == "cgemm batch=5 m=7 n=9 k=11 a=t b=c"
        assert cgemm(accuracy="normwise").key() == "cgemm batch=5 m=7 n=9 k=11 accuracy=normwise"

    def test_every_field_shows(self) -> None:
        changed: dict[str, list[Any]] = {
            "batch": [6],
            "m": [8],
            "n": [8],
            "k": [8],
            "a": ["t", "c"],
            "b": ["t", "c"],
            "accuracy": ["rowwise", "normwise"],
        }
        assert changed.keys() == {field.name for field in dataclasses.fields(Cgemm)}
        problems = [USUAL, *(cgemm(**{name: value}) for name, values in changed.items() for value in values)]
        assert len({problem.key() for problem in problems}) == len(problems)
        assert len(set(problems)) == len(problems)


class TestOperands:
    @pytest.mark.parametrize("op", Op)
    def test_lie_as_their_ops_say(self, op: Op) -> None:
        problem = cgemm(a=op, b=op)
        assert [each.shape for each in problem.operands] == [
            (5, 7, 11) if op is Op.N else (5, 11, 7),
            (5, 11, 9) if op is Op.N else (5, 9, 11),
            (5, 7, 9),
        ]
        assert [each.name for each in problem.operands] == ["a", "b", "c"]
        assert [each.role for each in problem.operands] == [Role.INPUT, Role.INPUT, Role.OUTPUT]
        assert all(each.dtype is DType.COMPLEX64 and each.is_dense for each in problem.operands)

    def test_work_is_that_of_four_real_products(self) -> None:
        assert USUAL.flops == 8 * 5 * 7 * 9 * 11
        assert USUAL.bytes == 8 * 5 * (7 * 11 + 11 * 9 + 7 * 9)


class TestDistance:
    def test_counts_sizes_in_octaves_and_a_conjugate_as_a_sign(self) -> None:
        assert USUAL.distance(USUAL) == 0
        assert USUAL.distance(cgemm(batch=10, k=44)) == pytest.approx(3)
        sign, turned = (cgemm(a="t").distance(cgemm(a=op)) for op in ("c", "n"))
        assert sign is not None
        assert turned is not None
        assert 0 < sign < 1 < turned
        assert USUAL.distance(cgemm(accuracy="normwise")) == sign
        assert USUAL.distance(ws.Fft(8)) is None

    def test_only_another_size_is_a_resized_one(self) -> None:
        assert USUAL.is_resized(Cgemm(1, 2, 3, 4))
        assert USUAL.is_resized(cgemm(accuracy="normwise"))  # what is accurate elementwise is so in norm
        assert not USUAL.is_resized(cgemm(a="t"))
        assert not cgemm(a="t").is_resized(cgemm(a="c"))
        assert not USUAL.is_resized(ws.Fft(8))


class TestRefusals:
    @pytest.mark.parametrize(
        ("fields", "says"),
        [
            ({"batch": 0}, "batch must be 1 to"),
            ({"m": -1}, "m must be 1 to 1073741823; got -1"),
            ({"n": 2.5}, "n must be 1 to"),
            ({"k": 2**30}, "k must be 1 to"),
            ({"accuracy": "imagewise"}, "unknown accuracy 'imagewise'; choose one of elementwise, rowwise, normwise"),
            ({"a": "h"}, "unknown op of a 'h'; choose one of n, t, c"),
            ({"b": None}, "unknown op of b None"),
            ({"m": 2**16, "k": 2**15}, r"a matrix of a has 2\^31 elements or more"),
            ({"n": 2**16, "m": 2**15}, r"a matrix of c has 2\^31 elements or more"),
            ({"batch": 2**20, "n": 2**12, "k": 2**6}, r"b has more than 2\^36 elements; split the batch"),
        ],
    )
    def test_are_one_line(self, fields: dict[str, Any], says: str) -> None:
        with pytest.raises(BadArgument, match=says) as caught:
            cgemm(**fields)
        assert "\n" not in str(caught.value)

    def test_not_of_more_than_2_to_31_elements_in_a_batch(self) -> None:
        assert Cgemm(8320, 512, 600, 3).output.size > 2**31
