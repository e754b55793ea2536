"""`warpsmith ... conv2d`: options that describe a problem, and options that do not."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from warpsmith.cli.benching import Subject
from warpsmith.cli.operations import conv2d_bench as bench
from warpsmith.cli.operations.conv2d import conv2d
from warpsmith.cli.options import join
from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.problem import DType, Problem

SHAPE = ("--input", "2,4,7,9", "--weight", "6,4,3,2")


def given(*options: str) -> Problem:
    """The problem that the options describe."""
    found: list[Problem] = []

    def verb(problem: Problem) -> None:
        found.append(problem)

    app = typer.Typer()
    app.command()(join(conv2d, verb))
    result = CliRunner().invoke(app, list(options))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return found[0]


def problem(**fields: Any) -> Conv2d:
    return Conv2d(**{"input": (2, 4, 7, 9), "weight": (6, 4, 3, 2), **fields})


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ((), {}),
        (("--stride", "2"), {"stride": 2}),
        (("--stride", "2,1"), {"stride": (2, 1)}),
        (("--padding", "1"), {"padding": 1}),
        (("--padding", "1, 0"), {"padding": (1, 0)}),
        (("--padding", "same"), {"padding": "same"}),
        (("--padding", "valid"), {}),
        (("--dilation", "1,3"), {"dilation": (1, 3)}),
        (("--groups", "2", "--weight", "6,2,3,2"), {"groups": 2, "weight": (6, 2, 3, 2)}),
        (("--pass", "wgrad"), {"pass_": Pass.WGRAD}),
        (("--precision", "ieee", "--layout", "nchw", "--dtype", "float32"), {}),
        (("--precision", "tf32", "--layout", "nhwc"), {"precision": "tf32", "layout": "nhwc"}),
        (("--precision", "bf16", "--dtype", "bfloat16"), {"precision": "bf16", "dtype": "bfloat16"}),
        (("--pass", "dgrad", "--bias"), {"pass_": Pass.DGRAD, "bias": True}),
        (("--bias", "--relu"), {"bias": True, "relu": True}),
        (("--accuracy", "elementwise"), {"accuracy": "elementwise"}),
        (("--nonfinite", "any"), {}),
        (("--nonfinite", "window"), {"nonfinite": "window"}),
        (("--workspace", "256M"), {"workspace": 2**28}),
        (("--workspace", "0"), {"workspace": 0}),
        (("--padding", "2,1", "--padding-mode", "reflect"), {"padding": (2, 1), "padding_mode": "reflect"}),
        (("--padding", "same", "--padding-mode", "replicate"), {"padding": "same", "padding_mode": "replicate"}),
    ],
)
def test_options_are_a_problem(options: tuple[str, ...], fields: dict[str, Any]) -> None:
    assert given(*SHAPE, *options) == problem(**fields)


def test_every_field_has_an_option() -> None:
    names = {"input_shape" if name == "input" else name for name in inspect.signature(Conv2d).parameters}
    assert set(inspect.signature(conv2d).parameters) == {*names, "transposed", "output_padding"}


def test_a_transposed_convolution_is_the_gradient_of_a_layer() -> None:
    shape = ("--input", "2,6,5,7", "--weight", "6,3,3,2", "--groups", "2", "--stride", "2", "--dilation", "1,2")
    options = ("--transposed", "--padding", "1", "--output-padding", "1,0", "--bias", "--dtype", "float16")
    options = (*options, "--nonfinite", "window")
    assert given(*shape, *options) == Conv2d.transposed(
        (2, 6, 5, 7), (6, 3, 3, 2), 2, 1, (1, 0), (1, 2), 2, bias=True, dtype=DType.FLOAT16, nonfinite="window"
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--input", "2x4x7x9"), r"--input must be N,C,H,W, such as 32,64,56,56; got '2x4x7x9'"),
        (("--input", "2,4,7"), "--input must be N,C,H,W"),
        (("--weight", "6,4,3,-2"), "--weight must be K,C/G,R,S, such as 64,64,3,3; got '6,4,3,-2'"),
        (("--stride", "2x1"), "--stride must be N or ROWS,COLUMNS; got '2x1'"),
        (("--stride", "0"), "stride must be a number from 1"),
        (("--padding", "full"), "--padding must be N or ROWS,COLUMNS, same or valid; got 'full'"),
        (("--dilation", "1,2,3"), "--dilation must be N or ROWS,COLUMNS; got '1,2,3'"),
        (("--pass", "forward"), "unknown pass 'forward'"),
        (("--precision", "tf32", "--dtype", "float16"), "precision tf32 is not for float16 data"),
        (("--dtype", "uint8"), "unknown dtype 'uint8'; choose one of float32, float16, bfloat16"),
        (("--pass", "wgrad", "--bias"), "pass wgrad has no bias"),
        (("--output-padding", "1"), "--output-padding is of a transposed convolution: add --transposed"),
        (("--transposed", "--pass", "wgrad"), "--transposed is a pass of its own: leave --pass out"),
        (("--transposed", "--padding-mode", "reflect"), "--transposed has no padding mode, as in PyTorch"),
        (
            ("--padding-mode", "torus"),
            "unknown padding_mode 'torus'; choose one of zeros, reflect, replicate, circular",
        ),
        (("--padding", "7", "--padding-mode", "reflect"), "padding_mode reflect makes at most 6 rows on each side"),
        (("--nonfinite", "all"), "unknown nonfinite 'all'"),
        (("--accuracy", "exact"), "unknown accuracy 'exact'"),
        (("--workspace", "1T"), "--workspace must be a number of bytes, such as 4096, 64K, 256M or 1G; got '1T'"),
    ],
)
def test_one_line_says_what_is_wrong(options: tuple[str, ...], says: str) -> None:
    with pytest.raises(BadArgument, match=says) as caught:
        given(*SHAPE, *options)
    assert "\n" not in str(caught.value)


class _Measured(Exception):
    """Raised in place of a measurement."""


def test_a_comparison_has_the_same_options_in_every_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bias and ReLU are the exceptions: only the forward pass has them."""
    found: list[Problem] = []

    def measure(subjects: list[Subject], *_: Any) -> None:
        found.extend(subject.problem for subject in subjects)
        raise _Measured

    monkeypatch.setattr(bench, "measure", measure)
    arithmetic: dict[str, Any] = {"precision": "bf16", "layout": "nhwc", "dtype": "bfloat16"}
    with pytest.raises(_Measured):
        bench.bench_conv2d("2,4,7,9", "6,4,3,2", bias=True, device="host", **arithmetic)
    assert found == [problem(pass_=pass_, bias=pass_ is Pass.FPROP, **arithmetic) for pass_ in Pass]
