"""CUDA text of states and packed sequences: template values, arguments, and the launch that carries a state."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.filter1d.fields import SignalLayout, SignalState
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.states import state_rows_used, state_width
from warpsmith.generator.program import Argument, Launch, Pointer

CARRY_THREADS = 256
"""Threads of a block that carries a state to the next call."""


@dataclasses.dataclass(frozen=True, slots=True)
class StatesText:
    """Template values of a state. Offsets are in elements."""

    operand: str
    """Name of the samples before the signal; empty if they are zeros."""
    has_after: bool
    is_carried: bool
    width: int
    """Samples of a channel in a row."""
    step: int
    """Elements from one sample of a channel to the next."""
    channel_step: int
    pitch: int
    """Elements from one row to the next."""
    used: int
    """Rows that a call uses: one for each signal of the batch, or for each packed sequence."""
    rows: int
    """Rows of the state, of which `indices` name those in use, if it has indices."""
    has_indices: bool
    is_circular: bool
    carry_threads: int

    @classmethod
    def of(cls, problem: Filter1d) -> StatesText | None:
        """None for a problem without a state."""
        state = problem.state
        if state is None:
            return None
        width, is_btc, used = state_width(problem), problem.layout is SignalLayout.BTC, state_rows_used(problem)
        is_carried = state is SignalState.CARRIED
        return cls(
            operand="state" if is_carried else "before" if state.is_read else "",
            has_after=state.has_after,
            is_carried=is_carried,
            width=width,
            step=problem.channels if is_btc else 1,
            channel_step=1 if is_btc else width,
            pitch=problem.channels * width,
            used=used,
            rows=used if problem.state_rows is None else problem.state_rows,
            has_indices=problem.state_rows is not None,
            is_circular=problem.circular,
            carry_threads=CARRY_THREADS,
        )

    @property
    def places(self) -> int:
        """Elements of all rows in use: threads that copy one element each."""
        return self.used * self.pitch


def state_arguments(problem: Filter1d) -> tuple[Argument, ...]:
    """Kernel arguments of the state and the packed sequences, in the order in which the templates declare them."""
    names = [each.name for each in problem.operands]
    return tuple(
        Pointer(name) for name in ("before", "state", "after", "indices", "positions", "starts") if name in names
    )


def after_blocks(problem: Filter1d, threads: int) -> int:
    """Blocks that write `after`, behind those that filter; 0 if there is none."""
    states = StatesText.of(problem)
    return -(-states.places // threads) if states is not None and states.has_after else 0


def carry_launches(problem: Filter1d, family: str) -> tuple[Launch, ...]:
    """The launch that writes a carried state when all outputs are computed: none if no state is carried.

    A state in place must not change before every block has read it, and blocks of one launch have no order.
    """
    states = StatesText.of(problem)
    if states is None or not states.is_carried:
        return ()
    names = [each.name for each in problem.operands]
    given = [Pointer(name) for name in ("signal", "state", "indices", "positions", "starts") if name in names]
    return (Launch.of_blocks(f"{family}_carry", -(-states.places // CARRY_THREADS), CARRY_THREADS, tuple(given)),)
