"""The operations as the command line names them. Adding one is one function here and one entry in OPERATIONS."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from warpsmith.cli.options import extent, join
from warpsmith.errors import BadArgument
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import DType, Problem, member


def filter2d(
    image: Annotated[str, typer.Option("--image", metavar="ROWSxCOLUMNS", help="One plane of the image, in pixels.")],
    filter_size: Annotated[str, typer.Option("--filter", metavar="ROWSxCOLUMNS", help="The filter, in taps.")],
    planes: Annotated[int, typer.Option("--planes", help="Independent planes, filtered alike.")] = 1,
    dtype: Annotated[str, typer.Option("--dtype", help=f"Element type: {', '.join(DType)}.")] = DType.FLOAT32.value,
    border: Annotated[
        str, typer.Option("--border", help=f"Pixels outside the image, as in scipy.ndimage: {', '.join(Border)}.")
    ] = Border.VALID.value,
    cval: Annotated[float, typer.Option("--cval", help="The value outside, for --border constant.")] = 0.0,
    weights: Annotated[
        Path | None,
        typer.Option("--weights", metavar="FILE.npy", help="The filter's values, to be written into the kernel."),
    ] = None,
) -> Problem:
    """An image filter: correlation with a small window, as scipy.ndimage.correlate."""
    taps = extent(filter_size, "--filter")
    return Filter2d(
        image=extent(image, "--image"),
        filter=taps,
        planes=planes,
        dtype=member(DType, dtype, "dtype"),
        border=member(Border, border, "border"),
        cval=cval,
        weights=None if weights is None else _weights(weights, taps),
    )


OPERATIONS: dict[str, Callable[..., Problem]] = {"filter2d": filter2d}


def add_commands(group: typer.Typer, verb: Callable[..., Any]) -> None:
    """Gives `group` one command an operation, which makes the problem and calls `verb` with it."""
    for name, operation in OPERATIONS.items():
        group.command(name)(join(operation, verb))


def _weights(path: Path, taps: tuple[int, int]) -> tuple[float, ...]:
    from numpy.lib.format import MAGIC_PREFIX, read_array

    try:
        with path.open("rb") as file:
            # numpy.load takes a file of another kind for a pickle, and says so.
            if file.read(len(MAGIC_PREFIX)) != MAGIC_PREFIX:
                raise BadArgument(f"{path} is no .npy file; write the weights with numpy.save")
            file.seek(0)
            array = read_array(file, allow_pickle=False)
    except OSError as error:
        raise BadArgument(f"cannot read the weights {path}: {error.strerror}") from None
    except BadArgument:
        raise
    except Exception as error:  # a damaged header gives rise to whatever NumPy's parser stumbles over
        raise BadArgument(f"cannot read the weights {path}: {error}; write them with numpy.save") from None
    if array.dtype.kind not in "fiub":
        raise BadArgument(f"{path} must hold real numbers; it holds {array.dtype}")
    if array.shape not in (taps, (math.prod(taps),)):
        rows, columns = taps
        raise BadArgument(f"{path} holds an array of shape {array.shape}; a filter of {rows}x{columns} needs {taps}")
    return tuple(float(value) for value in array.ravel())
