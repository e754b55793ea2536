"""Inputs for a check: random ones in separate memory, or those of a call."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.checked_calls import ReadCall
from warpsmith.devices.elements import numpy_dtype
from warpsmith.devices.runtime import ALIGNMENT, Work
from warpsmith.devices.signature import CallerOperand, Signature
from warpsmith.generator.first_use.reference import Reference
from warpsmith.generator.problem import DType, Operand, Problem, Role
from warpsmith.plans.first_use.kernels import ReferenceKernels

_POISON = 0xFF
"""Fill byte of the result: NaN in each type that has one."""
SCRATCH_BYTES = 1 << 19
"""Bytes for samples and their findings; a sum in many parts takes more."""
_MEAN_GAIN = 1.1
"""Sum of a filter's weights if results are bytes: most results then lie inside their range."""


@dataclasses.dataclass(frozen=True, slots=True)
class Data:
    """Operands of one run."""

    inputs: Mapping[str, int]
    """Device address of each input, for the reference kernels."""
    results: Mapping[str, int]
    """Device address of each result."""
    known: Mapping[str, NDArray[np.generic]]
    """Inputs whose values are also in host memory."""
    written: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Addresses that a program gets for what it writes besides the result. A state lies there and, as the reference
    kernels read it, among the inputs."""


def host_inputs(
    problem: Problem, signature: Signature, reference: Reference, seed: int
) -> dict[str, NDArray[np.generic]]:
    """Host values of the inputs that the problem knows, that kernels take by value, or that are drawn on the host."""
    by_value = {each.operand.name for each in signature.by_value}
    found = _known(problem)
    dtypes = {each.name: (numpy_dtype(each.dtype), each.shape) for each in problem.inputs}
    for name, content in reference.given.items():
        found[name] = np.frombuffer(content, dtypes[name][0]).reshape(dtypes[name][1])
    generator = np.random.default_rng(seed)
    for operand in problem.inputs:
        if operand.name not in found and (operand.name in by_value or operand.name in reference.from_host):
            found[operand.name] = _drawn(problem, operand, reference.deviations.get(operand.name, 1.0), generator)
    return found


def _known(problem: Problem) -> dict[str, NDArray[np.generic]]:
    """Values of the inputs that the problem knows."""
    operands = (each for each in problem.inputs if each.name in problem.known)
    return {each.name: np.array(problem.known[each.name], numpy_dtype(each.dtype)) for each in operands}


def _drawn(problem: Problem, operand: Operand, deviation: float, generator: np.random.Generator) -> NDArray[np.generic]:
    shape = operand.components.shape
    if operand.span_bytes > operand.nbytes:  # with gaps between rows, which are drawn too
        shape = (operand.span_bytes // operand.components.dtype.itemsize,)
    values = generator.standard_normal(shape, np.float32) * np.float32(deviation)
    if operand.dtype is DType.COMPLEX64:
        return values.view(np.complex64)[..., 0]
    if problem.output.dtype is DType.UINT8:
        axes = values.shape[-2:]
        around = values - values.mean(axis=(-2, -1), keepdims=True)
        norm = np.linalg.norm(around, axis=(-2, -1), keepdims=True)
        taps = axes[0] * axes[1]
        values = (around / np.where(norm > 0, norm, 1) + np.float32(_MEAN_GAIN / taps)).astype(np.float32)
    return values.astype(numpy_dtype(operand.dtype))


def memory_needed(problem: Problem) -> int:
    """Bytes that random operands and the scratch memory of the check take."""
    operands = (*problem.operands, *(each for each in problem.operands if each.role is Role.STATE))
    return sum(operand.allocated_bytes + ALIGNMENT for operand in operands) + SCRATCH_BYTES


def random_data(
    problem: Problem,
    signature: Signature,
    kernels: ReferenceKernels,
    work: Work,
    seed: int,
    there: Mapping[str, int] = MappingProxyType({}),
) -> Data:
    """Random inputs, except those in `there`, and a result filled with NaNs, in new memory. Raises OutOfMemory."""
    known = host_inputs(problem, signature, kernels.reference, seed)
    inputs: dict[str, int] = {}
    written: dict[str, int] = {}
    way = int(DType.UINT8 in (problem.inputs[0].dtype, problem.output.dtype))
    for number, operand in enumerate(problem.inputs):
        if operand.name in there:
            inputs[operand.name] = there[operand.name]
            continue
        address = inputs[operand.name] = work.allocate(operand.allocated_bytes).address
        if operand.name in known:
            work.upload(address, np.ascontiguousarray(known[operand.name]))
        else:
            elements = operand.allocated_bytes // operand.components.dtype.itemsize
            kernels.fill(work, address, elements, seed + number, way)
            if operand.role is Role.STATE:
                written[operand.name] = work.allocate(operand.allocated_bytes).address
                kernels.fill(work, written[operand.name], elements, seed + number, way)
    for spectra in kernels.reference.mirrored:
        kernels.mirror(work, inputs[spectra.operand], spectra)
    results: dict[str, int] = {}
    for operand in problem.operands:
        if operand.role is Role.OUTPUT:
            kept = written if operand.name in kernels.reference.unchecked else results
            kept[operand.name] = work.allocate(operand.allocated_bytes).address
            work.fill(kept[operand.name], _POISON, operand.allocated_bytes)
    return Data(inputs, results, known, written)


def data_of(call: ReadCall, problem: Problem, signature: Signature, work: Work) -> Data:
    """Operands of a call that was queued on the work's stream, and the inputs that the problem knows."""
    places = dict(zip(signature.arguments.buffers, call.addresses, strict=True))
    known = _known(problem)
    for each, content in zip(signature.by_value, call.values, strict=True):
        known[each.operand.name] = np.frombuffer(content, numpy_dtype(each.operand.dtype))
    inputs = {name: places[name] for name in places if name not in {each.name for each in signature.outputs}}
    for name, values in known.items():
        if name not in inputs:
            inputs[name] = work.uploaded(values)
    return Data(inputs, {each.name: places[each.name] for each in signature.outputs}, known)


def values_of(signature: Signature, known: Mapping[str, NDArray[np.generic]]) -> tuple[bytes, ...]:
    """Bytes of the operands that kernels take by value, in launch order."""
    return tuple(
        known[each.operand.name].tobytes() if isinstance(each, CallerOperand) else each.content
        for each in signature.by_value
    )
