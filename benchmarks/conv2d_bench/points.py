"""The layers and the grid of fbfft's tables and figures, as problems.

Source: Vasilache et al. 2014, "Fast Convolutional Nets With fbfft", tables 2 to 5 and section 5.4.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import math
import random
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.presets import H200

T = TypeVar("T")

# The paper's times mean 64 filters for L2 in its table 5 and 128 in table 4. The latter is L2b here.
LAYERS = {
    "L1": (128, 3, 128, 128, 96, 11, 11, 1, 0, 1, 1),
    "L2": (128, 64, 64, 64, 64, 9, 9, 1, 0, 1, 1),
    "L2b": (128, 64, 64, 64, 128, 9, 9, 1, 0, 1, 1),
    "L3": (128, 128, 32, 32, 128, 9, 9, 1, 0, 1, 1),
    "L4": (128, 128, 16, 16, 128, 7, 7, 1, 0, 1, 1),
    "L5": (128, 384, 13, 13, 384, 3, 3, 1, 0, 1, 1),
    "alexnet1": (128, 3, 224, 224, 64, 11, 11, 4, 2, 1, 1),
    "alexnet2": (128, 64, 27, 27, 192, 5, 5, 1, 2, 1, 1),
    "alexnet3": (128, 192, 13, 13, 384, 3, 3, 1, 1, 1, 1),
    "alexnet4": (128, 384, 13, 13, 256, 3, 3, 1, 1, 1, 1),
    "alexnet5": (128, 256, 13, 13, 256, 3, 3, 1, 1, 1, 1),
    "overfeat1": (128, 3, 231, 231, 96, 11, 11, 4, 0, 1, 1),
    "overfeat2": (128, 96, 24, 24, 256, 5, 5, 1, 0, 1, 1),
    "overfeat3": (128, 256, 12, 12, 512, 3, 3, 1, 1, 1, 1),
    "overfeat4": (128, 512, 12, 12, 1024, 3, 3, 1, 1, 1, 1),
    "overfeat5": (128, 1024, 12, 12, 1024, 3, 3, 1, 1, 1, 1),
    "resnet64": (32, 64, 56, 56, 64, 3, 3, 1, 1, 1, 1),
    "resnet128": (32, 128, 28, 28, 128, 3, 3, 1, 1, 1, 1),
    "resnet256": (32, 256, 14, 14, 256, 3, 3, 1, 1, 1, 1),
    "resnet128s2": (32, 128, 56, 56, 128, 3, 3, 2, 1, 1, 1),
    "depthwise7": (32, 192, 28, 28, 192, 7, 7, 1, 3, 1, 192),
    "depthwise31": (16, 128, 56, 56, 128, 31, 31, 1, 15, 1, 128),
    "dilated": (16, 256, 65, 65, 256, 3, 3, 1, 2, 2, 1),
    "stem": (32, 3, 224, 224, 64, 7, 7, 2, 3, 1, 1),
    "latency": (1, 64, 64, 64, 64, 5, 5, 1, 2, 1, 1),
}
"""Each tuple has N, C, H, W, K, R, S, stride, padding, dilation, groups."""
LISTS = {
    "table4": ("L1", "L2", "L2b", "L3", "L4", "L5"),
    "alexnet": tuple(f"alexnet{number}" for number in range(2, 6)),
    "overfeat": tuple(f"overfeat{number}" for number in range(2, 6)),
    "strided": ("alexnet1", "overfeat1"),
    "resnet": ("resnet64", "resnet128", "resnet256", "resnet128s2"),
    "depthwise": ("depthwise7", "depthwise31"),
    "current": (
        *("resnet64", "resnet128", "resnet256", "resnet128s2"),
        *("depthwise7", "depthwise31", "dilated", "stem", "latency"),
    ),
}

BATCHES = (1, 16, 64, 128)
PLANES = (1, 4, 16, 64, 96, 128, 256)
"""Numbers of planes of the input, and of the output."""
TAPS = (3, 5, 7, 9, 11, 13)
OUTPUTS = (1, 2, 4, 8, 16, 32, 64)
"""Rows and columns of a result."""
PEAK_FLOPS = 2.0 * 128 * H200.multiprocessors * H200.clock_mhz * 1e6
"""FLOP/s of an H200's float32 units at their highest clock: 66.9 T."""
LEAST_S = 30e-6
"""Seconds of direct work at that rate. A smaller problem measures launch overhead more than computation."""
MOST_BYTES = 384 << 20
"""Bytes of all operands of a sampled problem, at most."""
SMALL_SIZES, SMALL_PLANES, SMALL_TAPS = (13, 16, 27, 32, 57, 64), (16, 32, 64, 128), 3
"""Section 5.4: input rows and columns; S = f = f'; rows and columns of the filter."""


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """A problem and its name in a row."""

    name: str
    problem: Conv2d

    @property
    def axes(self) -> dict[str, int]:
        """S, f, f', k and y in the paper's letters: batch, planes of input and output, filter rows, output rows."""
        problem = self.problem
        (batch, planes, _, _), (filters, _, rows, _) = problem.input, problem.weight
        return {"S": batch, "f": planes, "f'": filters, "k": rows, "y": problem.output_size[0]}

    @property
    def direct_s(self) -> float:
        """Seconds of the direct sums over taps at PEAK_FLOPS."""
        return self.problem.flops / PEAK_FLOPS


def paper_reductions(problem: Conv2d) -> int:
    """Multiply-adds in the paper's metric, S f f' k k h w, with the input's rows and columns.

    The paper's table 4 divides these by a time, although its text uses the output's rows and columns. The true count
    for `valid` is `flops` / 2, which is smaller by a factor of 1.18 (L1) to 2.56 (L4).
    """
    batch, planes, rows, columns = problem.input
    return batch * planes * problem.weight[0] * math.prod(problem.weight[2:]) * rows * columns


def is_layers(word: str) -> bool:
    """True if `layers` knows the name before the colon, whatever its pass."""
    return word.partition(":")[0] in {*LAYERS, *LISTS}


def layers(words: Iterable[str]) -> Iterator[Point]:
    """Layers of LAYERS and LISTS, each with the pass after a colon or with all three. Raises BadArgument for others."""
    for word in words:
        name, _, wanted = word.partition(":")
        if not is_layers(word):
            raise BadArgument(f"{word} is no layer: there are {', '.join((*LAYERS, *LISTS))}")
        if wanted and wanted not in list(Pass):
            raise BadArgument(f"{word}: {wanted} is no pass: there are {', '.join(Pass)}")
        for layer in LISTS.get(name, (name,)):
            n, c, rows, columns, k, r, s, stride, padding, dilation, groups = LAYERS[layer]
            shape: dict[str, Any] = {"input": (n, c, rows, columns), "weight": (k, c // groups, r, s)}
            steps: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation}
            for pass_ in (Pass(wanted),) if wanted else Pass:
                yield Point(f"{layer} {pass_}", Conv2d(**shape, **steps, groups=groups, pass_=pass_))


def taken(points: Iterable[T]) -> list[T]:
    """All points as a list; an unknown word ends the process with one line and exit code 2, as a wrong option does."""
    try:
        return list(points)
    except BadArgument as error:
        print(error, file=sys.stderr)
        sys.exit(2)


def small_filters(seed: int = 0) -> list[Point]:
    """Layers of section 5.4: 3x3 filters on six image sizes with four numbers of planes, in all passes.

    The order is random, from `seed`, but any prefix is balanced over the passes and samples the sizes: each combination
    of sizes comes once, then once more in another pass, and so on.
    """
    places, passes = list(itertools.product(SMALL_SIZES, SMALL_PLANES)), list(Pass)
    random.Random(f"{seed} small").shuffle(places)
    return [
        Point(f"x={size} p={planes} {pass_}", _square((planes,) * 3 + (SMALL_TAPS, size - SMALL_TAPS + 1), pass_))
        for turn in range(len(passes))
        for number, (size, planes) in enumerate(places)
        for pass_ in [passes[(number + turn) % len(passes)]]
    ]


def grid() -> list[tuple[int, int, int, int, int]]:
    """S, f, f', k and y of table 2's 8,232 points."""
    return list(itertools.product(BATCHES, PLANES, PLANES, TAPS, OUTPUTS))


def has_work(place: tuple[int, int, int, int, int], peak: float = PEAK_FLOPS) -> bool:
    """True if the direct sums of a grid point take more than LEAST_S at `peak` FLOP/s."""
    batch, planes, filters, taps, output = place
    return 2 * batch * planes * filters * (taps * output) ** 2 / peak > LEAST_S


def sample(seed: int, each: int = 34, all_passes: int = 0, most_bytes: int = MOST_BYTES) -> list[Point]:
    """Grid points with enough work that fit in memory, equally many for each k, in an order whose prefixes are balanced
    too.

    Args:
        seed: random seed.
        each: points for each k, or all if there are fewer.
        all_passes: number of points, from the first on, that are taken in all three passes. The others get one random
            pass each, with equal frequencies.
        most_bytes: bytes of a point's operands, at most.
    """
    rounds: dict[int, list[Point]] = collections.defaultdict(list)
    for taps in TAPS:
        drawn = random.Random(f"{seed} {taps}")
        places = [place for place in grid() if place[3] == taps and has_work(place)]
        fitting = [place for place in places if _square(place, Pass.FPROP).bytes <= most_bytes]
        drawn.shuffle(fitting)
        passes = list(Pass)
        for number, place in enumerate(fitting[:each]):
            if number % len(passes) == 0:
                drawn.shuffle(passes)
            wanted = list(Pass) if number < all_passes else [passes[number % len(passes)]]
            rounds[number] += [_grid_point(place, pass_) for pass_ in wanted]
    return [point for number in sorted(rounds) for point in rounds[number]]


def of_file(path: Path) -> list[Point]:
    """Problems of a JSON file, a list of `Conv2d.spec`s or parts of them. Raises BadArgument for an invalid file."""
    try:
        problems = [Conv2d(**spec) for spec in json.loads(path.read_text())]
    except (OSError, TypeError, ValueError) as error:
        raise BadArgument(f"{path} is no list of convolution layers: {error}") from None
    return [Point(f"{path.stem} {number} {problem.pass_}", problem) for number, problem in enumerate(problems)]


def _grid_point(place: tuple[int, int, int, int, int], pass_: Pass) -> Point:
    batch, planes, filters, taps, output = place
    return Point(f"k={taps} S={batch} f={planes} f'={filters} y={output} {pass_}", _square(place, pass_))


def _square(place: tuple[int, int, int, int, int], pass_: Pass) -> Conv2d:
    batch, planes, filters, taps, output = place
    size = output + taps - 1
    return Conv2d(input=(batch, planes, size, size), weight=(filters, planes, taps, taps), pass_=pass_)
