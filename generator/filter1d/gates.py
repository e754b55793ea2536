"""Gates of filters: arrays that multiply the samples before a filter, and its outputs after it."""

from __future__ import annotations

import dataclasses

from warpsmith.errors import BadArgument
from warpsmith.generator.canonical import count
from warpsmith.generator.filter1d.fields import Filter1dFields, Gates
from warpsmith.generator.filter1d.states import is_causal
from warpsmith.generator.problem import DType, Operand, Role, member

GATED = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
"""Element types of signals that may have gates."""


GATES = ("gate_before", "gate_after", "projections")
"""Operands of a problem with gates, in the order in which a plan takes them."""
MAX_PROJECTION = 64
"""Most taps of a projection: it is added up again for each sample that a kernel reads."""
STREAMS = 3
"""Filters of a projection for each channel: those of the signal, of the gate before it, and of the gate after it."""


def set_gates(problem: Filter1dFields) -> None:
    """Puts the fields `gates` and `projection` into canonical form; slice, types, states and pass already are.

    Raises:
        BadArgument: unknown gates, or gates of a filter that has none.
    """
    if problem.projection is not None:
        object.__setattr__(problem, "projection", count(problem.projection, "projection", MAX_PROJECTION))
        if problem.gates != Gates.BOTH or not is_causal(problem) or problem.down > 1:
            raise BadArgument("a projection needs gates='both', a causal slice and down 1")
    if problem.gates is None:
        return
    object.__setattr__(problem, "gates", member(Gates, problem.gates, "gates"))
    why = None
    if problem.dtype not in GATED:
        why = f"are for signals of {', '.join(GATED)}; this one is {problem.dtype}"
    elif problem.state is not None or problem.packed is not None:
        why = "are for filters without a state, of signals that are not packed"
    elif problem.pass_.is_gradient:
        why = (
            f"have no gradients (pass {problem.pass_}); take those of the filter alone, and multiply by the gates "
            "before and after it, as warpsmith.torch.gated_conv1d does"
        )
    if why is not None:
        raise BadArgument(f"gates {why}")


def inputs_of_gates(problem: Filter1dFields, signal: Operand, result: Operand) -> tuple[Operand, ...]:
    """Operands that a problem with gates takes after all others, laid out as the signal and the result."""
    gates = problem.gates
    if gates is None:
        return ()
    before = (dataclasses.replace(signal, name="gate_before"),) if gates.has_before else ()
    after = (dataclasses.replace(result, name="gate_after", role=Role.INPUT),) if gates.has_after else ()
    if problem.projection is None:
        return (*before, *after)
    channels = (problem.channels,) if problem.channels > 1 else ()
    shape = (STREAMS, *channels, problem.projection)
    return (*before, *after, Operand("projections", Role.INPUT, shape, problem.weights_dtype))


def gate_flops(problem: Filter1dFields) -> int:
    """Operations of the gates and of the filters before them, which are as long as the signal."""
    if problem.gates is None:
        return 0
    projections = 2 * STREAMS * (problem.projection or 0) * problem.rows * problem.signal
    return projections + problem.rows * (
        problem.signal * problem.gates.has_before + problem.result_length * problem.gates.has_after
    )


def why_no_gates(problem: Filter1dFields) -> str | None:
    """The reason why a family without gates cannot solve a problem, in one line; None if it can."""
    return None if problem.gates is None else f"multiplies by no gates ({problem.gates})"


def why_no_projection(problem: Filter1dFields) -> str | None:
    """The reason why a family that filters no gates cannot solve a problem, in one line; None if it can."""
    if problem.projection is None:
        return None
    return f"reads signal and gates as they are, without a projection of {problem.projection} taps"
