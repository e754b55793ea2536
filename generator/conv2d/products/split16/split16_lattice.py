"""Pixels on one line, so that a tap is a shift: the implicit GEMM of a layer without copies of pixels.

All images of a channel lie on one line of positions, row by row and image by image, with zeros between them. A pixel
has position (n * row pitch + row) * column pitch + column. The result at a position is the sum over taps of the number
that lies `shift` positions further on, and a tap's shift is the same for all positions. So any range of results reads
one contiguous range of pixels per tap, and the tensor cores read these ranges in place. Rows share the zeros between
them: the padding right of one row is the padding left of the next.

With a stride, the pixels lie in several planes, one for each remainder of their rows and columns modulo the stride.
Each tap reads one plane. Results whose taps differ (the gradient of a strided layer) form phases, each with its own
taps (`layer/axes.py`). Results at positions between the images are computed and not stored.

Source: Chetlur et al. 2014, "cuDNN: Efficient Primitives for Deep Learning", section 3 (implicit GEMM). A block there
gathers its pixels; on the line there is nothing to gather.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator

from warpsmith.generator.conv2d.layer.axes import LayerAxis, Taps, axes_of
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.words import Pass


@dataclasses.dataclass(frozen=True, slots=True)
class LineTap:
    """One row, or column, of a filter, as the results of one phase read it."""

    plane: int
    """Index into `LatticeLine.planes`."""
    shift: int
    """Positions from a result to the pixel that it reads, 0 or more."""
    weight: int
    """Row, or column, of the filter."""


@dataclasses.dataclass(frozen=True, slots=True)
class LatticeLine:
    """One axis of all images on the line, such as their rows. Comments say rows for all."""

    sources: int
    """Rows of a source image."""
    results: int
    steps: int
    """Result rows of the largest phase."""
    multiple: int
    """Source rows from one row of a plane to the next."""
    planes: tuple[int, ...]
    """Remainders of source rows modulo `multiple` that some tap reads."""
    before: int
    """Position of a plane's first row. It may be negative: no tap reads rows before position 0."""
    pitch: int
    """Positions from one image, or row, to the next."""
    phases: tuple[tuple[LineTap, ...], ...]

    @classmethod
    def of(cls, axis: LayerAxis) -> LatticeLine:
        # Plane and shift that each tap reads for row 0 of its phase.
        places = [
            [divmod(taps.low + t * taps.spread, axis.multiple) for t in range(taps.count)] for taps in axis.phases
        ]
        shifts = [shift for phase in places for shift, _ in phase] or [0]
        planes = tuple(sorted({plane for phase in places for _, plane in phase})) or (0,)
        before, span = -min(shifts), max(shifts) - min(shifts)
        last = max((axis.sources - 1 - plane) // axis.multiple for plane in planes) + before
        first = max(before, 0)
        return cls(
            sources=axis.sources,
            results=axis.results,
            steps=axis.steps,
            multiple=axis.multiple,
            planes=planes,
            before=before,
            # No result reads pixels of the next image, and no position holds pixels of two images.
            pitch=max(axis.steps, min(last, axis.steps - 1 + span) + 1, axis.steps + span - first),
            phases=tuple(
                tuple(
                    LineTap(planes.index(plane), shift + before, _weight(taps, t))
                    for t, (shift, plane) in enumerate(phase)
                )
                for taps, phase in zip(axis.phases, places, strict=True)
            ),
        )

    def source(self, tap: LineTap) -> int:
        """The source row that a tap reads for the first result row of its phase; negative before the image."""
        return self.planes[tap.plane] + (tap.shift - self.before) * self.multiple


def _weight(taps: Taps, t: int) -> int:
    return taps.first + t * taps.step


@dataclasses.dataclass(frozen=True, slots=True)
class Tap:
    """One weight of a filter, as the results of one phase read it."""

    plane: int
    shift: int
    """Positions from a result to the pixel that it reads, 0 or more."""
    weight: int
    """Index into the filter, row by row."""
    row: int
    """Index of the tap's row among the filter rows of its phase."""


@dataclasses.dataclass(frozen=True)
class Lattice:
    """The lines of all axes of a layer, rows before columns, and the taps of each phase of its results.

    A layer of one axis has one line, and a volume has three.
    """

    images: int
    lines: tuple[LatticeLine, ...]
    filter_sizes: tuple[int, ...]
    """Taps of a filter along each axis."""

    @classmethod
    @functools.lru_cache(maxsize=64)  # shared by all configs that a search or a model looks at
    def of(cls, problem: Conv2d) -> Lattice:
        """The lattice of fprop or dgrad. wgrad gets that of fprop, whose pixels and taps it reads."""
        if problem.pass_.sums_images:
            problem = dataclasses.replace(problem, pass_=Pass.FPROP)
        return cls(problem.input[0], tuple(map(LatticeLine.of, axes_of(problem))), problem.weight[2:])

    @property
    def rows(self) -> LatticeLine:
        return self.lines[0]

    @property
    def columns(self) -> LatticeLine:
        return self.lines[-1]

    @property
    def filter_columns(self) -> int:
        return self.filter_sizes[-1]

    @property
    def image_pitch(self) -> int:
        """Positions from one image to the next."""
        return math.prod(line.pitch for line in self.lines)

    @property
    def positions(self) -> int:
        """Positions of all images."""
        return self.images * self.image_pitch

    @property
    def planes(self) -> int:
        """Number of pixel planes, which lie one behind the other."""
        return math.prod(len(line.planes) for line in self.lines)

    @property
    def fill(self) -> float:
        """Share of the positions that are results."""
        return math.prod(line.results for line in self.lines) / (len(self.phases) * self.image_pitch)

    @functools.cached_property
    def phases(self) -> tuple[tuple[Tap, ...], ...]:
        """The taps of each phase of the results, sorted by plane and then by shift."""
        return tuple(
            tuple(sorted(self._taps(phases), key=lambda tap: (tap.plane, tap.shift)))
            for phases in itertools.product(*(line.phases for line in self.lines))
        )

    @functools.cached_property
    def reach(self) -> int:
        """Largest shift of any tap."""
        return max((tap.shift for taps in self.phases for tap in taps), default=0)

    def _taps(self, phases: tuple[tuple[LineTap, ...], ...]) -> Iterator[Tap]:
        """The taps of one phase of each line. All taps that differ along the last axis alone form a row."""
        outer = list(itertools.product(*phases[:-1]))
        for (row, before), last in itertools.product(enumerate(outer), phases[-1]):
            plane = shift = weight = 0
            for tap, line, size in zip((*before, last), self.lines, self.filter_sizes, strict=True):
                plane = plane * len(line.planes) + tap.plane
                shift = shift * line.pitch + tap.shift
                weight = weight * size + tap.weight
            yield Tap(plane, shift, weight, row)
