"""Options of `fft` on the command line."""

from __future__ import annotations

from typing import Annotated

import typer

from warpsmith.cli.options import sizes
from warpsmith.generator.fft import Fft, Kind, Layout, Norm, Order
from warpsmith.generator.fft.signals import REPEATING, Border
from warpsmith.generator.padding import Outside, warn_of_reflect
from warpsmith.generator.problem import member

SizeOption = Annotated[
    str, typer.Option("--size", metavar="N|ROWSxCOLUMNS", help="Points of one transform, in one dimension or two.")
]
BatchOption = Annotated[int, typer.Option("--batch", help="Number of transforms.")]
KindOption = Annotated[str, typer.Option("--kind", help=f"Which side of the transform is real: {', '.join(Kind)}.")]
InverseOption = Annotated[bool, typer.Option("--inverse", help="Inverse direction for c2c; c2r is always inverse.")]
ValidOption = Annotated[
    str | None,
    typer.Option(
        "--valid",
        metavar="N|ROWSxCOLUMNS",
        help="Size of the part of the signal that exists: the rest is zero padding, or is left out of the result.",
    ),
]
StartOption = Annotated[
    str | None,
    typer.Option(
        "--start",
        metavar="N|ROWSxCOLUMNS",
        help="Point at which that part begins, cyclically; default the first.",
    ),
]
BorderOption = Annotated[
    str | None,
    typer.Option(
        "--border",
        metavar="MODE:PADS",
        help=f"Elements that stand before and behind that part in place of zeros, such as mirror:2+1x3 for two rows "
        f"above, one below and three columns on each side; MODE is one of {', '.join(REPEATING)}, or another library's "
        "name. reflect leaves the element at the edge out, as in NumPy and PyTorch; mirror says so without a warning.",
    ),
]
NormOption = Annotated[
    str, typer.Option("--norm", help=f"Which direction is scaled, as in numpy.fft: {', '.join(Norm)}.")
]
LayoutOption = Annotated[
    str,
    typer.Option("--layout", help=f"Memory layout of the spectrum: {', '.join(Layout)}."),
]
OrderOption = Annotated[
    str, typer.Option("--order", help=f"Order of the frequencies: {', '.join(Order)} (bit-reversed).")
]
TogetherOption = Annotated[
    int | None,
    typer.Option(
        "--together",
        metavar="N",
        help="Signals that follow each other and share their errors, and what is not finite: 1 keeps each to itself; "
        "default all of the batch.",
    ),
]


def fft(
    size: SizeOption,
    batch: BatchOption = 1,
    kind: KindOption = Kind.R2C.value,
    inverse: InverseOption = False,
    valid: ValidOption = None,
    norm: NormOption = Norm.BACKWARD.value,
    layout: LayoutOption = Layout.BATCH.value,
    order: OrderOption = Order.NATURAL.value,
    start: StartOption = None,
    border: BorderOption = None,
    together: TogetherOption = None,
) -> Fft:
    """Batched Fourier transforms of one or two dimensions, with the conventions of numpy.fft."""
    warn_of_reflect(border, Outside.MIRROR)
    return Fft(
        size=sizes(size, "--size"),
        batch=batch,
        kind=member(Kind, kind, "kind"),
        inverse=True if inverse else None,
        valid=None if valid is None else sizes(valid, "--valid"),
        norm=member(Norm, norm, "norm"),
        layout=member(Layout, layout, "layout"),
        order=member(Order, order, "order"),
        start=None if start is None else sizes(start, "--start"),
        border=Border.of(border),
        together=together,
    )
