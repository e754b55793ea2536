"""`warpsmith bench filter1d`: stored filters of signals beside the other libraries, taking turns."""

from __future__ import annotations

from typing import Annotated, Any

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
    AccuracyOption,
    ActivationOption,
    BatchOption,
    BiasOption,
    ChannelsOption,
    CircularOption,
    ConvolveOption,
    DownOption,
    DTypeOption,
    FiltersOption,
    GatesOption,
    LagsOption,
    LayoutOption,
    ModeOption,
    NonFiniteOption,
    PackedOption,
    PassOption,
    PrecisionOption,
    ProjectionOption,
    ResultDTypeOption,
    StateOption,
    StateRowsOption,
    StateWidthOption,
    TapsDTypeOption,
    filter1d,
)
from warpsmith.cli.options import DeviceOption, JsonOption, SeedOption, StoreOption
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.filter1d import Filter1d, Filter1dPass, SignalLayout
from warpsmith.generator.precision import Precision
from warpsmith.generator.problem import Accuracy, DType, NonFinite

USUAL_SIGNAL = 2**24
USUAL_TAPS = (5, 17, 33, 65, 129)

Words = tuple[Any, ...]
"""Options in the order of the problem's fields."""

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
    accuracy: AccuracyOption = Accuracy.SIGNALWISE.value,
    nonfinite: NonFiniteOption = NonFinite.WINDOW.value,
    pass_: PassOption = Filter1dPass.FPROP.value,
    state: StateOption = None,
    state_width: StateWidthOption = None,
    state_rows: StateRowsOption = None,
    circular: CircularOption = False,
    packed: PackedOption = None,
    gates: GatesOption = None,
    projection: ProjectionOption = None,
    precision: PrecisionOption = Precision.IEEE.value,
    device: DeviceOption = "auto",
    store: StoreOption = None,
    seed: SeedOption = 0,
    save: SaveOption = None,
    plot: PlotOption = None,
    sustained: SustainedOption = None,
    json: JsonOption = False,
) -> int:
    """Compare filters of signals with the other libraries that are installed."""
    shape: Words = (batch, mode, channels, filters, layout, dtype, lags, down, convolve, taps_dtype, result_dtype)
    dense: Words = (None, None, None)  # weights of each call, and no gaps between rows
    states: Words = state, state_width, state_rows, circular, packed
    rules: Words = bias, activation, accuracy, nonfinite, pass_, *states, gates, projection, precision
    problems = [filter1d(signal, count, *shape, *dense, *rules) for count in taps or USUAL_TAPS]
    output, ref = Output(save, plot, json), DeviceRef.parse(device)
    rows = measure([Subject(each, {"taps": str(each.taps)}) for each in problems], ref, store, seed, sustained)
    output.write(Results(ref.device(), workload(problems[0]), rows), "taps", _show)
    return 0


def workload(problem: Filter1d) -> str:
    """Description of what all rows have in common, such as `signals of 65536 samples, float32, mode full`."""
    counts = (("batch", problem.batch), ("channels", problem.channels), ("filters", problem.filters))
    several = "".join(f", {name} {count}" for name, count in counts if count > 1)
    layout = f", {problem.layout}" if problem.channels > 1 else ""
    part = f"mode {problem.mode}" if problem.lags is None else f"lags {problem.lags[0]} to {problem.lags[1]}"
    down = f", one output of {problem.down}" if problem.down > 1 else ""
    bias = ", bias" if problem.bias else ""
    activation = f", {problem.activation}" if problem.activation is not None else ""
    accuracy = ", elementwise" if problem.accuracy is Accuracy.ELEMENTWISE else ""
    nonfinite = ", nonfinite any" if problem.nonfinite is NonFinite.ANY else ""
    pass_ = f", {problem.pass_}" if problem.pass_.is_gradient else ""
    gates = "" if problem.gates is None else f", gates {problem.gates}"
    gates += "" if problem.projection is None else f" after projections of {problem.projection} taps"
    gates += "" if problem.precision is Precision.IEEE else f", precision {problem.precision}"
    rules = f"{gates}{accuracy}{nonfinite}{pass_}{_states(problem)}"
    kind = f"{several}{layout}, {problem.dtype}, {part}{down}{bias}{activation}{rules}"
    return f"signals of {problem.signal} samples{kind}"


def _states(problem: Filter1d) -> str:
    """Words for packed sequences and a state, such as `, 64 packed sequences, state both`."""
    words = [] if problem.packed is None else [f"{problem.packed} packed sequences"]
    if problem.state is not None:
        width = "" if problem.state_width is None else f" of {problem.state_width} samples"
        rows = "" if problem.state_rows is None else f" in {problem.state_rows} rows"
        words.append(f"state {problem.state}{width}{rows}{', circular' if problem.circular else ''}")
    return "".join(f", {each}" for each in words)


def _show(results: Results) -> None:
    peers = map(peer_column, results.peers)
    results.print_comparison([FOUND, TIME, RATE, FLOP_RATE, COPY_TIME, COPY_SHARE, *peers, FASTEST_PEER, ERROR])
