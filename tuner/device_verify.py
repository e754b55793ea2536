"""Verification on the device: the same verdict as `verify`, without the way of the result to the host.

At 9216x9216 that way and the comparison there take 0.35 s a candidate. The kernels here read 16 bytes of reference an
element and the result itself, where they lie, and send 24 bytes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from warpsmith.devices.base import Allocation, BoundLaunch, Compiler, Module, Runtime
from warpsmith.errors import CompileError, LaunchError, OutOfMemory
from warpsmith.generator.problem import Operand
from warpsmith.generator.program import ByValue, Launch, Pointer, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config
from warpsmith.tuner.buffers import GuardedBuffer, poisons
from warpsmith.tuner.oracle import Reference
from warpsmith.tuner.verify import ERROR_BOUND

_THREADS = 256
"""Of a block."""
_BLOCKS_A_MULTIPROCESSOR = 8
"""Fills it: 2048 threads at most."""
_SHARE_OF_MEMORY = 4
"""The reference takes at most one part in so many of the device's memory: the rest is for what is verified."""
_FINDINGS = np.dtype([("max_error", np.float64), ("wrong", np.uint64), ("written", np.uint64)])
"""`Findings` of the template."""


@dataclasses.dataclass(frozen=True, slots=True)
class Findings:
    """What the device saw of a result and of the memory around it."""

    max_error: float
    """As in `Verdict`."""
    wrong: int
    """Elements over the bound."""
    written: int
    """Bytes of guards, and of what lies between the result's rows, that are not as they were filled."""

    @property
    def right(self) -> bool:
        return self.wrong == 0 and self.written == 0


class DeviceVerifier:
    """Holds the result in `buffers` against a reference that it keeps on the device, and looks at all guards.

    Args:
        runtime: the device.
        compiler: makes binaries for it.
        buffers: one set of a problem's operands, by name. They must outlive this.
        output: which of them is the result.

    Raises:
        CompileError: the kernels do not compile.
        LaunchError: the device refuses them.
        OutOfMemory: the reference, 16 bytes an element, would take more than a quarter of the device's memory, or
            does not fit beside what is there.
    """

    def __init__(
        self, runtime: Runtime, compiler: Compiler, buffers: Mapping[str, GuardedBuffer], output: Operand
    ) -> None:
        nbytes = output.components.size * np.dtype(np.float64).itemsize
        if 2 * nbytes > runtime.device.memory_bytes // _SHARE_OF_MEMORY:
            raise OutOfMemory(f"a reference of {2 * nbytes:,} bytes leaves too little for what is verified")
        self._runtime = runtime
        program = verification(output, buffers[output.name].guard_bytes, runtime.device.multiprocessors)
        with contextlib.ExitStack() as opened:
            module = runtime.load(compiler.compile(program))
            opened.callback(module.close)
            self._expected = self._allocated(opened, nbytes)
            self._scale = self._allocated(opened, nbytes)
            self._findings = self._allocated(opened, _FINDINGS.itemsize)
            self._launches = {
                byte: self._bound(program, module, buffers, output.name, byte) for byte in poisons(output.dtype)
            }
            self._opened = opened.pop_all()

    def _allocated(self, opened: contextlib.ExitStack, nbytes: int) -> Allocation:
        allocation = self._runtime.allocate(nbytes)
        opened.callback(self._runtime.free, allocation)
        return allocation

    def _bound(
        self, program: Program, module: Module, buffers: Mapping[str, GuardedBuffer], output: str, byte: int
    ) -> list[BoundLaunch]:
        """The launches that look for whatever is not right, where the result was filled with `byte`."""
        compare, guard, *gaps = program.launches
        addresses = {
            "result": buffers[output].address,
            "expected": self._expected.address,
            "scale": self._scale.address,
            "findings": self._findings.address,
        }
        bound = [module.bind(launch, addresses, _filled(byte)) for launch in (compare, *gaps)]
        for name, buffer in buffers.items():
            filled = _filled(byte if name == output else buffer.filled_with)
            bound += [module.bind(guard, {**addresses, "guard": at}, filled) for _, at in buffer.guards]
        return bound

    def upload(self, reference: Reference) -> None:
        """Takes the reference that results are held against from here on."""
        self._runtime.upload(self._expected.address, np.ascontiguousarray(reference.expected))
        self._runtime.upload(self._scale.address, np.ascontiguousarray(reference.scale))

    def findings(self, byte: int) -> Findings:
        """Looks at the result of a run that has ended, in memory that was filled with `byte` before it.

        Raises DeviceError where the device fails.
        """
        self._runtime.fill(self._findings.address, 0, _FINDINGS.itemsize)
        for launch in self._launches[byte]:
            launch(None)
        found = np.empty(1, _FINDINGS)
        self._runtime.download(found, self._findings.address)
        return Findings(float(found["max_error"][0]), int(found["wrong"][0]), int(found["written"][0]))

    def close(self) -> None:
        """Gives the memory back."""
        self._opened.close()


def device_verifier(
    runtime: Runtime, compiler: Compiler, buffers: Mapping[str, GuardedBuffer], output: Operand
) -> DeviceVerifier | None:
    """A verifier on the device; None where there can be none, so that results must go to the host."""
    with contextlib.suppress(CompileError, LaunchError, OutOfMemory):
        return DeviceVerifier(runtime, compiler, buffers, output)
    return None


def _filled(byte: int) -> dict[str, bytes]:
    return {"poison": np.uint32(byte).tobytes()}


def verification(output: Operand, guard_bytes: int, multiprocessors: int) -> Program:
    """The kernels that look at one result: at its elements, at a guard of any buffer, and between its rows where it
    has gaps.
    """
    output = output.components
    dimensions = merged_dimensions(output)
    source = render(
        "verify.cu.jinja",
        dtype=str(output.dtype),
        layout=" x ".join(f"{extent} every {stride} bytes" for extent, stride in dimensions),
        elements=output.size,
        element_bytes=output.dtype.itemsize,
        span_bytes=output.span_bytes,
        is_dense=output.is_dense,
        dimensions=dimensions,
        guard_bytes=guard_bytes,
        bound=repr(ERROR_BOUND[output.dtype]),
        threads=_THREADS,
        blocks=_BLOCKS_A_MULTIPROCESSOR,
    )

    def launch(entry: str, items: int, *arguments: Pointer | ByValue) -> Launch:
        blocks = min(math.ceil(max(1, items) / _THREADS), _BLOCKS_A_MULTIPROCESSOR * multiprocessors)
        return Launch(entry, (blocks, 1, 1), (_THREADS, 1, 1), (*arguments, Pointer("findings")))

    launches = [
        launch("verify_elements", output.size, Pointer("result"), Pointer("expected"), Pointer("scale")),
        launch("verify_guard", guard_bytes, Pointer("guard"), ByValue("poison")),
    ]
    if not output.is_dense:
        launches.append(launch("verify_gaps", output.span_bytes, Pointer("result"), ByValue("poison")))
    return Program("verify", Config.of({}), source, tuple(launches))


def merged_dimensions(operand: Operand) -> tuple[tuple[int, int], ...]:
    """Extent and stride in bytes of each dimension, slowest first; those with no gap between them are one."""
    merged: list[tuple[int, int]] = []
    for extent, stride in zip(operand.shape, operand.strides, strict=True):
        if merged and merged[-1][1] == extent * stride:
            merged[-1] = (merged[-1][0] * extent, stride)
        else:
            merged.append((extent, stride))
    return tuple(merged)
