"""Stand-ins for plans of `warpsmith.torch`: NumPy computes them in float64, so no kernel is compiled.

Other tests verify kernels. Tests with these plans check the code between PyTorch and a plan: which operands reach the
plan, and what happens to its results.
"""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch

from warpsmith.devices.tensors import empty_tensor, input_tensor
from warpsmith.generator.problem import DType, Problem
from warpsmith.plans.match import MatchKind
from warpsmith.torch import answers
from warpsmith.torch.answers import Answer
from warpsmith.tuner.operations.registry import reference


class ReferencePlan:
    """Callable like a plan. Operands must be as for a kernel: the problem's shapes and dtypes, dense in its layout."""

    workspace_bytes = 0

    def __init__(self, problem: Problem, called: list[Problem]) -> None:
        self.problem, self._called = problem, called
        program = types.SimpleNamespace(by_value=(), family="reference")
        self.match = types.SimpleNamespace(kind=MatchKind.EXACT, program=program)
        self.fast = {torch.Tensor: self}
        """The fast path of calls, as a plan's."""

    def new(self, given: tuple[Any, ...]) -> Any | None:
        """The fast path: it takes operands that lie as kernels need them, while gradients are off."""
        if any((x.requires_grad and torch.is_grad_enabled()) or x.is_neg() or not x.data_ptr() for x in given):
            return None
        operands = zip(self.problem.inputs, given, strict=True)
        lie_so = all(_lies_like(x, each.element_strides) and x.data_ptr() % 16 == 0 for each, x in operands)
        return self(*(x.detach() for x in given)) if lie_so else None

    def try_fast(self, given: tuple[Any, ...], _: Any) -> Any | None:
        return self.new(given)

    def __call__(self, *given: Any) -> Any:
        self._called.append(self.problem)
        operands = {}
        for operand, x in zip(self.problem.inputs, given, strict=True):
            x = input_tensor(torch, x, operand)
            assert type(x) is torch.Tensor, operand.name
            assert (tuple(x.shape), str(x.dtype)) == (operand.shape, f"torch.{operand.dtype}"), operand.name
            assert x.data_ptr(), operand.name
            assert _lies_like(x, operand.element_strides), operand.name
            operands[operand.name] = x.detach().to(torch.complex128 if x.is_complex() else torch.float64).numpy()
        output = self.problem.output
        expected = torch.from_numpy(reference(self.problem, operands).expected)
        if output.dtype is DType.COMPLEX64:
            expected = torch.view_as_complex(expected.reshape(*output.shape, 2).contiguous())
        result = empty_tensor(torch, output, torch.device("cpu"))
        return result.copy_(expected.reshape(output.shape))


def _lies_like(x: Any, strides: tuple[int, ...]) -> bool:
    steps = zip(x.shape, strides, x.stride(), strict=True)
    return all(size == 1 or wanted == own for size, wanted, own in steps)


def by_reference(monkeypatch: pytest.MonkeyPatch) -> list[Problem]:
    """Makes every operator of `warpsmith.torch` find a stand-in. The returned list receives the problems called."""
    called: list[Problem] = []

    def answer_of(problem: Problem, source: Any) -> Answer:  # noqa: ARG001
        plan: Any = ReferencePlan(problem, called)
        return Answer(problem, plan, plan.match)

    monkeypatch.setattr(answers, "answer_of", answer_of)
    return called
