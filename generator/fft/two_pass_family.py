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
from warpsmith.generator.pipeline import Pipeline, Stage
from warpsmith.generator.problem import DType
from warpsmith.generator.steps import Workspace

BETWEEN = "between"
"""Name of the workspace for the half-transformed plane: columns of the spectrum by rows of the signal."""


class FftTwoPass(Pipeline[Fft]):
    """A single two-dimensional `fft` with the spectrum transposed."""

    name = "fft_two_pass"

    def why_not(self, problem: Fft, device: Device) -> str | None:
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

    def stages(self, problem: Fft) -> tuple[Stage, ...]:
        fft, block = problem, FftBlock()
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

    def workspaces(self, problem: Fft) -> tuple[Workspace, ...]:
        elements = prod((problem.signal_size[0], problem.spectrum_size[1]))
        return (Workspace(BETWEEN, elements * DType.COMPLEX64.itemsize),)
