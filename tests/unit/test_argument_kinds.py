"""Arguments of a wrong kind, from Python and from JSON: one line that says what is allowed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpsmith as ws
from warpsmith.cli.app import run
from warpsmith.errors import BadArgument
from warpsmith.generator.fft.product import Product
from warpsmith.generator.problem import Problem

FILTER = ws.Filter2d(image=(16, 16), filter=(3, 3))
LAYER = ws.Conv2d(input=(1, 2, 8, 8), weight=(2, 2, 3, 3))
FFT = ws.Fft(size=16)
SPECS: dict[str, dict[str, Any]] = {
    "filter2d": {"image": [16, 16], "filter": [3, 3]},
    "conv2d": {"input": [1, 2, 8, 8], "weight": [2, 2, 3, 3]},
    "fft": {"size": [16, 16]},
    "cgemm": {"batch": 2, "m": 3, "n": 4, "k": 5},
    "filter1d": {"signal": 16, "taps": 9},
}
NUMBERS = [
    *[("filter2d", name) for name in ("image", "filter", "planes", "channels", "filters", "pitch", "result_pitch")],
    *[("filter2d", name) for name in ("anchor", "cval", "weights")],
    *[("conv2d", name) for name in ("input", "weight", "stride", "padding", "dilation", "groups", "workspace")],
    *[("fft", name) for name in ("size", "batch", "valid", "start")],
    *[("cgemm", name) for name in ("batch", "m", "n", "k")],
    *[("filter1d", name) for name in ("signal", "taps", "batch", "channels", "filters", "lags", "down", "weights")],
    *[("filter1d", name) for name in ("pitch", "result_pitch")],
]
LENGTHS = {"input": 4, "weight": 4, "weights": 9}


@pytest.mark.parametrize(("operation", "name"), NUMBERS)
def test_a_boolean_is_no_number(operation: str, name: str) -> None:
    several = [True] * LENGTHS.get(name, 2)
    usual = {"border": "constant"} if operation == "filter2d" else {}
    for value in (True, several):
        with pytest.raises(BadArgument, match=re.escape("True") if name != "weights" else "weights"):
            Problem.from_spec(operation, {**SPECS[operation], **usual, name: value})


def test_numbers_may_be_an_array() -> None:
    given = {"stride": np.array([1, 2]), "padding": np.array([[1, 2], [0, 1]]), "dilation": np.array([2, 1])}
    layer = ws.Conv2d(input=np.array([1, 2, 8, 8]), weight=np.array([2, 2, 3, 3]), **given)  # type: ignore[arg-type]
    usual = {"stride": (1, 2), "padding": ((1, 2), (0, 1)), "dilation": (2, 1)}
    assert layer == ws.Conv2d((1, 2, 8, 8), (2, 2, 3, 3), **usual)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda value: ws.Conv2d(input=(1, 2, 8, 8), weight=(2, 2, 3, 3), padding=value),
        lambda value: ws.Conv2d(input=(1, 2, 8, 8), weight=(2, 2, 3, 3), layout=value),
        lambda value: ws.Filter2d(image=value, filter=(3, 3)),
        lambda value: ws.Fft(size=16, batch=value),
    ],
)
def test_of_an_array_is_told_in_one_line(make: Any) -> None:
    with pytest.raises(BadArgument, match=r"array\(\[\[\[0\.5, 0\.5\], \[0\.5, 0\.5\]\], \[\[") as refused:
        make(np.full((2, 2, 2), 0.5))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda value: ws.Conv2d(input=(1, 2, 8, 8), weight=(2, 2, 3, 3), bias=value), "bias"),
        (lambda value: ws.Conv2d(input=(1, 2, 8, 8), weight=(2, 2, 3, 3), relu=value), "relu"),
        (lambda value: ws.Filter2d(image=(16, 16), filter=(3, 3), convolve=value), "convolve"),
        (lambda value: ws.Filter1d(signal=16, taps=3, convolve=value), "convolve"),
        (lambda value: ws.Filter1d(signal=16, taps=3, bias=value), "bias"),
        (lambda value: ws.Fft(size=16, kind="c2c", inverse=value), "inverse"),
        (lambda value: ws.Fft(size=16, kind="c2r", inverse=value), "inverse"),
        (lambda value: Product(1, 2, 3, offset=value), "offset of a product"),
        (lambda value: ws.training_step(LAYER, "host", reuse=value), "reuse"),
    ],
)
@pytest.mark.parametrize("value", ["no", "False", "", 2, 0.5, [False], np.ones(2)])
def test_a_flag_is_true_or_false(make: Any, name: str, value: Any) -> None:
    with pytest.raises(BadArgument, match=re.escape(f"{name} must be True or False; got {value!r}")):
        make(value)


@pytest.mark.parametrize("value", [True, 1, np.True_, np.int64(1)])
def test_what_stands_for_true_is_taken(value: Any) -> None:
    assert ws.Conv2d(input=(1, 2, 8, 8), weight=(2, 2, 3, 3), bias=value).bias is True


def test_numpys_integers_are_numbers() -> None:
    assert ws.Filter2d(image=(np.int64(16), np.int32(16)), filter=np.array([3, 3])) == FILTER  # type: ignore[arg-type]


@pytest.mark.parametrize("operation", SPECS)
class TestNamesOfFields:
    def test_a_misspelt_one_names_those_that_there_are(self, operation: str) -> None:
        with pytest.raises(BadArgument, match=f"{operation} has no field 'imag'; its fields are ") as caught:
            Problem.from_spec(operation, {**SPECS[operation], "imag": 1})
        assert all(name in str(caught.value) for name in SPECS[operation])

    def test_a_missing_one_is_named(self, operation: str) -> None:
        name, *_ = SPECS[operation]
        fields = {each: value for each, value in SPECS[operation].items() if each != name}
        with pytest.raises(BadArgument, match=f"{operation} needs the field {name}"):
            Problem.from_spec(operation, fields)

    def test_of_a_list_of_problems_too(
        self, operation: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "a.json"
        path.write_text(json.dumps([{"operation": operation, **SPECS[operation], "imag": 1}]))
        assert run(["tune", "--from", str(path), "--time-limit", "1s"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"problem 1: {operation} has no field 'imag'; its fields are" in line


NESTED = {
    "lists": "[" * 100_000,
    "closed lists": "[" * 100_000 + "]" * 100_000,
    "objects": '{"a":' * 100_000,
    "a field": '[{"operation": "filter2d", "image": [4, 4], "weights": ' + "[" * 900 + "]" * 900 + "}]",
}


@pytest.mark.parametrize("text", NESTED.values(), ids=NESTED)
def test_a_list_of_problems_may_be_nested_deeply(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    assert run(["tune", "--from", str(path), "--time-limit", "1s"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warpsmith: error: {path}")


NONE = r"a problem must be one of .*Conv2d.*Filter2d.*; got "


class TestApi:
    @pytest.mark.parametrize("value", ["filter2d", None, 3, [1], {"image": (3, 3)}, ws.Filter2d, FILTER.spec()])
    def test_what_is_no_problem(self, value: Any, tmp_path: Path) -> None:
        for call in (ws.plan, ws.query, ws.tune):
            with pytest.raises(BadArgument, match=NONE):
                call(value, "host")
        with pytest.raises(BadArgument, match=NONE):
            ws.export([value], tmp_path / "b")

    @pytest.mark.parametrize("value", [FFT, FILTER, "conv2d", None])
    def test_what_is_no_layer(self, value: Any) -> None:
        with pytest.raises(BadArgument, match="a training step is of the forward pass of a Conv2d; got "):
            ws.training_step(value, "host")

    @pytest.mark.parametrize(
        ("options", "told"),
        [
            ({"trials": "5"}, "trials must be 1 or more; got '5'"),
            ({"trials": 2.5}, "trials must be 1 or more; got 2.5"),
            ({"trials": True}, "trials must be 1 or more; got True"),
            ({"trials": None}, "trials must be 1 or more; got None"),
            ({"time_limit": "60s"}, "a time limit must be above 0 seconds; got '60s'"),
            ({"time_limit": True}, "a time limit must be above 0 seconds; got True"),
            ({"seed": "1"}, "a seed must be 0 to 4294967295; got '1'"),
            ({"seed": 1.5}, "a seed must be 0 to 4294967295; got 1.5"),
            ({"sampler": 3}, "unknown sampler 3; choose one of"),
            ({"method": 3}, "a method must be 'auto' or the name of a kernel family, as text; got 3"),
            ({"store": Path("a.db")}, "a store is named by the path or the URL as text; got PosixPath('a.db')"),
            ({"device": 0}, "unknown device 0; choose auto, host, cuda or cuda:I"),
        ],
    )
    def test_options_of_a_search(self, options: dict[str, Any], told: str) -> None:
        with pytest.raises(BadArgument, match=re.escape(told)):
            ws.tune(FILTER, **{"device": "host", **options})

    @pytest.mark.parametrize("call", [ws.plan, ws.query])
    @pytest.mark.parametrize(
        ("options", "told"),
        [
            ({"method": 3}, "a method must be 'auto' or the name of a kernel family, as text; got 3"),
            ({"method": ["auto"]}, "a method must be 'auto' or the name of a kernel family, as text; got ['auto']"),
            ({"store": Path("a.db")}, "a store is named by the path or the URL as text; got PosixPath('a.db')"),
            ({"device": 0}, "unknown device 0; choose auto, host, cuda or cuda:I"),
            ({"device": None}, "unknown device None; choose auto, host, cuda or cuda:I"),
        ],
    )
    def test_options_of_a_look_up(self, call: Any, options: dict[str, Any], told: str) -> None:
        with pytest.raises(BadArgument, match=re.escape(told)):
            call(FILTER, **{"device": "host", **options})

    def test_options_of_an_export(self, tmp_path: Path) -> None:
        for problems in (FILTER, "filter2d", 3):
            with pytest.raises(BadArgument, match="export takes problems as a list"):
                ws.export(problems, tmp_path / "b")  # type: ignore[arg-type]
        with pytest.raises(BadArgument, match=r"archs must be names of architectures, .*; got 'sm_90'"):
            ws.export(None, tmp_path / "b", archs="sm_90")  # type: ignore[arg-type]
        for folder in (None, 3, "a\0b"):
            with pytest.raises(BadArgument, match="a bundle's folder is named by its path; got "):
                ws.export(None, folder)  # type: ignore[arg-type]
            with pytest.raises(BadArgument, match="a bundle's folder is named by its path; got "):
                ws.load_bundle(folder)  # type: ignore[arg-type]
