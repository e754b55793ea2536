"""Plans: kernels that are ready to be called on arrays."""

from __future__ import annotations

from functools import cache
from typing import Any

from warpsmith.devices.base import Runtime
from warpsmith.devices.binary import Binaries
from warpsmith.devices.calls import AnyCalls, QuickCalls
from warpsmith.devices.executable import Executable
from warpsmith.devices.launching import launches_of
from warpsmith.devices.process import ForkLock, HomeTable
from warpsmith.devices.quick_calls import quick_calls
from warpsmith.devices.select import DeviceRef
from warpsmith.devices.signature import Signature
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
        self._runtime = runtime
        self._executable = Executable.load(runtime, match.program, binaries)
        self.workspace_bytes = self._executable.workspace_bytes
        """Scratch memory of one call, which `workspace` may give; 0 where it needs none."""
        self._signature = Signature.of(problem, match.program)
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
            DeviceError: the plan is of a GPU that was opened before this process was forked.
        """
        quick = self._quick.get(type(inputs[0])) if inputs and workspace is None else None
        target = quick(inputs, out, stream) if quick is not None else None
        return self._call_with_care(inputs, out, stream, workspace) if target is None else target

    def _call_with_care(self, inputs: tuple[Any, ...], out: Any, stream: object, workspace: Any) -> Any:
        """A call of a kind that was not seen before in this process, or with anything unusual."""
        self._runtime.check_process()
        call = self._any.read(inputs, out, stream)
        scratch = None if workspace is None else self._any.scratch(workspace, self.workspace_bytes, call)
        self._launches.launch(call.addresses, call.values, call.stream, scratch)
        call.queued()
        if type(inputs[0]) not in self._quick:
            made = quick_calls(inputs[0], self._signature, self._runtime, self._launches, call.values)
            self._quick[type(inputs[0])] = made
        return call.target
