"""Errors of convolution passes on six kinds of data, warpsmith's and cuDNN's in float32, against float64 sums.

    usage: python benchmarks/conv2d_accuracy.py [LAYER[:PASS] ...] [--method auto ...] [--device cuda:0] [--json]
such as: python benchmarks/conv2d_accuracy.py                                    # all layers, by what answers for them
         python benchmarks/conv2d_accuracy.py alexnet L5 --method conv2d_warpgroup auto

Layers are those of conv2d_layers.py. For each pass the plans of all methods that solve it are made, from the stores
that `warpsmith.plan` reads and from defaults otherwise, and called once on each kind of data:

    normal       mean 0 and standard deviation 1
    positive     the same after a ReLU: half of it zeros
    lognormal2   e to the power of 2 times a normal number, with a random sign
    lognormal3   e to the power of 3 times a normal number, with a random sign
    tiny, huge   normal numbers times 1e-6 and 1e4

An error is the norm of all differences over the norm of the result, both in float64. The columns have one error for
each kind of data. `nan` means that the result has a NaN where PyTorch's float64 has a number. PyTorch computes the
reference on the GPU, and cuDNN's rows are its float32 results with TF32 off. The exit code is 1 if an error of
warpsmith's is above 1e-6.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from conv2d_bench.points import LAYERS, Point, layers, taken
from torch import Tensor

import warpsmith as ws
from warpsmith.cli.output import print_table
from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.plans.plan import Plan

BOUND = 1e-6
COMPILING = 12
"""Plans that are made at the same time."""


def normal(shape: tuple[int, ...]) -> Tensor:
    return torch.randn(shape, device="cuda")


def lognormal(sigma: float) -> Callable[[tuple[int, ...]], Tensor]:
    """Lognormal numbers with random signs."""

    def draw(shape: tuple[int, ...]) -> Tensor:
        return torch.exp(normal(shape) * sigma) * torch.sign(normal(shape))

    return draw


KINDS: dict[str, Callable[[tuple[int, ...]], Tensor]] = {
    "normal": normal,
    "positive": lambda shape: normal(shape).relu_(),
    "lognormal2": lognormal(2.0),
    "lognormal3": lognormal(3.0),
    "tiny": lambda shape: normal(shape) * 1e-6,
    "huge": lambda shape: normal(shape) * 1e4,
}


@dataclasses.dataclass(frozen=True)
class Row:
    """Errors of one plan, or of cuDNN, by kind of data."""

    layer: str
    solver: str
    errors: dict[str, float]

    @property
    def worst(self) -> float:
        """Largest error; NaN if any is NaN."""
        values = list(self.errors.values())
        return next((each for each in values if each != each), max(values))


def pytorchs(problem: Conv2d, *operands: Tensor) -> Tensor:
    """Computes the pass by PyTorch, in the type of its operands."""
    options: dict[str, Any] = {"stride": problem.stride, "dilation": problem.dilation, "groups": problem.groups}
    options["padding"] = tuple(before for before, _ in problem.padding)
    if problem.pass_ is Pass.FPROP:
        return torch.nn.functional.conv2d(*operands, **options)
    if problem.pass_ is Pass.DGRAD:
        dy, w = operands
        return torch.nn.grad.conv2d_input(problem.input, w, dy, **options)
    x, dy = operands
    return torch.nn.grad.conv2d_weight(x, problem.weight, dy, **options)


def error_of(result: Tensor, exact: Tensor) -> float:
    """Norm of the error relative to the norm of `exact`; NaN if the result has one."""
    return float(torch.linalg.vector_norm(result.double() - exact) / torch.linalg.vector_norm(exact))


def made(points: list[Point], methods: list[str], device: str) -> list[tuple[Point, list[Plan]]]:
    """Each pass with the plans of all methods that solve it. Many are compiled at the same time."""

    def plan_of(case: tuple[Point, str]) -> Plan | None:
        point, method = case
        try:
            return ws.plan(point.problem, device, method=method)
        except BadArgument as error:
            print(f"{point.name}: {error}", file=sys.stderr)
            return None

    cases = [(point, method) for point in points for method in methods]
    with ThreadPoolExecutor(COMPILING) as pool:
        plans = list(pool.map(plan_of, cases))
    count = len(methods)
    return [
        (point, [plan for plan in plans[place * count : (place + 1) * count] if plan is not None])
        for place, point in enumerate(points)
    ]


def rows(point: Point, plans: list[Plan]) -> Iterator[Row]:
    """One row for each plan and one for cuDNN."""
    problem = point.problem
    names = [*dict.fromkeys(plan.match.program.family for plan in plans), "cuDNN"]
    errors: dict[str, dict[str, float]] = {name: {} for name in names}
    for kind, draw in KINDS.items():
        operands = [draw(each.shape) for each in problem.inputs]
        exact = pytorchs(problem, *(each.double() for each in operands))
        for plan in plans:
            errors[plan.match.program.family][kind] = error_of(plan(*operands), exact)
        errors["cuDNN"][kind] = error_of(pytorchs(problem, *operands), exact)
        del operands, exact
    torch.cuda.empty_cache()
    for name, found in errors.items():
        yield Row(point.name, name, found)


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layers", nargs="*", metavar="LAYER[:PASS]", default=list(LAYERS))
    parser.add_argument("--method", nargs="*", default=["auto"])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(words)
    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    found = []
    for point, plans in made(taken(layers(given.layers)), given.method, given.device):
        for row in rows(point, plans):
            print(f"{row.layer}, {row.solver}: {row.worst:.1e}", file=sys.stderr, flush=True)
            found.append(row)
    if given.json:
        print(json.dumps([dataclasses.asdict(row) for row in found], indent=1))
    else:
        cells = [(row.layer, row.solver, *(f"{each:.1e}" for each in row.errors.values())) for row in found]
        print_table(("layer", "solver", *KINDS), cells)
    ours = [row.worst for row in found if row.solver != "cuDNN"]
    sys.exit(0 if ours and all(each <= BOUND for each in ours) else 1)


if __name__ == "__main__":
    main()
