"""CUDA text of the gradients of a filter: the values that their templates take as `p`, their arguments and sums."""

from __future__ import annotations

import dataclasses
import math

from warpsmith.generator.device import Device
from warpsmith.generator.filter1d.fields import Activation, SignalLayout
from warpsmith.generator.filter1d.passes import reaches_all
from warpsmith.generator.filter1d.plain_family import CHAIN
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.text import STORED, count_type, index_type, pitches
from warpsmith.generator.problem import DType
from warpsmith.generator.program import Argument, Launch, Pointer, Program
from warpsmith.generator.space import Config
from warpsmith.generator.steps import Workspace

SUMS = "sums"
"""Workspace of the partial sums of the gradients of weights and bias: [parts][items][channels], float32."""
FOLDED = ("weights_gradient", "bias_gradient")
"""Results that the last kernel writes."""
MAX_TAPS = 32
"""Most taps of the kernels that pass over memory once: the taps, their sums and a window are in registers."""
PAIRED = (DType.FLOAT16, DType.BFLOAT16)
"""Types of samples that these kernels convert in pairs."""
FOLD_THREADS = 256
WARP, SCHEDULERS, ISSUE_SHARE = 32, 4, 0.8
_FEW_TERMS = 32
"""Partial sums of an element that one thread adds up; more lanes share longer sums."""


@dataclasses.dataclass(frozen=True, slots=True)
class GradientsText:
    """Template values of a problem. Offsets are in elements, times in samples."""

    key: str
    sample: str
    """C++ type of a sample, and of its gradient, in memory."""
    gradient: str
    """C++ type of an element of the result's gradient in memory."""
    tap: str
    dtype: DType
    gradient_dtype: DType
    taps_dtype: DType
    signal: int
    taps: int
    outputs: int
    batch: int
    channels: int
    filters: int
    first_lag: int
    is_btc: bool
    pitch: int
    """Elements from one row of the signal to the next: a channel, or a sample of all channels if `is_btc`."""
    gradient_pitch: int
    batch_pitch: int
    """Elements from one signal of the batch to the next."""
    gradient_batch_pitch: int
    index: str
    """C++ type that counts the samples of a channel, those outside of the signal included."""
    reversed: bool
    """True if the taps of a call must be reversed to those of a correlation."""
    reads_signal: bool
    reads_weights: bool
    reads_bias: bool
    gives_signal: bool
    gives_weights: bool
    gives_bias: bool
    activation: Activation | None
    clears: bool
    """True if outputs beyond the result must be cleared: samples that are not finite lie in no other window, and zero
    times the activation's slope at them is no number."""

    @classmethod
    def of(cls, problem: Filter1d) -> GradientsText:
        is_btc = problem.layout is SignalLayout.BTC
        pitch, gradient_pitch = pitches(problem)
        names = {each.name for each in problem.operands}
        return cls(
            key=problem.key(),
            sample=STORED[problem.dtype],
            gradient=STORED[problem.output_dtype],
            tap=STORED[problem.weights_dtype],
            dtype=problem.dtype,
            gradient_dtype=problem.output_dtype,
            taps_dtype=problem.weights_dtype,
            signal=problem.signal,
            taps=problem.taps,
            outputs=problem.result_length,
            batch=problem.batch,
            channels=problem.channels,
            filters=problem.filters,
            first_lag=problem.first_lag,
            is_btc=is_btc,
            pitch=pitch,
            gradient_pitch=gradient_pitch,
            batch_pitch=pitch * (problem.signal if is_btc else problem.channels),
            gradient_batch_pitch=gradient_pitch * (problem.result_length if is_btc else problem.channels),
            index=index_type(problem),
            reversed=problem.convolve,
            reads_signal="signal" in names,
            reads_weights="weights" in names,
            reads_bias="bias" in names,
            gives_signal="signal_gradient" in names,
            gives_weights="weights_gradient" in names,
            gives_bias="bias_gradient" in names,
            activation=problem.activation,
            clears=problem.activation is not None and not reaches_all(problem),
        )


def operand_pointers(problem: Filter1d) -> tuple[Pointer, ...]:
    """Arguments of a kernel that takes all operands."""
    return tuple(Pointer(each.name) for each in problem.operands)


def why_no_gradients_of(problem: Filter1d) -> str | None:
    """The reason why a family of gradients cannot solve a problem, in one line; None if it asks for gradients."""
    return None if problem.pass_.is_gradient else "computes gradients alone, no filter (pass fprop)"


@dataclasses.dataclass(frozen=True, slots=True)
class Fold:
    """Second stage of the gradients of weights and bias: adds up partial sums in a fixed order."""

    parts: int
    """Partial sums of each item of a channel: of each signal of the batch, and of each block along it."""
    items: int
    """Sums of a channel: one for each tap, and that of the bias."""
    channels: int
    group: int
    """Channels of a filter."""
    outputs: int
    """Elements of both gradients."""
    lanes: int
    """Threads that add up one element."""
    chain: int
    """Partial sums that a thread adds one after the other."""
    threads: int
    is_chained: bool
    """True if a thread adds more than `chain` partial sums."""
    count: str
    """C++ type that counts all threads."""
    term_count: str
    """C++ type that counts the partial sums of an element."""
    is_by_filter: bool = False
    """True if the sums of a filter's taps lie side by side, and not those of a tap."""

    @classmethod
    def of(cls, problem: Filter1d, parts: int) -> Fold:
        terms = parts * (problem.channels // problem.filters)
        outputs = problem.filters * problem.taps + (problem.channels if problem.bias else 0)
        lanes = min(FOLD_THREADS, 1 << max(0, math.ceil(math.log2(terms / _FEW_TERMS))))
        return cls(
            parts=parts,
            items=problem.taps + problem.bias,
            channels=problem.channels,
            group=problem.channels // problem.filters,
            outputs=outputs,
            lanes=lanes,
            chain=CHAIN,
            threads=FOLD_THREADS,
            is_chained=terms > CHAIN * lanes,
            count=count_type(outputs * lanes, FOLD_THREADS),
            term_count="int" if terms + CHAIN * lanes < 2**31 else "long long",
        )

    @classmethod
    def of_filters(cls, problem: Filter1d, parts: int) -> Fold:
        """Fold of sums over all channels of a filter, of which those of a filter's taps lie side by side."""
        alone = dataclasses.replace(problem, channels=problem.filters, pitch=None, result_pitch=None)
        return dataclasses.replace(cls.of(alone, parts), is_by_filter=True)

    @property
    def blocks(self) -> int:
        return -(-self.outputs * self.lanes // self.threads)

    @property
    def workspace(self) -> Workspace:
        return Workspace(SUMS, 4 * self.parts * self.items * self.channels)

    def launch(self, family: str, problem: Filter1d) -> Launch:
        results = [each.name for each in problem.outputs if each.name in FOLDED]
        return Launch.of_blocks(f"{family}_fold", self.blocks, self.threads, tuple(map(Pointer, (SUMS, *results))))


def pass_arguments(problem: Filter1d) -> tuple[Argument, ...]:
    """Arguments of a kernel that passes over memory once: all operands but those that the fold writes, and its sums."""
    own = tuple(each for each in operand_pointers(problem) if each.buffer not in FOLDED)
    return (*own, Pointer(SUMS)) if problem.pass_.gives_weights else own


def pass_program(problem: Filter1d, config: Config, source: str, launch: Launch, fold: Fold | None) -> Program:
    """Program of a kernel that passes over memory once, and of the fold of its sums if there are any."""
    folds = () if fold is None else (fold.launch(launch.entry, problem),)
    workspaces = () if fold is None else (fold.workspace,)
    return Program.of_source(launch.entry, config, source, (launch, *folds), workspaces)


def expected_pass_ns(problem: Filter1d, device: Device, others: int, memory_share: float) -> float:
    """Nanoseconds of one pass over memory and its fold: by bytes at a share of the memory rate, or by instructions,
    `others` for each output besides its multiply-adds.
    """
    outputs, rates = problem.rows * problem.result_length, device.rates
    each = problem.multiply_adds / outputs + others
    issued = rates.cycles_ns(outputs * each / WARP / device.multiprocessors / SCHEDULERS / ISSUE_SHARE)
    return 2 * rates.launch_ns + max(problem.bytes / (memory_share * rates.memory_bytes_per_ns), issued)
