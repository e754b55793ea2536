"""`warpsmith bench cgemm`: stored products beside cuBLAS on a GPU, PyTorch on the host, taking turns."""

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
from warpsmith.cli.operations.cgemm import (
    AccuracyOption,
    AOption,
    BOption,
    ColumnsOption,
    RowsOption,
    TermsOption,
    cgemm,
)
from warpsmith.cli.options import DeviceOption, JsonOption, SeedOption, StoreOption
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.cgemm import Cgemm, Op
from warpsmith.generator.problem import Accuracy

FLOP_RATE = Column("TFLOP/s", lambda row: f"{row.subject.problem.flops / row.ours / 1000:.3g}")

BatchesOption = Annotated[list[int], typer.Option("--batch", help="Number of products. Repeatable.")]


def bench_cgemm(
    batch: BatchesOption,
    m: RowsOption,
    n: ColumnsOption,
    k: TermsOption,
    a: AOption = Op.N.value,
    b: BOption = Op.N.value,
    accuracy: AccuracyOption = Accuracy.ELEMENTWISE.value,
    device: DeviceOption = "auto",
    store: StoreOption = None,
    seed: SeedOption = 0,
    save: SaveOption = None,
    plot: PlotOption = None,
    sustained: SustainedOption = None,
    json: JsonOption = False,
) -> int:
    """Compare batched complex matrix products with cuBLAS on a GPU, or PyTorch on the host."""
    problems = [cgemm(each, m, n, k, a, b, accuracy) for each in batch]
    output, ref = Output(save, plot, json), DeviceRef.parse(device)
    rows = measure([Subject(each, {"batch": str(each.batch)}) for each in problems], ref, store, seed, sustained)
    output.write(Results(ref.device(), _workload(problems[0]), rows), "batch", _show)
    return 0


def _workload(problem: Cgemm) -> str:
    return f"products of {problem.m}x{problem.k} by {problem.k}x{problem.n}, a {problem.a}, b {problem.b}, complex64"


def _show(results: Results) -> None:
    peers = map(peer_column, results.peers)
    results.print_comparison([FOUND, TIME, FLOP_RATE, *peers, FASTEST_PEER, ERROR])
