"""Causal filters with states and packed sequences by tuned plans, and the update of a state as an operator."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from warpsmith.errors import BadArgument
from warpsmith.generator.filter1d import SignalLayout, SignalState
from warpsmith.torch import arguments
from warpsmith.torch.answers import CachedAnswer, new_cache
from warpsmith.torch.arguments import Source
from warpsmith.torch.bilinear import LIBRARY, TAGS
from warpsmith.torch.signal_layer import Placement, Slice, dense, key_of, placed, problem_of, results_of, rows_of


def packed_starts(starts: Tensor, samples: int) -> tuple[Tensor, int]:
    """Starts of packed sequences with empty ones at the end, and their number, a power of two, so that batches with
    other numbers of sequences have the same plan.
    """
    sequences = len(starts) - 1
    number = 1 << (sequences - 1).bit_length()
    return functional.pad(starts.to(torch.int32), (0, number - sequences), value=samples), number


@dataclasses.dataclass(frozen=True, slots=True)
class CausalCall:
    """A causal filter of signals with states before or after them, or of packed sequences."""

    part: Slice
    has_before: bool
    has_after: bool
    choice: tuple[str, str | None]

    def run(
        self, x: Tensor, w: Tensor, b: Tensor | None, before: Tensor | None, starts: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """The outputs, and the last samples of each signal or sequence if they are asked for."""
        x, placement = placed(x)
        number, sequences = None, len(x)
        if starts is not None:
            sequences = len(starts) - 1
            starts, number = packed_starts(starts.to(x.device), x.shape[2])
        if before is not None:
            if number is not None and number > sequences:
                before = functional.pad(before, (0, 0, 0, 0, 0, number - sequences))
            before, _ = dense(before.to(x.dtype), placement.layout)
        state = _STATES[self.has_before, self.has_after]
        given = {"signal": x, "weights": w, "bias": b, "before": before, "starts": starts}
        fields = {"state": state, "packed": number}
        found = computed(x, w, b, placement, self.part, fields, self.choice, given)
        y = rows_of(found["result"], placement.layout, (len(x), x.shape[1], x.shape[2]))
        if not self.has_after:
            return y, None
        shape = (number or len(x), x.shape[1], w.shape[1] - 1)
        return y, rows_of(found["after"], placement.layout, shape)[:sequences]


_STATES = {
    (True, True): SignalState.BOTH,
    (True, False): SignalState.BEFORE,
    (False, True): SignalState.AFTER,
    (False, False): None,
}
"""The state of a problem, by whether it has samples before it and leaves those after it."""

_ANSWERS: dict[Any, CachedAnswer] = new_cache()


def computed(
    x: Tensor,
    w: Tensor,
    b: Tensor | None,
    placement: Placement,
    part: Slice,
    fields: Mapping[str, Any],
    choice: tuple[str, str | None],
    given: Mapping[str, Tensor | None],
) -> dict[str, Tensor]:
    """Results of a plan by name. Raises BadArgument if no plan computes the problem."""
    key = (*key_of(x, w, b, placement, part), *fields.values(), choice)
    cached = _ANSWERS.get(key)
    if cached is None:
        source = Source.of(x.device, *choice)
        if source is None:
            raise BadArgument(f"filters compute on CUDA GPUs and the CPU; the signals are on {x.device}")
        cached = _ANSWERS[key] = CachedAnswer(problem_of(x, w, b, placement, part, **fields), source)
    answer = cached.get()
    if answer.plan is None:
        raise BadArgument(f"{answer.problem.key()}: {answer.why_not}; take fallback='default'")
    return results_of(answer.plan, {**given, "bias": None if b is None else b.to(w.dtype)})


def updated(
    x: Tensor,
    state: Tensor,
    w: Tensor,
    b: Tensor | None,
    activation: str | None,
    positions: Tensor | None,
    indices: Tensor | None,
) -> Tensor:
    """New samples after those of a state, which moves on in place, by PyTorch's operations."""
    batch, channels, samples = x.shape
    width, older = state.shape[2], w.shape[1] - 1
    rows = torch.arange(batch, device=x.device) if indices is None else indices.long()
    used, is_used = rows.clamp(min=0), (rows >= 0)[:, None, None]
    own = state[used]
    if positions is not None:
        turn = (positions.long()[:, None] + torch.arange(width, device=x.device)) % width
        own = own.gather(2, turn[:, None].expand(batch, channels, width))  # the oldest sample first
    whole = torch.cat([own, x], 2)
    near = whole[..., whole.shape[2] - samples - older :]
    y = functional.conv1d(near, w[:, None].to(x.dtype), None if b is None else b.to(x.dtype), groups=channels)
    y = torch.where(is_used, functional.silu(y) if activation is not None else y, 0)
    last = whole[..., samples:]
    if positions is not None:
        turn = (positions.long()[:, None] + samples + torch.arange(width, device=x.device)) % width
        last = torch.empty_like(last).scatter_(2, turn[:, None].expand(batch, channels, width), last)
    if indices is None:
        state.copy_(last)
    else:
        state[rows[rows >= 0]] = last[rows >= 0]
    return y


def update(
    x: Tensor,
    state: Tensor,
    w: Tensor,
    b: Tensor | None,
    positions: Tensor | None,
    indices: Tensor | None,
    activation: str | None,
    *choice: Any,
) -> Tensor:
    """`warpsmith::filter1d_update`: samples after those of a state, which moves on in place."""
    if arguments.device_name(x.device) is None:
        raise BadArgument(f"filters compute on CUDA GPUs and the CPU; the signals are on {x.device}")
    found = Placement.of(state)
    layout = SignalLayout.BCT if found is None else found.layout
    own, _ = dense(state, layout)
    x, placement = dense(x, layout)
    fields: dict[str, Any] = {
        "state": SignalState.CARRIED,
        "state_width": state.shape[2],
        "state_rows": None if indices is None else len(state),
        "circular": positions is not None,
    }
    numbers = {
        name: None if each is None else each.to(x.device, torch.int32)
        for name, each in (("indices", indices), ("positions", positions))
    }
    part = Slice(1 - w.shape[1], x.shape[2], activation=activation)
    given = {"signal": x, "weights": w, "bias": b, "state": own, **numbers}
    results = computed(x, w, b, placement, part, fields, choice, given)
    if own.data_ptr() != state.data_ptr():
        state.copy_(own)
    return rows_of(results["result"], layout, (len(x), x.shape[1], x.shape[2])).contiguous()


def _made(x: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


LIBRARY.define(
    "filter1d_update(Tensor x, Tensor(a!) state, Tensor w, Tensor? b, Tensor? positions, Tensor? indices, "
    "str? activation, str fallback, str? store) -> Tensor",
    tags=TAGS,
)
LIBRARY.impl("filter1d_update", update, "CompositeExplicitAutograd")
torch.library.register_fake("warpsmith::filter1d_update", _made, lib=LIBRARY)
