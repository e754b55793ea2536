"""Options of `filter2d` on the command line."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from warpsmith.cli.operations.real_array import real_array
from warpsmith.cli.options import extent, pair
from warpsmith.errors import BadArgument
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.filter2d.problem import ACCURACIES
from warpsmith.generator.padding import Outside, warn_of_reflect
from warpsmith.generator.problem import PIXELS, Accuracy, DType, NonFinite, member

_DTYPES = ", ".join(PIXELS)
ImageOption = Annotated[
    str, typer.Option("--image", metavar="ROWSxCOLUMNS", help="Size of one plane of the image, in pixels.")
]
FilterOption = Annotated[str, typer.Option("--filter", metavar="ROWSxCOLUMNS", help="Size of the filter, in taps.")]
PlanesOption = Annotated[
    int, typer.Option("--planes", help="Number of independent planes, filtered with the same weights.")
]
ChannelsOption = Annotated[int, typer.Option("--channels", help="Interleaved channels per pixel, 1 to 4.")]
FiltersOption = Annotated[
    int | None,
    typer.Option("--filters", help="Number of filters applied in one pass; default as many as in --weights, else 1."),
]
DTypeOption = Annotated[str, typer.Option("--dtype", help=f"Element type of the image: {_DTYPES}.")]
ResultDTypeOption = Annotated[
    str | None, typer.Option("--result-dtype", help="Element type of the result; default the image's.")
]
BorderOption = Annotated[
    str,
    typer.Option(
        "--border",
        help=f"Pixels outside the image, as in scipy.ndimage: {', '.join(Border)}; "
        "or another library's name: edge or replicate (nearest), symmetric (reflect), reflect101 (mirror), "
        "circular (wrap). reflect repeats the pixel at the edge, as in SciPy and OpenCV: symmetric says so without a "
        "warning; NumPy's and PyTorch's reflect is mirror.",
    ),
]
CvalOption = Annotated[float, typer.Option("--cval", help="Value outside the image, for --border constant.")]
ConvolveOption = Annotated[
    bool, typer.Option("--convolve", help="Turn the filter by 180 degrees, as scipy.ndimage.convolve does.")
]
AnchorOption = Annotated[
    str | None,
    typer.Option("--anchor", metavar="ROW,COLUMN", help="The tap that lies on the output pixel; default the centre."),
]
OriginOption = Annotated[
    str | None,
    typer.Option(
        "--origin", metavar="ROW,COLUMN", help="The same as scipy.ndimage counts it: the offset from the centre."
    ),
]
PitchOption = Annotated[
    int | None, typer.Option("--pitch", metavar="BYTES", help="Row pitch of the image in bytes; default contiguous.")
]
ResultPitchOption = Annotated[
    int | None,
    typer.Option("--result-pitch", metavar="BYTES", help="Row pitch of the result in bytes; default contiguous."),
]
AccuracyOption = Annotated[
    str,
    typer.Option(
        "--accuracy",
        help="What the error bound is relative to: the sum of an output's own absolute terms (elementwise), or the "
        "largest pixel of its window (normwise), which admits faster algorithms, or the largest pixel of the image "
        "times the filter's largest gain (imagewise), which admits Fourier transforms too.",
    ),
]
NonFiniteOption = Annotated[
    str,
    typer.Option(
        "--nonfinite",
        help="Where a NaN or infinite pixel may show: in outputs whose window contains it (window), or in others "
        "near it too (any), which saves tensor cores a check of float32 and float16 images.",
    ),
]
WeightsOption = Annotated[
    Path | None,
    typer.Option(
        "--weights",
        metavar="FILE.npy",
        help="Weights of the filter, or of several (filters, rows, columns), written into the kernel as literals.",
    ),
]


def filter2d(
    image: ImageOption,
    filter_size: FilterOption,
    planes: PlanesOption = 1,
    dtype: DTypeOption = DType.FLOAT32.value,
    border: BorderOption = Border.VALID.value,
    cval: CvalOption = 0.0,
    weights: WeightsOption = None,
    channels: ChannelsOption = 1,
    filters: FiltersOption = None,
    result_dtype: ResultDTypeOption = None,
    convolve: ConvolveOption = False,
    anchor: AnchorOption = None,
    origin: OriginOption = None,
    pitch: PitchOption = None,
    result_pitch: ResultPitchOption = None,
    accuracy: AccuracyOption = Accuracy.ELEMENTWISE.value,
    nonfinite: NonFiniteOption = NonFinite.WINDOW.value,
) -> Filter2d:
    """Image filter: correlation with a small filter, as scipy.ndimage.correlate computes it."""
    taps = extent(filter_size, "--filter")
    warn_of_reflect(border, Outside.SYMMETRIC)
    values, known = (None, 1) if weights is None else read_weights(weights, taps, filters)
    return Filter2d(
        image=extent(image, "--image"),
        filter=taps,
        planes=planes,
        dtype=member(DType, dtype, "dtype", PIXELS),
        border=Border.of(border),
        cval=cval,
        weights=values,
        channels=channels,
        filters=known if filters is None else filters,
        result_dtype=None if result_dtype is None else member(DType, result_dtype, "result dtype", PIXELS),
        convolve=convolve,
        anchor=_anchor(anchor, origin, taps),
        pitch=pitch,
        result_pitch=result_pitch,
        accuracy=member(Accuracy, accuracy, "accuracy", ACCURACIES),
        nonfinite=member(NonFinite, nonfinite, "nonfinite"),
    )


def _anchor(anchor: str | None, origin: str | None, taps: tuple[int, int]) -> tuple[int, int] | None:
    """The anchor tap. scipy.ndimage counts `origin` from the middle of the filter."""
    if anchor is not None and origin is not None:
        raise BadArgument("--anchor and --origin both set the anchor; give one of them")
    if origin is None:
        return None if anchor is None else pair(anchor, "--anchor")
    row, column = (size // 2 + away for size, away in zip(taps, pair(origin, "--origin"), strict=True))
    if not (0 <= row < taps[0] and 0 <= column < taps[1]):
        rows, columns = (f"{-(size // 2)} to {(size - 1) // 2}" for size in taps)
        raise BadArgument(
            f"--origin {origin} lies outside the {taps[0]}x{taps[1]} filter; its rows go from {rows}, "
            f"its columns from {columns}"
        )
    return row, column


def read_weights(path: Path, taps: tuple[int, int], filters: int | None) -> tuple[tuple[float, ...], int]:
    """Values of an .npy file, in C order, and the number of filters that it holds; `filters` is the required number.

    Raises BadArgument if it cannot be read, or holds something else.
    """
    array = real_array(path)
    # A third dimension gives the number of filters where --filters is missing.
    count = filters or (array.shape[0] if array.ndim == 3 else 0) or 1
    if array.shape not in ((count, *taps), (count * math.prod(taps),)) and not (count == 1 and array.shape == taps):
        rows, columns = taps
        needed = (
            f"{count} filters of {rows}x{columns} need {(count, *taps)}"
            if count > 1
            else f"a filter of {rows}x{columns} needs {taps}"
        )
        raise BadArgument(f"{path} holds an array of shape {array.shape}; {needed}")
    return tuple(float(value) for value in array.ravel()), count
