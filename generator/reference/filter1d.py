"""Float64 reference of `filter1d`: one thread per result."""

from __future__ import annotations

import math

from warpsmith.generator.filter1d.fields import SignalLayout
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.states_text import StatesText
from warpsmith.generator.filter1d.text import pitches
from warpsmith.generator.problem import Accuracy, DType, NonFinite
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

PEAKS, GAINS = "peaks", "gains"
"""Names of the workspaces for the largest |sample| of each channel and for the largest gain of each filter."""
MOST_FREQUENCIES = 8192
"""Most frequencies at which a filter's gain is sampled, as the host does."""


class Filter1dReference(ReferenceKernels[Filter1d]):
    """A result and the scale of its error, in one thread: the sum of its terms' magnitudes times the activation's
    slope. With accuracy `signalwise` the scale has a floor, which other kernels compute: one thread for each frequency
    of a filter, and one block for each part of a channel.
    """

    def multiply_adds(self, problem: Filter1d) -> int:
        return problem.flops

    def program(self, problem: Filter1d) -> Program:
        output, signal = problem.output, problem.operands[0]
        is_btc = problem.layout is SignalLayout.BTC
        row, result_row = pitches(problem)
        names = [operand.name for operand in problem.inputs]
        is_one = problem.packed is None  # packed sequences have no floors
        has_gains = problem.accuracy is Accuracy.SIGNALWISE and is_one
        has_peaks = has_gains or (problem.nonfinite is NonFinite.ANY and is_one)
        frequencies = min(MOST_FREQUENCIES, 1 << (2 * problem.taps - 1).bit_length())
        waves = frequencies if problem.weights_dtype is DType.COMPLEX64 else frequencies // 2 + 1
        source = render(
            "reference/filter1d.cu.jinja",
            p=problem,
            is_btc=is_btc,
            batch_step=row * (problem.signal if is_btc else problem.channels),
            channel_step=1 if is_btc else row,
            sample_step=row if is_btc else 1,
            span=SPAN,
            threads=THREADS,
            frequencies=frequencies,
            waves=waves,
            has_peaks=has_peaks,
            has_gains=has_gains,
            states=StatesText.of(problem),
            gates_samples="gate_before" in names,
            gates_outputs="gate_after" in names,
            result_step=1 if not is_btc else result_row,
            result_row=result_row,
        )
        older = [each for each in ("before", "state", "indices", "positions") if each in names]
        older_parts = problem.rows * math.ceil((problem.taps - 1) / SPAN) if {"before", "state"} & set(names) else 0
        parts = problem.rows * math.ceil(problem.signal / SPAN)
        gates, projections = ([each for each in names if each == name] for name in ("gate_before", "projections"))
        peaks, gains = [PEAKS] * has_peaks, [GAINS] * has_gains
        launches = (
            *(strips_launch("find_peaks", parts, signal.name, *gates, *projections, each) for each in peaks),
            *(strips_launch("find_older_peaks", older_parts, *older, each) for each in peaks if older_parts),
            *(
                strips_launch("find_gains", problem.filters * math.ceil(waves / THREADS), problem.inputs[1].name, each)
                for each in gains
            ),
            strips_launch("add_up", math.ceil(output.size / THREADS), *names, *peaks, *gains, EXPECTED, SCALE),
            finishing_launch(pass_blocks(output), EXPECTED, SCALE, SUMS),
        )
        workspaces = (
            Workspace(SUMS, 8),
            *(Workspace(each, 8 * problem.rows) for each in peaks),
            *(Workspace(each, 8 * problem.filters) for each in gains),
        )
        return reference_program(source, launches, workspaces)
