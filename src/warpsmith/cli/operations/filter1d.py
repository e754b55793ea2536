"""Options of `filter1d` on the command line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from warpsmith.cli.operations.real_array import real_array
from warpsmith.errors import BadArgument
from warpsmith.generator.filter1d.fields import Filter1dPass, SignalLayout
from warpsmith.generator.filter1d.lags import Lags
from warpsmith.generator.filter1d.problem import REALS, SIGNALS, Filter1d
from warpsmith.generator.precision import Precision
from warpsmith.generator.problem import Accuracy, DType, NonFinite

SignalOption = Annotated[int, typer.Option("--signal", metavar="N", help="Samples of each channel.")]
TapsOption = Annotated[int, typer.Option("--taps", metavar="M", help="Taps of each filter.")]
BatchOption = Annotated[int, typer.Option("--batch", help="Number of independent signals.")]
ModeOption = Annotated[
    str | None,
    typer.Option(
        "--mode",
        help="Slice of the result: full, same or valid, as in scipy.signal; or causal, an output for each sample, "
        "which lies at the end of its window: under the last tap, with --convolve under tap 0. Default full.",
        show_default=False,
    ),
]
LagsOption = Annotated[
    str | None,
    typer.Option(
        "--lags",
        metavar="FIRST,LAST",
        help="Any other slice, instead of --mode, both ends included. The window of lag L begins at sample L: tap 0 "
        "meets that sample, with --convolve the last tap.",
    ),
]
ChannelsOption = Annotated[int, typer.Option("--channels", help="Channels of each signal.")]
FiltersOption = Annotated[
    int | None,
    typer.Option(
        "--filters",
        help="Number of filters: 1, or one for each group of channels; default as many as in --weights, else 1.",
    ),
]
LayoutOption = Annotated[
    str,
    typer.Option(
        "--layout",
        help="Order of the dimensions: bct (batch, channels, time), as torch.conv1d, or btc (batch, time, channels).",
    ),
]
DTypeOption = Annotated[str, typer.Option("--dtype", help=f"Element type of the signal: {', '.join(SIGNALS)}.")]
TapsDTypeOption = Annotated[
    str | None,
    typer.Option(
        "--taps-dtype",
        help="Element type of the weights: float32, or the signal's if that is float16, bfloat16 or complex64. "
        "Default float32.",
        show_default=False,
    ),
]
ResultDTypeOption = Annotated[
    str | None,
    typer.Option(
        "--result-dtype",
        help=f"Element type of the result: {', '.join(REALS)}; complex64 for complex64. Default the signal's, or "
        "float32 for int16 and uint8.",
        show_default=False,
    ),
]
DownOption = Annotated[int, typer.Option("--down", metavar="D", help="Keep every D-th output, the first one included.")]
ConvolveOption = Annotated[
    bool,
    typer.Option(
        "--convolve",
        help="Reverse the order of the taps, as scipy.signal.convolve and numpy.convolve do: tap 0 meets the newest "
        "sample of a window. Without it tap 0 meets the oldest one, as in torch.conv1d.",
    ),
]
WeightsOption = Annotated[
    Path | None,
    typer.Option(
        "--weights",
        metavar="FILE.npy",
        help="Real weights of the filter, or of several (filters, taps), written into the kernel; tap 0 meets the "
        "oldest sample of a window, with --convolve the newest.",
    ),
]
PitchOption = Annotated[
    int | None,
    typer.Option(
        "--pitch",
        metavar="BYTES",
        help="Bytes from one row of the signal to the next: from channel to channel, with --layout btc from sample to "
        "sample; default contiguous.",
    ),
]
ResultPitchOption = Annotated[
    int | None,
    typer.Option("--result-pitch", metavar="BYTES", help="The same of the result; default contiguous."),
]
BiasOption = Annotated[bool, typer.Option("--bias", help="Add one number a channel to its outputs; real signals only.")]
ActivationOption = Annotated[
    str | None,
    typer.Option(
        "--activation",
        help="Function of each output, after the bias: silu, also called swish; real signals only. Default none.",
        show_default=False,
    ),
]
AccuracyOption = Annotated[
    str,
    typer.Option(
        "--accuracy",
        help="What the error bound is relative to: the largest sample of the channel times the filter's largest gain, "
        "or the sum of an output's own absolute terms if that is larger (signalwise), which admits transforms and "
        "tensor cores; or that sum alone (elementwise).",
    ),
]
NonFiniteOption = Annotated[
    str,
    typer.Option(
        "--nonfinite",
        help="Where a NaN or infinite sample may show: in outputs whose window contains it (window), or in others of "
        "its channel too (any), which saves some methods a check.",
    ),
]
PrecisionOption = Annotated[
    str,
    typer.Option(
        "--precision",
        help="ieee, as accurate as float32; or f16: factors of transforms may be rounded to float16, for an error "
        "bound of 4e-3 (signals of float16 and bfloat16).",
    ),
]
PassOption = Annotated[
    str,
    typer.Option(
        "--pass",
        help="The filter (fprop), the gradient of its signal (dgrad), those of its weights and bias (wgrad), or all of "
        "them (backward).",
    ),
]
StateOption = Annotated[
    str | None,
    typer.Option(
        "--state",
        help="Samples before and after the signal, of a causal slice: before, after, both, or carried, one array that "
        "is read and written in place. Default none.",
        show_default=False,
    ),
]
StateWidthOption = Annotated[
    int | None,
    typer.Option(
        "--state-width", metavar="W", help="Samples of a row of a carried state, if it keeps more than taps - 1."
    ),
]
StateRowsOption = Annotated[
    int | None,
    typer.Option(
        "--state-rows", metavar="R", help="Rows of a carried state, of which indices name one for each signal."
    ),
]
CircularOption = Annotated[
    bool, typer.Option("--circular", help="A carried state is a ring, in which positions say where new samples go.")
]
PackedOption = Annotated[
    int | None,
    typer.Option(
        "--packed",
        metavar="S",
        help="Number of sequences that lie one after the other in one signal; starts, as cu_seqlens, say where.",
    ),
]
GatesOption = Annotated[
    str | None,
    typer.Option(
        "--gates",
        help="Arrays that multiply element by element: before, the samples; after, the outputs, behind bias and "
        "activation; or both. Real signals of 16 or 32 bits. Default none.",
        show_default=False,
    ),
]
ProjectionOption = Annotated[
    int | None,
    typer.Option(
        "--projection",
        metavar="P",
        help="Taps of causal filters that the signal and both gates go through first; needs --gates both. "
        "Default none.",
        show_default=False,
    ),
]


def filter1d(
    signal: SignalOption,
    taps: TapsOption,
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
    weights: WeightsOption = None,
    pitch: PitchOption = None,
    result_pitch: ResultPitchOption = None,
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
) -> Filter1d:
    """Filter of long signals: correlation, as torch.conv1d computes it, tap 0 on the oldest sample of a window.

    With --convolve a convolution, as scipy.signal.convolve computes it, tap 0 on the newest sample.
    """
    given = dict(locals())  # options are called as the problem's fields are
    values, known = (None, 1) if weights is None else _read_weights(weights, taps, filters)
    own = {"filters": known if filters is None else filters, "weights": values}
    return Filter1d.of({**given, **own, "lags": None if lags is None else _lags(lags)})


def _lags(text: str) -> Lags:
    match = re.fullmatch(r"\s*(-?\d+)\s*,\s*(-?\d+)\s*", text)
    if match is None:
        raise BadArgument(f"--lags must be FIRST,LAST, such as -2,100; got {text!r}")
    return int(match[1]), int(match[2])


def _read_weights(path: Path, taps: int, filters: int | None) -> tuple[tuple[float, ...], int]:
    """Values of an .npy file, filter by filter, and the number of filters that it holds; `filters` is the required one.

    Raises BadArgument if it cannot be read, or holds something else.
    """
    array = real_array(path)
    # A second dimension gives the number of filters where --filters is missing.
    count = filters or (array.shape[0] if array.ndim == 2 else 0) or 1
    if array.shape not in ((count, taps), (count * taps,)):
        needed = f"{count} filters of {taps} taps need {(count, taps)}" if count > 1 else f"{taps} taps need {(taps,)}"
        raise BadArgument(f"{path} holds an array of shape {array.shape}; {needed}")
    return tuple(float(value) for value in array.ravel()), count
