"""The text of kernels: literals that read back, weights written in, names that templates are not given."""

from __future__ import annotations

import dataclasses
import importlib
import random
import re
import struct
from types import SimpleNamespace
from typing import Any

import jinja2
import numpy as np
import pytest

from warpsmith.generator.device import H200
from warpsmith.generator.families.filter2d_text import float_literal
from warpsmith.generator.family import Family
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.program import ByValue, Pointer
from warpsmith.generator.registry import FAMILIES
from warpsmith.generator.render import render
from warpsmith.generator.space import Config

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
class TestLiteralWeights:
    VALUES = (0.0, -1.5, 1e-45, 3.4028234663852886e38, 12345678.0, 1 / 3)
    PROBLEM = Filter2d(image=(20, 20), filter=(2, 3), weights=VALUES)

    def config(self, family: Family, choice: str) -> Config:
        return Config.of({**family.default(self.PROBLEM, H200).values(), "weights": choice})

    def test_stand_in_the_text_row_by_row_and_are_no_argument(self, family: Family) -> None:
        program = family.program(self.PROBLEM, self.config(family, "literal"))
        assert "{ 0.0f, -1.5f, 1.40129846e-45f }," in program.source
        assert "{ 3.40282347e+38f, 12345678.0f, 0.333333343f }," in program.source
        assert program.by_value == frozenset()
        assert "__grid_constant__" not in program.source

    def test_may_still_come_as_an_argument(self, family: Family) -> None:
        program = family.program(self.PROBLEM, self.config(family, "argument"))
        (launch,) = program.launches
        assert launch.arguments == (Pointer("image"), Pointer("result"), ByValue("weights"))
        assert "0.333333343f" not in program.source

    def test_are_the_default_where_they_are_known_and_no_choice_where_not(self, family: Family) -> None:
        unknown = dataclasses.replace(self.PROBLEM, weights=None)
        assert family.default(self.PROBLEM, H200).text("weights") == "literal"
        assert family.default(unknown, H200).text("weights") == "argument"
        assert not family.space(unknown, H200).contains(self.config(family, "literal"))


class TestTemplates:
    """A name that a template asks for and is not given is an error, never an empty string in a kernel."""

    PROBLEM = Filter2d(
        image=(40, 40), filter=(3, 3), border=Border.CONSTANT, weights=(1.0, 0.0, -1.0, 2.0, 0.0, -2.0, 1.0, 0.0, -1.0)
    )

    def given(self, family: Family, monkeypatch: pytest.MonkeyPatch) -> tuple[str, dict[str, Any]]:
        """The template of a family and the values that it gives to it."""
        calls: list[tuple[str, dict[str, Any]]] = []

        def spy(template: str, **values: Any) -> str:
            calls.append((template, values))
            return render(template, **values)

        monkeypatch.setattr(importlib.import_module(type(family).__module__), "render", spy)
        family.program(self.PROBLEM, family.default(self.PROBLEM, H200))
        (call,) = calls
        return call

    @every_filter2d_family
    def test_a_value_that_is_not_given(self, family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
        template, values = self.given(family, monkeypatch)
        for missing in values:
            with pytest.raises(jinja2.UndefinedError, match=f"'{missing}' is undefined"):
                render(template, **{name: value for name, value in values.items() if name != missing})

    @every_filter2d_family
    def test_a_field_that_is_not_there(self, family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
        template, values = self.given(family, monkeypatch)
        for name in (name for name, value in values.items() if dataclasses.is_dataclass(value)):
            fields = {field.name: getattr(values[name], field.name) for field in dataclasses.fields(values[name])}
            for missing in fields:
                rest = SimpleNamespace(**{field: value for field, value in fields.items() if field != missing})
                with pytest.raises(jinja2.UndefinedError, match=f"no attribute '{missing}'"):
                    render(template, **{**values, name: rest})

    def test_a_template_that_is_not_there(self) -> None:
        with pytest.raises(jinja2.TemplateNotFound):
            render("filter2d_imaginary.cu.jinja")
