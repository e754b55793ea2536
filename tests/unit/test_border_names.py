"""Names of borders and padding: one meaning each in all operations, but for `reflect`, whose first use warns."""

from __future__ import annotations

import copy
import dataclasses
import functools
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import warpsmith as ws
from warpsmith.errors import AmbiguousBorder, BadArgument
from warpsmith.generator import padding
from warpsmith.generator.fft.signals import Border as SignalBorder
from warpsmith.generator.padding import OUTSIDE, Outside

OF_NUMPY = {
    Outside.CONSTANT: "constant",
    Outside.NEAREST: "edge",
    Outside.SYMMETRIC: "symmetric",
    Outside.MIRROR: "reflect",
    Outside.WRAP: "wrap",
}
"""Mode of numpy.pad for each meaning."""


@pytest.fixture(autouse=True)
def no_warning_given() -> Iterator[None]:
    """Each test runs as a process that has given no warning."""
    padding._warning.cache_clear()
    yield
    padding._warning.cache_clear()


def filter2d(border: Any) -> ws.Filter2d:
    return ws.Filter2d((7, 9), (3, 3), border=border)


def conv2d(mode: Any) -> ws.Conv2d:
    return ws.Conv2d((1, 1, 7, 9), (1, 1, 3, 3), padding=1, padding_mode=mode)  # type: ignore[arg-type]


def fft(mode: Any) -> ws.Fft:
    return ws.Fft(8, valid=5, border=f"{mode}:1")  # type: ignore[arg-type]


def warned(make: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always")
        make()
    return [str(each.message) for each in issued if issubclass(each.category, AmbiguousBorder)]


def _read_back(problem: ws.Problem) -> None:
    assert type(problem).of(problem.spec()) == problem
    assert dataclasses.replace(problem) == problem
    assert pickle.loads(pickle.dumps(problem)) == problem
    assert copy.deepcopy(problem) == problem


@pytest.mark.parametrize(("name", "outside"), OUTSIDE.items())
class TestNames:
    def test_means_the_same_in_every_operation(self, name: str, outside: Outside) -> None:
        assert filter2d(name).border.outside is outside
        if outside is Outside.SYMMETRIC:
            return
        assert conv2d(name).padding_mode.outside is outside
        if outside is not Outside.CONSTANT:
            border = fft(name).border
            assert border is not None
            assert border.mode.outside is outside

    def test_plans_pad_as_numpy_does(self, name: str, outside: Outside) -> None:
        x = np.arange(63, dtype=np.float32).reshape(7, 9)
        taps = np.zeros((3, 3), np.float32)
        taps[0, 2] = 1
        padded = np.pad(x, 1, OF_NUMPY[outside])  # type: ignore[call-overload]
        expected = padded[:7, 2:11]
        np.testing.assert_array_equal(ws.plan(filter2d(name), "host")(x, taps), expected)
        if outside is not Outside.SYMMETRIC:
            found = ws.plan(conv2d(name), "host")(x[None, None], taps[None, None])
            np.testing.assert_array_equal(found[0, 0], expected)

    def test_warns_of_nothing(self, name: str, outside: Outside) -> None:
        assert warned(lambda: filter2d(name)) == []
        if outside not in (Outside.SYMMETRIC, Outside.CONSTANT):
            assert warned(lambda: fft(name)) == []


class TestRefused:
    @pytest.mark.parametrize("make", [conv2d, fft])
    @pytest.mark.parametrize("name", ["symmetric", "grid-mirror"])
    def test_padding_that_repeats_the_edge(self, make: Callable[[str], object], name: str) -> None:
        with pytest.raises(BadArgument, match=r"repeats the element at the edge \(b a \| a b\), which filter2d alone"):
            make(name)

    def test_zeros_with_another_value(self) -> None:
        with pytest.raises(BadArgument, match="border zeros has cval 0, got 2; choose border constant"):
            ws.Filter2d((7, 9), (3, 3), border="zeros", cval=2)  # type: ignore[arg-type]

    @pytest.mark.parametrize("name", ["zeros", "constant"])
    def test_a_border_of_zeros_of_a_transform(self, name: str) -> None:
        with pytest.raises(BadArgument, match=f"unknown border '{name}'; choose one of reflect"):
            fft(name)


class TestKeysStay:
    def test_with_any_name_of_the_same_border(self) -> None:
        assert filter2d("symmetric").key() == filter2d(ws.Border.SYMMETRIC).key() == filter2d("reflect").key()
        assert filter2d("reflect").key().endswith("border=reflect")
        assert conv2d("mirror").key() == conv2d(ws.PaddingMode.MIRROR).key() == conv2d("reflect").key()
        assert fft("mirror").key() == fft("reflect").key() == fft("reflect_101").key()

    def test_enums_list_each_border_once(self) -> None:
        assert list(ws.Border) == ["valid", "constant", "nearest", "reflect", "mirror", "wrap"]
        assert list(ws.PaddingMode) == ["zeros", "reflect", "replicate", "circular"]


class TestWarning:
    @pytest.mark.parametrize(
        ("make", "taken", "instead"),
        [
            (lambda: filter2d("reflect"), "repeats the pixel at the edge", "write 'symmetric' for this meaning"),
            (lambda: filter2d("Reflect"), "repeats the pixel at the edge", "'mirror' for the other"),
            (lambda: fft("reflect"), "leaves the element at the edge out", "write 'mirror' for this meaning"),
        ],
    )
    def test_the_text_warns_once(self, make: Callable[[], object], taken: str, instead: str) -> None:
        (text,) = warned(make)
        assert taken in text
        assert instead in text
        assert "\n" not in text
        assert warned(make) == []

    @pytest.mark.parametrize(
        "make",
        [
            lambda: ws.Filter2d((7, 9), (3, 3), border="reflect"),  # type: ignore[arg-type]
            lambda: ws.Fft(8, valid=5, border="reflect:1"),  # type: ignore[arg-type]
        ],
    )
    def test_names_the_callers_line(self, make: Callable[[], object]) -> None:
        with pytest.warns(AmbiguousBorder) as caught:
            make()
        assert [each.filename for each in caught] == [__file__]

    def test_each_meaning_warns(self) -> None:
        assert len(warned(lambda: (filter2d("reflect"), fft("reflect"), filter2d("reflect"), fft("reflect")))) == 2

    @pytest.mark.parametrize("name", ["BORDER_REFLECT", ws.Border.REFLECT, "symmetric", "mirror", "reflect101"])
    def test_unambiguous_names_do_not(self, name: str) -> None:
        assert warned(lambda: filter2d(name)) == []

    def test_pytorchs_own_argument_does_not(self) -> None:
        assert warned(lambda: conv2d("reflect")) == []

    def test_what_is_read_back_does_not(self) -> None:
        border = SignalBorder.of("reflect:1")
        transform = ws.Fft(8, valid=5, border=border)
        for problem in (filter2d(ws.Border.REFLECT), transform, conv2d("reflect")):
            assert warned(functools.partial(_read_back, problem)) == []

    def test_can_be_an_error(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(ws.AmbiguousBorder):
                filter2d("reflect")

    def test_the_command_prints_one_line(self) -> None:
        words = ["query", "filter2d", "--image", "8x8", "--filter", "3x3", "--border", "reflect", "--device", "host"]
        done = subprocess.run([sys.executable, "-m", "warpsmith", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 3
        first, second = done.stderr.splitlines()
        assert first.startswith("warning: border 'reflect' repeats the pixel at the edge here")
        assert second.startswith("warpsmith: error: nothing is stored")

    def test_default_filters_show_it(self) -> None:
        text = "import warpsmith as ws\nfor _ in 'ab': ws.Filter2d((8, 8), (3, 3), border='reflect')"
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
        assert done.stderr.count("AmbiguousBorder: border 'reflect' repeats") == 1
