"""Check of a loaded program: about a thousand results against float64 sums, on random data or on those of a call. Each
error is divided by the scale that the problem's accuracy names.
"""

from __future__ import annotations

from contextlib import ExitStack
from math import isfinite, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.checked_calls import ReadCall
from warpsmith.devices.compiler import Compiler
from warpsmith.devices.elements import numpy_dtype, scaled_error
from warpsmith.devices.launches import launches_of
from warpsmith.devices.runtime import ALIGNMENT, Runtime, Work
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.first_use.reference import Entry, Planes, Reference, ResultFunction, Scale
from warpsmith.generator.first_use.registry import references_of
from warpsmith.generator.problem import PEAK, DType, Problem, Role
from warpsmith.generator.steps import Lifetime
from warpsmith.plans.first_use.data import SCRATCH_BYTES, Data, data_of, memory_needed, random_data, values_of
from warpsmith.plans.first_use.kernels import ReferenceKernels, Samples, Sums, kernels_for, samples_of, threads_of
from warpsmith.plans.first_use.verdicts import Finding
from warpsmith.plans.loaded import LoadedProgram

MOST_SAMPLES = 1024
LEAST_SAMPLES = 16
BUDGET = {DeviceKind.CUDA: 400_000_000, DeviceKind.HOST: 3_000_000}
"""Multiply-adds of a check: 1 ms on a large GPU, and some 10 ms on one core."""
MOST_FLOPS = {DeviceKind.CUDA: 200_000_000_000, DeviceKind.HOST: 100_000_000}
"""Largest number of operations of a problem that is run on random data: 5 ms on a large GPU, 0.1 s on two cores. A
larger problem is computed only once, by its first call.
"""
SHARE_OF_FREE_MEMORY = 2
"""Divisor of the free memory that bounds random operands."""
OWN_SLACK, OWN_MOST = 8.0, 2e-3
"""Factor on the error bound for a caller's data, whose numbers may differ more in magnitude than random ones, and the
largest error that this factor may allow.
"""
RANDOM_PEAK, COARSE_BOUND = 8.0, 1e-3
"""Root mean squares of the results that cap the scale on random data, and the least error bound at which the cap
applies. Errors of random factors add up as the terms do, and the sum of many |terms| would hide a result that is all
wrong.
"""
_LEAST, _MOST = 1e-30, 1e30
"""Range of scales for which float32 holds results with all its digits."""


def why_not(problem: Problem, runtime: Runtime) -> str | None:
    """Reason why a problem's results cannot be checked, in one line; None if they can."""
    references = references_of(problem, threads_of(runtime.device))
    others = {operand.name for operand in problem.outputs} - {problem.output.name}
    checked = {name for each in references for name in (each.output, *each.unchecked)}
    if not others <= checked:
        return "it has several results"
    return None if references else f"{problem.operation} has no reference kernels"


def why_not_calls(problem: Problem) -> str | None:
    """Reason why no call's results can be checked, in one line; None if they can: a check follows the call."""
    if any(operand.role is Role.STATE for operand in problem.operands):
        return "each call changes its state, and random data of this size take too long"
    return None


def is_quick(problem: Problem, runtime: Runtime) -> bool:
    """True if a plan may wait until the problem was computed once."""
    return problem.flops <= MOST_FLOPS[runtime.device.kind]


def check_on_random_data(loaded: LoadedProgram, compiler: Compiler, seed: int) -> Finding | None:
    """Runs the program on its own random data; None if the operands do not fit into memory.

    Raises WarpsmithError if the check cannot be carried out.
    """
    problem, runtime = loaded.problem, loaded.runtime
    kernels = kernels_for(problem, runtime, compiler)
    size = loaded.executable.workspace_bytes
    kept = sum(each.nbytes for each in loaded.executable.workspaces if each.lifetime is Lifetime.KEPT)
    needed = memory_needed(problem) + size + ALIGNMENT
    free = runtime.free_bytes()
    if free is not None and needed + kept > free // SHARE_OF_FREE_MEMORY:
        return None
    arguments = loaded.signature.arguments
    with ExitStack() as opened:
        # These launches are separate, so that what they cache for these addresses is freed with them.
        launches = launches_of(loaded.executable, runtime, arguments)
        work = opened.enter_context(runtime.independent_work())
        work.reserve(needed)
        data = random_data(problem, loaded.signature, kernels[0], work, seed)
        addresses = {**data.inputs, **data.written, **data.results}
        workspace = work.allocate(size) if size else None
        launches.launch(
            tuple(addresses[name] for name in arguments.buffers),
            values_of(loaded.signature, data.known),
            work.stream,
            workspace,
        )
        return all_compared(loaded, kernels, work, data, seed, is_random=True)


def check_call(loaded: LoadedProgram, compiler: Compiler, seed: int, call: ReadCall) -> Finding | None:
    """Checks the results of a call; None if its data allow no check, for example because they are not finite.

    Raises WarpsmithError if the check cannot be carried out.
    """
    kernels = kernels_for(loaded.problem, loaded.runtime, compiler)
    with loaded.runtime.ordered_work(call.stream) as work:
        work.reserve(SCRATCH_BYTES)
        data = data_of(call, loaded.problem, loaded.signature, work)
        return all_compared(loaded, kernels, work, data, seed, is_random=False)


def kernels_of(loaded: LoadedProgram, compiler: Compiler) -> ReferenceKernels:
    """Reference kernels of a program's problem, which must have one result. Raises as `kernels_for` does."""
    (kernels,) = kernels_for(loaded.problem, loaded.runtime, compiler)
    return kernels


def sample_count(reference: Reference, kind: DeviceKind) -> int:
    """Number of results to check."""
    affordable = BUDGET[kind] // (reference.terms * reference.term_cost)
    return max(LEAST_SAMPLES, min(MOST_SAMPLES, affordable))


def all_compared(
    loaded: LoadedProgram,
    kernels: tuple[ReferenceKernels, ...],
    work: Work,
    data: Data,
    seed: int,
    *,
    is_random: bool,
) -> Finding | None:
    """Compares samples of each result; None if one of them allows no comparison."""
    total = Finding(0, 0, 0.0, "")
    for each in kernels:
        found = compared(loaded, each, work, data, seed, is_random=is_random)
        if found is None:
            return None
        name = f"{each.reference.output}: " if each.reference.output and len(kernels) > 1 else ""
        total = Finding(
            total.samples + found.samples,
            total.wrong + found.wrong,
            max(total.largest_error, found.largest_error),
            total.message or (found.message and name + found.message),
        )
    return total


def compared(
    loaded: LoadedProgram, kernels: ReferenceKernels, work: Work, data: Data, seed: int, *, is_random: bool
) -> Finding | None:
    """Compares samples of a computed result; None if expected values are not finite, or a scale is too large or
    small.
    """
    problem, reference = loaded.problem, kernels.reference
    output = problem.output
    if reference.output is not None:
        (output,) = (each for each in problem.outputs if each.name == reference.output)
    count = sample_count(reference, loaded.runtime.device.kind)
    samples = samples_of(output, count, reference.groups, seed)
    sums = kernels.sums(work, data.inputs, data.results[output.name], samples)
    scale = scales_of(problem, kernels, work, data, samples, sums)
    bound = problem.error_bound
    if not is_random:
        bound = max(bound, min(OWN_SLACK * bound, OWN_MOST))
    elif bound >= COARSE_BOUND:
        scale = np.minimum(scale, RANDOM_PEAK * np.sqrt(np.square(sums.expected).mean()))
    factor = sums.largest if reference.has_factor else np.ones(len(scale))
    scale = reference.slope * np.abs(factor) * scale
    expected = results_of(reference.function, sums.expected) * factor[:, None]
    if not np.all(np.isfinite(expected)) or np.any((scale > _MOST) | ((scale < _LEAST) & (scale != 0.0))):
        return None
    got, dtype = _elements(output.dtype, sums)
    parts = got.shape[1]
    error = scaled_error(got, expected[:, :parts], scale[:, None], dtype)
    wrong = np.any(error > bound, axis=1)
    if reference.scale is Scale.PLANE and wrong.any():
        # A plane's largest element is a pass over it: only for results that the sums of their own terms do not excuse.
        gains = _gains(problem, kernels, work, data, samples.index[wrong])
        floors = reference.slope * np.abs(factor[wrong]) * gains
        scale[wrong] = np.maximum(scale[wrong], floors)
        error = scaled_error(got, expected[:, :parts], scale[:, None], dtype)
        wrong = np.any(error > bound, axis=1)
    worst = int(np.argmax(np.max(error, axis=1)))
    message = ""
    if wrong.any():
        at = tuple(int(i) for i in np.unravel_index(samples.index[worst], output.shape))
        part = int(error[worst].argmax())
        message = (
            f"{int(wrong.sum())} of {len(wrong)} results that were checked are wrong; the worst, at {at}, is "
            f"{float(got[worst, part]):.9g} and should be {expected[worst, part]:.9g}"
        )
    return Finding(len(wrong), int(wrong.sum()), float(np.max(error)), message)


_LEAST_EXPONENT = -700.0
"""Least sum whose exp(-sum) float64 holds; SiLU of smaller ones is less than 1e-304 of them."""


def results_of(function: ResultFunction, sums: NDArray[np.float64]) -> NDArray[np.float64]:
    match function:
        case ResultFunction.IDENTITY:
            return sums
        case ResultFunction.RELU:
            return np.maximum(sums, 0.0)
        case ResultFunction.SILU:
            return np.asarray(sums / (1.0 + np.exp(-np.maximum(sums, _LEAST_EXPONENT))))


def _elements(dtype: DType, sums: Sums) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.generic]], DType]:
    """The results, (samples, parts), and their type; complex ones are two float32 numbers."""
    if dtype is DType.COMPLEX64:
        return sums.bits.view(np.float32), DType.FLOAT32
    words = np.ascontiguousarray(sums.bits[:, :1])
    if dtype is DType.FLOAT32:
        return words.view(np.float32), dtype
    return words.astype(np.uint8 if dtype is DType.UINT8 else np.uint16).view(numpy_dtype(dtype)), dtype


_FINE, _COARSE = 8, 2
"""Frequencies per tap at which a filter's gain is sampled, for small and for large filters."""
_SMALL = 1024
"""Largest number of taps of a small filter."""


def scales_of(
    problem: Problem, kernels: ReferenceKernels, work: Work, data: Data, samples: Samples, sums: Sums
) -> NDArray[np.float64]:
    """Scale that divides each sample's error, without the floor that a plane gives it."""
    match kernels.reference.scale:
        case Scale.TERMS | Scale.PLANE:
            return sums.magnitude
        case Scale.WINDOW:
            return sums.magnitude * sums.largest
        case Scale.NORM:
            return np.maximum(sums.magnitude, PEAK * _rms(problem, kernels, work, data, samples, sums))
        case Scale.RMS:
            return PEAK * _rms(problem, kernels, work, data, samples, sums)


def _rms(
    problem: Problem, kernels: ReferenceKernels, work: Work, data: Data, samples: Samples, sums: Sums
) -> NDArray[np.float64]:
    """Root mean square of the real numbers of each sample's group, read from memory.

    A wrong result can raise it at most to its own size, so that it stays wrong. If the mean square is not finite, it is
    taken from the samples' expected values.
    """
    output, groups = problem.output, kernels.reference.groups
    numbers = output.components.size // groups
    nbytes = output.nbytes // groups
    found = np.empty(len(samples.group))
    parts = 1 if output == output.components else 2
    own = sqrt(float(np.square(sums.expected).sum()) / (parts * len(sums.expected)))
    chosen = np.unique(samples.group)
    targets = [data.results[output.name] + int(group) * nbytes for group in chosen]
    moments = kernels.moments(work, Entry.RESULT_MOMENTS, targets, 1, numbers, nbytes)
    for group, each in zip(chosen, moments, strict=True):
        found[samples.group == group] = sqrt(each.mean_square) if isfinite(each.mean_square) else own
    return found


def _gains(
    problem: Problem, kernels: ReferenceKernels, work: Work, data: Data, results: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Largest gain of each result's filter times the largest |element| of its plane, and of what surrounds it."""
    inputs, planes = kernels.reference.inputs, kernels.reference.planes
    assert planes is not None  # the scale is PLANE
    source, weights = inputs[planes.source], inputs[1]
    places = [planes.of(int(result)) for result in results]
    filters, starts = {number for number, _ in places}, sorted({start for _, start in places})
    size = planes.rows, planes.row_elements, planes.row_bytes
    targets = [data.inputs[source] + start for start in starts]
    moments = kernels.moments(work, Entry.INPUT_MOMENTS, targets, *size)
    largest = {start: max(each.largest, planes.outside) for start, each in zip(starts, moments, strict=True)}
    if planes.factor is not None:
        targets = [data.inputs[planes.factor] + start for start in starts]
        factors = kernels.moments(work, Entry.INPUT_MOMENTS, targets, *size)
        largest = {start: largest[start] * each.largest for start, each in zip(starts, factors, strict=True)}
    fineness = _FINE if planes.filter[0] * planes.filter[1] <= _SMALL else _COARSE
    grid = tuple(fineness * extent if extent > 1 else 1 for extent in planes.filter)
    taps = _taps(problem, weights, planes, work, data)
    gains = {number: float(np.abs(np.fft.fft2(taps[number], grid)).max()) for number in filters}
    return np.array([gains[number] * largest[start] for number, start in places])


def _taps(problem: Problem, weights: str, planes: Planes, work: Work, data: Data) -> NDArray[Any]:
    """The filters, of shape (filters, rows, columns), real or complex."""
    shape = planes.filters, *planes.filter
    if weights in data.known:
        return np.asarray(data.known[weights], np.float64).reshape(shape)
    (operand,) = (each for each in problem.inputs if each.name == weights)
    taps = np.empty(shape, numpy_dtype(operand.dtype))
    work.download(taps, data.inputs[weights])
    return taps.astype(np.complex128 if operand.dtype is DType.COMPLEX64 else np.float64)
