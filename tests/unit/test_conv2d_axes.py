"""Source rows that the taps of a result row read, compared with the definition of the layer."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray

from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.layer.axes import LayerAxis, axes_of
from warpsmith.generator.conv2d.products.split16.split16_lattice import Lattice, LatticeLine


def layers(pass_: Pass) -> list[Conv2d]:
    """Layers with all kinds of rows. Columns use the same arithmetic, so here they merely have other sizes."""
    found = []
    for size, taps, stride, dilation, pads in itertools.product(
        (1, 5, 8, 13), (1, 2, 3, 5), (1, 2, 3, 4), (1, 2, 3), ((0, 0), (1, 1), (2, 0), (0, 3), (9, 9))
    ):
        try:
            found.append(
                Conv2d(
                    (1, 1, size, size + 2),
                    (1, 1, taps, 2),
                    stride=(stride, 2),
                    dilation=(dilation, 1),
                    padding=(pads, (1, 0)),
                    pass_=pass_,
                )
            )
        except BadArgument:
            continue
    return found


def terms(problem: Conv2d, axis: int) -> Counter[tuple[int, int, int]]:
    """Result, filter and source row of every product, except products with zero padding."""
    size, out = problem.input[2 + axis], problem.output_size[axis]
    found: Counter[tuple[int, int, int]] = Counter()
    for p, r in itertools.product(range(out), range(problem.weight[2 + axis])):
        row = p * problem.stride[axis] + r * problem.dilation[axis] - problem.padding[axis][0]
        if 0 <= row < size:
            found[(p, r, row) if problem.pass_ is Pass.FPROP else (row, r, p)] += 1
    return found


def summed(axis: LayerAxis) -> Counter[tuple[int, int, int]]:
    """Products computed from an axis's phases and taps, in the same form."""
    found: Counter[tuple[int, int, int]] = Counter()
    for phase, taps in enumerate(axis.phases):
        for i, t in itertools.product(range(axis.steps), range(taps.count)):
            result, source = i * len(axis.phases) + phase, i * axis.multiple + taps.low + t * taps.spread
            if result < axis.results and 0 <= source < axis.sources:
                found[result, taps.first + t * taps.step, source] += 1
    return found


@pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])
def test_every_product_is_there_once_and_no_other(pass_: Pass) -> None:
    problems = layers(pass_)
    assert len(problems) > 500
    for problem in problems:
        for number, axis in enumerate(axes_of(problem)):
            assert summed(axis) == terms(problem, number), problem.key()


@pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])
@pytest.mark.parametrize("own", [1, 2, 4])
def test_what_is_not_checked_lies_inside(pass_: Pass, own: int) -> None:
    """Windows have as many rows as the longest of a phase's, and a tile holds as many."""
    answers = set()
    for problem in layers(pass_):
        for axis in axes_of(problem):
            last = -(-axis.steps // own) * own - own  # the first row of the last thread
            reads = [
                first * axis.multiple + taps.low + row
                for taps in axis.phases
                for first in (0, last)
                for row in range(axis.window(own))
            ]
            answers.add(axis.reaches_outside(own))
            if not axis.reaches_outside(own):
                assert min(reads) >= 0, problem.key()
                assert max(reads) < axis.sources, problem.key()
    assert answers == {True, False}


def test_of_a_strided_gradient_no_tap_is_in_two_phases() -> None:
    rows, columns = axes_of(Conv2d((1, 1, 31, 31), (1, 1, 11, 11), stride=4, padding=2, pass_=Pass.DGRAD))  # type: ignore[arg-type]
    assert [taps.count for taps in rows.phases] == [3, 2, 3, 3]
    assert rows == columns
    assert rows.most_taps == 3


def test_a_phase_may_have_no_tap() -> None:
    """A filter of one tap with stride 2 leaves every other row of the gradient zero."""
    rows, _ = axes_of(Conv2d((1, 1, 9, 9), (1, 1, 1, 1), stride=2, pass_=Pass.DGRAD))  # type: ignore[arg-type]
    assert [(taps.count, taps.span) for taps in rows.phases] == [(1, 1), (0, 0)]


def test_the_gradient_of_weights_has_no_such_axes() -> None:
    with pytest.raises(ValueError, match="pass wgrad"):
        axes_of(Conv2d((1, 1, 9, 9), (1, 1, 1, 1), pass_=Pass.WGRAD))


def on_lattice(source: NDArray[np.float64], lattice: Lattice) -> NDArray[np.float64]:
    """The planes of one channel of images with any number of axes, by the rule that each line states."""
    found = np.zeros((lattice.planes, lattice.positions + lattice.reach))
    for image, *pixel in np.ndindex(source.shape):
        plane, position, is_read = 0, image, True
        for index, line in zip(pixel, lattice.lines, strict=True):
            place, remainder = index // line.multiple + line.before, index % line.multiple
            if remainder not in line.planes or not 0 <= place < line.pitch:
                is_read = False
                break
            plane = plane * len(line.planes) + line.planes.index(remainder)
            position = position * line.pitch + place
        if is_read:
            found[plane, position] = source[(image, *pixel)]
    return found


@pytest.mark.parametrize("chosen", [(0,), (1, 0), (0, 1, 0)], ids=["one line", "two lines", "three lines"])
@pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])
def test_a_tap_is_a_shift_on_a_lattice_of_any_number_of_lines(pass_: Pass, chosen: tuple[int, ...]) -> None:
    problem = Conv2d((2, 1, 6, 5), (1, 1, 3, 2), stride=2, padding=((1, 1), (0, 1)), pass_=pass_)
    axes = [axes_of(problem)[each] for each in chosen]
    taps = tuple(problem.weight[2 + each] for each in chosen)
    lattice = Lattice(2, tuple(map(LatticeLine.of, axes)), taps)
    generator = np.random.default_rng(3)
    source = generator.standard_normal((2, *(axis.sources for axis in axes)))
    weights = generator.standard_normal(taps)
    expected = np.zeros((2, *(axis.results for axis in axes)))
    for products in itertools.product(*(summed(axis) for axis in axes)):
        result, tap, read = zip(*products, strict=True)
        expected[(slice(None), *result)] += weights[tap] * source[(slice(None), *read)]
    found, planes = np.full_like(expected, np.nan), on_lattice(source, lattice)
    phases = [range(len(line.phases)) for line in lattice.lines]
    for first, taps_of_phase in zip(itertools.product(*phases), lattice.phases, strict=True):
        sums = np.zeros(lattice.positions)
        for tap in taps_of_phase:
            sums += weights.flat[tap.weight] * planes[tap.plane, tap.shift :][: lattice.positions]
        images = sums.reshape(2, *(line.pitch for line in lattice.lines))
        target = found[(slice(None), *(slice(at, None, len(each)) for at, each in zip(first, phases, strict=True)))]
        target[...] = images[tuple(map(slice, target.shape))]
    np.testing.assert_allclose(found, expected, atol=1e-12)
