"""Plans: kernels that are ready to be called on arrays."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from functools import cache
from typing import Any, Protocol

from warpsmith.devices.base import Allocation, Runtime
from warpsmith.devices.binary import Binaries
from warpsmith.devices.calls import AnyCalls, QuickCalls, ReadCall
from warpsmith.devices.executable import Executable
from warpsmith.devices.launches import Launches
from warpsmith.devices.launching import launches_of
from warpsmith.devices.process import ForkLock, HomeTable
from warpsmith.devices.quick_calls import quick_calls
from warpsmith.devices.select import DeviceRef
from warpsmith.devices.signature import Signature
from warpsmith.devices.weights import weights_bytes
from warpsmith.devices.workspaces import Kept, Workspaces
from warpsmith.errors import BadArgument
from warpsmith.generator.holding import Held, held
from warpsmith.generator.problem import Problem
from warpsmith.plans.loaded import LoadedProgram
from warpsmith.plans.match import Match
from warpsmith.plans.verified import PENDING, UNASKED, Verification


def open_runtime(device: DeviceRef) -> Runtime:
    """The one runtime of a device in this process: all plans share its context."""
    with _OPENING:
        return _opened(device)


@cache
def _opened(device: DeviceRef) -> Runtime:
    return device.open()


_OPENING = ForkLock()
"""Two threads at once would open a device twice."""


class Plan:
    """A kernel, compiled and loaded. Call it with the problem's inputs: `y = plan(x, w)`.

    On a GPU a call does not wait for the result, which is ready in stream order, as with CuPy and PyTorch. Whatever
    follows from the problem alone is made with the plan, and each call reads its arrays anew; it keeps none alive.

    Threads may call one plan at the same time, on one stream or several, with any weights. A CUDA graph that contains
    calls of a plan needs the plan alive, and may run at any time. In a forked child a plan of a GPU raises DeviceError;
    one of the host goes on working.
    """

    def __init__(self, problem: Problem, match: Match, binaries: Binaries, runtime: Runtime) -> None:
        self._take(LoadedProgram.of(problem, match, binaries, runtime))

    @classmethod
    def of_part(cls, loaded: LoadedProgram) -> Plan:
        """A plan of a part of a program."""
        plan = cls.__new__(cls)
        plan._take(loaded)
        return plan

    def _take(self, loaded: LoadedProgram) -> None:
        """Everything that a plan has, whatever it is made of."""
        self.loaded = loaded
        self.problem = loaded.problem
        self.match = loaded.match
        """How the answer was found, with the stored record where there is one."""
        self.verified = UNASKED
        """Whether results were compared with float64 sums on this device, and how far off they were."""
        self.binaries = loaded.binaries
        """Of each unit of the program, by its name."""
        self.runtime = loaded.runtime
        """The device."""
        self.workspace_bytes = loaded.executable.workspace_bytes
        """Scratch memory of one call, which `workspace` may give; 0 where it needs none."""
        self._signature = loaded.signature
        self.asked = self._signature.asked
        """Names of the arrays that a call gives, in order."""
        self._any = AnyCalls(self._signature, self.runtime)
        self._quick: HomeTable[type, QuickCalls | None] = HomeTable()
        """Quick calls by the type of the first array; one without any is not asked again. Empty in a forked child, as
        long as a check is pending."""
        self._launches = loaded.launches
        self._pending: PendingCheck | None = None

    def __call__(self, *inputs: Any, out: Any = None, stream: Any = None, workspace: Any = None) -> Any:
        """Computes the problem.

        Args:
            inputs: one array for each of the problem's inputs, in order: for `Filter2d` the image, and the weights
                unless the problem has them; for `Fft` the signal, or the spectrum for an inverse transform. On a GPU
                anything with `__cuda_array_interface__` or `__dlpack__`; on the host NumPy arrays and CPU tensors of
                PyTorch. Shapes, dtypes and strides must be exactly the problem's: C-contiguous unless it has a pitch.
                A conjugated or negated view of PyTorch's is copied first. Give the weights of a filter as a NumPy
                array: they are kernel parameters, and a device array must be copied back first. Those of more than
                32 KB are read from memory: give them on the device, or anywhere else to have each contents copied once.
            out: array to write to, which may not overlap an input; None for a new array of the first input's library.
                Where the problem has several results, a tuple of as many.
            stream: CUDA stream to launch on (an integer handle, or a stream of CuPy, PyTorch or PyCUDA); None for the
                caller's current stream.
            workspace: uint8 array of `workspace_bytes` bytes, at a multiple of 256, for the program's scratch memory;
                no call that overlaps this one may be given it too. None for memory of the plan's own, one a stream.

        Returns:
            `out`, or the new array, of shape `problem.output.shape`.

        Raises:
            BadArgument: an array that does not fit, is on another device, or requires a gradient; it is named.
            DeviceError: the plan is of a GPU that was opened before this process was forked, or the host device had to
                stop a kernel.
        """
        quick = self._quick.get(type(inputs[0])) if inputs and workspace is None else None
        target = quick(inputs, out, stream, None) if quick is not None else None
        return self._call_with_care(inputs, out, stream, workspace) if target is None else target

    def call_on(self, scratch: Allocation, *inputs: Any) -> Any:
        """As a call, with scratch memory that is known to be apart from all of its arrays, and free on its stream:
        a `workspace` is looked at with care at each call.
        """
        quick = self._quick.get(type(inputs[0]))
        target = quick(inputs, None, None, scratch) if quick is not None else None
        return self._call_with_care(inputs, None, None, scratch) if target is None else target

    def hold(self, **inputs: Any) -> Plan:
        """This plan with some of its inputs given for all calls, such as the weights of a layer: `plan.hold(w=w)(x)`.

        What the program makes of them alone, such as their spectra, is made now and kept, in memory of the new plan's
        own; without such a part every call is given the same arrays. Changing an array afterwards may or may not change
        results.

        Args:
            inputs: arrays by the names of the problem's inputs, as in a call.

        Raises:
            BadArgument: no input, all of them, a name that is none, or an array that does not fit.
            OutOfMemory: what is kept does not fit.
        """
        if not inputs or not set(inputs) < set(self.asked):
            told = f"some of its inputs {', '.join(self.asked)} by name, and not all"
            raise BadArgument(f"a plan of {self.problem.operation} holds {told}; got {', '.join(inputs) or 'none'}")
        return _holding(self, inputs)

    def check_first_call(self, pending: PendingCheck) -> None:
        """Has the next call outside of a graph's capture checked."""
        self.verified, self._pending = PENDING, pending

    def _call_with_care(self, inputs: tuple[Any, ...], out: Any, stream: object, workspace: Any) -> Any:
        """A call of a kind that was not seen before in this process, or with anything unusual."""
        if self._pending is not None:
            return self._call_and_check(self._pending, inputs, out, stream, workspace)
        call = self._launched(inputs, out, stream, workspace)
        if inputs and type(inputs[0]) not in self._quick:
            made = quick_calls(inputs[0], self._signature, self.runtime, self._launches, call.values)
            self._quick[type(inputs[0])] = made
        return call.target

    def _launched(self, inputs: tuple[Any, ...], out: Any, stream: object, workspace: Any) -> ReadCall:
        self.runtime.check_process()
        call = self._any.read(inputs, out, stream)
        if workspace is not None and not isinstance(workspace, Allocation):
            workspace = self._any.scratch(workspace, self.workspace_bytes, call)
        self._launches.launch(call.addresses, call.values, call.stream, workspace)
        call.queued()
        return call

    def _call_and_check(
        self, pending: PendingCheck, inputs: tuple[Any, ...], out: Any, stream: object, workspace: Any
    ) -> Any:
        """A call whose results are looked at; where they are wrong, another program takes this one's place and does
        the call again.
        """
        with pending.lock:
            if self._pending is pending:
                call = self._launched(inputs, out, stream, workspace)
                if self.runtime.identify(call.stream).capture is not None:
                    return call.target
                outcome = pending.settle(self, call)
                if outcome.other is None:
                    self.verified, self._pending = outcome.verified, outcome.pending
                    return call.target
                vars(self).update(vars(outcome.other))
                out, workspace = call.target, None  # scratch memory was of the other program's size
        return self._call_with_care(inputs, out, stream, workspace)


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What came of the check of a call."""

    verified: Verification
    pending: PendingCheck | None = None
    """The check of the next call, where this one said nothing."""
    other: Plan | None = None
    """What takes the place of a plan whose results are wrong."""


class PendingCheck(Protocol):
    """A check of a plan's first call."""

    lock: ForkLock
    """Calls wait for each other as long as it is pending."""

    def settle(self, plan: Plan, call: ReadCall) -> Outcome:
        """Looks at what a call has computed, and waits for it. Raises WrongResult where no program is right."""
        ...


def _holding(plan: Plan, given: Mapping[str, Any]) -> Plan:
    """A whole plan with some inputs given for all calls: as many as possible of them are done with now."""
    for count in range(len(given), 0, -1):
        for names in itertools.combinations(given, count):
            if (parts := held(plan.match.program, names)) is not None:
                prepared = _Prepared(plan, {name: given[name] for name in names}, parts)
                return prepared if count == len(given) else _Remembering(plan, given, prepared)
    return _Remembering(plan, given, plan)


class _Remembering(Plan):
    """Gives arrays with each call: the program makes nothing of them alone.

    Args:
        whole: the plan that holds nothing.
        given: all inputs that are held.
        inner: the plan that is called, which may have done with some of them.
    """

    def __init__(self, whole: Plan, given: Mapping[str, Any], inner: Plan) -> None:
        self._take(inner.loaded)
        self.verified = whole.verified
        self.binaries = whole.binaries
        self.asked = tuple(name for name in inner.asked if name not in given)
        self._whole, self._given, self._inner = whole, dict(given), inner

    def __call__(self, *inputs: Any, out: Any = None, stream: Any = None, workspace: Any = None) -> Any:
        return self._inner(*self._with_given(inputs), out=out, stream=stream, workspace=workspace)

    def call_on(self, scratch: Allocation, *inputs: Any) -> Any:
        return self._inner.call_on(scratch, *self._with_given(inputs))

    def _with_given(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        if len(inputs) != len(self.asked):
            told = f"this plan holds {', '.join(self._given)}: call it with the {', '.join(self.asked)} alone"
            raise BadArgument(told)
        arrays = {**self._given, **dict(zip(self.asked, inputs, strict=True))}
        return tuple(arrays[name] for name in self._inner.asked)

    def hold(self, **inputs: Any) -> Plan:
        if not inputs or not set(inputs) < set(self.asked):
            return super().hold(**inputs)  # which refuses it
        return _holding(self._whole, {**self._given, **inputs})


class _Prepared(Plan):
    """Has done the steps that depend on the held inputs alone, and does the others in each call."""

    def __init__(self, plan: Plan, given: Mapping[str, Any], parts: Held) -> None:
        runtime, problem = plan.runtime, plan.problem
        self._whole, self._given = plan, dict(given)
        self._memory = Workspaces(runtime, parts.workspaces)
        kept = self._memory.kept()
        _make(plan, given, parts, kept)
        operands = {each.name: each for each in problem.inputs}
        values = {name: weights_bytes(given[name], operands[name]) for name in given if name in parts.rest.by_value}
        contents = {name: values.get(name, b"") for name in given}
        executable = Executable.load(runtime, parts.rest, plan.binaries)

        def bound(buffers: tuple[str, ...], names: tuple[str, ...]) -> Launches:
            return launches_of(executable, runtime, buffers, names, kept)

        self._take(LoadedProgram.of_part(problem, plan.match, plan.binaries, runtime, executable, contents, bound))
        self.verified = plan.verified

    def hold(self, **inputs: Any) -> Plan:
        if not inputs or not set(inputs) < set(self.asked):
            return super().hold(**inputs)  # which refuses it
        return _holding(self._whole, {**self._given, **inputs})


def _make(plan: Plan, given: Mapping[str, Any], parts: Held, kept: Kept) -> None:
    """Does the steps of the held inputs, and waits for them: calls may come on any stream."""
    runtime = plan.runtime
    signature = Signature.of_inputs(plan.problem, parts.first, given)
    executable = Executable.load(runtime, parts.first, plan.binaries)
    try:
        arrays = tuple(given[name] for name in signature.asked)
        call = AnyCalls(signature, runtime).read(arrays, (), None)
        launches = launches_of(executable, runtime, signature.buffers, signature.operands, kept)
        launches.launch(call.addresses, call.values, call.stream)
        call.queued()
        runtime.synchronize()
    finally:
        executable.close()
