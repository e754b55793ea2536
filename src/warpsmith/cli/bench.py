"""`warpsmith bench`: stored winners beside the other libraries, in one run, taking turns; and a GPU's memories."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import typer

from warpsmith.cli.memory_bench import bench_memory
from warpsmith.cli.operations.cgemm_bench import bench_cgemm
from warpsmith.cli.operations.conv2d_bench import bench_conv2d
from warpsmith.cli.operations.fft_bench import bench_fft
from warpsmith.cli.operations.filter1d_bench import bench_filter1d
from warpsmith.cli.operations.filter2d_bench import bench_filter2d
from warpsmith.cli.operations.ladder_bench import bench_ladder
from warpsmith.generator.cgemm import Cgemm
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.fft import Fft
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter2d import Filter2d

BENCHES: Mapping[str, Callable[..., int]] = {
    Filter2d.operation: bench_filter2d,
    Fft.operation: bench_fft,
    Filter1d.operation: bench_filter1d,
    Conv2d.operation: bench_conv2d,
    Cgemm.operation: bench_cgemm,
}
"""Command of each operation. It is separate from the registry, because measuring imports far more than a query
needs.
"""


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        help="Compare stored winners with the other libraries that are installed, in one run; measure memories.",
        no_args_is_help=True,
    )
    for name, bench in BENCHES.items():
        group.command(name)(bench)
    group.command("memory")(bench_memory)
    group.command("ladder")(bench_ladder)
    app.add_typer(group, name="bench")
