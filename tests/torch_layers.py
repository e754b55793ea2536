"""Shared helpers for tests of PyTorch's operators: operands, references, and a log of the plans called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

import warpsmith.torch as wt
from warpsmith.generator.conv2d import Conv2d
from warpsmith.torch import direct, layers

HALVES = (torch.float16, torch.bfloat16)
DTYPES = (torch.float32, *HALVES)
LAYOUTS = {"nchw": torch.contiguous_format, "nhwc": torch.channels_last}
ROUNDING = {torch.float32: 2e-6, torch.float16: 2**-11, torch.bfloat16: 2**-8}
"""Largest error by dtype, relative to the largest number: half a unit in the last place; in float32, also of sums."""


def seeded(*shape: int, seed: int = 0, **options: Any) -> Any:
    """Normal deviates of that shape, the same each time."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)), **options)


def options_of(layer: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a convolution after its operands."""
    return {name: value for name, value in layer.items() if name not in ("x", "w")}


def of_torch(x: Any, w: Any, b: Any = None, *, padding_mode: str = "zeros", **options: Any) -> Any:
    """Result of PyTorch's Conv2d module with that padding mode."""
    module = torch.nn.Conv2d(
        w.shape[1] * options.get("groups", 1),
        w.shape[0],
        tuple(w.shape[2:]),
        padding_mode=padding_mode,
        dtype=w.dtype,
        **options,
    )
    return module._conv_forward(x, w, b)


def exact(*given: Any) -> list[Any]:
    """The same numbers in float64, each with a gradient."""
    return [each.detach().double().requires_grad_() for each in given]


def gradients(function: Callable[..., Any], *given: Any) -> list[Any]:
    """The result and its gradients by each of `given`."""
    y = function(*given)
    return [y.detach(), *torch.autograd.grad(y, given, eighths(y))]


def derivatives(function: Callable[..., Any], given: Sequence[Any]) -> list[Any]:
    """The result, its gradients, and gradients of these by x and w."""
    y = function(*given)
    dy = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    first = torch.autograd.grad(y, given, dy, create_graph=True)
    second = torch.autograd.grad(sum(each.square().sum() for each in first), given[:2])
    return [each.detach() for each in (y, *first, *second)]


def eighths(y: Any) -> Any:
    """Gradient of y: multiples of 1/8 from -1 to 1, exact in every dtype."""
    return ((torch.arange(y.numel(), device=y.device) % 17 - 8) / 8).to(y.dtype).view(y.shape)


def check(results: list[Any], references: list[Any], bound: float = ROUNDING[torch.float32]) -> None:
    """Fails unless the error of each result is within `bound` times the largest magnitude of its reference."""
    for result, reference in zip(results, references, strict=True):
        assert result.shape == reference.shape
        difference = result.to(torch.promote_types(result.dtype, torch.float64)) - reference
        assert difference.abs().max() <= bound * reference.abs().max()


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` compiled as one graph, after a reset, because torch.compile compiles one text at most eight times."""
    torch.compiler.reset()
    result: Callable[..., Any] = torch.compile(function, fullgraph=True, backend="aot_eager")
    return result


def plans_called(monkeypatch: pytest.MonkeyPatch) -> list[Conv2d]:
    """List that receives the problem of each plan that computes a pass of a layer from now on."""
    problems: list[Conv2d] = []
    call, plan_of = layers.call, direct._plan_of

    def counted(plan: Any, *given: Any) -> Any:
        problems.append(plan.problem)
        return call(plan, *given)

    def seen(answer: Any) -> Any:
        plan = plan_of(answer)
        return None if plan is None else SeenPlan(plan, problems)

    wt.forget()
    monkeypatch.setattr(layers, "call", counted)
    monkeypatch.setattr(direct, "_plan_of", seen)
    return problems


class SeenPlan:
    """A plan whose fast calls with tensors are noted."""

    def __init__(self, plan: Any, problems: list[Conv2d]) -> None:
        self.problem, self._plan, self._problems = plan.problem, plan, problems
        self.fast = {torch.Tensor: self}

    def new(self, operands: tuple[Any, ...]) -> Any | None:
        fast = self._plan.fast.get(torch.Tensor)
        result = None if fast is None else fast.new(operands)
        if result is not None:
            self._problems.append(self.problem)
        return result
