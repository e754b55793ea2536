"""Reference kernels on a device, one binary for all problems of an operation and its types, and the results that they
compute: corners, edges, borders of tiles, and random ones.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.compiler import Compiler
from warpsmith.devices.module import Module
from warpsmith.devices.process import ForkLock, HomeTable
from warpsmith.devices.runtime import Runtime, Work
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.first_use.reference import (
    FOUND_BYTES,
    GPU_THREADS,
    INPUTS,
    MOMENTS_BYTES,
    SAMPLE_BYTES,
    Entry,
    Mirrored,
    Reference,
)
from warpsmith.generator.first_use.registry import references_of
from warpsmith.generator.problem import Operand, Problem
from warpsmith.generator.steps import Compilation

_BLOCKS_A_MULTIPROCESSOR = 8
_TERMS_A_THREAD = 4
"""Least number of terms of a sum per thread: shorter sums are not split among blocks."""
_ELEMENTS_A_THREAD = 8

_FOUND = np.dtype([("real", "f8"), ("imaginary", "f8"), ("magnitude", "f8"), ("largest", "f8"), ("bits", "u4", 2)])
_MOMENTS = np.dtype([("squares", "f8"), ("largest", "f8")])
assert (_FOUND.itemsize, _MOMENTS.itemsize) == (FOUND_BYTES, MOMENTS_BYTES)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Expected and actual values of sampled results."""

    expected: NDArray[np.float64]
    """Real and imaginary parts, (samples, 2)."""
    magnitude: NDArray[np.float64]
    largest: NDArray[np.float64]
    bits: NDArray[np.uint32]
    """Bits of the elements in memory, (samples, 2)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Moments:
    """Mean square and largest magnitude of some elements."""

    mean_square: float
    largest: float


class ReferenceKernels:
    """Loaded kernels of a reference.

    Args:
        runtime: the device.
        module: the loaded kernels.
        reference: reference that they belong to.
    """

    def __init__(self, runtime: Runtime, module: Module, reference: Reference) -> None:
        self._module = module
        self.reference = reference
        self._threads = threads_of(runtime.device)
        self._multiprocessors = runtime.device.multiprocessors
        self._launches = {launch.entry: launch for launch in reference.program.launches}

    def fill(self, work: Work, target: int, elements: int, seed: int, way: int) -> None:
        """Fills memory with random elements: `way` 1 gives numbers from 0 to 255, any other approximate normal
        deviates.
        """
        numbers = {"elements": elements, "seed": seed, "way": way}
        values = {name: np.int64(number).tobytes() for name, number in numbers.items()}
        self._launch(work, Entry.FILL, (self._blocks(elements), 1, 1), {"target": target}, values)

    def mirror(self, work: Work, target: int, spectra: Mirrored) -> None:
        """Turns random numbers into the spectra of real signals."""
        layout = np.array([spectra.batch, *spectra.strides], np.int64).tobytes()
        values = {"problem": self.reference.values, "layout": layout}
        self._launch(work, Entry.MIRROR, (self._blocks(spectra.batch), 1, 1), {"target": target}, values)

    def sums(self, work: Work, inputs: Mapping[str, int], result: int, samples: Samples) -> Sums:
        """Computes the sampled results in float64 and reads their actual values."""
        count, reference = len(samples.index), self.reference
        shares = max(1, reference.terms // (self._threads * _TERMS_A_THREAD))
        wanted = -(-_BLOCKS_A_MULTIPROCESSOR * self._multiprocessors // count)
        parts = min(shares, wanted) if self._threads > 1 else 1
        found = np.empty((count, parts), _FOUND)
        addresses = {
            **{argument: inputs[name] for argument, name in zip(INPUTS, reference.inputs, strict=False)},
            "result": result,
            "samples": work.uploaded(np.stack([samples.index, samples.offset], axis=1)),
            "found": work.allocate(found.nbytes).address,
        }
        self._launch(work, Entry.SUMS, (count, parts, 1), addresses, {"problem": reference.values})
        work.download(found, addresses["found"])
        expected = np.stack([found["real"].sum(axis=1), found["imaginary"].sum(axis=1)], axis=1)
        return Sums(expected, found["magnitude"].sum(axis=1), found["largest"].max(axis=1), found["bits"][:, 0].copy())

    def moments(
        self, work: Work, entry: Entry, targets: Sequence[int], rows: int, row_elements: int, row_bytes: int
    ) -> list[Moments]:
        """Moments of rows of an operand's real numbers, for each address of a first row."""
        found = np.empty(self._blocks(rows * row_elements), _MOMENTS)
        buffer = work.allocate(found.nbytes).address
        layout = np.array([rows, row_elements, row_bytes], np.int64).tobytes()
        moments = []
        for target in targets:
            addresses = {"target": target, "moments": buffer}
            self._launch(work, entry, (len(found), 1, 1), addresses, {"layout": layout})
            work.download(found, buffer)
            mean = float(found["squares"].sum()) / (rows * row_elements)
            moments.append(Moments(mean, float(found["largest"].max())))
        return moments

    def _blocks(self, items: int) -> int:
        most = _BLOCKS_A_MULTIPROCESSOR * self._multiprocessors
        return max(1, min(most, -(-items // (self._threads * _ELEMENTS_A_THREAD))))

    def _launch(
        self,
        work: Work,
        entry: Entry,
        grid: tuple[int, int, int],
        addresses: Mapping[str, int],
        values: Mapping[str, bytes],
    ) -> None:
        launch = dataclasses.replace(self._launches[str(entry)], grid=grid)
        self._module.bind(launch, addresses, values)(work.stream)


def threads_of(device: Device) -> int:
    """Threads per block of the reference kernels."""
    return GPU_THREADS if device.kind is DeviceKind.CUDA else 1


def kernels_for(problem: Problem, runtime: Runtime, compiler: Compiler) -> tuple[ReferenceKernels, ...]:
    """Reference kernels of each result of a problem; none if its operation has none.

    Raises:
        CompileError: they do not compile.
        LaunchError: the device refuses them.
    """
    return tuple(_loaded(each, runtime, compiler) for each in references_of(problem, threads_of(runtime.device)))


def references_to_load(problem: Problem, device: Device) -> tuple[Compilation, ...]:
    """What `kernels_for` compiles; problems of the same types share it."""
    return tuple(each.program.compilation() for each in references_of(problem, threads_of(device)))


def _loaded(reference: Reference, runtime: Runtime, compiler: Compiler) -> ReferenceKernels:
    key = runtime, reference.program.source
    with _LOADING:
        module = _MODULES.get(key)
        if module is None:
            module = _MODULES[key] = runtime.load(compiler.compile(reference.program.compilation()))
    return ReferenceKernels(runtime, module, reference)


_MODULES: HomeTable[tuple[Runtime, str], Module] = HomeTable()
_LOADING = ForkLock()
assert 2 * np.dtype(np.int64).itemsize == SAMPLE_BYTES


_MOST_CORNERS = 64
_MOST_GROUPS = 8
"""Largest number of result groups to check, if each group has its own scale."""
_AT_START, _AT_END, _AT_TILES = 0.1, 0.2, 0.6
"""Cumulative shares of coordinates at the start of an axis, at its end, and beside a border of tiles."""
_LARGEST_TILE = 9
"""Exclusive upper bound of the binary logarithm of tile sizes whose borders are checked."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Positions of sampled results."""

    index: NDArray[np.int64]
    """Index of each in C order."""
    offset: NDArray[np.int64]
    """Bytes from the first result."""
    group: NDArray[np.int64]
    """Group number of each."""


def samples_of(output: Operand, count: int, groups: int, seed: int) -> Samples:
    """Chooses results that show most faults.

    Args:
        output: the result operand.
        count: number of samples; there may be more if there are more corners.
        groups: number of equal groups along the first axis.
        seed: seed of the random ones.
    """
    generator = np.random.default_rng(seed)
    shape = output.shape
    corners = list(itertools.islice(itertools.product(*(sorted({0, extent - 1}) for extent in shape)), _MOST_CORNERS))
    structured = max(0, count - len(corners)) * 2 // 3
    uniform = max(0, count - len(corners) - structured)
    axes = [
        np.concatenate(
            [
                np.array([corner[axis] for corner in corners], np.int64),
                _structured(extent, structured, generator),
                generator.integers(0, extent, uniform),
            ]
        )
        for axis, extent in enumerate(shape)
    ]
    group = np.zeros(len(axes[0]), np.int64)
    if groups > 1:
        each = shape[0] // groups
        chosen = np.unique([0, groups - 1, *generator.integers(0, groups, _MOST_GROUPS - 2)])
        group = chosen[np.arange(len(group)) % len(chosen)]
        axes[0] = group * each + axes[0] % each
    offset = np.zeros(len(group), np.int64)
    for places, stride in zip(axes, output.strides, strict=True):
        offset += places * stride
    return Samples(np.ravel_multi_index(tuple(axes), shape).astype(np.int64), offset, group)


def _structured(extent: int, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Coordinates along an axis: its ends, and both sides of multiples of powers of two."""
    kind, tile = generator.random(count), 2 ** generator.integers(2, _LARGEST_TILE, count)
    border = generator.integers(0, extent // tile + 1) * tile - generator.integers(0, 2, count)
    found = generator.integers(0, extent, count)
    found = np.where(kind < _AT_TILES, np.clip(border, 0, extent - 1), found)
    found = np.where(kind < _AT_END, extent - 1, found)
    return np.asarray(np.where(kind < _AT_START, 0, found), np.int64)
