"""Plans: kernels that are ready to be called on arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from warpsmith.devices.base import Allocation, Runtime
from warpsmith.devices.binary import Binaries
from warpsmith.devices.calls import AnyCalls, QuickCalls
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
from warpsmith.plans.match import Match


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
        self.problem = problem
        self.match = match
        """How the answer was found, with the stored record where there is one."""
        self.binaries = binaries
        """Of each unit of the program, by its name."""
        self.runtime = runtime
        """The device."""
        self._executable = Executable.load(runtime, match.program, binaries)
        self.workspace_bytes = self._executable.workspace_bytes
        """Scratch memory of one call, which `workspace` may give; 0 where it needs none."""
        self._signature = Signature.of(problem, match.program)
        self.asked = self._signature.asked
        """Names of the arrays that a call gives, in order."""
        self._any = AnyCalls(self._signature, runtime)
        self._quick: HomeTable[type, QuickCalls | None] = HomeTable()
        """By the type of the first array; what reads no type quicker is not asked again. Empty in a forked child."""
        names = self._signature.buffers, self._signature.operands
        self._launches = launches_of(self._executable, runtime, *names)

    def __call__(self, *inputs: Any, out: Any = None, stream: Any = None, workspace: Any = None) -> Any:
        """Computes the problem.

        Args:
            inputs: one array for each of the problem's inputs, in order: for `Filter2d` the image, and the weights
                unless the problem has them; for `Fft` the signal, or the spectrum for an inverse transform. On a GPU
                anything with `__cuda_array_interface__` or `__dlpack__`; on the host NumPy arrays and CPU tensors of
                PyTorch. Shapes, dtypes and strides must be exactly the problem's: C-contiguous unless it has a pitch.
                A conjugated or negated view of PyTorch's is copied first. Give the weights as a NumPy array: they are
                kernel parameters, and a device array must be copied back first. Those of more than 32 KB are read
                from memory: give them as the image, on the device.
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
        parts = held(self.match.program, inputs)
        return _Remembering(self, inputs) if parts is None else _Prepared(self, inputs, parts)

    def _call_with_care(self, inputs: tuple[Any, ...], out: Any, stream: object, workspace: Any) -> Any:
        """A call of a kind that was not seen before in this process, or with anything unusual."""
        self.runtime.check_process()
        call = self._any.read(inputs, out, stream)
        if workspace is not None and not isinstance(workspace, Allocation):
            workspace = self._any.scratch(workspace, self.workspace_bytes, call)
        self._launches.launch(call.addresses, call.values, call.stream, workspace)
        call.queued()
        if inputs and type(inputs[0]) not in self._quick:
            made = quick_calls(inputs[0], self._signature, self.runtime, self._launches, call.values)
            self._quick[type(inputs[0])] = made
        return call.target


class _Remembering(Plan):
    """Gives the arrays with each call: the program makes nothing of them alone."""

    def __init__(self, plan: Plan, given: Mapping[str, Any]) -> None:
        self.problem, self.match, self.binaries = plan.problem, plan.match, plan.binaries
        self.workspace_bytes = plan.workspace_bytes
        self.asked = tuple(name for name in plan.asked if name not in given)
        self._whole, self._given = plan, dict(given)

    def __call__(self, *inputs: Any, out: Any = None, stream: Any = None, workspace: Any = None) -> Any:
        if len(inputs) != len(self.asked):
            told = f"this plan holds {', '.join(self._given)}: call it with the {', '.join(self.asked)} alone"
            raise BadArgument(told)
        arrays = {**self._given, **dict(zip(self.asked, inputs, strict=True))}
        return self._whole(*(arrays[name] for name in self._whole.asked), out=out, stream=stream, workspace=workspace)


class PartPlan(Plan):
    """A plan of a part of a program: what it reads beside a call's arrays is there already.

    Args:
        problem: what the whole program computes.
        match: how that was found.
        binaries: of each unit of the part.
        runtime: the device.
        executable: the part, loaded.
        held: inputs that no call gives, with the bytes that kernels take of them.
        bound: makes what launches the part, from the names of the operands whose addresses and bytes a call brings.
    """

    def __init__(
        self,
        problem: Problem,
        match: Match,
        binaries: Binaries,
        runtime: Runtime,
        executable: Executable,
        held: Mapping[str, bytes],
        bound: Callable[[tuple[str, ...], tuple[str, ...]], Launches],
    ) -> None:
        self.problem, self.match, self.binaries, self.runtime = problem, match, binaries, runtime
        self._executable = executable
        self.workspace_bytes = executable.workspace_bytes
        self._signature = Signature.of(problem, executable.program, held)
        self.asked = self._signature.asked
        self._any = AnyCalls(self._signature, runtime)
        self._quick = HomeTable()
        self._launches = bound(self._signature.buffers, self._signature.operands)


class _Prepared(PartPlan):
    """Has done the steps that depend on the held inputs alone, and does the others in each call."""

    def __init__(self, plan: Plan, given: Mapping[str, Any], parts: Held) -> None:
        runtime, problem = plan.runtime, plan.problem
        self._memory = Workspaces(runtime, parts.workspaces)
        kept = self._memory.kept()
        _make(plan, given, parts, kept)
        operands = {each.name: each for each in problem.inputs}
        values = {name: weights_bytes(given[name], operands[name]) for name in given if name in parts.rest.by_value}
        contents = {name: values.get(name, b"") for name in given}
        executable = Executable.load(runtime, parts.rest, plan.binaries)

        def bound(buffers: tuple[str, ...], names: tuple[str, ...]) -> Launches:
            return launches_of(executable, runtime, buffers, names, kept)

        super().__init__(problem, plan.match, plan.binaries, runtime, executable, contents, bound)


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
