"""Verification of a result against float64, element by element: on the host, or on the device without a copy.

At 9216x9216 the copy and the comparison on the host take 0.35 s per candidate. The kernels here read 16 bytes of
reference per element and the result in place, and return 24 bytes. After the timing, one launch of each kernel checks
all buffer sets: rotation needs more sets the smaller they are, together about twice the L2 cache.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.compiler import Compiler
from warpsmith.devices.elements import numpy_dtype, scaled_error
from warpsmith.devices.module import Allocation, BoundLaunch, Module
from warpsmith.devices.runtime import Runtime
from warpsmith.errors import CompileError, LaunchError, OutOfMemory
from warpsmith.generator.problem import DType, Operand
from warpsmith.generator.program import ByValue, Launch, Pointer, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config
from warpsmith.tuner.evaluate.buffers import POISON, POISONS, GuardedBuffer
from warpsmith.tuner.evaluate.device_reference import ReferenceBuffers
from warpsmith.tuner.operations.judge import FLOAT32_BOUND, Reference
from warpsmith.tuner.operations.strips import for_each_strip


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """Comparison of a result with its reference."""

    max_error: float
    """Largest error / sum of |terms|; infinite if an element is not a number.

    The error of a float32 is |result - reference|. The error of a float16, bfloat16 or uint8 is the distance from the
    reference to the nearest number that rounds to the result, so it is zero if the result is the rounded reference.
    """
    wrong: int
    """Number of elements over the bound."""
    message: str
    """Message about the worst element, in one line; empty if the result is right."""

    @property
    def right(self) -> bool:
        return self.wrong == 0


def verify(result: NDArray[Any], reference: Reference, dtype: DType, bound: float = FLOAT32_BOUND) -> Verdict:
    """Compares `result`, of element type `dtype`, with its reference of the same shape, which holds complex parts
    separately.

    An element is wrong if its error exceeds `bound` times the reference's scale. If the scale is NaN, any value is
    right: nothing is promised for an image that holds a NaN or an infinity.

    An element that is not a number is wrong: outputs are filled with NaN before a candidate runs, so it was never
    written. uint8 has no NaN: a fill of 255 is right wherever the reference is saturated.
    """
    if dtype is DType.COMPLEX64:
        result, dtype = result[..., np.newaxis].view(np.float32), DType.FLOAT32
    got, expected, scale = result.reshape(-1), reference.expected.reshape(-1), reference.scale.reshape(-1)
    strips: list[tuple[float, int, int]] = []  # per strip: the largest error, minus its index, elements over the bound

    def strip(part: slice) -> None:
        error = scaled_error(got[part], expected[part], scale[part], dtype)
        worst = int(error.argmax())
        strips.append((float(error[worst]), -part.start - worst, int(np.count_nonzero(error > bound))))

    for_each_strip(got.size, 8, strip)
    max_error, place, _ = max(strips)
    total = sum(wrong for _, _, wrong in strips)
    if total == 0:
        return Verdict(max_error, 0, "")
    index = tuple(int(i) for i in np.unravel_index(-place, result.shape))
    message = wrong_message(total, result.size, index, float(got[-place]), float(expected[-place]))
    return Verdict(max_error, total, message)


def wrong_message(wrong: int, size: int, index: tuple[int, ...], got: float, expected: float) -> str:
    """Message for a result of `size` elements of which `wrong` are wrong; `index` is that of the worst one."""
    return f"{wrong} of {size} elements are wrong; the worst, at {index}, is {got:.9g} and should be {expected:.9g}"


_THREADS = 256
"""Threads per block."""
_BLOCKS_A_MULTIPROCESSOR = 8
"""Blocks per SM that fill it: an SM holds at most 2048 threads."""
_SHARE_OF_MEMORY = 4
"""Divisor of the device's memory that bounds the reference; the rest is for the data to verify."""
_FINDINGS = np.dtype([("max_error", np.float64), ("wrong", np.uint64), ("written", np.uint64)])
"""Layout of `Findings` in the template."""
_SUM = np.dtype(np.uint64)
"""Hash sum of an input."""


@dataclasses.dataclass(frozen=True, slots=True)
class Findings:
    """Errors that the device found in a result and in the memory around it."""

    max_error: float
    """Largest scaled error, as in `Verdict`."""
    wrong: int
    """Number of elements over the bound."""
    written: int
    """Overwritten bytes in guards and in gaps between the result's rows."""

    @property
    def right(self) -> bool:
        return self.wrong == 0 and self.written == 0


@dataclasses.dataclass(frozen=True, slots=True)
class Worst:
    """Element of a result with the largest error."""

    index: tuple[int, ...]
    got: float
    expected: float


class DeviceVerifier:
    """Compares results in sets of buffers with a reference on the device, and checks all guards and inputs.

    Args:
        runtime: the device.
        compiler: compiler for that device.
        sets: buffers of a problem's operands by name, at equal distances from set to set. They must outlive the
            verifier.
        output: the result to verify.
        outputs: names of all outputs, if there are several.
        bound: largest allowed error divided by the reference's scale.

    Raises:
        CompileError: the kernels do not compile.
        LaunchError: the device refuses them.
        OutOfMemory: the reference, 16 bytes per element, would take more than a quarter of the device's memory, or
            does not fit beside what is there.
    """

    def __init__(
        self,
        runtime: Runtime,
        compiler: Compiler,
        sets: Sequence[Mapping[str, GuardedBuffer]],
        output: Operand,
        outputs: Collection[str] = (),
        bound: float = FLOAT32_BOUND,
    ) -> None:
        nbytes = output.components.size * np.dtype(np.float64).itemsize
        if 2 * nbytes > runtime.device.memory_bytes // _SHARE_OF_MEMORY:
            raise OutOfMemory(f"a reference of {2 * nbytes:,} bytes leaves too little for what is verified")
        self._runtime = runtime
        self._parts = output.components
        self._sets, self._output, self._outputs = sets, output.name, {output.name, *outputs}
        self._inputs = tuple(name for name in sets[0] if name not in self._outputs)
        program = verification(output, sets[0][output.name].guard_bytes, runtime.device.multiprocessors, bound)
        with contextlib.ExitStack() as opened:
            module = runtime.load(compiler.compile(program.compilation()))
            opened.callback(module.close)
            self.reference = ReferenceBuffers(self._allocated(opened, nbytes), self._allocated(opened, nbytes))
            """Memory of the reference, for kernels that compute it on the device."""
            self._findings = self._allocated(opened, len(sets) * _FINDINGS.itemsize)
            self._places = self._allocated(opened, len(sets) * _SUM.itemsize)
            self._sums = self._allocated(opened, max(1, len(self._inputs)) * len(sets) * _SUM.itemsize)
            self._launches = {byte: self._bound(program, module, byte, 1) for byte in POISONS}
            self._launches_on_all = self._bound(program, module, POISON, len(sets))
            self._sum_launches = self._bound_sums(program, module)
            worst = _on(program.launches[3], len(sets))
            self._worst_launch = module.bind(worst, self._addresses, self._step(output.name))
            self._sum_of = functools.partial(self._bound_sum, program.launches[2], module)
            self._uploaded = np.zeros((len(self._inputs), len(sets)), _SUM)
            self._opened = opened.pop_all()

    def _allocated(self, opened: contextlib.ExitStack, nbytes: int) -> Allocation:
        allocation = self._runtime.allocate(nbytes)
        opened.callback(self._runtime.free, allocation)
        return allocation

    def _bound(self, program: Program, module: Module, byte: int, sets: int) -> list[BoundLaunch]:
        """Launches that check the first `sets` sets, whose results were filled with `byte`."""
        compare, guard, _, _, *gaps = (_on(launch, sets) for launch in program.launches)
        buffers, output, addresses = self._sets[0], self._output, self._addresses
        filled = {**_filled(byte), **self._step(output)}
        bound = [module.bind(launch, addresses, filled) for launch in (compare, *gaps)]
        for name, buffer in buffers.items():
            filled = {**_filled(byte if name in self._outputs else buffer.filled_with), **self._step(name)}
            bound += [module.bind(guard, {**addresses, "guard": at}, filled) for _, at in buffer.guards]
        return bound

    @property
    def _addresses(self) -> dict[str, int]:
        return {
            "result": self._sets[0][self._output].address,
            "expected": self.reference.expected.address,
            "scale": self.reference.scale.address,
            "findings": self._findings.address,
            "places": self._places.address,
        }

    def _bound_sums(self, program: Program, module: Module) -> list[BoundLaunch]:
        """Launches that compute the hash sum of each input in all sets."""
        launch, count = _on(program.launches[2], len(self._sets)), len(self._sets)
        bound = []
        for number, name in enumerate(self._inputs):
            buffer, sums = self._sets[0][name], self._sums.address + number * count * _SUM.itemsize
            bound.append(self._bound_sum(launch, module, buffer.address, buffer.nbytes, sums, self._step(name)))
        return bound

    def _bound_sum(
        self, launch: Launch, module: Module, address: int, nbytes: int, sums: int, step: Mapping[str, bytes]
    ) -> BoundLaunch:
        values = {"nbytes": np.uint64(nbytes).tobytes(), **step}
        return module.bind(launch, {"input": address, "sums": sums}, values)

    def _step(self, name: str) -> dict[str, bytes]:
        """Bytes from an operand's buffer in one set to its buffer in the next."""
        there = [buffers[name].address for buffers in self._sets[:2]]
        return {"step": np.uint64(there[-1] - there[0]).tobytes()}

    def upload(self, reference: Reference) -> None:
        """Sets the reference that later results are compared with."""
        self._runtime.upload(self.reference.expected.address, np.ascontiguousarray(reference.expected))
        self._runtime.upload(self.reference.scale.address, np.ascontiguousarray(reference.scale))

    def remember_inputs(self) -> None:
        """Stores the hash sums of the current inputs, for `changed_inputs`."""
        self._uploaded = self._summed()

    def reference_sums(self) -> tuple[int, ...]:
        """Hash sums of the reference as it is now; they change if it changes."""
        found = []
        for allocation in (self.reference.expected, self.reference.scale):
            self._runtime.fill(self._places.address, 0, _SUM.itemsize)
            self._sum_of(allocation.address, allocation.nbytes, self._places.address, {"step": bytes(8)})(None)
            total = np.empty(1, _SUM)
            self._runtime.download(total, self._places.address)
            found.append(int(total[0]))
        return tuple(found)

    def worst(self, number: int) -> Worst:
        """Element with the largest error in set `number`. Call `findings` or `findings_on_all` first."""
        places = np.empty(len(self._sets), _SUM)
        self._runtime.fill(self._places.address, POISON, places.nbytes)
        self._worst_launch(None)
        self._runtime.download(places, self._places.address)
        place, parts = int(places[number]), self._parts
        index = tuple(int(i) for i in np.unravel_index(place, parts.shape))
        offset = sum(i * stride for i, stride in zip(index, parts.strides, strict=True))
        got, expected = np.empty(1, numpy_dtype(parts.dtype)), np.empty(1)
        self._runtime.download(got, self._sets[number][self._output].address + offset)
        self._runtime.download(expected, self.reference.expected.address + place * expected.itemsize)
        return Worst(index, float(got[0]), float(expected[0]))

    def findings(self, byte: int) -> Findings:
        """Checks the result of a finished run, whose memory was filled with `byte` before.

        Raises DeviceError if the device fails.
        """
        return self._found(self._launches[byte], 1)[0]

    def findings_on_all(self) -> list[Findings]:
        """Checks every set, whose results were filled with POISON before."""
        return self._found(self._launches_on_all, len(self._sets))

    def _found(self, launches: list[BoundLaunch], sets: int) -> list[Findings]:
        found = np.empty(sets, _FINDINGS)
        self._runtime.fill(self._findings.address, 0, found.nbytes)
        for launch in launches:
            launch(None)
        self._runtime.download(found, self._findings.address)
        return [Findings(float(each["max_error"]), int(each["wrong"]), int(each["written"])) for each in found]

    def changed_inputs(self) -> list[tuple[str, int]]:
        """The inputs that have changed since `remember_inputs`, each with its set number.

        It compares sums of 64-bit hashes. Reading each input once takes half as long as comparing it with a copy.
        """
        inputs, sets = np.nonzero(self._summed() != self._uploaded)
        return [(self._inputs[i], int(number)) for i, number in zip(inputs, sets, strict=True)]

    def _summed(self) -> NDArray[np.uint64]:
        sums = np.empty((len(self._inputs), len(self._sets)), _SUM)
        if sums.size:
            self._runtime.fill(self._sums.address, 0, sums.nbytes)
            for launch in self._sum_launches:
                launch(None)
            self._runtime.download(sums, self._sums.address)
        return sums

    def close(self) -> None:
        self._opened.close()


def device_verifier(
    runtime: Runtime,
    compiler: Compiler,
    sets: Sequence[Mapping[str, GuardedBuffer]],
    output: Operand,
    outputs: Collection[str] = (),
    bound: float = FLOAT32_BOUND,
) -> DeviceVerifier | None:
    """Verifier on the device; None if it cannot be made, so that results must be copied to the host."""
    with contextlib.suppress(CompileError, LaunchError, OutOfMemory):
        return DeviceVerifier(runtime, compiler, sets, output, outputs, bound)
    return None


def _on(launch: Launch, sets: int) -> Launch:
    """The launch with one row of blocks for each of `sets` sets."""
    return dataclasses.replace(launch, grid=(launch.grid[0], sets, 1))


def _filled(byte: int) -> dict[str, bytes]:
    return {"poison": np.uint32(byte).tobytes()}


def verification(output: Operand, guard_bytes: int, multiprocessors: int, bound: float = FLOAT32_BOUND) -> Program:
    """Program that verifies one result: its elements, a guard of any buffer, an input, and the gaps between its rows if
    it has any.
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
        is_in_row_order=output.is_in_row_order,
        dimensions=dimensions,
        guard_bytes=guard_bytes,
        bound=repr(bound),
        threads=_THREADS,
        blocks=_BLOCKS_A_MULTIPROCESSOR,
    )

    def launch(entry: str, items: int, *arguments: Pointer | ByValue) -> Launch:
        blocks = min(math.ceil(max(1, items) / _THREADS), _BLOCKS_A_MULTIPROCESSOR * multiprocessors)
        return Launch(entry, (blocks, 1, 1), (_THREADS, 1, 1), arguments)

    poison, step, findings = ByValue("poison"), ByValue("step"), Pointer("findings")
    compared = (Pointer("result"), Pointer("expected"), Pointer("scale"), step, findings)
    launches = [
        launch("verify_elements", output.size, *compared),
        launch("verify_guard", guard_bytes, Pointer("guard"), poison, step, findings),
        # The grid is sized for as many elements as the result has: the input's size is not known here.
        launch("sum_input", output.size, Pointer("input"), ByValue("nbytes"), step, Pointer("sums")),
        launch("find_worst", output.size, *compared, Pointer("places")),
    ]
    if not output.is_dense:
        launches.append(launch("verify_gaps", output.span_bytes, Pointer("result"), poison, step, findings))
    return Program.of_source("verify", Config.of({}), source, tuple(launches))


def merged_dimensions(operand: Operand) -> tuple[tuple[int, int], ...]:
    """Extent and byte stride of each dimension, slowest first. Adjacent dimensions without a gap are merged."""
    merged: list[tuple[int, int]] = []
    for extent, stride in zip(operand.shape, operand.strides, strict=True):
        if merged and merged[-1][1] == extent * stride:
            merged[-1] = (merged[-1][0] * extent, stride)
        else:
            merged.append((extent, stride))
    return tuple(merged)
