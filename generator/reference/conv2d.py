"""Float64 references of `conv2d`: an implicit GEMM in tiles, with plain multiply-adds."""

from __future__ import annotations

import dataclasses
import math

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.words import Pass
from warpsmith.generator.padding import PaddingMode
from warpsmith.generator.problem import Accuracy, Operand
from warpsmith.generator.program import Program
from warpsmith.generator.reference.kernels import (
    EXPECTED,
    PEAK,
    SCALE,
    SPAN,
    SUMS,
    THREADS,
    ReferenceKernels,
    finishing_launch,
    pass_blocks,
    reference_program,
    strips_launch,
)
from warpsmith.generator.render import render
from warpsmith.generator.steps import Workspace

_SIDE = 16
"""Threads along each side of a block, and terms of a stage in shared memory."""
_MOST_ROWS, _MOST_COLUMNS = 4, 8
"""Most rows and columns of a thread's results: 32 accumulators, which read 12 numbers of shared memory per term."""
_BLOCKS = 2048
"""Least blocks of a grid, if its sums are long enough to be split: rounds of 132 SMs."""
_LEAST_K = 4096
"""Least K of a split sum."""


@dataclasses.dataclass(frozen=True, slots=True)
class Conv2dReferenceText:
    """Implicit GEMM of one pass. Each group has `m` by `n` results, each the sum of `k` products.

    M, N and K are, for fprop: filters, pixels of y, channels and taps; for dgrad: channels, pixels of x, filters and
    taps; for wgrad: filters, channels and taps, pixels of y.
    """

    key: str
    pass_: Pass
    a: Operand
    """Operand that does not depend on the column: w, or dy for wgrad."""
    b: Operand
    """Image operand that is read at the pixels: x, or dy for dgrad."""
    groups: int
    m: int
    n: int
    k: int
    channels: int
    """Channels of x in a group."""
    filters: int
    image: tuple[int, int]
    """Rows and columns of x."""
    result: tuple[int, int]
    """Rows and columns of y."""
    taps: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[tuple[int, int], tuple[int, int]]
    padding_mode: PaddingMode
    bias: int
    """Channels of the result, each with its own bias; 0 without a bias."""
    plane: int
    """Results of one channel of one image."""
    relu: bool
    thread_rows: int
    thread_columns: int
    splits: int
    """Blocks that share K of a tile."""

    @classmethod
    def of(cls, problem: Conv2d) -> Conv2dReferenceText:
        by_name = {operand.name: operand for operand in problem.operands}
        groups, channels, filters = problem.groups, problem.group_channels, problem.group_filters
        taps, y_pixels = math.prod(problem.weight[2:]), problem.input[0] * math.prod(problem.output_size)
        x_pixels = problem.input[0] * math.prod(problem.input[2:])
        m, n = problem.pass_.select((filters, y_pixels), (channels, x_pixels), (filters, channels * taps))
        a, b = problem.pass_.select(("w", "x"), ("w", "dy"), ("dy", "x"))
        thread_rows, thread_columns = (
            min(most, math.ceil(count / _SIDE)) for most, count in ((_MOST_ROWS, m), (_MOST_COLUMNS, n))
        )
        tiles = groups * math.ceil(m / (_SIDE * thread_rows)) * math.ceil(n / (_SIDE * thread_columns))
        return cls(
            key=problem.key(),
            pass_=problem.pass_,
            a=by_name[a],
            b=by_name[b],
            groups=groups,
            m=m,
            n=n,
            k=problem.terms,
            channels=channels,
            filters=filters,
            image=problem.input[2:],
            result=problem.output_size,
            taps=problem.weight[2:],
            stride=problem.stride,
            dilation=problem.dilation,
            padding=problem.padding,
            padding_mode=problem.padding_mode,
            bias=problem.output.shape[1] if problem.bias else 0,
            plane=math.prod(problem.output.shape[2:]),
            relu=problem.relu,
            thread_rows=thread_rows,
            thread_columns=thread_columns,
            splits=max(1, min(math.ceil(_BLOCKS / tiles), problem.terms // _LEAST_K)),
        )

    @property
    def row_tiles(self) -> int:
        return math.ceil(self.m / (_SIDE * self.thread_rows))

    @property
    def column_tiles(self) -> int:
        return math.ceil(self.n / (_SIDE * self.thread_columns))

    @property
    def split_k(self) -> int:
        """K of one block, in whole stages."""
        return _SIDE * math.ceil(self.k / (_SIDE * self.splits))

    @property
    def blocks(self) -> int:
        return self.row_tiles * self.column_tiles * self.splits * self.groups


class Conv2dReference(ReferenceKernels[Conv2d]):
    """Sums of the terms and of their magnitudes, by one kernel that runs on values and on magnitudes."""

    def multiply_adds(self, problem: Conv2d) -> int:
        return problem.flops

    def segments(self, problem: Conv2d) -> int:
        """Equal parts of the result, in C order, each with a root mean square of its own; 0 if none counts."""
        if problem.accuracy is not Accuracy.NORMWISE:
            return 0
        return problem.scales

    def program(self, problem: Conv2d) -> Program:
        text, output, segments = Conv2dReferenceText.of(problem), problem.output, self.segments(problem)
        source = render(
            "reference/conv2d.cu.jinja",
            p=text,
            dtype=str(problem.dtype),
            elements=output.size,
            segments=segments,
            peak=PEAK,
            side=_SIDE,
            span=SPAN,
            threads=THREADS,
        )
        passes = pass_blocks(output, max(1, segments))
        bias = ("b",) if problem.bias else ()
        return reference_program(
            source,
            (
                strips_launch("add_up_values", text.blocks, text.a.name, text.b.name, EXPECTED),
                strips_launch("add_up_magnitudes", text.blocks, text.a.name, text.b.name, SCALE),
                strips_launch("add_bias", passes, *bias, EXPECTED, SCALE, SUMS),
                finishing_launch(passes, EXPECTED, SCALE, SUMS),
            ),
            (Workspace(SUMS, 8 * max(1, segments)),),
        )
