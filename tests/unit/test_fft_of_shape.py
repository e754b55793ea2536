"""Fourier transforms from the arguments of numpy.fft and torch.fft: the shape of an array, `s`, `axes` and `norm`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from warpsmith.errors import BadArgument
from warpsmith.generator.fft import Fft, Kind, Norm

CASES: tuple[tuple[tuple[int, ...], str, dict[str, Any], Fft], ...] = (
    ((10, 3, 64), "r2c", {}, Fft((64,), 30)),
    ((64,), "r2c", {"norm": "ortho"}, Fft((64,), 1, norm=Norm.ORTHO)),
    ((10, 3, 27, 30), "r2c", {"s": (32, 32)}, Fft((32, 32), 30, valid=(27, 30))),
    ((10, 3, 27, 30), "r2c", {"s": 32}, Fft((32,), 810, valid=(30,))),
    ((10, 27, 30), "c2c", {"axes": (-2, -1)}, Fft((27, 30), 10, Kind.C2C)),
    ((10, 27, 30), "c2c", {"axes": (1, 2), "inverse": True}, Fft((27, 30), 10, Kind.C2C, True)),
    ((27, 30), "c2c", {"axes": -1, "s": [45]}, Fft((45,), 27, Kind.C2C, valid=(30,))),
    ((10, 17), "c2r", {}, Fft((32,), 10, Kind.C2R)),
    ((10, 17), "c2r", {"s": 33}, Fft((33,), 10, Kind.C2R)),
    ((10, 8, 17), "c2r", {"axes": (-2, -1), "norm": "forward"}, Fft((8, 32), 10, Kind.C2R, norm=Norm.FORWARD)),
)


@pytest.mark.parametrize(("shape", "kind", "words", "problem"), CASES)
def test_is_the_problem(shape: tuple[int, ...], kind: str, words: dict[str, Any], problem: Fft) -> None:
    made = Fft.of_shape(shape, kind, **words)
    assert made == problem
    assert made.inputs[0].size == np.prod(shape)


@pytest.mark.parametrize(("shape", "kind", "words", "problem"), CASES)
def test_results_have_numpys_shape(shape: tuple[int, ...], kind: str, words: dict[str, Any], problem: Fft) -> None:
    """The result has the batch axes first, separate again, and then the transformed axes."""
    name = {("r2c", False): "rfftn", ("c2r", True): "irfftn", ("c2c", False): "fftn", ("c2c", True): "ifftn"}[
        kind, problem.inverse is True
    ]
    axes, s = words.get("axes", tuple(range(-len(problem.size), 0))), words.get("s")
    result = getattr(np.fft, name)(
        np.ones(shape), None if s is None else np.atleast_1d(s), np.atleast_1d(axes), words.get("norm")
    )
    batch = shape[: len(shape) - len(problem.size)]
    assert (*batch, *problem.output.shape[1:]) == result.shape


@pytest.mark.parametrize(
    ("shape", "words", "why"),
    [
        (
            (4, 8, 16),
            {"axes": (0, 1)},
            "axes must be the last one or two of the array's 3 dimensions, in order; got 0, 1",
        ),
        ((4, 8, 16), {"axes": (-1, -2)}, "axes must be the last one or two"),
        ((4, 8, 16), {"axes": (0, 1, 2)}, "axes must be the last one or two"),
        ((4, 8, 16), {"axes": ()}, "axes must be the last one or two"),
        ((16,), {"s": (8, 16)}, "axes must be the last one or two of the array's 1 dimensions"),
        ((4, 8, 16), {"axes": (-2, -1), "s": 32}, "s has 1 numbers for 2 axes"),
        ((4, 8, 16), {"s": 12}, "s=12 would crop the array's 16: slice it first"),
        ((4, 8, 16), {"s": (8, 16, 4)}, "s must be one or two positive sizes"),
        ((4, 8, 16), {"norm": "none"}, "unknown norm 'none'"),
        ((4, 8, 16), {"kind": "r2r"}, "unknown kind 'r2r'"),
        (
            (4, 17),
            {"kind": "c2r", "s": 40},
            "the inverse transform to 40 points takes 21 frequencies; the array has 17",
        ),
        ((4, 16), {"kind": "c2c", "inverse": True, "s": 8}, "takes 8 frequencies; the array has 16"),
        ((4, 1), {"kind": "c2r"}, "size must be one or two positive sizes"),
    ],
)
def test_refusals(shape: tuple[int, ...], words: dict[str, Any], why: str) -> None:
    with pytest.raises(BadArgument, match=why) as caught:
        Fft.of_shape(shape, **words)
    assert "\n" not in str(caught.value)
