"""Causal convolutions with states and packed sequences, and updates of a state, as PyTorch's operators on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import warpsmith.torch as wt
from torch_signals import assert_close, causal, seeded, signals
from warpsmith.errors import BadArgument
from warpsmith.torch.causal_layer import updated

pytestmark = pytest.mark.usefixtures("compile_quickest")

either_way = pytest.mark.parametrize("recorded", [False, True])
"""Whether an operand requires a gradient: PyTorch's operations then join what plans compute."""


class TestStates:
    @pytest.mark.parametrize("layout", ["bct", "btc"])
    @pytest.mark.parametrize("samples", [1, 2, 40])
    @either_way
    def test_a_signal_in_two_pieces_is_the_whole(self, layout: str, samples: int, recorded: bool) -> None:
        x, w, b = signals(layout, 2, 6, 41 + samples), seeded(6, 4), seeded(6)
        head, tail = x[..., :41], x[..., 41:]
        w.requires_grad_(recorded)
        y, state = wt.causal_conv1d_fn(head, w, b, return_final_states=True, activation="silu")
        z, last = wt.causal_conv1d_fn(tail, w, b, None, state, True, activation="silu")
        assert_close(torch.cat([y, z], 2), causal(x, w, b, "silu"))
        assert torch.equal(state, head[..., -3:])
        assert torch.equal(last, x[..., -3:])

    def test_initial_states_have_gradients(self) -> None:
        given = [each.requires_grad_() for each in (seeded(2, 3, 9), seeded(3, 4), seeded(3), seeded(2, 3, 3))]
        x, w, b, state = given
        found = torch.autograd.grad(wt.causal_conv1d_fn(x, w, b, None, state).square().sum(), given)
        exact = torch.autograd.grad(causal(x, w, b, None, state).square().sum(), given)
        for one, other in zip(found, exact, strict=True):
            assert_close(one, other)

    def test_final_states_are_written_where_the_caller_says(self) -> None:
        x, w, out = seeded(2, 3, 9), seeded(3, 4), torch.zeros(2, 3, 3)
        _, state = wt.causal_conv1d_fn(x, w, None, None, None, True, out)
        assert state is out
        assert torch.equal(out, x[..., -3:])

    @pytest.mark.parametrize("layout", ["bct", "btc"])
    @pytest.mark.parametrize("with_states", [False, True])
    @either_way
    def test_packed_sequences_are_filtered_apart(self, layout: str, with_states: bool, recorded: bool) -> None:
        lengths = [5, 1, 0, 30, 2]
        starts = torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int32)
        x, w, b = signals(layout, 1, 6, sum(lengths)), seeded(6, 4).requires_grad_(recorded), seeded(6)
        states = seeded(5, 6, 3) if with_states else None
        y, last = wt.causal_conv1d_fn(x, w, b, None, states, True, activation="silu", cu_seqlens=starts)
        for number, (begin, end) in enumerate(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)):
            before = torch.zeros(1, 6, 3) if states is None else states[number, None]
            own = x[..., begin:end]
            assert torch.equal(last[number, None], torch.cat([before, own], 2)[..., -3:])
            if end > begin:
                assert_close(y[..., begin:end], causal(own, w, b, "silu", before))

    def test_sequence_numbers_are_those_of_causal_conv1d(self) -> None:
        numbers = torch.tensor([[0] * 5 + [1] + [2] * 34, [0] * 40], dtype=torch.int32)
        x, w, b = seeded(2, 3, 40), seeded(3, 4).requires_grad_(), seeded(3)
        y = wt.causal_conv1d_fn(x, w, b, numbers, activation="silu")
        assert_close(y[:1, :, 6:], causal(x[:1, :, 6:], w, b, "silu"))
        assert_close(y[:1, :, 5:6], causal(x[:1, :, 5:6], w, b, "silu"))
        assert_close(y[1:], causal(x[1:], w, b, "silu"))

    @pytest.mark.parametrize("layout", ["bct", "btc"])
    @pytest.mark.parametrize("batch", [1, 3])
    @pytest.mark.parametrize("with_states", [False, True])
    @either_way
    def test_sequence_numbers_change_anywhere(self, layout: str, batch: int, with_states: bool, recorded: bool) -> None:
        """Numbers that rise and fall, inside of vectors and at their ends, with states in and out together."""
        lengths = ((5, 1, 1, 30, 3), (40,), (8, 32))[:batch]
        numbers = torch.tensor([[9 - 2 * i for i, n in enumerate(row) for _ in range(n)] for row in lengths])
        x, w, b = signals(layout, batch, 6, 40), seeded(6, 4).requires_grad_(recorded), seeded(6)
        states = seeded(batch, 6, 3) if with_states else None
        found = wt.causal_conv1d_fn(x, w, b, numbers, states, with_states, activation="silu")
        y, last = found if with_states else (found, None)
        assert y.stride() == x.stride()
        for row, own in enumerate(lengths):
            end = 0
            for place, n in enumerate(own):
                piece = x[row, None, :, end : end + n]
                before = torch.zeros(1, 6, 3) if states is None or place else states[row, None]
                assert_close(y[row, None, :, end : end + n], causal(piece, w, b, "silu", before))
                end += n
            if last is not None:
                assert torch.equal(last[row], torch.cat([before, piece], 2)[0, :, -3:])

    def test_numbers_that_come_again_are_one_sequence(self) -> None:
        numbers = torch.tensor([[0, 0, 0, 1, 0, 0]])
        x, w = seeded(1, 2, 6), seeded(2, 4)
        given = torch.where(torch.arange(6) == 3, 0, x)
        assert_close(wt.causal_conv1d_fn(x, w, None, numbers)[..., 4:], causal(given, w, None, None)[..., 4:])


class TestUpdate:
    @pytest.mark.parametrize("layout", ["bct", "btc"])
    @pytest.mark.parametrize("samples", [1, 3])
    @pytest.mark.parametrize("width", [3, 5])
    def test_steps_are_the_whole_signal(self, layout: str, samples: int, width: int) -> None:
        x, w, b = signals(layout, 2, 6, 12), seeded(6, 4), seeded(6)
        state = signals(layout, 2, 6, width)
        whole = torch.cat([state, x], 2)
        expected = causal(whole, w, b, "silu")[..., width:]
        for first in range(0, 12, samples):
            piece = x[..., first : first + samples]
            y = wt.causal_conv1d_update(piece[..., 0] if samples == 1 else piece, state, w, b, "silu")
            assert_close(y.view(2, 6, samples), expected[..., first : first + samples])
            assert torch.equal(state, whole[..., first + samples : first + samples + width])

    @pytest.mark.parametrize("samples", [1, 2])
    def test_rows_are_chosen_and_skipped(self, samples: int) -> None:
        x, w, rows = seeded(3, 6, samples), seeded(6, 4), torch.tensor([4, -1, 0], dtype=torch.int32)
        state = seeded(5, 6, 3)
        before = state.clone()
        y = wt.causal_conv1d_update(x, state, w, conv_state_indices=rows)
        for place, row in ((0, 4), (2, 0)):
            assert_close(y[place, None], causal(x[place, None], w, None, None, before[row, None]))
            assert torch.equal(state[row], torch.cat([before[row], x[place]], 1)[:, -3:])
        assert not y[1].any()
        assert torch.equal(state[1:4], before[1:4])

    def test_a_ring_keeps_its_places(self) -> None:
        x, w, width = seeded(2, 6, 11), seeded(6, 4), 5
        state, positions = torch.zeros(2, 6, width), torch.tensor([0, 3], dtype=torch.int32)
        expected = causal(x, w, None, None)
        for n in range(11):
            y = wt.causal_conv1d_update(x[..., n], state, w, cache_seqlens=positions + n)
            assert_close(y, expected[..., n], 1e-4)
            for row, first in enumerate((0, 3)):
                assert torch.equal(state[row, :, (first + n) % width], x[row, :, n])

    @pytest.mark.parametrize("indices", [None, torch.tensor([2, 0, -1])])
    @pytest.mark.parametrize("ring", [False, True])
    def test_pytorch_s_operations_are_the_same(self, indices: Any, ring: bool) -> None:
        x, w, b, state = seeded(3, 6, 2), seeded(6, 4), seeded(6), seeded(3, 6, 5)
        positions = torch.tensor([7, 0, 3], dtype=torch.int32) if ring else None
        other = state.clone()
        y = wt.causal_conv1d_update(x, state, w, b, "silu", positions, indices)
        assert_close(updated(x, other, w, b, "silu", positions, indices), y)
        assert torch.equal(state, other)

    def test_a_state_with_gaps_moves_on_too(self) -> None:
        x, w, wide = seeded(2, 6), seeded(6, 4), seeded(2, 6, 8)
        state, before = wide[..., ::2][..., 1:], wide.clone()
        y = wt.causal_conv1d_update(x, state, w)
        assert_close(y[..., None], causal(x[..., None], w, None, None, before[..., ::2][..., 1:]))
        assert torch.equal(state[..., -1], x)
        assert torch.equal(wide[..., 1::2], before[..., 1::2])

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"conv_state": seeded(3, 6, 3)}, r"conv_state: takes \(rows, 6, width\), got \(3, 6, 3\)"),
            ({"conv_state": seeded(2, 6, 2)}, "conv_state: holds at least 3 samples of x's dtype; got 2 of float32"),
            ({"conv_state": seeded(2, 6, 3).half()}, "conv_state: holds at least 3 .*; got 3 of float16"),
            ({"cache_seqlens": torch.zeros(3)}, r"cache_seqlens: takes 2 integers, got the shape \(3,\)"),
        ],
    )
    def test_bad_operands_are_refused_in_one_line(self, change: dict[str, Any], message: str) -> None:
        given = {"x": seeded(2, 6), "conv_state": seeded(2, 6, 3), "weight": seeded(6, 4), **change}
        with pytest.raises(BadArgument, match=message):
            wt.causal_conv1d_update(**given)
