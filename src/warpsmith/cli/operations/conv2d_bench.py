"""`warpsmith bench conv2d`: stored convolution layers beside cuDNN on a GPU, PyTorch on the host, taking turns."""

from __future__ import annotations

from typing import Annotated

import typer

from warpsmith.cli.benching import (
    ERROR,
    FASTEST_PEER,
    FOUND,
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
from warpsmith.cli.operations.conv2d import (
    AccuracyOption,
    BiasOption,
    DilationOption,
    DTypeOption,
    GroupsOption,
    InputOption,
    LayoutOption,
    NonFiniteOption,
    PaddingModeOption,
    PaddingOption,
    PrecisionOption,
    ReluOption,
    StrideOption,
    WeightOption,
    conv2d,
)
from warpsmith.cli.options import DeviceOption, JsonOption, SeedOption, StoreOption
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d import Conv2d, ImageLayout, PaddingMode, Pass, Precision
from warpsmith.generator.problem import Accuracy, DType, NonFinite, member

FLOP_RATE = Column("TFLOP/s", lambda row: f"{row.subject.problem.flops / row.ours / 1000:.3g}")

PassesOption = Annotated[
    list[str] | None,
    typer.Option("--pass", help=f"One of {', '.join(Pass)}. Repeatable; default all three.", show_default=False),
]


def bench_conv2d(
    input_shape: InputOption,
    weight: WeightOption,
    stride: StrideOption = "1",
    padding: PaddingOption = "0",
    dilation: DilationOption = "1",
    groups: GroupsOption = 1,
    passes: PassesOption = None,
    bias: BiasOption = False,
    relu: ReluOption = False,
    padding_mode: PaddingModeOption = PaddingMode.ZEROS.value,
    precision: PrecisionOption = Precision.IEEE.value,
    layout: LayoutOption = ImageLayout.NCHW.value,
    dtype: DTypeOption = DType.FLOAT32.value,
    accuracy: AccuracyOption = Accuracy.NORMWISE.value,
    nonfinite: NonFiniteOption = NonFinite.ANY.value,
    device: DeviceOption = "auto",
    store: StoreOption = None,
    seed: SeedOption = 0,
    save: SaveOption = None,
    plot: PlotOption = None,
    sustained: SustainedOption = None,
    json: JsonOption = False,
) -> int:
    """Compare the passes of a convolution layer with cuDNN on a GPU, or PyTorch on the host.

    Bias and ReLU are of the forward pass alone, in this comparison.
    """
    shape = (input_shape, weight, stride, padding, dilation, groups)
    problems = [
        conv2d(
            *shape,
            each,
            precision,
            layout,
            bias=bias and not each.is_gradient,
            relu=relu and not each.is_gradient,
            padding_mode=padding_mode,
            dtype=dtype,
            accuracy=accuracy,
            nonfinite=nonfinite,
        )
        for each in [member(Pass, word, "pass") for word in passes or Pass]
    ]
    output, ref = Output(save, plot, json), DeviceRef.parse(device)
    rows = measure([Subject(each, {"pass": str(each.pass_)}) for each in problems], ref, store, seed, sustained)
    output.write(Results(ref.device(), _workload(problems[0]), rows), "pass", _show)
    return 0


def _workload(problem: Conv2d) -> str:
    shapes = (",".join(map(str, shape)) for shape in (problem.input, problem.weight))
    mode = "" if problem.padding_mode is PaddingMode.ZEROS else f", padding {problem.padding_mode}"
    text = "input {}, weight {}, stride {}x{}, groups {}{}, {}"
    words = [str(problem.dtype)]
    words += [f"precision {problem.precision}"] * (problem.precision is not Precision.IEEE)
    words += [str(problem.layout)] * (problem.layout is not ImageLayout.NCHW)
    words += [f"accuracy {problem.accuracy}"] * (problem.accuracy is not Accuracy.NORMWISE)
    words += [f"nonfinite {problem.nonfinite}"] * (problem.nonfinite is not NonFinite.ANY)
    return text.format(*shapes, *problem.stride, problem.groups, mode, ", ".join(words))


def _show(results: Results) -> None:
    peers = map(peer_column, results.peers)
    results.print_comparison([FOUND, TIME, FLOP_RATE, *peers, FASTEST_PEER, ERROR])
