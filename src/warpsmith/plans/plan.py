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
"""Lock that keeps two threads from opening a device twice."""


class Plan:
    """A kernel, compiled and loaded. Call it with the problem's inputs: `y = plan(x, w)`.

    On a GPU a call does not wait for the result, which is ready in stream order, as with CuPy and PyTorch. Everything
    that depends on the problem alone is made with the plan. Each call reads its arrays anew and keeps none of them
    alive.

    Threads may call one plan at the same time, on one stream or several, with any weights. A CUDA graph that contains
    calls of a plan needs the plan alive, and may run at any time. In a forked child a plan of a GPU raises DeviceError;
    a plan of the host continues to work.
    """

    def __init__(self, problem: Problem, match: Match, binaries: Binaries, runtime: Runtime) -> None:
        self._take(LoadedProgram.of(problem, match, binaries, runtime))

    @classmethod
    def of_part(cls, loaded: LoadedProgram) -> Plan:
        plan = cls.__new__(cls)
        plan._take(loaded)
        return plan

    def _take(self, loaded: LoadedProgram) -> None:
        """Sets all attributes of a plan from its loaded program."""
        self.loaded = loaded
        self.problem = loaded.problem
        self.match = loaded.match
        """How the program was found, with the stored record if there is one."""
        self.verified = UNASKED
        """Whether results were compared with float64 sums on this device, and the largest error found."""
        self.binaries = loaded.binaries
        """Binary of each unit of the program, by name."""
        self.runtime = loaded.runtime
        self.workspace_bytes = loaded.executable.workspace_bytes
        """Bytes of scratch memory of one call, which `workspace` may provide; 0 if it needs none."""
        self._signature = loaded.signature
        self.asked = self._signature.asked
        """Names of the arrays that a call passes, in order."""
        self._any = AnyCalls(self._signature, self.runtime)
        self._quick: HomeTable[type, QuickCalls | None] = HomeTable()
        """Fast call paths by type of the first array; None for a type that has none. Empty in a forked child, and while
        a check is pending.
        """
        self._launches = loaded.launches
        self._pending: PendingCheck | None = None

    def __call__(self, *inputs: Any, out: Any = None, stream: Any = None, workspace: Any = None) -> Any:
        """Computes the problem.

        Args:
            inputs: one array for each of the problem's inputs, in order: for `Filter2d` the image, and the weights
                unless the problem has them; for `Fft` the signal, or the spectrum for an inverse transform. On a GPU
                anything with `__cuda_array_interface__` or `__dlpack__`; on the host NumPy arrays and CPU tensors of
                PyTorch. Shapes, dtypes and strides must be exactly the problem's: C-contiguous unless it has a pitch.
                A conjugated or negated view of PyTorch's is copied first. Pass the weights of a filter as a NumPy
                array:
                they are kernel parameters, and a device array must be copied back first. Weights of more than 32 KB are
                read from memory: pass them on the device; anywhere else, each new content is copied there once.
            out: array to write to, which may not overlap an input; None for a new array of the first input's library.
                If the problem has several results, a tuple of as many.
            stream: CUDA stream to launch on (an integer handle, or a stream of CuPy, PyTorch or PyCUDA); None for the
                caller's current stream.
            workspace: uint8 array of `workspace_bytes` bytes, aligned to 256, for the program's scratch memory. Calls
                that overlap must not share it. None for the plan's own memory, one per stream.

        Returns:
            `out`, or the new array, of shape `problem.output.shape`.

        Raises:
            BadArgument: an array does not fit, is on another device, or requires a gradient; the message names it.
            DeviceError: the plan is of a GPU that was opened before this process was forked, or the host device had to
                stop a kernel.
        """
        quick = self._quick.get(type(inputs[0])) if inputs and workspace is None else None
        target = quick(inputs, out, stream, None) if quick is not None else None
        return self._call_with_care(inputs, out, stream, workspace) if target is None else target

    def call_on(self, scratch: Allocation, *inputs: Any) -> Any:
        """Calls the plan with scratch memory that is known not to overlap any of its arrays and to be free on the
        stream. A call with `workspace` checks that each time.
        """
        quick = self._quick.get(type(inputs[0]))
        target = quick(inputs, None, None, scratch) if quick is not None else None
        return self._call_with_care(inputs, None, None, scratch) if target is None else target

    def hold(self, **inputs: Any) -> Plan:
        """Binds some inputs for all calls, such as the weights of a layer: `plan.hold(w=w)(x)`.

        Steps of the program that depend on these inputs alone, such as transforming weights to spectra, run now, and
        their results are kept in memory of the new plan. A program without such steps gets the same arrays in every
        call. Changing a bound array afterwards may or may not change results.

        Args:
            inputs: arrays by the names of the problem's inputs, as in a call.

        Raises:
            BadArgument: no input or every input is bound, a name is unknown, or an array does not fit.
            OutOfMemory: the kept results do not fit.
        """
        if not inputs or not set(inputs) < set(self.asked):
            told = f"some of its inputs {', '.join(self.asked)} by name, and not all"
            raise BadArgument(f"a plan of {self.problem.operation} holds {told}; got {', '.join(inputs) or 'none'}")
        return _holding(self, inputs)

    def check_first_call(self, pending: PendingCheck) -> None:
        """Makes the plan check its next call that is not under graph capture."""
        self.verified, self._pending = PENDING, pending

    def _call_with_care(self, inputs: tuple[Any, ...], out: Any, stream: object, workspace: Any) -> Any:
        """Runs a call of a kind not seen before in this process, or one with unusual arguments."""
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
        """Runs a call and checks its results. If they are wrong, another program takes this one's place and repeats the
        call.
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
                out, workspace = call.target, None  # the scratch memory had the size that the other program needs
        return self._call_with_care(inputs, out, stream, workspace)


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of the check of a call."""

    verified: Verification
    pending: PendingCheck | None = None
    """Check for the next call, if this one allowed no check."""
    other: Plan | None = None
    """Replacement for a plan whose results are wrong."""


class PendingCheck(Protocol):
    """Check of a plan's first call."""

    lock: ForkLock
    """Lock that serialises calls while the check is pending."""

    def settle(self, plan: Plan, call: ReadCall) -> Outcome:
        """Checks the result of a call, and waits for it. Raises WrongResult if no program is right."""
        ...


def _holding(plan: Plan, given: Mapping[str, Any]) -> Plan:
    """A plan with some inputs bound for all calls; steps that depend on as many of them as possible run now."""
    for count in range(len(given), 0, -1):
        for names in itertools.combinations(given, count):
            if (parts := held(plan.match.program, names)) is not None:
                prepared = _Prepared(plan, {name: given[name] for name in names}, parts)
                return prepared if count == len(given) else _Remembering(plan, given, prepared)
    return _Remembering(plan, given, plan)


class _Remembering(Plan):
    """Plan that passes the bound arrays with each call, because no step of the program depends on them alone.

    Args:
        whole: plan without bound inputs.
        given: all bound inputs.
        inner: plan that is called; it may have prepared some of them.
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
            return super().hold(**inputs)  # it raises BadArgument
        return _holding(self._whole, {**self._given, **inputs})


class _Prepared(Plan):
    """Plan with prepacked inputs: it has run the steps that depend on them alone, and runs the others in each call."""

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
            return super().hold(**inputs)  # it raises BadArgument
        return _holding(self._whole, {**self._given, **inputs})


def _make(plan: Plan, given: Mapping[str, Any], parts: Held, kept: Kept) -> None:
    """Runs the steps of the bound inputs and waits for them, because calls may come on any stream."""
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
