"""State of causal filters: the samples before a signal, the last ones of it, and sequences packed into one signal."""

from __future__ import annotations

import itertools

from warpsmith.errors import BadArgument
from warpsmith.generator.canonical import count, flag
from warpsmith.generator.filter1d.fields import Filter1dFields, SignalLayout, SignalState
from warpsmith.generator.filter1d.lags import Mode, kept, lags_of
from warpsmith.generator.problem import Chunks, DType, Operand, Role, member

MAX_PACKED = 2**31 - 1
"""Most samples of packed sequences: `starts` is int32."""
MOST = 2**30 - 1
"""Most sequences, rows of a state, and samples of a row: kernels count these in int."""


def set_states(problem: Filter1dFields) -> None:
    """Puts the fields of states and packed sequences into canonical form; slice and types already are.

    Raises:
        BadArgument: a state of a filter that has none, or sizes that do not fit.
    """

    def set_field(name: str, value: object) -> None:
        object.__setattr__(problem, name, value)

    if problem.state is not None:
        set_field("state", member(SignalState, problem.state, "state"))
    for name in ("packed", "state_width", "state_rows"):
        if (value := getattr(problem, name)) is not None:
            set_field(name, count(value, name, MOST))
    set_field("circular", flag(problem.circular, "circular"))
    reason = _why_not_packed(problem) or _why_no_state(problem)
    if reason is not None:
        raise BadArgument(reason)
    if problem.state_width == problem.taps - 1:
        set_field("state_width", None)


def is_causal(problem: Filter1dFields) -> bool:
    """True if the outputs are those of mode `causal`, whatever the slice is called: for two taps `same` is `causal`. A
    slice may also be its first output alone, which is all that a large `down` keeps.
    """
    first, last = kept(problem.span, problem.down)
    lags = lags_of(Mode.CAUSAL, problem.signal, problem.taps)
    return first == lags[0] and (first == last or (first, last) == kept(lags, problem.down))


def _slice(problem: Filter1dFields) -> str:
    return f"mode {problem.mode}" if problem.lags is None else f"lags {problem.lags[0]} to {problem.lags[1]}"


def _why_not_packed(problem: Filter1dFields) -> str | None:
    if problem.packed is None:
        return None
    if problem.taps == 1:
        return "with one tap packed sequences are one signal; leave packed out"
    if problem.span != lags_of(Mode.CAUSAL, problem.signal, problem.taps):
        return f"packed sequences need a causal slice, mode causal; this one is {_slice(problem)}"
    if problem.batch > 1 or problem.down > 1:
        return f"packed sequences need batch 1 and down 1; got batch {problem.batch} and down {problem.down}"
    if problem.signal > MAX_PACKED:
        return f"packed sequences have at most 2^31 - 1 samples in all; got {problem.signal}"
    return None


def _why_no_state(problem: Filter1dFields) -> str | None:
    width, carried = problem.state_width, problem.state is SignalState.CARRIED
    given = [name for name in ("state_width", "state_rows", "circular") if getattr(problem, name) not in (None, False)]
    if given and not carried:
        return f"{', '.join(given)} need state='carried'"
    if problem.state is None:
        return None
    if problem.taps == 1:
        return "a filter of one tap has no state; leave state out"
    if not is_causal(problem):
        return f"a state needs a causal slice, mode causal; this one is {_slice(problem)}"
    if width is not None and width < problem.taps - 1:
        return f"state_width must be at least taps - 1, {problem.taps - 1}; got {width}"
    if carried and problem.signal % problem.down:
        return (
            f"with a carried state every signal begins at a kept output: down, {problem.down}, must divide the "
            f"{problem.signal} samples"
        )
    if problem.circular and problem.packed is not None:
        return "packed sequences have no circular state; leave circular out"
    return None


def state_rows_used(problem: Filter1dFields) -> int:
    """Rows of a state that one call uses: one for each signal of the batch, or for each packed sequence."""
    return problem.packed or problem.batch


def state_width(problem: Filter1dFields) -> int:
    """Samples of a channel that a row of the state holds."""
    return problem.taps - 1 if problem.state_width is None else problem.state_width


def inputs_of_state(problem: Filter1dFields) -> tuple[Operand, ...]:
    """Operands that a problem with a state or packed sequences takes after the weights and the bias."""
    state, used, int32 = problem.state, state_rows_used(problem), DType.INT32
    rows = used if problem.state_rows is None else problem.state_rows
    found: list[Operand] = []
    if state is SignalState.CARRIED:
        found.append(problem.samples_of("state", Role.STATE, rows, state_width(problem)))
    elif state is not None and state.is_read:
        found.append(problem.samples_of("before", Role.INPUT, used, problem.taps - 1))
    if problem.state_rows is not None:
        found.append(Operand("indices", Role.INPUT, (used,), int32))
    if problem.circular:
        found.append(Operand("positions", Role.INPUT, (used,), int32))
    if problem.packed is not None:
        found.append(Operand("starts", Role.INPUT, (problem.packed + 1,), int32))
    return tuple(found)


def outputs_of_state(problem: Filter1dFields) -> tuple[Operand, ...]:
    """Operands besides the result that a problem with a state writes."""
    if problem.state is None or not problem.state.has_after:
        return ()
    return (problem.samples_of("after", Role.OUTPUT, state_rows_used(problem), problem.taps - 1),)


def moved_bytes(problem: Filter1dFields) -> int:
    """Bytes by which a carried state moves more, or fewer, than all its rows once: those in use, read and written."""
    if problem.state is not SignalState.CARRIED:
        return 0
    row = problem.channels * problem.dtype.itemsize
    operand = next(each for each in problem.inputs if each.name == "state")
    read = problem.taps - 1 if problem.circular else state_width(problem)
    written = min(problem.signal, state_width(problem)) if problem.circular else state_width(problem)
    return state_rows_used(problem) * row * (read + written) - operand.nbytes


def chunks_of(problem: Filter1dFields) -> Chunks:
    """`Problem.chunks` of a filter. Raises BadArgument unless its state is carried, and belongs to one stream."""
    if problem.state is not SignalState.CARRIED:
        raise BadArgument("a stream needs a filter whose state is carried: Filter1d(..., state='carried')")
    if problem.state_rows is not None or problem.packed is not None:
        raise BadArgument("a stream keeps one state for itself; leave state_rows and packed out")
    if problem.pitch is not None or problem.result_pitch is not None:
        raise BadArgument("a stream takes chunks without gaps between rows; leave pitch and result_pitch out")
    axis = len(problem.inputs[0].shape) - (2 if problem.layout is SignalLayout.BTC else 1)
    ring = ("positions", state_width(problem)) if problem.circular else (None, 0)
    return Chunks("signal", "state", axis, problem.signal, problem.down, *ring)


def check_starts(starts: object, samples: int) -> None:
    """Checks `starts` of packed sequences that lie in host memory: rising from 0 to the number of samples.

    A kernel cannot refuse others: it stays within the signal, and its results are not those of any sequences.

    Raises:
        BadArgument: they do not begin at 0, fall, or do not end at `samples`.
    """
    values = [int(value) for value in starts]  # type: ignore[attr-defined]
    if not values or values[0] != 0:
        raise BadArgument(f"starts must begin at 0; got {values[:1]}")
    for place, (one, other) in enumerate(itertools.pairwise(values)):
        if other < one:
            raise BadArgument(f"starts must not fall; {other} follows {one} at place {place + 1}")
    if values[-1] != samples:
        raise BadArgument(f"starts must end at the number of samples, {samples}; got {values[-1]}")


def why_no_rows(problem: Filter1dFields) -> str | None:
    """The reason why a family that reads states by their place alone cannot solve a problem; None if it can."""
    if problem.state_rows is not None:
        return "reads no rows of a state by indices"
    return "has no circular state" if problem.circular else None


def why_no_state(problem: Filter1dFields) -> str | None:
    """The reason why a family without states cannot solve a problem, in one line; None if it can."""
    if problem.packed is not None:
        return "solves no packed sequences"
    return "reads and writes no state" if problem.state is not None else None
