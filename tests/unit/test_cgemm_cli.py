"""`warpsmith ... cgemm`: options that describe a problem, and options that do not."""

from __future__ import annotations

import inspect

import pytest
import typer
from typer.testing import CliRunner

from warpsmith.cli.operations.cgemm import cgemm
from warpsmith.cli.options import join
from warpsmith.errors import BadArgument
from warpsmith.generator.cgemm import Cgemm
from warpsmith.generator.problem import Problem

SHAPE = ("--batch", "5", "--m", "7", "--n", "9", "--k", "11")


def given(*options: str) -> Problem:
    """The problem that the options describe."""
    found: list[Problem] = []

    def verb(problem: Problem) -> None:
        found.append(problem)

    app = typer.Typer()
    app.command()(join(cgemm, verb))
    result = CliRunner().invoke(app, list(options))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return found[0]


@pytest.mark.parametrize(
    ("options", "ops"), [((), ("n", "n")), (("--a", "c"), ("c", "n")), (("--b", "c", "--a", "t"), ("t", "c"))]
)
def test_options_are_a_problem(options: tuple[str, ...], ops: tuple[str, str]) -> None:
    assert given(*SHAPE, *options) == Cgemm(5, 7, 9, 11, *ops)  # type: ignore[arg-type]


def test_an_accuracy_is_an_option() -> None:
    assert given(*SHAPE, "--accuracy", "normwise") == Cgemm(5, 7, 9, 11, accuracy="normwise")  # type: ignore[arg-type]


def test_every_field_has_an_option() -> None:
    assert set(inspect.signature(cgemm).parameters) == set(inspect.signature(Cgemm).parameters)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--k", "0"), "k must be 1 to"),
        (("--a", "h"), "unknown op of a 'h'"),
        (("--b", "N"), "unknown op of b 'N'"),
        (("--accuracy", "imagewise"), "unknown accuracy 'imagewise'"),
    ],
)
def test_one_line_says_what_is_wrong(options: tuple[str, ...], says: str) -> None:
    with pytest.raises(BadArgument, match=says) as caught:
        given(*SHAPE, *options)
    assert "\n" not in str(caught.value)
