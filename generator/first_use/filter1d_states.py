"""States and packed sequences in the reference kernels of `filter1d`: more numbers, more operands, drawn places."""

from __future__ import annotations

import dataclasses
import random
import struct
from collections.abc import Mapping

from warpsmith.generator.filter1d.fields import SignalLayout, SignalState
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.states import state_rows_used, state_width

_SEED = 1


@dataclasses.dataclass(frozen=True, slots=True)
class StatesReference:
    """What a reference of a problem with a state or packed sequences has besides the others."""

    integers: Mapping[str, int]
    inputs: tuple[str, ...]
    """Operands that the sums read after the bias: history, indices, positions and starts; the signal stands for one
    that the problem lacks."""
    given: Mapping[str, bytes]
    """Contents of the operands that hold places."""
    unchecked: frozenset[str]
    """Written operands that are copies of samples: they are not checked."""

    @classmethod
    def of(cls, problem: Filter1d) -> StatesReference | None:
        """None for a problem without a state and without packed sequences."""
        if problem.state is None and problem.packed is None:
            return None
        state, width, is_btc = problem.state, state_width(problem), problem.layout is SignalLayout.BTC
        names = {each.name for each in problem.inputs}
        history = "state" if state is SignalState.CARRIED else "before"
        integers = {
            "has_history": int(history in names),
            "has_indices": int(problem.state_rows is not None),
            "is_circular": int(problem.circular),
            "sequences": problem.packed or 0,
            "state_rows": problem.state_rows or state_rows_used(problem),
            "state_width": width,
            "state_pitch": problem.channels * width,
            "state_channel_step": 1 if is_btc else width,
            "state_sample_step": problem.channels if is_btc else 1,
        }
        return cls(
            integers=integers,
            inputs=tuple(each if each in names else "signal" for each in (history, "indices", "positions", "starts")),
            given=_given(problem),
            unchecked=frozenset(each.name for each in problem.outputs if each.name != problem.output.name),
        )


def _given(problem: Filter1d) -> Mapping[str, bytes]:
    """Rows of which one of eight is skipped, positions in any turn of a ring, and sequences of any length."""
    rng, used = random.Random(_SEED), state_rows_used(problem)
    found: dict[str, list[int]] = {}
    if problem.state_rows is not None:
        rows = rng.sample(range(problem.state_rows), min(used, problem.state_rows))
        rows += [-1] * (used - len(rows))
        found["indices"] = [-1 if used > 1 and place % 8 == 7 else row for place, row in enumerate(rows)]
    if problem.circular:
        found["positions"] = [rng.randrange(3 * state_width(problem)) for _ in range(used)]
    if problem.packed is not None:
        cuts = sorted(rng.randrange(problem.signal + 1) for _ in range(problem.packed - 1))
        found["starts"] = [0, *cuts, problem.signal]
    return {name: struct.pack(f"<{len(values)}i", *values) for name, values in found.items()}
