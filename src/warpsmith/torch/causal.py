"""Causal convolutions of state-space models with the names and arguments of the package causal-conv1d."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor
from torch.nn import functional

from warpsmith.errors import BadArgument
from warpsmith.generator.filter1d import Activation
from warpsmith.generator.filter1d.states import MAX_PACKED, check_starts
from warpsmith.generator.problem import member
from warpsmith.torch.arguments import Fallback
from warpsmith.torch.bilinear import is_recorded
from warpsmith.torch.causal_layer import CausalCall, update, updated
from warpsmith.torch.signal_layer import Slice
from warpsmith.torch.signal_operators import check_rows, filtered
from warpsmith.torch.tensors import goes_direct, is_for_torch


def causal_conv1d_fn(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    seq_idx: Tensor | None = None,
    initial_states: Tensor | None = None,
    return_final_states: bool = False,
    final_states_out: Tensor | None = None,
    activation: str | None = None,
    *,
    cu_seqlens: Tensor | None = None,
    fallback: str = "default",
    store: str | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """A causal convolution of each channel, as `causal_conv1d_fn` of causal-conv1d computes it, for any number of taps.

    y[b, d, t] = activation(bias[d] + sum over k of weight[d, k] * x[b, d, t + k - (width - 1)]): the last tap meets the
    newest sample; zeros, or `initial_states`, stand before the first. All gradients come from one pass over x and dy.

    Args:
        x: (batch, dim, length), dense in this order, or with the channels side by side.
        weight, bias: (dim, width), float32 or of x's dtype; (dim,), or None.
        seq_idx: (batch, length), number of each sample's sequence, which no other reaches. It is turned into starts of
            sequences, for which the CPU waits; `cu_seqlens` needs no wait.
        initial_states: (batch, dim, width - 1), samples before the first; (sequences, ...) with `cu_seqlens`. With
            `seq_idx` they belong to the first sequence of each signal.
        return_final_states, final_states_out: return the last width - 1 samples too, in this tensor if one is given;
            with `seq_idx` those of the last sequence of each signal.
        activation: `silu`, or `swish`, which is the same; or None.
        cu_seqlens: int32 (sequences + 1,), rising from 0 to the length: starts of sequences in a batch of 1.
        fallback, store: as for `warpsmith.torch.conv1d`.

    Returns:
        y, like x and in its order of dimensions in memory; or (y, final states), shaped as `initial_states`.

    Raises:
        BadArgument: operands that do not fit together, another dtype, an unknown activation.
    """
    choice = str(member(Fallback, fallback, "fallback")), store
    check_rows(x, weight, bias)
    part = Slice(1 - weight.shape[1], x.shape[2], activation=_activation(activation))
    _check_sequences(x, weight, seq_idx, cu_seqlens, initial_states)
    if initial_states is None and seq_idx is None and cu_seqlens is None and not return_final_states:
        return filtered(x, weight, bias, part, choice)
    rows = _Rows(x, weight, bias, initial_states, seq_idx, cu_seqlens)
    y, final = rows.computed(part, return_final_states, choice)
    if final is None:
        return y
    return y, final if final_states_out is None else final_states_out.copy_(final)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Operands of a causal convolution with states or sequences."""

    x: Tensor
    w: Tensor
    b: Tensor | None
    initial: Tensor | None
    numbers: Tensor | None
    """Number of the sequence of each sample, (batch, length)."""
    starts: Tensor | None

    def computed(self, part: Slice, has_after: bool, choice: tuple[str, str | None]) -> tuple[Tensor, Tensor | None]:
        """The outputs, and the final states if they are asked for: by one plan if no gradient is recorded."""
        if self.numbers is not None:
            return self._numbered(part, has_after, choice)
        if self._is_planned():
            call = CausalCall(part, self.initial is not None, has_after, choice)
            return call.run(self.x, self.w, self.b, self.initial, self.starts)
        y = self._whole(part, choice) if self.starts is None else self._apart(part)
        return y, self._final_states() if has_after else None

    def _is_planned(self) -> bool:
        """True if a plan computes all: no gradient is recorded, and nothing sees operators."""
        operands = [each for each in (self.x, self.w, self.b, self.initial) if each is not None]
        is_plain = goes_direct(self.x, self.w, self.b) and self.w.shape[1] > 1
        return is_plain and not any(map(is_recorded, operands))

    def _numbered(self, part: Slice, has_after: bool, choice: tuple[str, str | None]) -> tuple[Tensor, Tensor | None]:
        """The same for sequences with numbers: by their starts, or tap by tap where these would not be worth a wait."""
        assert self.numbers is not None
        has_states = self.initial is not None or has_after
        is_captured = self.x.is_cuda and torch.cuda.is_current_stream_capturing()
        is_too_long = self.numbers.numel() >= MAX_PACKED
        if not has_states and (is_captured or is_too_long or not self._is_planned()):
            return self._apart(part), None
        starts = starts_of(self.numbers.to(self.x.device))
        if starts is not None:
            return self._one_after_the_other(starts, part, has_after, choice)
        if has_states:
            raise BadArgument("seq_idx: with states, a number must not come again after another one of its signal")
        return self._apart(part), None

    def _one_after_the_other(
        self, starts: Tensor, part: Slice, has_after: bool, choice: tuple[str, str | None]
    ) -> tuple[Tensor, Tensor | None]:
        """All signals as one, which is a view if a signal's channels lie side by side, or if there is one signal."""
        (batch, channels, samples), older = self.x.shape, self.w.shape[1] - 1
        is_btc = self.x.stride(1) == 1 and channels > 1
        joined = self.x.mT.reshape(1, -1, channels).mT if is_btc else self.x.transpose(0, 1).reshape(1, channels, -1)
        firsts = torch.searchsorted(starts, torch.arange(batch, device=starts.device, dtype=starts.dtype) * samples)
        initial = None
        if self.initial is not None:
            initial = self.x.new_zeros((len(starts) - 1, channels, older))
            initial = initial.index_put((firsts,), self.initial.to(initial))
        rows = dataclasses.replace(self, x=joined, initial=initial, numbers=None, starts=starts)
        y, final = rows.computed(dataclasses.replace(part, outputs=batch * samples), has_after, choice)
        if is_btc:
            y = y[0].T.reshape(batch, samples, channels).mT
        else:
            y = y.reshape(channels, batch, samples).transpose(0, 1).reshape(-1).view(batch, channels, samples)
        if final is None:
            return y, None
        lasts = torch.cat([firsts[1:], firsts.new_full((1,), len(starts) - 1)]) - 1
        return y, final[lasts]

    def _whole(self, part: Slice, choice: tuple[str, str | None]) -> Tensor:
        """The filter of signals behind their states, whose gradients plans compute."""
        x, initial = self.x, self.initial
        if initial is None:
            return filtered(x, self.w, self.b, part, choice)
        if x.stride(1) == 1 and x.shape[1] > 1:
            longer = torch.cat([initial.to(x.dtype).mT, x.mT], 1).mT
        else:
            longer = torch.cat([initial.to(x.dtype), x], 2)
        return filtered(longer, self.w, self.b, Slice(0, x.shape[2], activation=part.activation), choice)

    def _apart(self, part: Slice) -> Tensor:
        """The filter of sequences tap by tap, by PyTorch's operations."""
        x, w, b, samples = self.x, self.w, self.b, self.x.shape[2]
        numbers = self._numbers()
        sums = torch.zeros_like(x) if b is None else b.to(x.dtype)[:, None].expand_as(x)
        for back in range(w.shape[1]):
            moved = functional.pad(x, (back, 0))[..., :samples]
            same = functional.pad(numbers, (back, 0), value=-1)[..., :samples] == numbers
            term = torch.where(same[:, None], moved, 0)
            if self.initial is not None and back:
                term = term + self._before(numbers, back)
            sums = sums + w[:, w.shape[1] - 1 - back, None].to(x.dtype) * term
        return functional.silu(sums) if part.activation is not None else sums

    def _numbers(self) -> Tensor:
        if self.starts is None:
            assert self.numbers is not None
            return self.numbers
        places = torch.arange(self.x.shape[2], device=self.x.device)
        return torch.searchsorted(self.starts.to(self.x.device)[1:-1].contiguous(), places, right=True)[None]

    def _before(self, numbers: Tensor, back: int) -> Tensor:
        """Samples of the states that lie `back` samples before each sample, zero where the sequence has its own."""
        assert self.starts is not None
        assert self.initial is not None
        starts, older = self.starts.to(self.x.device), self.initial.shape[2]
        place = torch.arange(self.x.shape[2], device=self.x.device) - starts[numbers[0]]
        found = self.initial[numbers[0], :, (older + place - back).clamp(0, older - 1)]  # (length, dim)
        return torch.where((place < back)[:, None], found, 0).T[None]

    def _final_states(self) -> Tensor:
        """The last width - 1 samples of each signal or sequence, after those of its initial state or zeros."""
        x, older, initial = self.x, self.w.shape[1] - 1, self.initial
        if self.starts is None:
            before = x.new_zeros((len(x), x.shape[1], older)) if initial is None else initial.to(x.dtype)
            return torch.cat([before, x], 2)[..., x.shape[2] :]
        starts = self.starts.to(x.device).long()
        place = starts[1:, None] - older + torch.arange(older, device=x.device)  # (sequences, older)
        own = x[0][:, place.clamp(0, x.shape[2] - 1)].movedim(1, 0)  # (sequences, dim, older)
        inside = (place >= starts[:-1, None])[:, None]
        if initial is None:
            return torch.where(inside, own, 0)
        column = (place - starts[:-1, None] + older).clamp(0, max(0, older - 1))
        return torch.where(inside, own, initial.to(x.dtype).gather(2, column[:, None].expand_as(own)))


def causal_conv1d_update(
    x: Tensor,
    conv_state: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    activation: str | None = None,
    cache_seqlens: Tensor | None = None,
    conv_state_indices: Tensor | None = None,
    *,
    fallback: str = "default",
    store: str | None = None,
) -> Tensor:
    """Filters new samples of each channel after those in `conv_state`, and moves the state on in place, as
    `causal_conv1d_update` of causal-conv1d does. It has no gradient.

    Args:
        x: (batch, dim), or (batch, dim, samples).
        conv_state: (rows, dim, W), the newest W >= width - 1 samples, of x's dtype; dense in this order, or with the
            channels side by side.
        weight, bias: (dim, width), float32 or of x's dtype; (dim,), or None.
        activation: `silu`, or `swish`, which is the same; or None.
        cache_seqlens: int32 (batch,), samples that came before: the state is then a ring, with sample n at n modulo W.
        conv_state_indices: int32 (batch,), row of each signal's state; a signal with a negative one is skipped, and its
            results are zero. None if there are as many rows as signals.
        fallback, store: as for `warpsmith.torch.conv1d`.

    Returns:
        y, in the shape of x.

    Raises:
        BadArgument: operands that do not fit together, another dtype, or an unknown activation or fallback.
    """
    choice = str(member(Fallback, fallback, "fallback")), store
    samples = x[:, :, None] if x.dim() == 2 else x
    check_rows(samples, weight, bias)
    _check_update(samples, conv_state, weight, cache_seqlens, conv_state_indices)
    operands = (samples, conv_state, weight, bias, cache_seqlens, conv_state_indices)
    word = _activation(activation)
    if is_for_torch(x, weight, bias) or weight.shape[1] == 1:
        y = updated(samples, conv_state, weight, bias, word, cache_seqlens, conv_state_indices)
    elif goes_direct(x, weight, bias):
        y = update(*operands, word, *choice)
    else:
        y = torch.ops.warpsmith.filter1d_update(*operands, word, *choice)
    return y[:, :, 0] if x.dim() == 2 else y


def starts_of(numbers: Tensor) -> Tensor | None:
    """Starts of sequences in signals one after the other, int32 (sequences + 1,), from the number of each sample.

    The CPU waits for their count. None if a number comes again after another one in a signal.
    """
    changes, ordered = numbers[:, 1:] != numbers[:, :-1], numbers.sort(1).values
    if not torch.equal(changes.sum(1), (ordered[:, 1:] != ordered[:, :-1]).sum(1)):
        return None
    begins = functional.pad(changes, (1, 0), value=True).reshape(-1).nonzero()[:, 0]
    return functional.pad(begins, (0, 1), value=numbers.numel()).to(torch.int32)


def _activation(word: str | None) -> str | None:
    return None if word is None else str(member(Activation, word, "activation"))


def _check_sequences(
    x: Tensor, w: Tensor, seq_idx: Tensor | None, starts: Tensor | None, initial: Tensor | None
) -> None:
    """Raises BadArgument for sequences and states that do not fit the signals and the filter."""
    if seq_idx is not None and starts is not None:
        raise BadArgument("seq_idx and cu_seqlens both say where sequences begin; give one of them")
    if seq_idx is not None and seq_idx.shape != (x.shape[0], x.shape[2]):
        raise BadArgument(f"seq_idx: takes (batch, length), {(x.shape[0], x.shape[2])}; got {tuple(seq_idx.shape)}")
    if starts is not None and (starts.dim() != 1 or len(starts) < 2 or len(x) != 1):
        raise BadArgument(f"cu_seqlens: takes (sequences + 1,) for a batch of 1; got {tuple(starts.shape)}")
    shape = (len(x) if starts is None else len(starts) - 1, x.shape[1], w.shape[1] - 1)
    if initial is not None and tuple(initial.shape) != shape:
        raise BadArgument(f"initial_states: takes {shape}, got {tuple(initial.shape)}")
    if starts is not None and not starts.is_cuda:
        check_starts(starts.tolist(), x.shape[2])


def _check_update(x: Tensor, state: Tensor, w: Tensor, positions: Tensor | None, indices: Tensor | None) -> None:
    """Raises BadArgument for a state, positions and indices that do not fit the signals and the filter."""
    is_row_each = indices is not None or len(state) == len(x)
    if state.dim() != 3 or state.shape[1] != x.shape[1] or not is_row_each:
        raise BadArgument(f"conv_state: takes (rows, {x.shape[1]}, width), got {tuple(state.shape)}")
    if state.shape[2] < max(1, w.shape[1] - 1) or state.dtype is not x.dtype:
        width, kind = state.shape[2], str(state.dtype).removeprefix("torch.")
        raise BadArgument(f"conv_state: holds at least {w.shape[1] - 1} samples of x's dtype; got {width} of {kind}")
    for name, each in (("cache_seqlens", positions), ("conv_state_indices", indices)):
        if each is not None and each.shape != x.shape[:1]:
            raise BadArgument(f"{name}: takes {len(x)} integers, got the shape {tuple(each.shape)}")
