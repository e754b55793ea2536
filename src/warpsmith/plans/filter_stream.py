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
from warpsmith.generator.problem import Operand, Problem

MOST_HALVINGS = 24
"""Plans of a stream, besides its own: pieces have a power of two of results, up to 2^23."""
MOST_COUNTED = 1 << 29
"""Samples after which the positions of a ring are reduced modulo its width, long before int32 ends."""


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
    samples that the problem's `down` divides. One as long as the plan's signal is one call of the plan; others are cut
    into pieces of that length and of powers of two, so that few plans serve all lengths. Pieces are copied if they do
    not lie as a plan needs them.

    The state lies where the first chunk does. Chunks are ordered as calls of a plan are, by their CUDA streams. Of a
    circular state the stream counts the positions, on the device: a CUDA graph that contains chunks goes on with the
    signal at each replay. Such a graph may replay 2^31 samples, or any number if the ring's width is a power of two.

    Args:
        plan: a plan of a problem with a carried state.
        other: makes such a plan of another problem on the same device; None if only the plan's own length is known.
    """

    def __init__(self, plan: StreamedPlan, other: Callable[[Problem], StreamedPlan] | None) -> None:
        self._problem, self._chunks = plan.problem, plan.problem.chunks
        self._kept = tuple(each for each in (self._chunks.state, self._chunks.positions) if each is not None)
        passed = {self._chunks.signal, *self._kept}
        if not passed <= set(plan.caller_inputs):
            raise BadArgument("a stream is made of a plan that gets its signal and its state in each call")
        self._plan, self._other = plan, other
        self._plans = {self._chunks.samples: plan}
        self._own = self._operand(self._problem, self._chunks.signal)
        """Signal of the plan's own length."""
        self._places = {name: place for place, name in enumerate(plan.caller_inputs)}
        self._others = tuple(each for each in plan.caller_inputs if each not in passed)
        self._state: Any = None
        self._positions: Any = None
        self._counted = 0
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
            others: the plan's other inputs without its state and positions, in order: the weights, and a bias if it
                has one.

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
        library = _library_of(signal)
        if len(others) != len(self._others):
            names = ", ".join((self._chunks.signal, *self._others))
            raise BadArgument(f"this stream takes {names}; got {len(others) + 1} arrays")
        is_own = self._state is not None and tuple(signal.shape) == self._own.shape
        samples = self._chunks.samples if is_own else self._samples(signal)
        pieces = (samples,) if is_own else tuple(self._pieces(samples))
        if self._state is None:
            self._begin(signal)
        if len(pieces) == 1:
            return self._call(pieces[0], library, signal, others)
        whole = self._problem.of_samples(samples)
        result = empty_like_caller(signal, whole.output, self._plan.runtime)
        begin, axis, step = 0, self._chunks.axis, self._chunks.step
        for piece in pieces:
            end = begin + piece
            found = self._call(piece, library, signal[_part(axis, begin, end)], others)
            result[_part(axis, begin // step, end // step)] = found
            begin = end
        return result

    def _begin(self, signal: Any) -> None:
        """Makes a state of zeros where the chunk lies."""
        made = []
        for name in self._kept:
            array = empty_like_caller(signal, self._operand(self._problem, name), self._plan.runtime)
            array[...] = 0
            made.append(array)
        self._positions = made[1] if self._chunks.positions is not None else None
        self._state, self._counted = made[0], 0

    def _advance(self, samples: int) -> None:
        """Counts the samples of a piece that was filtered."""
        if self._positions is None:
            return
        self._positions += samples
        self._counted += samples
        if self._counted >= MOST_COUNTED:
            self._positions %= self._chunks.width
            self._counted = 0

    def _call(self, samples: int, library: _Library, signal: Any, others: tuple[Any, ...]) -> Any:
        """Filters one piece of a chunk."""
        plan, chunks, places = self._plan_of(samples), self._chunks, self._places
        operand = self._own if plan is self._plan else self._operand(plan.problem, chunks.signal)
        given: list[Any] = [None] * len(places)
        given[places[chunks.signal]] = library.laid_out(signal, operand, plan.runtime)
        given[places[chunks.state]] = self._state
        if chunks.positions is not None:
            given[places[chunks.positions]] = self._positions
        for name, array in zip(self._others, others, strict=True):
            given[places[name]] = array
        result = plan(*given)
        self._advance(samples)
        return result

    @staticmethod
    def _operand(problem: Problem, name: str) -> Operand:
        return next(each for each in problem.operands if each.name == name)

    def _samples(self, signal: Any) -> int:
        """Samples of a chunk. Raises BadArgument unless its other dimensions and its number of samples fit."""
        name, axis, step = self._chunks.signal, self._chunks.axis, self._chunks.step
        shape, given = self._operand(self._problem, name).shape, tuple(signal.shape)
        if len(given) != len(shape) or any(given[i] != shape[i] for i in range(len(shape)) if i != axis):
            wanted = ", ".join("samples" if i == axis else str(extent) for i, extent in enumerate(shape))
            raise BadArgument(f"{name}: expected a chunk of shape ({wanted}); got {given}")
        samples = int(given[axis])
        if samples == 0 or samples % step:
            raise BadArgument(f"{name}: a chunk has a multiple of {step} samples, at least one; got {samples}")
        return samples

    def _pieces(self, samples: int) -> Iterator[int]:
        """Lengths of the pieces of a chunk, each the longest that there is a plan for, or may be."""
        own, step = self._chunks.samples, self._chunks.step
        while samples:
            piece = step << min(MOST_HALVINGS, (samples // step).bit_length()) - 1
            if self._other is None or piece < own <= samples:
                piece = own
            if piece > samples:
                raise BadArgument(f"{self._chunks.signal}: a stream of this plan takes chunks of whole {own} samples")
            yield piece
            samples -= piece

    def _plan_of(self, samples: int) -> StreamedPlan:
        plan = self._plans.get(samples)
        if plan is None:
            assert self._other is not None  # `_pieces` names lengths that there are plans for
            plan = self._plans[samples] = self._other(self._problem.of_samples(samples))
        return plan


def _part(axis: int, begin: int, end: int) -> tuple[slice, ...]:
    """Index of some samples along a dimension."""
    return (*(slice(None),) * axis, slice(begin, end))


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

    def laid_out(self, x: Any, operand: Operand, runtime: Runtime) -> Any:
        """`x`, or a copy if it has gaps or begins elsewhere than a plan's arrays do."""
        address = self.address_if_dense(x)
        if address is not None and address % ALIGNMENT == 0:
            return x
        copy = empty_like_caller(x, operand, runtime)
        copy[...] = x
        return copy


_TORCH = _Library(lambda each: each.data_ptr() if each.is_contiguous() else None)
_NUMPY = _Library(lambda each: each.ctypes.data if each.flags.c_contiguous else None)
_CUPY = _Library(lambda each: each.data.ptr if each.flags.c_contiguous else None)


def _library_of(x: Any) -> _Library:
    """Raises BadArgument unless the library lets slices be assigned."""
    if torch_of(x) is not None:
        return _TORCH
    if isinstance(x, np.ndarray):
        return _NUMPY
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(x, cupy.ndarray):
        return _CUPY
    raise BadArgument(f"signal: a stream takes arrays of NumPy, PyTorch or CuPy; got {type(x).__name__}")
