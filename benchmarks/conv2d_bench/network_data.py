"""Errors and times of a network's layers on their own activations and gradients, beside cuDNN's."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import torch
from conv2d_accuracy import error_of, pytorchs
from torch import Tensor, nn
from training_step import timed_on_gpu, timed_on_host

import warpsmith as ws
from conv2d_bench.lines import Row
from conv2d_bench.network_layers import NUMERICS
from conv2d_bench.network_models import layer_of, network
from conv2d_bench.network_steps import CASTS
from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Conv2d, ImageLayout, Pass


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Captured:
    """A layer of a network with the tensors of one training step."""

    layer: Conv2d
    x: Tensor
    w: Tensor
    dy: Tensor

    def operands(self, pass_: Pass) -> tuple[Tensor, Tensor]:
        """Operands of a pass in the order of a plan's arguments."""
        match pass_:
            case Pass.FPROP:
                return self.x, self.w
            case Pass.DGRAD:
                return self.dy, self.w
            case Pass.WGRAD:
                return self.x, self.dy


def captured(name: str, numeric: str, device: torch.device, batch: int, side: int) -> list[Captured]:
    """Each distinct convolution of a network with its tensors in one training step on random images."""
    found: dict[Conv2d, tuple[Tensor, Tensor, Tensor]] = {}
    is_last = NUMERICS[numeric].get("layout") is ImageLayout.NHWC
    memory_format = torch.channels_last if is_last else torch.contiguous_format
    dtype = CASTS[numeric] or torch.float32

    def kept(tensor: Tensor) -> Tensor:
        return tensor.detach().to(dtype).contiguous(memory_format=memory_format)

    def note(module: nn.Module, given: tuple[Tensor, ...], result: Tensor) -> None:
        layer = dataclasses.replace(layer_of(module, given[0], result), **NUMERICS[numeric])
        if layer not in found and result.requires_grad:
            x, w = kept(given[0]), kept(module.weight)  # type: ignore[arg-type]
            result.register_hook(lambda dy: found.setdefault(layer, (x, w, kept(dy))) and None)

    model = network(name).to(device, memory_format=memory_format).train()
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(note)
        elif isinstance(module, nn.ReLU):
            module.inplace = False  # activations are kept
    result = model(torch.rand(batch, 3, side, side, device=device).to(memory_format=memory_format))
    classes = torch.randint(result.shape[1], (batch, *result.shape[2:]), device=device)
    nn.functional.cross_entropy(result, classes).backward()
    return [Captured(layer, *tensors) for layer, tensors in found.items()]


def rows(captures: list[Captured], device: str, rounds: int) -> Iterator[Row]:
    """One row for each pass: errors in the Euclidean norm, and times in turns, ours and cuDNN's in both layouts."""
    for each in captures:
        for pass_ in Pass:
            if pass_ is not Pass.DGRAD or each.layer.input[1] > 3:  # no step needs the gradient of the images
                yield _row(each, pass_, device, rounds)


def _row(captured: Captured, pass_: Pass, device: str, rounds: int) -> Row:
    problem = dataclasses.replace(captured.layer, pass_=pass_)
    operands = captured.operands(pass_)
    named: Row = {"key": problem.key(), "pass": str(pass_)}
    try:
        plan = ws.plan(problem, device)
    except BadArgument as error:
        return {**named, "failed": str(error)}
    exact = pytorchs(problem, *(each.double() for each in operands))
    errors = {
        "ours": error_of(torch.as_tensor(plan(*operands)), exact),
        "cudnn": error_of(pytorchs(problem, *operands), exact),
    }
    del exact
    ways: list[Any] = [lambda: plan(*operands)]
    for memory_format in (torch.contiguous_format, torch.channels_last):
        own = [each.contiguous(memory_format=memory_format) for each in operands]
        ways.append(functools.partial(pytorchs, problem, *own))
    ours, *theirs = (timed_on_host if device == "host" else timed_on_gpu)(ways, rounds)
    return {
        **named,
        "family": plan.match.program.family,
        "errors": errors,
        "us": round(ours, 2),
        "cudnn_us": [round(each, 2) for each in theirs],
        "ratio": round(min(theirs) / ours, 4),
    }
