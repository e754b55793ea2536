"""Streams: a causal filter of signals that come in chunks of any size, which keeps its state from chunk to chunk."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from warpsmith.devices.arrays import ALIGNMENT, empty_like_caller
from warpsmith.devices.process import ForkLock
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.tensors import torch_of
from warpsmith.errors import BadArgument
from warpsmith.generator.filter1d import Filter1d, Mode, SignalLayout, SignalState
from warpsmith.generator.problem import Operand, Problem

MOST_HALVINGS = 24
"""Plans of a stream, besides its own: pieces have a power of two of kept outputs, up to 2^23."""


class StreamedPlan(Protocol):
    """What a stream needs of a plan."""

    @property
    def problem(self) -> Problem: ...

    @property
    def runtime(self) -> Runtime: ...

    @property
    def caller_inputs(self) -> tuple[str, ...]: ...

    def __call__(self, *inputs: Any) -> Any: ...


class FilterStream:
    """A causal filter of signals that come in chunks; `Plan.stream` makes it. Call it: `y = stream(x, w)`.

    The results of all chunks are those of one signal that begins with the first chunk. A chunk has any number of
    samples that `down` divides. One as long as the plan's signal is one launch; others are cut into pieces of that
    length and of powers of two, so that any number of lengths needs a few plans only. Pieces are copied if they do not
    lie as a plan needs them.

    The state lies where the first chunk does. Chunks are ordered as calls of a plan are, by their CUDA streams.

    Args:
        plan: a plan of a problem with a carried state.
        other: makes such a plan of another problem on the same device; None if only the plan's own length is known.
    """

    def __init__(self, plan: StreamedPlan, other: Callable[[Problem], StreamedPlan] | None) -> None:
        problem = plan.problem
        if not isinstance(problem, Filter1d) or problem.state is not SignalState.CARRIED:
            raise BadArgument("a stream needs a filter whose state is carried: Filter1d(..., state='carried')")
        if problem.circular or problem.state_rows is not None or problem.packed is not None:
            raise BadArgument("a stream keeps one state for itself; leave state_rows, circular and packed out")
        if problem.pitch is not None or problem.result_pitch is not None:
            raise BadArgument("a stream takes chunks without gaps between rows; leave pitch and result_pitch out")
        if plan.caller_inputs[0] != "signal" or "state" not in plan.caller_inputs:
            raise BadArgument("a stream is made of a plan that gets its signal and its state in each call")
        self._problem, self._plan, self._other = problem, plan, other
        self._plans = {problem.signal: plan}
        self._state: Any = None
        self._flushed = False
        self._lock, self._is_busy = ForkLock(), False

    @property
    def state(self) -> Any:
        """The state after the latest chunk, as the problem's operand `state`; None before the first one."""
        return self._state

    def __call__(self, signal: Any, *others: Any) -> Any:
        """Filters the next chunk.

        Args:
            signal: the samples, as the problem's signal but for their number.
            others: the plan's other inputs without its state, in order: the weights, and a bias if it has one.

        Returns:
            A new array with the results of the chunk.

        Raises:
            BadArgument: the stream was flushed or is in use by another thread, or an array does not fit.
        """
        with self._exclusive():
            if self._flushed:
                raise BadArgument("this stream was flushed and takes no more chunks; reset() begins another signal")
            return self._filtered(signal, others)

    def flush(self) -> None:
        """Ends the signal. A causal filter owes no results at its end, so that there are none; no chunk may follow."""
        with self._exclusive():
            self._flushed, self._state = True, None

    def reset(self) -> None:
        """Begins another signal, before which there are zeros."""
        with self._exclusive():
            self._flushed, self._state = False, None

    def _exclusive(self) -> _Exclusive:
        return _Exclusive(self)

    def _filtered(self, signal: Any, others: tuple[Any, ...]) -> Any:
        library = _Library.of(signal)
        samples = self._samples(signal)
        whole = self._of_length(samples)
        if self._state is None:
            (operand,) = (each for each in self._problem.operands if each.name == "state")
            state = empty_like_caller(signal, operand, self._plan.runtime)
            state[...] = 0
            self._state = state
        pieces = tuple(self._pieces(samples))
        if len(pieces) == 1:
            return self._call(samples, library.laid_out(signal, whole.operands[0], self._plan.runtime), others)
        result, axis = empty_like_caller(signal, whole.output, self._plan.runtime), self._time_axis
        begin = 0
        for piece in pieces:
            part = (slice(None),) * axis + (slice(begin, begin + piece),)
            operand = self._of_length(piece).operands[0]
            found = self._call(piece, library.laid_out(signal[part], operand, self._plan.runtime), others)
            down = self._problem.down
            result[(slice(None),) * axis + (slice(begin // down, (begin + piece) // down),)] = found
            begin += piece
        return result

    def _call(self, samples: int, signal: Any, others: tuple[Any, ...]) -> Any:
        plan = self._plan_of(samples)
        rest = iter(others)
        if len(others) != len(plan.caller_inputs) - 2:
            names = ", ".join(name for name in plan.caller_inputs if name != "state")
            raise BadArgument(f"this stream takes {names}; got {len(others) + 1} arrays")
        given = {"signal": signal, "state": self._state}
        return plan(*(given[name] if name in given else next(rest) for name in plan.caller_inputs))

    @property
    def _time_axis(self) -> int:
        is_btc = self._problem.layout is SignalLayout.BTC
        return len(self._problem.operands[0].shape) - (2 if is_btc else 1)

    def _samples(self, signal: Any) -> int:
        """Samples of a chunk. Raises BadArgument unless its other dimensions and its number of samples fit."""
        shape, axis, down = self._problem.operands[0].shape, self._time_axis, self._problem.down
        given = tuple(signal.shape)
        if len(given) != len(shape) or any(given[i] != shape[i] for i in range(len(shape)) if i != axis):
            wanted = ", ".join("samples" if i == axis else str(extent) for i, extent in enumerate(shape))
            raise BadArgument(f"signal: expected a chunk of shape ({wanted}); got {given}")
        samples = int(given[axis])
        if samples == 0 or samples % down:
            raise BadArgument(f"signal: a chunk has a multiple of {down} samples, at least one; got {samples}")
        return samples

    def _pieces(self, samples: int) -> Iterator[int]:
        """Lengths of the pieces of a chunk, each the longest that there is a plan for, or may be."""
        own, down = self._problem.signal, self._problem.down
        while samples:
            halving = min(MOST_HALVINGS, (samples // down).bit_length()) - 1
            piece = down << halving
            if self._other is None or piece < own <= samples:
                piece = own
            if piece > samples:
                raise BadArgument(f"signal: a stream of this plan takes chunks of whole {own} samples")
            yield piece
            samples -= piece

    def _of_length(self, samples: int) -> Filter1d:
        if samples == self._problem.signal:
            return self._problem
        return dataclasses.replace(self._problem, signal=samples, mode=Mode.CAUSAL, lags=None)

    def _plan_of(self, samples: int) -> StreamedPlan:
        plan = self._plans.get(samples)
        if plan is None:
            assert self._other is not None  # `_pieces` names lengths that there are plans for
            plan = self._plans[samples] = self._other(self._of_length(samples))
        return plan


class _Exclusive:
    """Use of a stream by one thread: another one is refused, and does not wait."""

    def __init__(self, stream: FilterStream) -> None:
        self._stream = stream

    def __enter__(self) -> None:
        with self._stream._lock:
            if self._stream._is_busy:
                raise BadArgument("this stream is in use by another thread; give each thread a stream of its own")
            self._stream._is_busy = True

    def __exit__(self, *_: object) -> None:
        self._stream._is_busy = False


@dataclasses.dataclass(frozen=True, slots=True)
class _Library:
    """Array library of a chunk: how to see whether an array lies as a plan needs it."""

    address_if_dense: Callable[[Any], int | None]

    @classmethod
    def of(cls, x: Any) -> _Library:
        """Raises BadArgument unless the library lets slices be assigned."""
        if torch_of(x) is not None:
            return cls(lambda each: each.data_ptr() if each.is_contiguous() else None)
        if isinstance(x, np.ndarray):
            return cls(lambda each: each.ctypes.data if each.flags.c_contiguous else None)
        cupy = sys.modules.get("cupy")
        if cupy is not None and isinstance(x, cupy.ndarray):
            return cls(lambda each: each.data.ptr if each.flags.c_contiguous else None)
        raise BadArgument(f"signal: a stream takes arrays of NumPy, PyTorch or CuPy; got {type(x).__name__}")

    def laid_out(self, x: Any, operand: Operand, runtime: Runtime) -> Any:
        """`x`, or a copy if it has gaps or begins elsewhere than a plan's arrays do."""
        address = self.address_if_dense(x)
        if address is not None and address % ALIGNMENT == 0:
            return x
        copy = empty_like_caller(x, operand, runtime)
        copy[...] = x
        return copy
