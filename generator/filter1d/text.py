"""CUDA text of a filter1d problem: the values that every filter1d template takes as `p`, and the kernels' arguments."""

from __future__ import annotations

import dataclasses
import enum

from warpsmith.generator.architectures import PARAMETER_BYTES
from warpsmith.generator.filter1d.fields import Activation, SignalLayout
from warpsmith.generator.filter1d.gates import GATES, why_no_gates
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.states import why_no_state
from warpsmith.generator.filter1d.states_text import StatesText, state_arguments
from warpsmith.generator.problem import DType, NonFinite
from warpsmith.generator.program import Argument, ByValue, Constant, Pointer
from warpsmith.generator.render import float_literal
from warpsmith.generator.space import Config, Parameter, words

DEFAULT_REACH = 0.5
"""`Family.default_reach` of families whose defaults were compared with the best of many configs. The winner for 17 taps
takes 1.2 times as long as the default with 33 taps (H200, 2^24 samples)."""

STORED = {
    DType.FLOAT32: "float",
    DType.FLOAT16: "unsigned short",
    DType.BFLOAT16: "unsigned short",
    DType.COMPLEX64: "float2",
    DType.INT16: "short",
    DType.UINT8: "unsigned char",
}
"""C++ type of an element in memory; float16 and bfloat16 as their bits, so that no header is needed."""


class Weights(enum.StrEnum):
    """Place of the filters' taps."""

    ARGUMENT = "argument"
    """Kernel parameters: one kernel for all filters of a length."""
    CONSTANT = "constant"
    """A `__constant__` variable."""
    LITERAL = "literal"
    """Literals in the code."""
    GLOBAL = "global"
    """Global memory: behind a pointer, or in a table of the program if they are known."""
    SHARED = "shared"
    """Shared memory, into which each block copies the taps of its filters from global memory."""

    @classmethod
    def of(cls, config: Config) -> Weights:
        return cls(config.text("weights"))


def weights_parameter(problem: Filter1d, others: tuple[Weights, ...]) -> Parameter:
    """Parameter for the place of the taps: kernel parameters and constant memory if one filter fits these, literals if
    it is known, and `others`, of a family that reads taps through a pointer.
    """
    pointers = 28 if problem.bias else 16  # a bias's pointer follows the taps, at a multiple of 8
    pointers += 8 * len((*state_arguments(problem), *gate_arguments(problem)))
    pointers += 4 if problem.packed or problem.state else 0
    one = problem.filters == 1 and problem.operands[1].nbytes <= PARAMETER_BYTES - pointers
    by_value = (Weights.ARGUMENT, Weights.CONSTANT) if one and problem.weights is None else ()
    literal = (Weights.LITERAL,) if problem.weights is not None else ()
    return Parameter(
        "weights",
        words((*by_value, *literal, *others)),
        "taps as a kernel argument, in constant memory, as literals, or read from global or shared memory",
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Filter1dText:
    """Template values of a problem. Offsets are in elements, times in samples; literals are CUDA text."""

    key: str
    sample: str
    """C++ type of a sample in memory."""
    result: str
    tap: str
    number: str
    """C++ type of a sample in registers: float or float2."""
    weight: str
    """C++ type of a tap in registers: float or float2."""
    dtype: DType
    result_dtype: DType
    taps_dtype: DType
    signal: int
    taps: int
    outputs: int
    batch: int
    channels: int
    filters: int
    first_lag: int
    down: int
    is_btc: bool
    pitch: int
    """Elements from one row of the signal to the next: a channel, or a sample of all channels if `is_btc`."""
    result_pitch: int
    batch_pitch: int
    """Elements from one signal of the batch to the next."""
    result_batch_pitch: int
    step: int
    """Elements from one sample of a channel to the next."""
    result_step: int
    index: str
    """C++ type that counts the samples of a channel, those outside of the signal included."""
    reversed: bool
    """True if the taps of a call must be reversed; those in `known` are reversed already."""
    has_bias: bool
    activation: Activation | None
    states: StatesText | None
    packed: int | None
    """Number of packed sequences."""
    gates_samples: bool
    """True if a gate multiplies each sample."""
    gates_outputs: bool
    projection: int
    """Taps of the filters before the gates; 0 if there are none."""
    known: tuple[tuple[str, ...], ...]
    """Taps of known filters in the order of a correlation; empty if each call brings them."""

    @classmethod
    def of(cls, problem: Filter1d) -> Filter1dText:
        signal, weights, result = *problem.inputs[:2], problem.output
        is_btc = problem.layout is SignalLayout.BTC
        pitch, result_pitch = pitches(problem)
        complex64 = DType.COMPLEX64
        return cls(
            key=problem.key(),
            sample=STORED[signal.dtype],
            result=STORED[result.dtype],
            tap=STORED[weights.dtype],
            number="float2" if signal.dtype is complex64 else "float",
            weight="float2" if weights.dtype is complex64 else "float",
            dtype=signal.dtype,
            result_dtype=result.dtype,
            taps_dtype=weights.dtype,
            signal=problem.signal,
            taps=problem.taps,
            outputs=problem.result_length,
            batch=problem.batch,
            channels=problem.channels,
            filters=problem.filters,
            first_lag=problem.first_lag,
            down=problem.down,
            is_btc=is_btc,
            pitch=pitch,
            result_pitch=result_pitch,
            batch_pitch=pitch * (problem.signal if is_btc else problem.channels),
            result_batch_pitch=result_pitch * (problem.result_length if is_btc else problem.channels),
            step=pitch if is_btc else 1,
            result_step=result_pitch if is_btc else 1,
            index=index_type(problem),
            reversed=problem.convolve,
            has_bias=problem.bias,
            activation=problem.activation,
            states=StatesText.of(problem),
            packed=problem.packed,
            gates_samples=problem.gates is not None and problem.gates.has_before,
            gates_outputs=problem.gates is not None and problem.gates.has_after,
            projection=problem.projection or 0,
            known=tuple(tuple(map(float_literal, taps)) for taps in problem.known_taps),
        )

    @property
    def older(self) -> int:
        """Samples before a load that the projections of its first samples need: a power of two, whole words."""
        return older_samples(self.projection, self.dtype)

    @property
    def older_gates(self) -> int:
        """Gates before a vector of results that the projections of its first ones need: whole words."""
        elements = 4 // self.result_dtype.itemsize
        return -(-max(0, self.projection - 1) // elements) * elements


def older_samples(projection: int, dtype: DType) -> int:
    """Samples before a load that the projections of its first samples need: a power of two, whole words; 0 without
    projections.
    """
    if projection == 0:
        return 0
    return max(4 // dtype.itemsize, 1 << (projection - 2).bit_length() if projection > 1 else 1)


SLACK = 2**24
"""Samples and outputs by which the last block of a row may reach beyond it: a kernel counts these too."""


def index_type(problem: Filter1d) -> str:
    """C++ type that counts the samples of a channel, the windows before and after the signal included."""
    farthest = problem.signal + problem.result_length * problem.down + problem.taps
    return "int" if farthest < 2**31 - SLACK * problem.down else "long long"


def count_type(elements: int, threads: int) -> str:
    """C++ type that counts up to `elements`, and the threads of the last block beyond them."""
    return "unsigned" if elements + threads < 2**32 else "unsigned long long"


def pitches(problem: Filter1d) -> tuple[int, int]:
    """Elements from one row to the next, of the signal and of the result, or of its gradient."""
    is_btc = problem.layout is SignalLayout.BTC
    given = (
        (problem.pitch, problem.dtype, problem.signal),
        (problem.result_pitch, problem.output_dtype, problem.result_length),
    )
    pitch, result_pitch = (
        (problem.channels if is_btc else samples) if bytes_ is None else bytes_ // dtype.itemsize
        for bytes_, dtype, samples in given
    )
    return pitch, result_pitch


def is_strict(problem: Filter1d) -> bool:
    """True if a NaN or an infinity may come, and may not reach outputs whose windows do not have it."""
    return problem.nonfinite is NonFinite.WINDOW and problem.dtype not in (DType.INT16, DType.UINT8)


def why_no_gradient(problem: Filter1d) -> str | None:
    """The reason why a family of filters cannot solve a problem that asks for gradients; None if it does not."""
    return f"computes no gradients (pass {problem.pass_})" if problem.pass_.is_gradient else None


def why_no_epilogue(problem: Filter1d) -> str | None:
    """The reason why a family of filters without bias, activation, states and gates cannot solve a problem; None if it
    can.
    """
    if (reason := why_no_gradient(problem)) is not None:
        return reason
    if problem.bias or problem.activation is not None:
        return "adds no bias and has no activation"
    return why_no_state(problem) or why_no_gates(problem)


def filter1d_arguments(problem: Filter1d, weights: Weights) -> tuple[Argument, ...]:
    """Kernel arguments that every filter1d template declares; known taps, and those in constant memory, need none."""
    taps: tuple[Argument, ...] = ()
    if weights is Weights.ARGUMENT:
        taps = (ByValue("weights"),)
    elif weights in (Weights.GLOBAL, Weights.SHARED) and problem.weights is None:
        taps = (Pointer("weights"),)
    bias = (Pointer("bias"),) if problem.bias else ()
    return (Pointer("signal"), Pointer("result"), *taps, *bias, *state_arguments(problem), *gate_arguments(problem))


def gate_arguments(problem: Filter1d) -> tuple[Argument, ...]:
    """Kernel arguments of the gates, in the order in which the templates declare them: the last ones."""
    return tuple(Pointer(each.name) for each in problem.inputs if each.name in GATES)


def filter1d_constants(weights: Weights) -> tuple[Constant, ...]:
    """`__constant__` variables that every filter1d template declares."""
    return (Constant("weights", "weights"),) if weights is Weights.CONSTANT else ()
