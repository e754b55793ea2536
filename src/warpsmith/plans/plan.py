"""Plans: kernels that are ready to be called on arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from warpsmith.devices.arrays import ArrayView, device_view, empty_like_caller, host_view, stream_handle
from warpsmith.devices.base import BoundLaunch, Runtime
from warpsmith.devices.binary import Binaries
from warpsmith.devices.executable import Executable
from warpsmith.devices.process import ForkLock
from warpsmith.devices.select import DeviceRef
from warpsmith.devices.weights import weights_bytes
from warpsmith.devices.workspaces import Kept, Workspaces
from warpsmith.errors import BadArgument
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.problem import Operand, Problem
from warpsmith.generator.program import Texture
from warpsmith.plans.match import Match

TEXTURE_ALIGNMENT = 512
"""Bytes. CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT of every GPU so far; on the host a texture starts anywhere."""

_MOST_BOUND = 16


def open_runtime(device: DeviceRef) -> Runtime:
    """The one runtime of a device in this process: all plans share its context."""
    with _OPENING:
        return _opened(device)


@cache
def _opened(device: DeviceRef) -> Runtime:
    return device.open()


_OPENING = ForkLock()
"""Two threads at once would open a device twice."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Bound:
    call: BoundLaunch
    kept: Kept


class Plan:
    """A kernel, compiled and loaded. Call it with the problem's inputs: `y = plan(x, w)`.

    On a GPU a call does not wait for the result, which is ready in stream order, as with CuPy and PyTorch. A plan
    caches the launches of its last calls by the addresses of their arrays and the values of their weights, so that a
    repeated call costs little. It keeps no array alive.

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
        self._workspaces = Workspaces(runtime, self._executable.workspaces)
        self._by_value = match.program.by_value
        self._pointed_to = match.program.pointed_to
        arguments = (argument for launch in match.program.launches for argument in launch.arguments)
        self._textured = {argument.buffer for argument in arguments if isinstance(argument, Texture)}
        self._bound: dict[tuple[tuple[int, ...], tuple[bytes, ...]], _Bound] = {}  # the latest used last
        self._binding = ForkLock()
        self._on_host = runtime.device.kind is DeviceKind.HOST

    def __call__(self, *inputs: Any, out: Any = None, stream: Any = None) -> Any:
        """Computes the problem.

        Args:
            inputs: one array for each of the problem's inputs, in order: for `Filter2d` the image, and the weights
                unless the problem has them; for `Fft` the signal, or the spectrum for an inverse transform. On a GPU
                anything with `__cuda_array_interface__` or `__dlpack__`; on the host NumPy arrays and CPU tensors of
                PyTorch. Shapes, dtypes and strides must be exactly the problem's: C-contiguous unless it has a pitch.
                A conjugated or negated view of PyTorch's is copied first. Give the weights as a NumPy array: they are
                kernel parameters, and a device array must be copied back first.
            out: array to write to, which may not overlap an input; None for a new array of the first input's library.
            stream: CUDA stream to launch on (an integer handle, or a stream of CuPy, PyTorch or PyCUDA); None for the
                caller's current stream.

        Returns:
            `out`, or the new array, of shape `problem.output.shape`.

        Raises:
            BadArgument: an array that does not fit, is on another device, or requires a gradient; it is named.
            DeviceError: the plan is of a GPU that was opened before this process was forked.
        """
        self._runtime.check_process()
        arrays = self._paired(inputs)
        problem, requested = self.problem, stream_handle(stream)
        target = empty_like_caller(inputs[0], problem.output, self._runtime) if out is None else out
        values = {
            each.name: weights_bytes(arrays[each.name], each) for each in problem.inputs if each.name in self._by_value
        }
        views = {
            each.name: self._view(arrays[each.name], each, requested)
            for each in problem.inputs
            if each.name in self._pointed_to
        }
        views[problem.output.name] = self._view(target, problem.output, requested, writable=True)
        self._check_apart(views)
        addresses = {name: view.address for name, view in views.items()}
        chosen = self._stream(requested, views.values())
        with self._workspaces.lent(chosen) as scratch:
            self._call(addresses, values, scratch)(chosen)
        for view in views.values():
            view.used_on(chosen)
        return target

    def _call(
        self, addresses: Mapping[str, int], values: Mapping[str, bytes], scratch: Mapping[str, int]
    ) -> BoundLaunch:
        """The program's steps on these addresses and values, from an earlier call where there was one."""
        key = ((*addresses.values(), *scratch.values()), tuple(values.values()))
        with self._binding:
            bound = self._bound.pop(key, None)
            if bound is None:
                kept = self._workspaces.kept()
                bound = _Bound(self._executable.bind(addresses, values, {**scratch, **kept.addresses}), kept)
            self._bound[key] = bound
            if len(self._bound) > _MOST_BOUND:
                self._workspaces.let_go(self._bound.pop(next(iter(self._bound))).kept)
            return bound.call

    def _view(self, array: Any, operand: Operand, stream: int | None, *, writable: bool = False) -> ArrayView:
        if self._on_host:
            return host_view(array, operand, writable)
        view = device_view(array, operand, writable, stream, self._runtime.ordinal)
        if operand.name in self._textured and view.address % TEXTURE_ALIGNMENT:
            told = f"this plan reads it through a texture: it must start at a multiple of {TEXTURE_ALIGNMENT} bytes"
            raise BadArgument(f"{operand.name}: {told}; copy it first")
        return view

    def _check_apart(self, views: Mapping[str, ArrayView]) -> None:
        """Raises BadArgument where the result would overwrite an input that is still being read."""
        output = self.problem.output
        start = views[output.name].address
        for operand in self.problem.inputs:
            view = views.get(operand.name)
            if view and view.address < start + output.span_bytes and start < view.address + operand.span_bytes:
                raise BadArgument(f"out: shares memory with {operand.name}; give it memory of its own")

    def _stream(self, requested: int | None, views: Iterable[ArrayView]) -> int | None:
        if self._on_host:
            return None
        from warpsmith.devices.cuda.interop import launch_stream

        return launch_stream(requested, [view.stream for view in views], self._runtime.current)

    def _paired(self, inputs: tuple[Any, ...]) -> dict[str, Any]:
        """The inputs by operand name, with the values that the problem knows by itself."""
        known = self.problem.known
        asked = [operand.name for operand in self.problem.inputs if operand.name not in known]
        if len(inputs) == len(asked):
            return {**dict(zip(asked, inputs, strict=True)), **known}
        if known:
            raise BadArgument(
                f"this plan was made for known {', '.join(known)}: call it with the {', '.join(asked)} alone"
            )
        raise BadArgument(f"a plan of {self.problem.operation} takes {', '.join(asked)}; got {len(inputs)} arrays")
