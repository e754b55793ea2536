"""Plans: kernels that are ready to be called on arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from warpsmith.devices.compiler import Binaries
from warpsmith.devices.fast_calls import FastCalls, fast_calls
from warpsmith.devices.module import Allocation
from warpsmith.devices.process import ForkLock, HomeTable
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument
from warpsmith.generator.problem import Problem, Role
from warpsmith.plans.filter_stream import FilterStream
from warpsmith.plans.loaded import LoadedProgram, Verification, VerifiedProgram, prepacked
from warpsmith.plans.match import Match


def open_runtime(device: DeviceRef) -> Runtime:
    """The one runtime of a device in this process: all plans share its context."""
    with _OPENING:
        return _opened(device)


@cache
def _opened(device: DeviceRef) -> Runtime:
    return device.open()


_OPENING = ForkLock()
"""Lock that keeps two threads from opening a device twice."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class BoundInputs:
    """Inputs that are bound for all calls of a plan."""

    whole: Plan
    """Plan without bound inputs. Further inputs are bound from it."""
    arrays: Mapping[str, Any]
    """The bound arrays, by name."""


class Plan:
    """A kernel, compiled and loaded. Call it with the problem's inputs: `y = plan(x, w)`.

    On a GPU a call does not wait for the result, which is ready in stream order, as with CuPy and PyTorch. Everything
    that depends on the problem alone is made with the plan. Each call reads its arrays anew and keeps none of them
    alive.

    Threads may call one plan at the same time, on one stream or several, with any weights. A CUDA graph that contains
    calls of a plan needs the plan alive, and may run at any time. In a forked child a plan of a GPU raises DeviceError;
    a plan of the host continues to work.

    Args:
        program: the program that calls run, or the part of it that remains if inputs are prepacked.
        bound: inputs that calls do not pass.
        other: makes a plan of another problem, on the same device and from the same store; None if nobody does.
    """

    def __init__(
        self,
        program: VerifiedProgram,
        bound: BoundInputs | None = None,
        other: Callable[[Problem], Plan] | None = None,
    ) -> None:
        self.program = program
        self._bound, self._other = bound, other
        names, arrays = program.loaded.signature.caller_inputs, {} if bound is None else bound.arrays
        self.caller_inputs = tuple(name for name in names if name not in arrays)
        """Names of the arrays that a call passes, in order."""
        self._passed = {name: arrays[name] for name in names if name in arrays}
        """Bound arrays that the program gets in each call, because no step depends on them alone."""
        self.fast: HomeTable[type, FastCalls | None] = HomeTable()
        """Fast call paths by type of the first array; None for a type that has none. Empty in a forked child, and while
        a check is pending.
        """

    @classmethod
    def load(
        cls,
        problem: Problem,
        match: Match,
        binaries: Binaries,
        runtime: Runtime,
        other: Callable[[Problem], Plan] | None = None,
    ) -> Plan:
        """Loads a program. Raises as `LoadedProgram.of` does."""
        return cls(VerifiedProgram(LoadedProgram.of(problem, match, binaries, runtime)), other=other)

    @property
    def loaded(self) -> LoadedProgram:
        """The program that calls run now."""
        return self.program.loaded

    @property
    def problem(self) -> Problem:
        return self.program.loaded.problem

    @property
    def match(self) -> Match:
        """How the program was found, with the stored record if there is one."""
        return self.program.loaded.match

    @property
    def verified(self) -> Verification:
        """Whether results were compared with float64 sums on this device, and the largest error found. It is that of
        the plan without bound inputs.
        """
        return self.program.verified if self._bound is None else self._bound.whole.verified

    @property
    def binaries(self) -> Binaries:
        """Binary of each unit of the program, by name."""
        return self.program.loaded.binaries

    @property
    def runtime(self) -> Runtime:
        return self.program.loaded.runtime

    @property
    def workspace_bytes(self) -> int:
        """Bytes of scratch memory of one call, which `workspace` may provide; 0 if it needs none."""
        return self.program.loaded.workspace_bytes

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
                that overlap must not share it. None for memory that all plans on the device share, one block for
                each stream, as large as its largest call needs.

        Returns:
            `out`, or the new array, of shape `problem.output.shape`.

        Raises:
            BadArgument: an array does not fit, is on another device, or requires a gradient; the message names it.
            DeviceError: the plan is of a GPU that was opened before this process was forked, or the host device had to
                stop a kernel.
        """
        fast = self.fast.get(type(inputs[0])) if inputs and workspace is None else None
        target = fast(inputs, out, stream, None) if fast is not None else None
        return self._call_checked(inputs, out, stream, workspace) if target is None else target

    def call_on(self, scratch: Allocation, *inputs: Any) -> Any:
        """Calls the plan with scratch memory that is known not to overlap any of its arrays and to be free on the
        stream. A call with `workspace` checks that each time.
        """
        fast = self.fast.get(type(inputs[0]))
        target = fast(inputs, None, None, scratch) if fast is not None else None
        return self._call_checked(inputs, None, None, scratch) if target is None else target

    def try_fast(self, inputs: tuple[Any, ...], scratch: Allocation | None) -> Any | None:
        """Calls the plan as `call_on` does, or on its stream's scratch memory, if its fast path takes the inputs as
        they are; None if it does not, and nothing has changed then.
        """
        fast = self.fast.get(type(inputs[0]))
        return None if fast is None else fast(inputs, None, None, scratch)

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
        states = [each.name for each in self.problem.inputs if each.role is Role.STATE and each.name in inputs]
        if states:
            raise BadArgument(f"{states[0]}: is written by each call, so that no plan holds it; pass it to each call")
        if not inputs or not set(inputs) < set(self.caller_inputs):
            allowed = f"some of its inputs {', '.join(self.caller_inputs)} by name, and not all"
            raise BadArgument(f"a plan of {self.problem.operation} holds {allowed}; got {', '.join(inputs) or 'none'}")
        whole, earlier = (self, {}) if self._bound is None else (self._bound.whole, self._bound.arrays)
        bound = BoundInputs(whole, {**earlier, **inputs})
        part = prepacked(whole.loaded, bound.arrays)
        return Plan(whole.program if part is None else VerifiedProgram(part), bound, self._other)

    def stream(self) -> FilterStream:
        """A stream of a `Filter1d` whose state is carried: it takes chunks of any size and keeps their state.

        Raises:
            BadArgument: a plan of anything else.
        """
        return FilterStream(self, self._streamed if self._other is not None else None)

    def _streamed(self, problem: Problem) -> Plan:
        """The plan of another length, with the same bound inputs."""
        assert self._other is not None  # `stream` asked
        made = self._other(problem)
        return made if self._bound is None else made.hold(**self._bound.arrays)

    def _call_checked(self, inputs: tuple[Any, ...], out: Any, stream: object, workspace: Any) -> Any:
        """Runs a call of a kind not seen before in this process, or one with unusual arguments."""
        arrays = self._with_passed(inputs)
        call = self.program.launch(arrays, out, stream, workspace)
        if inputs and self.program.pending is None and type(inputs[0]) not in self.fast:
            loaded = self.program.loaded
            fast = fast_calls(arrays[0], loaded.signature, loaded.runtime, loaded.launches, call.values)
            self.fast[type(inputs[0])] = self._fast_with_passed(fast) if fast is not None and self._passed else fast
        return call.target

    def _with_passed(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """A call's arrays with the bound ones among them. Raises BadArgument if their number is wrong."""
        if self._bound is None:
            return inputs
        if len(inputs) != len(self.caller_inputs):
            names = ", ".join(self.caller_inputs)
            raise BadArgument(f"this plan holds {', '.join(self._bound.arrays)}: call it with the {names} alone")
        arrays = {**self._passed, **dict(zip(self.caller_inputs, inputs, strict=True))}
        return tuple(arrays[name] for name in self.program.loaded.signature.caller_inputs)

    def _fast_with_passed(self, fast: FastCalls) -> FastCalls:
        """A fast path that adds the bound arrays to those of a call."""
        names, count = self.program.loaded.signature.caller_inputs, len(self.caller_inputs)
        bound = [self._passed.get(name) for name in names]
        places = [place for place, name in enumerate(names) if name not in self._passed]

        def call(inputs: tuple[Any, ...], out: Any, stream: object, scratch: Allocation | None = None) -> Any | None:
            if len(inputs) != count:
                return None
            arrays = bound.copy()
            for place, array in zip(places, inputs, strict=True):
                arrays[place] = array
            return fast(tuple(arrays), out, stream, scratch)

        return call
