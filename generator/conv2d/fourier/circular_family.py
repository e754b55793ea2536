"""Depthwise layers by Fourier transforms: each plane is one circular correlation, in a tile of shared memory.

Source: convolution by transforms (Mathieu et al. 2014, "Fast training of convolutional networks through FFTs") for
layers in which a filter meets one channel, so that the product at a frequency is one of numbers and not of matrices.

Two images are one complex tile. fprop and dgrad multiply it by the spectrum of a filter. The filter is real, so its
spectrum serves both images. wgrad multiplies the pair of x by the conjugate of the pair of dy. Since FFT(a + i b)
conj(FFT(c + i d)) is the transform of a*c + b*d + i (b*c - a*d), the real part of its inverse transform is the sum of
both images' correlations. So pairs are added up as spectra, in the order of the batch, and transformed back once.

A transform's error is relative to its whole tile. In fprop and dgrad each plane of a pair is scaled by its own power of
two, so that neither plane affects the other. A plane that is not finite is replaced by zeros in the transform, and all
its results are NaN.

All three passes are correlations: result row p is the sum over t of factor[t] * source[p + t - before]. The factor is
the filter in fprop, the reversed filter in dgrad, and dy in wgrad, whose results are the taps. Row u of a tile holds
row u - before of the source, or zeros if there is no such row, and the correlation wraps around at the tile's end. Rows
that wrap around do no harm where they meet zeros, so a tile may be shorter by the number of zero rows ahead of the
source.
"""

from __future__ import annotations

import dataclasses
from math import ceil, prod

from warpsmith.generator.conv2d.layer.problem import DEFAULT_REACH, Conv2d
from warpsmith.generator.conv2d.layer.sided_family import why_not_usual_data, why_not_usual_end
from warpsmith.generator.conv2d.layer.text import SOURCE, Conv2dText
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.padding import PaddingMode
from warpsmith.generator.problem import Accuracy, NonFinite
from warpsmith.generator.program import Argument, Launch, Pointer, Program, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value
from warpsmith.generator.tiles.space import (
    GROUPS,
    best_axes,
    instructions,
    likely_values,
    products,
    resident,
    tile_constraints,
    tile_parameters,
    unrolled,
)
from warpsmith.generator.tiles.text import Passes, TileText
from warpsmith.generator.tiles.tile import COMPLEX_BYTES, TileAxis, TileShape

MIN_TAPS = 49
"""Fewest taps of a filter; with fewer, a sum over taps costs less than a transform."""
LIKELY_TAPS = 15 * 15
"""Fewest taps for which the family is a default where nothing is stored."""
MOST_TAPS = 10_000
"""Most taps that fit the static shared memory of the spectrum kernel, 4 bytes each."""
MOST_SUMS = 48
"""Most complex sums per thread of wgrad; each takes two registers."""
SIZES = 8
"""Number of tile sizes along an axis that are offered, from the smallest on."""
WAVE_BLOCKS = 4
"""Blocks of wgrad per SM to aim at."""
SUM_THREADS = 256
SPECTRUM_COLUMNS = 8
"""Columns of a filter's spectrum per block. There are many filters, and each block reads the taps of its filter."""


@dataclasses.dataclass(frozen=True, slots=True)
class CorrelationAxis:
    """Rows, or columns, of the correlation. Comments say rows for both."""

    sources: int
    factors: int
    results: int
    before: int
    """Zero rows ahead of the source. If negative, as many source rows are left out."""

    @property
    def least(self) -> int:
        """Fewest rows of a tile."""
        last = self.results + self.factors - 1
        return max(self.before + self.sources, self.results, self.factors, last - max(self.before, 0), ceil(last / 2))


def correlation_axes(problem: Conv2d) -> tuple[CorrelationAxis, CorrelationAxis]:
    """Rows and columns of a layer of stride and dilation 1."""
    rows, columns = (_correlation_axis(problem, axis) for axis in (0, 1))
    return rows, columns


def _correlation_axis(problem: Conv2d, axis: int) -> CorrelationAxis:
    size, out, taps = problem.input[2 + axis], problem.output_size[axis], problem.weight[2 + axis]
    before = problem.padding[axis][0]
    return problem.pass_.select(
        CorrelationAxis(size, taps, out, before),
        CorrelationAxis(out, taps, size, taps - 1 - before),
        CorrelationAxis(size, out, taps, before),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class CircularGeometry:
    """One config. Sizes count elements, pairs of images and threads."""

    passes: Passes
    rows: CorrelationAxis
    columns: CorrelationAxis
    images: int
    channels: int
    ahead: bool
    """Whether the spectrum of a filter is loaded before the transform that it multiplies."""
    splits: int
    """Blocks that share a channel of wgrad."""
    scales: bool
    """Whether the two images of a tile are scaled separately, so that neither affects the other's results."""

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> CircularGeometry:
        rows, columns = correlation_axes(problem)
        is_weight = problem.pass_.sums_images
        return cls(
            passes=Passes.of(config, columns.results, SPECTRUM_COLUMNS),
            rows=rows,
            columns=columns,
            images=problem.input[0],
            channels=problem.input[1],
            ahead=not is_weight and config.integer("ahead") == 1,
            splits=config.integer("splits") if is_weight else 1,
            scales=not is_weight and problem.input[0] > 1,
        )

    @property
    def pairs(self) -> int:
        """Pairs of images; the last image may be alone."""
        return ceil(self.images / 2)

    @property
    def spectrum_bytes(self) -> int:
        """Bytes of the spectra of all filters."""
        return COMPLEX_BYTES * self.channels * self.passes.spectrum_elements

    @property
    def rounds(self) -> int:
        """Groups of rows that a warp transforms one after the other."""
        return ceil(self.passes.shape.groups / self.passes.warps)


def sums_of(passes: Passes) -> int:
    """Complex sums per thread of wgrad."""
    return ceil(passes.shape.groups / passes.warps) * passes.turns * passes.x.second


class Conv2dCircular(Family[Conv2d]):
    """`conv2d` of depthwise layers by one transform of each plane."""

    name = "conv2d_circular"
    default_reach = DEFAULT_REACH

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        if problem.accuracy is Accuracy.ELEMENTWISE:
            return "has errors relative to the whole result: accuracy normwise"
        if problem.nonfinite is NonFinite.WINDOW:
            return "lets a NaN reach all results of its plane: needs nonfinite any"
        if not problem.groups == problem.input[1] == problem.weight[0]:
            return "each channel needs one filter of its own"
        if problem.stride != (1, 1) or problem.dilation != (1, 1):
            return "needs stride 1 and dilation 1"
        if problem.padding_mode is not PaddingMode.ZEROS:
            return "pads with zeros only"
        if (why := why_not_usual_data(problem) or why_not_usual_end(problem)) is not None:
            return why
        taps = prod(problem.weight[2:])
        if taps < MIN_TAPS:
            return f"a filter of fewer than {MIN_TAPS} taps costs less tap by tap"
        if taps > MOST_TAPS:
            return f"a filter of more than {MOST_TAPS} taps does not fit shared memory"
        axes = _likely_axes(problem, device)
        if not axes:
            return f"a plane does not fit {device.shared_per_block_bytes} bytes of shared memory as one tile"
        if not any(_has_room(problem, *pair, group) for pair in axes for group in GROUPS):
            return f"the spectra of its filters do not fit into {problem.workspace_limit} bytes of workspace"
        return None

    def is_likely(self, problem: Conv2d, device: Device) -> bool:
        """The more taps there are, the more a transform saves."""
        return device.kind is DeviceKind.CUDA and prod(problem.weight[2:]) >= LIKELY_TAPS

    def space(self, problem: Conv2d, device: Device) -> Space:
        parameters = tile_parameters(*(_sizes(problem, axis) for axis in (0, 1)))
        if not problem.pass_.sums_images:
            ahead = Parameter("ahead", (0, 1), "1 reads a filter's spectrum before the transform that it multiplies")
            return Space((*parameters, ahead), (*tile_constraints(device), _spectra_constraint(problem)))
        return Space(
            (*parameters, Parameter("splits", (1, 2, 4, 8), "blocks that share the images of a channel")),
            (
                *tile_constraints(device, tiles=2),
                Constraint(f"a thread adds up at most {MOST_SUMS} complex numbers", _has_few_sums),
                Constraint(
                    f"there are {-(-problem.input[0] // 2)} pairs of images to share",
                    lambda splits: splits <= -(-problem.input[0] // 2),
                ),
                Constraint(
                    f"sums of several blocks take at most {problem.workspace_limit} bytes",
                    lambda splits: splits == 1 or _sums_bytes(problem, splits) <= problem.workspace_limit,
                ),
            ),
        )

    def default(self, problem: Conv2d, device: Device) -> Config:
        space = self.space(problem, device)
        choices = (each for axes in _likely_axes(problem, device) for each in _configs(problem, *axes, device))
        return next((config for config in choices if space.contains(config)), None) or next(space.configs())

    def starts(self, problem: Conv2d, device: Device) -> tuple[Config, ...]:
        space, default = self.space(problem, device), self.default(problem, device)
        found: list[Config] = []
        for axes in _likely_axes(problem, device)[:4]:
            found += [each for each in _configs(problem, *axes, device) if space.contains(each)][:3]
        return tuple(dict.fromkeys(each for each in found if each != default))

    def unrolled(self, problem: Conv2d, config: Config) -> int:
        once = unrolled(TileAxis.of(config.text("y_radices")), TileAxis.of(config.text("x_radices")))
        if not problem.pass_.sums_images:
            return once
        passes = Passes.of(config, 1)
        return once + 2 * sums_of(passes) // passes.x.second * 10 * passes.x.second

    def program(self, problem: Conv2d, config: Config) -> Program:
        geometry = CircularGeometry.of(problem, config)
        if problem.pass_.sums_images:
            return self._weight_program(problem, config, geometry)
        passes = geometry.passes
        source = render("conv2d/circular_image.cu.jinja", **_values(problem, geometry, config))
        bias = (Pointer("b"),) if problem.bias else ()
        spectrum = Launch(
            entry=f"{self.name}_spectrum",
            grid=(passes.spectrum_blocks * geometry.channels, 1, 1),
            block=(passes.spectrum_threads, 1, 1),
            arguments=(Pointer("spectra"), Pointer("w")),
        )
        planes = Launch(
            entry=self.name,
            grid=(geometry.channels * geometry.pairs, 1, 1),
            block=(passes.threads, 1, 1),
            arguments=(
                Pointer(SOURCE[problem.pass_]),
                Pointer("spectra"),
                *bias,
                Pointer(problem.output.name),
            ),
            shared_bytes=passes.shared_bytes,
        )
        workspace = Workspace("spectra", geometry.spectrum_bytes, holds=("w",))
        return Program.of_source(self.name, config, source, (spectrum, planes), (workspace,))

    def _weight_program(self, problem: Conv2d, config: Config, geometry: CircularGeometry) -> Program:
        source = render("conv2d/circular_weight.cu.jinja", **_values(problem, geometry, config))
        target: Argument = Pointer("dw") if geometry.splits == 1 else Pointer("sums")
        planes = Launch(
            entry=self.name,
            grid=(geometry.channels * geometry.splits, 1, 1),
            block=(geometry.passes.threads, 1, 1),
            arguments=(Pointer("x"), Pointer("dy"), target),
            shared_bytes=2 * geometry.passes.shared_bytes,
        )
        if geometry.splits == 1:
            return Program.of_source(self.name, config, source, (planes,))
        weights = problem.output.size
        total = Launch(
            entry=f"{self.name}_sum",
            grid=(-(-weights // SUM_THREADS), 1, 1),
            block=(SUM_THREADS, 1, 1),
            arguments=(Pointer("sums"), Pointer("dw")),
        )
        workspace = Workspace("sums", _sums_bytes(problem, geometry.splits))
        return Program.of_source(self.name, config, source, (planes, total), (workspace,))


def _values(problem: Conv2d, geometry: CircularGeometry, config: Config) -> dict[str, object]:
    """Variables that both templates get."""
    return {"p": Conv2dText.of(problem), "g": TileText(geometry.passes), "at": geometry, "config": config.key()}


def _sums_bytes(problem: Conv2d, splits: int) -> int:
    return splits * problem.output.nbytes


def _has_room(problem: Conv2d, y: TileAxis, x: TileAxis, group: int) -> bool:
    """Whether the workspace has room for the spectra of all filters, whose size is independent of gaps. wgrad has
    none.
    """
    nbytes = COMPLEX_BYTES * problem.input[1] * TileShape(y, x, group, gaps=0).spectrum_elements
    return problem.pass_.sums_images or nbytes <= problem.workspace_limit


def _spectra_constraint(problem: Conv2d) -> Constraint:
    def has_room(y_radices: str, x_radices: str, group: int) -> bool:
        return _has_room(problem, TileAxis.of(y_radices), TileAxis.of(x_radices), group)

    return Constraint(f"spectra of filters take at most {problem.workspace_limit} bytes", has_room)


def _has_few_sums(y_radices: str, x_radices: str, gaps: int, group: int, warps: int) -> bool:
    values: dict[str, Value] = {"y_radices": y_radices, "x_radices": x_radices, "gaps": gaps, "group": group}
    config = Config.of({**values, "warps": warps, "min_blocks": 0, "twiddles": "table"})
    return sums_of(Passes.of(config, 1)) <= MOST_SUMS


def _sizes(problem: Conv2d, axis: int) -> tuple[int, ...]:
    return products(max(16, correlation_axes(problem)[axis].least))[:SIZES]


def _likely_axes(problem: Conv2d, device: Device) -> tuple[tuple[TileAxis, TileAxis], ...]:
    """Rows and columns of the tiles that fit, sorted by number of instructions."""
    tiles = 2 if problem.pass_.sums_images else 1
    found = [
        axes
        for rows in _sizes(problem, 0)
        for columns in _sizes(problem, 1)
        if resident(tiles * rows * columns, device) and (axes := best_axes(rows, columns))
    ]
    return tuple(sorted(found, key=lambda each: (instructions(*each) + 12) * each[0].points * each[1].points))


def _configs(problem: Conv2d, y: TileAxis, x: TileAxis, device: Device) -> list[Config]:
    """Configs for tiles of these sizes, the likeliest to be fast first; not all are legal."""
    is_weight = problem.pass_.sums_images
    splits = 1
    blocks = min(WAVE_BLOCKS, resident(2 * y.points * x.points, device))
    most = min(8, problem.input[0] // 2, problem.workspace_limit // problem.output.nbytes)
    while is_weight and problem.input[1] * splits < blocks * device.multiprocessors and 2 * splits <= most:
        splits *= 2
    rest: dict[str, Value] = {"splits": splits} if is_weight else {"ahead": 1}
    return [Config.of({**values, **rest}) for values in likely_values(y, x, device, 2 if is_weight else 1)]
