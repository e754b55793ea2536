"""States and packed sequences on the host: random ones, samples before a row, and what a call must write."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.filter1d import Filter1d, Mode, SignalLayout, SignalState
from warpsmith.generator.filter1d.states import state_rows_used, state_width
from warpsmith.generator.problem import Accuracy, DType, NonFinite, Operand
from warpsmith.tuner.operations.judge import Operands, Reference, References

_SKIPPED = 8
"""One signal of so many has a negative index, if there are several."""


def drawn_indices(problem: Filter1d, generator: np.random.Generator) -> dict[str, NDArray[np.int32]]:
    """Random rows, positions and starts. Some signals are skipped, some sequences empty or of one sample."""
    found, used = {}, state_rows_used(problem)
    if problem.state_rows is not None:
        rows = np.full(used, -1, np.int64)
        chosen = min(used, problem.state_rows)
        rows[:chosen] = generator.permutation(problem.state_rows)[:chosen]
        rows = generator.permutation(rows)
        if used > 1:
            rows[generator.random(used) < 1 / _SKIPPED] = -1
        found["indices"] = rows
    if problem.circular:
        found["positions"] = generator.integers(0, 3 * state_width(problem), used)
    if problem.packed is not None:
        cuts = np.sort(generator.integers(0, problem.signal + 1, problem.packed - 1))
        cuts[1::5] = cuts[0::5][: len(cuts[1::5])]  # empty sequences
        cuts[3::5] = np.minimum(cuts[2::5][: len(cuts[3::5])] + 1, cuts[3::5])
        found["starts"] = np.concatenate([[0], np.sort(cuts), [problem.signal]])
    return {name: values.astype(np.int32) for name, values in found.items()}


def samples_in(problem: Filter1d, operand: Operand) -> tuple[int, int]:
    """Channels of all rows of a signal or a state, and samples of each."""
    samples = {"signal": problem.signal, "state": state_width(problem)}.get(operand.name, problem.taps - 1)
    return operand.size // samples, samples


def rows_of(problem: Filter1d, array: NDArray[np.generic], width: int) -> NDArray[np.generic]:
    """View of a state as (rows, channels, time)."""
    if problem.layout is SignalLayout.BTC:
        return array.reshape(-1, width, problem.channels).swapaxes(1, 2)
    return array.reshape(-1, problem.channels, width)


def places(problem: Filter1d, operands: Operands) -> NDArray[np.int64]:
    """Row of the state of each signal or sequence; negative for one that is skipped."""
    if problem.state_rows is None:
        return np.arange(state_rows_used(problem))
    given = operands["indices"].astype(np.int64)
    return np.where(given < problem.state_rows, given, -1)


def history(problem: Filter1d, operands: Operands) -> NDArray[np.generic] | None:
    """The taps - 1 samples before each signal or sequence, (rows, channels, time); None if they are zeros."""
    state, taps = problem.state, problem.taps
    if state is None or not state.is_read:
        return None
    if state is not SignalState.CARRIED:
        return rows_of(problem, operands["before"], taps - 1)
    width = state_width(problem)
    rows = rows_of(problem, operands["state"], width)[places(problem, operands)]
    if not problem.circular:
        return rows[..., width - taps + 1 :]
    back = operands["positions"].astype(np.int64)[:, None] + np.arange(1 - taps, 0)
    return np.take_along_axis(rows, (back % width)[:, None], axis=2)


def sequences(operands: Operands) -> Iterator[tuple[int, slice]]:
    """Each packed sequence that is not empty, with its samples."""
    starts = operands["starts"].astype(np.int64)
    for number, (begin, end) in enumerate(itertools.pairwise(starts)):
        if end > begin:
            yield number, slice(int(begin), int(end))


def written_states(problem: Filter1d, operands: Operands) -> References:
    """References of the states that a call writes: copies of samples, without any error."""
    state = problem.state
    if state is None or not (state.has_after or state is SignalState.CARRIED):
        return {}
    width, used = state_width(problem), state_rows_used(problem)
    is_btc = problem.layout is SignalLayout.BTC
    signal = operands["signal"].reshape(-1, problem.signal, problem.channels) if is_btc else operands["signal"]
    signal = signal.swapaxes(1, 2) if is_btc else signal.reshape(-1, problem.channels, problem.signal)
    name = "state" if state is SignalState.CARRIED else "after"
    if name == "state":
        whole = operands["state"].copy()
    else:
        shape = next(each.shape for each in problem.outputs if each.name == name)
        whole = np.zeros(shape, operands["signal"].dtype)
    target = rows_of(problem, whole, width)  # a view
    taken = dict(sequences(operands)) if problem.packed is not None else {}
    for number, row in enumerate(places(problem, operands)):
        new = signal[0][:, taken.get(number, slice(0, 0))] if problem.packed is not None else signal[number]
        if row < 0:
            continue
        if problem.circular:
            ring = (int(operands["positions"][number]) + np.arange(new.shape[1])) % width
            target[row][:, ring[-width:]] = new[:, -width:]
            continue
        old = target[row] if name == "state" else np.zeros_like(target[row])
        if state is SignalState.BOTH:
            old = rows_of(problem, operands["before"], width)[number]
        target[row] = np.concatenate([old, new[:, -width:]], axis=1)[:, -width:]
    assert used == len(places(problem, operands))
    return {name: _exact(problem, whole)}


def _exact(problem: Filter1d, values: NDArray[np.generic]) -> Reference:
    if problem.dtype is DType.COMPLEX64:
        values = values.view(np.float32).reshape(*values.shape, 2)
    expected = values.astype(np.float64)
    return Reference(expected, np.where(np.isfinite(expected), 0.0, np.nan))


def alone(problem: Filter1d, samples: int) -> Filter1d:
    """Problem of one packed sequence of so many samples, whose state is an input `before`, if there is one."""
    is_read = problem.state is not None and problem.state.is_read
    return dataclasses.replace(
        problem,
        signal=samples,
        mode=Mode.CAUSAL,
        lags=None,
        packed=None,
        accuracy=Accuracy.ELEMENTWISE,  # without floors, as all packed sequences
        nonfinite=NonFinite.WINDOW,
        state=SignalState.BEFORE if is_read else None,
        state_width=None,
        state_rows=None,
        pitch=None,
        result_pitch=None,
    )
