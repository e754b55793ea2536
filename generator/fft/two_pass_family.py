"""Two-dimensional transforms as two passes over memory: all rows, then all columns, each transformed by `fft_block`.

The pass over the rows leaves its result transposed, so the pass over the columns reads each column contiguously. A
transform may then be larger than the shared memory of an SM.

Source: Vasilache et al. 2014, section 5.1, "transposes the last two lowest dimensions" between the passes of fbfft.
"""

from __future__ import annotations

from math import prod

from warpsmith.generator.device import Device
from warpsmith.generator.fft.block.block_family import FftBlock
from warpsmith.generator.fft.problem import Fft, Kind, Layout
from warpsmith.generator.fft.words import require_fft
from warpsmith.generator.pipeline import Pipeline, Stage
from warpsmith.generator.problem import DType, Problem
from warpsmith.generator.steps import Workspace

BETWEEN = "between"
"""Name of the workspace for the half-transformed plane: columns of the spectrum by rows of the signal."""


class FftTwoPass(Pipeline):
    """A single two-dimensional `fft` with the spectrum transposed."""

    name = "fft_two_pass"

    def why_not(self, problem: Problem, device: Device) -> str | None:
        if not isinstance(problem, Fft):
            return "solves fft only"
        if len(problem.size) != 2 or problem.batch > 1:
            return "transforms one plane"
        if problem.layout is not Layout.TRANSPOSED:
            return "leaves the spectrum transposed: layout transposed"
        if problem.start is not None:
            return "takes a signal that begins at the first point"
        if problem.tiling is not None:
            return "takes a whole signal, no tiles of planes"
        if problem.border is not None:
            return "takes a signal without a border"
        return self.unsolved_stage(problem, device)

    def stages(self, problem: Problem) -> tuple[Stage, ...]:
        fft, block = require_fft(problem), FftBlock()
        there, columns = fft.signal_size, fft.spectrum_size[1]
        rows_pass = Fft(
            (fft.size[1],),
            batch=there[0],
            kind=fft.kind,
            inverse=fft.inverse if fft.kind is Kind.C2C else None,
            valid=(there[1],),
            norm=fft.norm,
            layout=Layout.FREQUENCY,
            order=fft.order,
        )
        columns_pass = Fft(
            (fft.size[0],),
            batch=columns,
            kind=Kind.C2C,
            inverse=fft.inverse,
            valid=(there[0],),
            norm=fft.norm,
            order=fft.order,
        )
        rows = Stage("rows", rows_pass, block, {"signal": "signal", "spectrum": BETWEEN})
        across = Stage("columns", columns_pass, block, {"signal": BETWEEN, "spectrum": "spectrum"})
        return (across, rows) if fft.inverse else (rows, across)

    def workspaces(self, problem: Problem) -> tuple[Workspace, ...]:
        fft = require_fft(problem)
        elements = prod((fft.signal_size[0], fft.spectrum_size[1]))
        return (Workspace(BETWEEN, elements * DType.COMPLEX64.itemsize),)
