"""Float64 reference of `filter1d`: one thread per result."""

from __future__ import annotations

import math

from warpsmith.generator.filter1d.problem import Filter1d, SignalLayout
from warpsmith.generator.program import Program
from warpsmith.generator.reference.kernels import (
    EXPECTED,
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


class Filter1dReference(ReferenceKernels[Filter1d]):
    """A result and the scale of its error, in one thread: the sum of its terms' magnitudes times the activation's
    slope.
    """

    def multiply_adds(self, problem: Filter1d) -> int:
        return problem.flops

    def program(self, problem: Filter1d) -> Program:
        output, signal = problem.output, problem.operands[0]
        is_btc = problem.layout is SignalLayout.BTC
        row = (problem.pitch or 0) // signal.dtype.itemsize or (problem.channels if is_btc else problem.signal)
        source = render(
            "reference/filter1d.cu.jinja",
            p=problem,
            is_btc=is_btc,
            batch_step=row * (problem.signal if is_btc else problem.channels),
            channel_step=1 if is_btc else row,
            sample_step=row if is_btc else 1,
            span=SPAN,
            threads=THREADS,
        )
        names = [operand.name for operand in problem.inputs]
        return reference_program(
            source,
            (
                strips_launch("add_up", math.ceil(output.size / THREADS), *names, EXPECTED, SCALE),
                finishing_launch(pass_blocks(output), EXPECTED, SCALE, SUMS),
            ),
            (Workspace(SUMS, 8),),
        )
