"""Options of `cgemm` on the command line."""

from __future__ import annotations

from typing import Annotated

import typer

from warpsmith.generator.cgemm import Cgemm, Op
from warpsmith.generator.cgemm.problem import ACCURACIES
from warpsmith.generator.problem import Accuracy, member

BatchOption = Annotated[int, typer.Option("--batch", help="Number of products.")]
RowsOption = Annotated[int, typer.Option("--m", help="Rows of a result.")]
ColumnsOption = Annotated[int, typer.Option("--n", help="Columns of a result.")]
TermsOption = Annotated[int, typer.Option("--k", help="Terms of each sum.")]
AOption = Annotated[
    str, typer.Option("--a", help="How a lies in memory: n (batch, m, k), t (batch, k, m), or c, conjugated too.")
]
BOption = Annotated[
    str, typer.Option("--b", help="How b lies in memory: n (batch, k, n), t (batch, n, k), or c, conjugated too.")
]
AccuracyOption = Annotated[
    str,
    typer.Option(
        "--accuracy", help=f"What errors are relative to: {', '.join(ACCURACIES)}; normwise admits sums of halves."
    ),
]


def cgemm(
    batch: BatchOption,
    m: RowsOption,
    n: ColumnsOption,
    k: TermsOption,
    a: AOption = Op.N.value,
    b: BOption = Op.N.value,
    accuracy: AccuracyOption = Accuracy.ELEMENTWISE.value,
) -> Cgemm:
    """Batched complex matrix products, as torch.bmm computes them."""
    ops = member(Op, a, "op of a"), member(Op, b, "op of b")
    return Cgemm(batch, m, n, k, *ops, member(Accuracy, accuracy, "accuracy", ACCURACIES))
