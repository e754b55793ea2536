"""`warpsmith bench filter1d`: stored filters of signals beside the other libraries, taking turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from warpsmith.cli.benching import (
    COPY_SHARE,
    COPY_TIME,
    ERROR,
    FASTEST_PEER,
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
from warpsmith.cli.operations.filter1d import (
    ActivationOption,
    BatchOption,
    BiasOption,
    ChannelsOption,
    ConvolveOption,
    DownOption,
    DTypeOption,
    FiltersOption,
    LagsOption,
    LayoutOption,
    ModeOption,
    PassOption,
    ResultDTypeOption,
    TapsDTypeOption,
    filter1d,
)
from warpsmith.cli.options import DeviceOption, JsonOption, SeedOption, StoreOption
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.filter1d import Filter1d, Filter1dPass, SignalLayout
from warpsmith.generator.problem import DType

USUAL_SIGNAL = 2**24
USUAL_TAPS = (5, 17, 33, 65, 129)

FLOP_RATE = Column("TFLOP/s", lambda row: f"{row.subject.problem.flops / row.ours / 1000:.3g}")

SignalOption = Annotated[int, typer.Option("--signal", metavar="N", help="Samples of each channel.")]
TapsOption = Annotated[
    list[int] | None,
    typer.Option(
        "--taps", metavar="M", help=f"Taps of each filter. Repeatable; default {', '.join(map(str, USUAL_TAPS))}."
    ),
]


def bench_filter1d(
    signal: SignalOption = USUAL_SIGNAL,
    taps: TapsOption = None,
    batch: BatchOption = 1,
    mode: ModeOption = None,
    channels: ChannelsOption = 1,
    filters: FiltersOption = None,
    layout: LayoutOption = SignalLayout.BCT.value,
    dtype: DTypeOption = DType.FLOAT32.value,
    lags: LagsOption = None,
    down: DownOption = 1,
    convolve: ConvolveOption = False,
    taps_dtype: TapsDTypeOption = None,
    result_dtype: ResultDTypeOption = None,
    bias: BiasOption = False,
    activation: ActivationOption = None,
    pass_: PassOption = Filter1dPass.FPROP.value,
    device: DeviceOption = "auto",
    store: StoreOption = None,
    seed: SeedOption = 0,
    save: SaveOption = None,
    plot: PlotOption = None,
    sustained: SustainedOption = None,
    json: JsonOption = False,
) -> int:
    """Compare filters of signals with the other libraries that are installed."""
    problems = [
        filter1d(
            signal,
            count,
            batch=batch,
            mode=mode,
            channels=channels,
            filters=filters,
            layout=layout,
            dtype=dtype,
            lags=lags,
            down=down,
            convolve=convolve,
            taps_dtype=taps_dtype,
            result_dtype=result_dtype,
            bias=bias,
            activation=activation,
            pass_=pass_,
        )
        for count in taps or USUAL_TAPS
    ]
    output, ref = Output(save, plot, json), DeviceRef.parse(device)
    output.write(_results(problems, ref, store, seed, sustained), "taps", _show)
    return 0


def _results(
    problems: Sequence[Filter1d], ref: DeviceRef, store: StoreOption, seed: int, sustained: SustainedOption
) -> Results:
    rows = measure([Subject(each, {"taps": str(each.taps)}) for each in problems], ref, store, seed, sustained)
    return Results(ref.device(), workload(problems[0]), rows)


def workload(problem: Filter1d) -> str:
    """Description of what all rows have in common, such as `signals of 65536 samples, float32, mode full`."""
    counts = (("batch", problem.batch), ("channels", problem.channels), ("filters", problem.filters))
    several = "".join(f", {name} {count}" for name, count in counts if count > 1)
    layout = f", {problem.layout}" if problem.channels > 1 else ""
    part = f"mode {problem.mode}" if problem.lags is None else f"lags {problem.lags[0]} to {problem.lags[1]}"
    down = f", one output of {problem.down}" if problem.down > 1 else ""
    bias = ", bias" if problem.bias else ""
    activation = f", {problem.activation}" if problem.activation is not None else ""
    end = f"{down}{bias}{activation}{f', pass {problem.pass_}' if problem.pass_.is_gradient else ''}"
    return f"signals of {problem.signal} samples{several}{layout}, {problem.dtype}, {part}{end}"


def _show(results: Results) -> None:
    peers = map(peer_column, results.peers)
    results.print_comparison([FOUND, TIME, RATE, FLOP_RATE, COPY_TIME, COPY_SHARE, *peers, FASTEST_PEER, ERROR])
