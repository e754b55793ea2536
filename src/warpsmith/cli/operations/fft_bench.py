"""`warpsmith bench fft`: stored Fourier transforms beside cuFFT on a GPU, SciPy on the host, taking turns."""

from __future__ import annotations

import dataclasses
import statistics
from typing import Annotated

import typer

from warpsmith.cli.benching import (
    COPY_SHARE,
    COPY_TIME,
    ERROR,
    FOUND,
    RATE,
    TIME,
    Column,
    Output,
    PlotOption,
    Results,
    SaveOption,
    Subject,
    SustainedOption,
    measure,
    peer_column,
)
from warpsmith.cli.operations.fft import InverseOption, KindOption, LayoutOption, ValidOption, fft
from warpsmith.cli.options import DeviceOption, JsonOption, SeedOption, StoreOption
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.fft.problem import Fft, Kind, Layout, Norm
from warpsmith.generator.fft.signals import dimensions
from warpsmith.generator.problem import DType

FBFFT_SIZES = ("8x8", "16x16", "32x32", "64x64", "128x128")
"""Sizes of Vasilache et al. 2014, figure 8."""
SIGNAL_BYTES = {DeviceKind.CUDA: 256 << 20, DeviceKind.HOST: 4 << 20}
"""Bytes of all signals of a batch together: 2^26 real numbers or 2^25 complex ones, more than a GPU's caches hold. A
host, whose times say nothing about a GPU, gets 2^20 or 2^19.
"""

SPEED_UP = Column("speed-up over the fastest peer", lambda row: "-" if row.speed_up is None else f"{row.speed_up:.2f}x")

SizesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--size",
        metavar="N|ROWSxCOLUMNS",
        help="Points of one transform, in one dimension or two. Repeatable; default 8x8 to 128x128.",
    ),
]
BatchOption = Annotated[
    int | None,
    typer.Option(
        "--batch",
        help="Number of transforms; default as many as make 256 MiB of signal, 4 MiB on the host.",
        show_default=False,
    ),
]
NormOption = Annotated[
    str | None,
    typer.Option(
        "--norm",
        help=f"Which direction is scaled: {', '.join(Norm)}; default the other one, "
        "since cuFFT scales in a separate pass.",
        show_default=False,
    ),
]


def bench_fft(
    sizes: SizesOption = None,
    batch: BatchOption = None,
    kind: KindOption = Kind.R2C.value,
    inverse: InverseOption = False,
    valid: ValidOption = None,
    norm: NormOption = None,
    layout: LayoutOption = Layout.BATCH.value,
    device: DeviceOption = "auto",
    store: StoreOption = None,
    seed: SeedOption = 0,
    save: SaveOption = None,
    plot: PlotOption = None,
    sustained: SustainedOption = None,
    json: JsonOption = False,
) -> int:
    """Compare Fourier transforms with cuFFT on a GPU, or SciPy on the host; the default is fbfft's sizes."""
    ref = DeviceRef.parse(device)
    scaled = default_norm(kind, inverse=inverse) if norm is None else norm
    some = [fft(size, 1, kind, inverse, valid, scaled, layout) for size in sizes or FBFFT_SIZES]
    problems = [filled(one, ref.kind) if batch is None else dataclasses.replace(one, batch=batch) for one in some]
    output = Output(save, plot, json)
    rows = measure([_subject(problem) for problem in problems], ref, store, seed, sustained)
    output.write(Results(ref.device(), _workload(problems[0]), rows), "transform (points)", _show)
    return 0


def default_norm(kind: str, *, inverse: bool) -> str:
    """The norm that leaves the transform unscaled."""
    return str(Norm.FORWARD if kind == Kind.C2R or inverse else Norm.BACKWARD)


def filled(problem: Fft, device: DeviceKind) -> Fft:
    """The transform with a batch that fills SIGNAL_BYTES, including padding zeros; at least one."""
    element = (DType.FLOAT32 if problem.is_real else DType.COMPLEX64).itemsize
    return dataclasses.replace(problem, batch=max(SIGNAL_BYTES[device] // (element * problem.points), 1))


def _subject(problem: Fft) -> Subject:
    part = "" if problem.valid is None else f", valid {dimensions(problem.valid)}"
    return Subject(problem, {"transform": f"{dimensions(problem.size)}{part}", "batch": str(problem.batch)})


def _workload(problem: Fft) -> str:
    direction = "inverse " if problem.inverse and problem.kind is Kind.C2C else ""
    return f"{direction}{problem.kind} transforms, norm {problem.norm}, layout {problem.layout}"


def _show(results: Results) -> None:
    peers = map(peer_column, results.peers)
    results.print_comparison([FOUND, TIME, RATE, COPY_TIME, COPY_SHARE, *peers, SPEED_UP, ERROR])
    if speed_ups := [row.speed_up for row in results.rows if row.speed_up is not None]:
        print(f"\ngeometric mean of the speed-up over the fastest peer: {statistics.geometric_mean(speed_ups):.2f}x")
