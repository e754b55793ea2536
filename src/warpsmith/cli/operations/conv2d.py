"""Options of `conv2d` on the command line."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Annotated, Any

import typer

from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Conv2d, ImageLayout, PaddingMode, Pass, Precision
from warpsmith.generator.conv2d.layer.problem import ACCURACIES
from warpsmith.generator.conv2d.layer.words import DTYPES
from warpsmith.generator.problem import Accuracy, DType, NonFinite, member

InputOption = Annotated[
    str, typer.Option("--input", metavar="N,C,H,W", help="Shape of x: images, channels, rows, columns.")
]
WeightOption = Annotated[
    str,
    typer.Option(
        "--weight", metavar="K,C/G,R,S", help="Shape of w: filters, channels a group, rows and columns of taps."
    ),
]
StrideOption = Annotated[
    str, typer.Option("--stride", metavar="N|ROWS,COLUMNS", help="Input pixels from one output to the next.")
]
PaddingOption = Annotated[
    str,
    typer.Option(
        "--padding",
        metavar="N|ROWS,COLUMNS|same|valid",
        help="Pixels on each side of the image; same keeps its size, as in PyTorch, and valid has none.",
    ),
]
PaddingModeOption = Annotated[
    str,
    typer.Option(
        "--padding-mode",
        help=f"What these are, as in PyTorch: {', '.join(PaddingMode)}. reflect leaves the pixel at the edge out, and "
        "mirror is the same; other libraries' names, such as edge and wrap, are known too.",
    ),
]
DilationOption = Annotated[
    str, typer.Option("--dilation", metavar="N|ROWS,COLUMNS", help="Input pixels from one tap to the next.")
]
GroupsOption = Annotated[int, typer.Option("--groups", help="Groups of channels, each with filters of its own.")]
PassOption = Annotated[
    str,
    typer.Option("--pass", help="The layer (fprop), or the gradient of its input (dgrad) or of its weights (wgrad)."),
]
PrecisionOption = Annotated[
    str,
    typer.Option(
        "--precision",
        help="Of products: ieee is float32; tf32, f16 and bf16 may round factors to 11, 11 and 8 significant bits. "
        "Sums are in float32.",
    ),
]
LayoutOption = Annotated[
    str,
    typer.Option("--layout", help="Of images and weights: nchw, or nhwc, which is PyTorch's channels_last."),
]
DTypeOption = Annotated[str, typer.Option("--dtype", help=f"Element type of all operands: {', '.join(DTYPES)}.")]
BiasOption = Annotated[bool, typer.Option("--bias", help="Add one number a filter; of dgrad, a channel.")]
ReluOption = Annotated[bool, typer.Option("--relu", help="End in a ReLU; not wgrad.")]
TransposedOption = Annotated[
    bool,
    typer.Option(
        "--transposed",
        help="A transposed convolution, as torch.nn.functional.conv_transpose2d: --input is what it is given, and "
        "--weight is C_in,C_out/G,R,S. It is the dgrad of a layer.",
    ),
]
OutputPaddingOption = Annotated[
    str,
    typer.Option(
        "--output-padding",
        metavar="N|ROWS,COLUMNS",
        help="Of --transposed: rows and columns of the result more, below and right.",
    ),
]
AccuracyOption = Annotated[
    str,
    typer.Option(
        "--accuracy", help=f"What errors are relative to: {', '.join(ACCURACIES)}; normwise admits Fourier transforms."
    ),
]
NonFiniteOption = Annotated[
    str,
    typer.Option(
        "--nonfinite",
        help="Where a NaN or an infinity may show: in results alone whose sum has it (window), or in others of the "
        "same image too, and in all of wgrad (any), which admits Fourier transforms and Winograd's method.",
    ),
]
WorkspaceOption = Annotated[
    str | None,
    typer.Option(
        "--workspace",
        metavar="BYTES",
        help="The most scratch memory of a plan, such as 256M or 1G; by default 1G, or 1.5 times the bytes of images, "
        "weights and results where that is more.",
    ),
]


def conv2d(
    input_shape: InputOption,
    weight: WeightOption,
    stride: StrideOption = "1",
    padding: PaddingOption = "0",
    dilation: DilationOption = "1",
    groups: GroupsOption = 1,
    pass_: PassOption = Pass.FPROP.value,
    precision: PrecisionOption = Precision.IEEE.value,
    layout: LayoutOption = ImageLayout.NCHW.value,
    bias: BiasOption = False,
    relu: ReluOption = False,
    accuracy: AccuracyOption = Accuracy.NORMWISE.value,
    workspace: WorkspaceOption = None,
    padding_mode: PaddingModeOption = PaddingMode.ZEROS.value,
    dtype: DTypeOption = DType.FLOAT32.value,
    transposed: TransposedOption = False,
    output_padding: OutputPaddingOption = "0",
    nonfinite: NonFiniteOption = NonFinite.ANY.value,
) -> Conv2d:
    """Convolution layers and their gradients, as torch.nn.functional.conv2d computes them."""
    made: Callable[..., Conv2d]
    if transposed:
        _check_transposed(pass_, padding_mode)
        made = functools.partial(Conv2d.transposed, output_padding=_pair(output_padding, "--output-padding"))
    else:
        _check_output_padding(output_padding)
        mode = member(PaddingMode, padding_mode, "padding_mode")
        made = functools.partial(Conv2d, pass_=member(Pass, pass_, "pass"), padding_mode=mode)
    pads: Any = padding if padding in ("same", "valid") else _pair(padding, "--padding", ", same or valid")
    images, channels, rows, columns = four(input_shape, "--input", "N,C,H,W, such as 32,64,56,56")
    filters, own, tap_rows, tap_columns = four(weight, "--weight", "K,C/G,R,S, such as 64,64,3,3")
    return made(
        input=(images, channels, rows, columns),
        weight=(filters, own, tap_rows, tap_columns),
        stride=_pair(stride, "--stride"),
        padding=pads,
        dilation=_pair(dilation, "--dilation"),
        groups=groups,
        precision=member(Precision, precision, "precision"),
        layout=member(ImageLayout, layout, "layout"),
        bias=bias,
        relu=relu,
        accuracy=member(Accuracy, accuracy, "accuracy", ACCURACIES),
        workspace=None if workspace is None else _nbytes(workspace, "--workspace"),
        dtype=member(DType, dtype, "dtype", DTYPES),
        nonfinite=member(NonFinite, nonfinite, "nonfinite"),
    )


def _check_transposed(pass_: str, padding_mode: str) -> None:
    """Raises BadArgument: a transposed convolution is a pass of its own, and has no padding mode."""
    if pass_ != Conv2d.pass_:  # the default
        raise BadArgument("--transposed is a pass of its own: leave --pass out")
    if padding_mode != PaddingMode.ZEROS:
        raise BadArgument("--transposed has no padding mode, as in PyTorch")


def _check_output_padding(output_padding: str) -> None:
    """Raises BadArgument if an output padding is given."""
    if output_padding != "0":
        raise BadArgument("--output-padding is of a transposed convolution: add --transposed")


def _nbytes(text: str, name: str) -> int:
    """Bytes for a text such as `4096`, `64K`, `256M` or `1G`. Raises BadArgument."""
    match = re.fullmatch(r"\s*(\d+)\s*([kmg]?)(?:i?b)?\s*", text.lower())
    if match is None:
        raise BadArgument(f"{name} must be a number of bytes, such as 4096, 64K, 256M or 1G; got {text!r}")
    return int(match[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[match[2]]


def four(text: str, name: str, form: str) -> list[int]:
    """Four numbers of a text such as `32,64,56,56`. Raises BadArgument."""
    if re.fullmatch(r"\s*\d+\s*(,\s*\d+\s*){3}", text) is None:
        raise BadArgument(f"{name} must be {form}; got {text!r}")
    return [int(number) for number in text.split(",")]


def _pair(text: str, name: str, others: str = "") -> tuple[int, int]:
    """Two numbers of a text: `2` is (2, 2), `2,1` is (2, 1). Raises BadArgument."""
    match = re.fullmatch(r"\s*(\d+)\s*(?:,\s*(\d+)\s*)?", text)
    if match is None:
        raise BadArgument(f"{name} must be N or ROWS,COLUMNS{others}; got {text!r}")
    rows, columns = match.groups()
    return int(rows), int(rows if columns is None else columns)
