"""The text of kernels: literals that read back, weights written in, names that templates are not given."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import random
import re
import struct
from collections.abc import Iterator
from typing import Any

import jinja2
import numpy as np
import pytest

from warpsmith.generator import registry
from warpsmith.generator.family import Family
from warpsmith.generator.fft import Fft
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.filter2d.operation import FILTER2D
from warpsmith.generator.gate import Gate
from warpsmith.generator.presets import H200
from warpsmith.generator.program import ByValue, Constant, Pointer, Program, Texture
from warpsmith.generator.render import float_literal, render
from warpsmith.generator.space import Config

FAMILIES = FILTER2D.families

every_filter2d_family = pytest.mark.parametrize(
    "family",
    [family for family in FAMILIES if family.why_not(Filter2d(image=(20, 20), filter=(2, 3)), H200) is None],
    ids=lambda family: family.name,
)


class TestFloatLiteral:
    @staticmethod
    def bits(value: float) -> bytes:
        return struct.pack("<f", value)

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (0.0, "0.0f"),
            (1.0, "1.0f"),
            (-2.0, "-2.0f"),
            (0.5, "0.5f"),
            (-0.375, "-0.375f"),
            (16777216.0, "16777216.0f"),
            (1e9, "1e+09f"),
        ],
    )
    def test_reads_well(self, value: float, text: str) -> None:
        assert float_literal(value) == text

    def test_reads_back_to_the_same_bits(self) -> None:
        rng = random.Random(0)
        patterns = [rng.getrandbits(32) for _ in range(4000)]
        extremes = [1, 2, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x80000001, 0xFF7FFFFF, 0x3F800001, 0x4B7FFFFF]
        for pattern in extremes + patterns:
            (value,) = struct.unpack("<f", struct.pack("<I", pattern))
            if not np.isfinite(value):
                continue
            text = float_literal(value)
            assert re.fullmatch(r"-?\d+(\.\d+)?(e[+-]\d+)?f", text)
            assert "." in text or "e" in text  # 12f is no literal in C++
            assert self.bits(float(np.float32(text.removesuffix("f")))) == self.bits(value)


@every_filter2d_family
class TestWeights:
    VALUES = (0.0, -1.5, 1e-45, 3.4028234663852886e38, 12345678.0, 1 / 3)
    PROBLEM = Filter2d(image=(20, 20), filter=(2, 3), weights=VALUES)
    ROWS = ("{ 0.0f, -1.5f, 1.40129846e-45f },", "{ 3.40282347e+38f, 12345678.0f, 0.333333343f },")

    def program(self, family: Family, problem: Filter2d, choice: str) -> Program:
        return family.program(problem, Config.of({**family.default(problem, H200).values(), "weights": choice}))

    def test_that_are_literals_stand_in_the_text_row_by_row_and_are_no_argument(self, family: Family) -> None:
        program = self.program(family, self.PROBLEM, "literal")
        assert re.search(r"\s*".join(map(re.escape, self.ROWS)), program.source)
        assert program.by_value == frozenset()
        assert "__grid_constant__" not in program.source

    def test_that_are_literals_are_turned_for_a_convolution(self, family: Family) -> None:
        program = self.program(family, dataclasses.replace(self.PROBLEM, convolve=True), "literal")
        turned = ("{ 0.333333343f, 12345678.0f, 3.40282347e+38f },", "{ 1.40129846e-45f, -1.5f, 0.0f },")
        assert re.search(r"\s*".join(map(re.escape, turned)), program.source)

    def test_that_are_literals_of_a_bank_stand_filter_by_filter(self, family: Family) -> None:
        bank = Filter2d(image=(20, 20), filter=(2, 3), filters=2, weights=(*self.VALUES, *self.VALUES[::-1]))
        reversed_rows = ("{ 0.333333343f, 12345678.0f, 3.40282347e+38f },", "{ 1.40129846e-45f, -1.5f, 0.0f },")
        filters = (r"\s*".join(map(re.escape, rows)) for rows in (self.ROWS, reversed_rows))
        assert re.search(r"\s*\},\s*\{\s*".join(filters), self.program(family, bank, "literal").source)

    def test_may_come_as_an_argument(self, family: Family) -> None:
        program = self.program(family, self.PROBLEM, "argument")
        (launch,) = program.launches
        assert launch.arguments == (Pointer("image"), Pointer("result"), ByValue("weights"))
        assert "const __grid_constant__ Weights weights)" in program.source
        assert "0.333333343f" not in program.source

    def test_may_lie_in_constant_memory(self, family: Family) -> None:
        program = self.program(family, self.PROBLEM, "constant")
        (launch,) = program.launches
        assert launch.arguments == (Pointer("image"), Pointer("result"))
        assert launch.constants == (Constant("weights", "weights"),)
        assert "__constant__ Weights weights;" in program.source
        assert "0.333333343f" not in program.source

    def test_that_are_known_are_literals_by_default_and_no_choice_where_not(self, family: Family) -> None:
        unknown = dataclasses.replace(self.PROBLEM, weights=None)
        assert family.default(self.PROBLEM, H200).text("weights") == "literal"
        assert family.default(unknown, H200).text("weights") == "argument"
        literal = Config.of({**family.default(unknown, H200).values(), "weights": "literal"})
        assert not family.space(unknown, H200).contains(literal)


class Lacking:
    """A value without one of its attributes."""

    def __init__(self, value: Any, missing: str) -> None:
        self._value, self._missing = value, missing

    def __getattr__(self, name: str) -> Any:
        if name == self._missing:
            raise AttributeError(name)
        return getattr(self._value, name)


@dataclasses.dataclass(frozen=True)
class Rendering:
    """One use of a template: its name and the values passed to it."""

    template: str
    values: dict[str, Any]

    def fields(self) -> Iterator[tuple[type, str]]:
        """Fields of values made for templates alone; a texture belongs to the launch."""
        for value in filter(dataclasses.is_dataclass, self.values.values()):
            if isinstance(value, Texture):
                continue
            yield from ((type(value), field.name) for field in dataclasses.fields(value))

    def needs(self, kind: type, missing: str) -> bool:
        """True if rendering fails once the value of this class lacks a field."""
        without = {name: Lacking(value, missing) for name, value in self.values.items() if type(value) is kind}
        return bool(without) and self._fails({**self.values, **without}, f"no attribute '{missing}'")

    def needs_value(self, missing: str) -> bool:
        """True if rendering fails without a value."""
        rest = {name: value for name, value in self.values.items() if name != missing}
        return self._fails(rest, f"'{missing}' is undefined")

    def _fails(self, values: dict[str, Any], message: str) -> bool:
        try:
            render(self.template, **values)
        except jinja2.UndefinedError as error:
            return message in str(error)
        return False


class TestTemplates:
    """A template fails on a name that it is not given, rather than write an empty string into a kernel, and no name is
    given that no template uses.
    """

    PROBLEMS = (
        Filter2d(image=(40, 40), filter=(3, 3), border=Border.CONSTANT, weights=(1, 0, -1, 2, 0, -2, 1, 0, -1)),
        Filter2d(image=(40, 64), filter=(3, 4), filters=5, planes=2, convolve=True),
        Filter2d(image=(40, 600), filter=(3, 3), dtype="float16"),
        Filter2d(image=(40, 200), filter=(3, 3), border=Border.REFLECT),
        Filter2d(image=(40, 40), filter=(3, 3), filters=19, channels=3, dtype="uint8", border=Border.WRAP, planes=2),
        Fft((12, 16), 5, valid=(9, 13), norm="ortho"),
        Fft((12, 16), 5, kind="c2r", valid=(9, 14), layout="frequency"),
        Fft(60, 9, kind="c2c", norm="forward"),
        Fft(64, 9, valid=51),
        Fft(64, 9, kind="c2r", valid=51, norm="ortho"),
        Fft((8, 16), 9, valid=(5, 9)),
        Fft((12, 16), 9, valid=(7, 10), border="reflect:2+1x3"),  # type: ignore[arg-type]
    )

    @pytest.fixture
    def renderings(self, monkeypatch: pytest.MonkeyPatch) -> list[Rendering]:
        """Texts of PROBLEMS by all families, with the default config and random ones."""
        calls: list[Rendering] = []

        def spy(template: str, **values: Any) -> str:
            calls.append(Rendering(template, values))
            return render(template, **values)

        rng = random.Random(0)
        for family, problem in itertools.product(registry.FAMILIES, self.PROBLEMS):
            if Gate(problem, H200).why_unable(family) is not None:
                continue
            monkeypatch.setattr(importlib.import_module(type(family).__module__), "render", spy)
            space = family.space(problem, H200)
            for config in (family.default(problem, H200), *(space.drawn(rng) for _ in range(12))):
                assert config is not None
                family.program(problem, config)
        return calls

    def test_every_value_is_asked_for(self, renderings: list[Rendering]) -> None:
        given = {(each.template, name) for each in renderings for name in each.values}
        asked = {
            (template, name)
            for template, name in given
            if any(each.needs_value(name) for each in renderings if each.template == template)
        }
        assert given - asked == set()

    def test_every_field_is_asked_for(self, renderings: list[Rendering]) -> None:
        given = {field for each in renderings for field in each.fields()}
        assert len(given) > 20
        asked = {(kind, name) for kind, name in given if any(each.needs(kind, name) for each in renderings)}
        assert {f"{kind.__module__} {name}" for kind, name in given - asked} == set()

    def test_a_template_that_is_not_there(self) -> None:
        with pytest.raises(jinja2.TemplateNotFound):
            render("filter2d_imaginary.cu.jinja")
