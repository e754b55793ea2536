"""Source rows that the taps of a result row read: fprop and dgrad as one kind of sum.

Both passes give each result a sum over taps of a source. fprop reads row p * stride + r * dilation - padding of x for
row p of y. dgrad reads row (h + padding - r * dilation) / stride of dy for row h of dx, if that is an integer. So only
some of dgrad's taps touch a row, and which ones depends on h modulo the stride: its phase. Rows of one phase are a
convolution of their own with stride 1, of the taps that touch them. No tap is multiplied by a zero that the stride put
between two rows (the "stride phases" of a transposed convolution).

Row i of phase f is row i * phases + f of the result. Its tap t is row `first + t * step` of the filter and reads row i
* multiple + `low` + t * `spread` of the source. Columns likewise.
"""

from __future__ import annotations

import dataclasses
import functools
from math import gcd, prod

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.padding import PaddingMode


@dataclasses.dataclass(frozen=True, slots=True)
class Taps:
    """The taps that touch the rows of one phase, in the order of the source rows that they read."""

    count: int
    first: int
    step: int
    low: int
    """Source row that the first tap reads for row 0 of the phase; negative in the padding."""
    spread: int
    """Source rows from one tap to the next, 1 or more."""

    @property
    def span(self) -> int:
        """Source rows from the first tap to the last, both included; 0 without a tap."""
        return (self.count - 1) * self.spread + 1 if self.count else 0


@dataclasses.dataclass(frozen=True, slots=True)
class LayerAxis:
    """The rows, or the columns, of source and result."""

    sources: int
    results: int
    multiple: int
    """Source rows from one row of a phase to the next."""
    phases: tuple[Taps, ...]

    @property
    def steps(self) -> int:
        """Rows of the largest phase, which is the first."""
        return -(-self.results // len(self.phases))

    @property
    def most_taps(self) -> int:
        """Most taps of any phase."""
        return max(taps.count for taps in self.phases)

    def window(self, steps: int) -> int:
        """Source rows from the first to the last that `steps` rows of a phase read; at least 1."""
        return max(self.multiple * (steps - 1) + max(taps.span for taps in self.phases), 1)

    def reaches_outside(self, steps: int) -> bool:
        """Whether some row that is read lies outside of the source.

        `steps` rows of a phase are computed at once, and each phase is taken to read the span of the largest one.
        """
        last = self.multiple * (-(-self.steps // steps) * steps - 1) + max(taps.span for taps in self.phases) - 1
        return any(taps.low < 0 or last + taps.low >= self.sources for taps in self.phases)


@functools.lru_cache(maxsize=256)  # each config of a layer asks for them
def axes_of(problem: Conv2d) -> tuple[LayerAxis, ...]:
    """The axes of a plane of fprop or dgrad, rows first. Raises ValueError for wgrad, a sum of another kind."""
    if problem.pass_.sums_images:
        raise ValueError(f"pass {problem.pass_} sums over the results, not over taps")
    return tuple(_axis(problem, axis) for axis in range(len(problem.stride)))


def _axis(problem: Conv2d, axis: int) -> LayerAxis:
    size, out = problem.input[2 + axis], problem.output_size[axis]
    taps, stride, dilation = problem.weight[2 + axis], problem.stride[axis], problem.dilation[axis]
    before = problem.padding[axis][0]
    if problem.pass_.is_transposed:
        return LayerAxis(out, size, 1, tuple(_of_phase(f + before, taps, stride, dilation) for f in range(stride)))
    return LayerAxis(size, out, stride, (Taps(taps, 0, 1, -before, dilation),))


def _of_phase(row: int, taps: int, stride: int, dilation: int) -> Taps:
    """The taps r for which row - r * dilation divides by the stride, which is every `step`-th. The last one reads the
    lowest row.
    """
    step = stride // gcd(stride, dilation)
    touching = [r for r in range(taps) if (row - r * dilation) % stride == 0]
    if not touching:
        return Taps(0, 0, 1, 0, 1)
    last = touching[-1]
    return Taps(len(touching), last, -step, (row - last * dilation) // stride, step * dilation // stride)


def multiply_adds(problem: Conv2d) -> int:
    """Multiply-adds of a pixel and a weight, without those in zero padding; each pass has the same number."""
    meetings = prod(_meetings(problem, axis) for axis in range(len(problem.stride)))
    return problem.input[0] * problem.weight[0] * problem.group_channels * meetings


def _meetings(problem: Conv2d, axis: int) -> int:
    """Counts (output, tap) pairs along one axis whose input pixel exists or is repeated padding."""
    size, taps = problem.input[2 + axis], problem.weight[2 + axis]
    if problem.padding_mode is not PaddingMode.ZEROS:
        return problem.output_size[axis] * taps
    stride, dilation, before = problem.stride[axis], problem.dilation[axis], problem.padding[axis][0]
    found = 0
    for tap in range(taps):
        first = before - tap * dilation  # first output, in steps of the stride
        least, past = max(0, -(-first // stride)), (first + size - 1) // stride + 1
        found += max(0, min(past, problem.output_size[axis]) - least)
    return found
