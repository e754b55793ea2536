"""Gradients of `filter1d` by warps that slide along a channel (layout `bct`), for few taps: one pass over memory.

A lane has adjacent samples, and the outputs at the same places. It loads both once, computes its outputs' gradients
(times the activation's slope), adds them times the samples of their windows to the sums of the weights' gradient, and
gets the gradients that reach its own samples from neighbouring lanes. At the ends of a warp some lanes compute only
gradients for others, so that warps need nothing of each other. A block writes one partial sum of each tap; a small
second kernel adds these up in a fixed order.

Source: the gather kernel of "Parallel filters", section 4.1, for three sums at once; the backward pass of the causal
convolutions of Gu and Dao 2023, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces".
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

from warpsmith.generator.architectures import MAX_GRID, THREAD_REGISTERS
from warpsmith.generator.device import REFERENCE, Device
from warpsmith.generator.filter1d.defaults import OrderedFamily
from warpsmith.generator.filter1d.fields import SignalLayout
from warpsmith.generator.filter1d.gradients_text import (
    MAX_TAPS,
    PAIRED,
    WARP,
    Fold,
    GradientsText,
    expected_pass_ns,
    pass_arguments,
    pass_program,
    why_no_gradients_of,
)
from warpsmith.generator.filter1d.plain_family import CHAIN
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.text import pitches
from warpsmith.generator.pair_stores import pair_stores
from warpsmith.generator.problem import DType
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

LANES = (8, 4, 2, 1)
VECTOR_BYTES = 16
"""Bytes of the widest load."""
LEAST_REGISTERS = 64
"""Registers that the compiler makes do with if it must: it then computes addresses more than once."""
MIN_BLOCKS = (0, 1, 2, 4, 6, 8, 10, 12, 16, 20, 24, 32)
OTHER_REGISTERS = 26
"""Registers besides samples, gradients, taps and sums, for addresses and the compiler."""
ACTIVATION_WORK, HEAVY_WORK = 10, 20
"""Instructions per output of an activation's slope, and those from which on a default has blocks of one warp."""
SHORT_TAPS = 8
"""Most taps of which a default asks for a number of blocks of float32 signals: more take more registers."""
MEMORY_SHARE = 3600 / REFERENCE.memory_bytes_per_ns


def vectors_of(samples: int, pitch: int, length: int, dtype: DType) -> tuple[int, ...]:
    """Elements of one aligned load that lies inside a row or outside of it, the widest first."""
    return tuple(
        lanes
        for lanes in LANES
        if not samples % lanes and not pitch % lanes and not length % lanes and lanes * dtype.itemsize <= VECTOR_BYTES
    )


def slid_vectors_of(problem: Filter1d, samples: int) -> tuple[int, ...]:
    """Elements of one load that is aligned if groups begin as much before each row as the row lies behind an aligned
    address. Rows of the signal and of the gradient must lie equally far behind one.
    """
    pitch, gradient_pitch = pitches(problem)
    size = problem.dtype.itemsize
    if size != problem.output_dtype.itemsize:
        return ()
    return tuple(
        lanes
        for lanes in LANES[:-1]
        if not samples % lanes and not (pitch - gradient_pitch) % lanes and lanes * size <= VECTOR_BYTES
    )


def signal_vectors(problem: Filter1d, samples: int) -> tuple[int, ...]:
    """Samples of one load, the widest first."""
    plain = vectors_of(samples, pitches(problem)[0], problem.signal, problem.dtype)
    return tuple(sorted({*plain, *slid_vectors_of(problem, samples)}, reverse=True))


@dataclasses.dataclass(frozen=True, slots=True)
class GradientsWarpGeometry:
    """Geometry of one config on one problem. A group is the samples, or outputs, of one lane."""

    samples: int
    vector: int
    gradient_vector: int
    slides: bool
    """True if rows are not aligned, and groups of a row are: they begin before it, as far as it lies behind an aligned
    address. Vectors at its ends then lie in it in part."""
    warps: int
    tiles: int
    shift: int
    """A lane with sample s has output s + shift: whole groups, so that both are aligned."""
    first: int
    """Sample under tap 0 of a lane's first output, from the first sample that it loads on."""
    before: int
    """Groups before a lane's samples that its windows reach."""
    after: int
    earliest: int
    """First output whose window has the lane's first sample, from the lane's first output on: 0 or negative."""
    low: int
    """Lanes before a lane whose gradients reach its samples."""
    high: int
    """Lanes after it."""
    useful: int
    """Lanes of a warp that have samples of their own."""
    first_group: int
    blocks_along: int
    min_blocks: int

    @classmethod
    def of(cls, problem: Filter1d, config: Config) -> GradientsWarpGeometry:
        samples, warps = config.integer("samples"), config.integer("threads") // WARP
        vector, (pitch, gradient_pitch) = config.integer("vector"), pitches(problem)
        slides = vector not in vectors_of(samples, pitch, problem.signal, problem.dtype)
        wide = vectors_of(samples, gradient_pitch, problem.result_length, problem.output_dtype)[0]
        groups = -problem.first_lag // samples
        start = problem.first_lag + groups * samples  # sample under tap 0 of a lane's first output, from its first on
        before = 1 if start < 0 else 0
        last = (start + samples + problem.taps - 2) // samples
        earliest = -start - problem.taps + 1
        low, high = -(earliest // samples), max(0, (samples - 1 - start) // samples)
        gives_signal = problem.pass_.gives_signal
        useful = WARP - low - high if gives_signal else WARP
        first_group = min(0, -groups)
        early = vector - 1 if slides else 0  # samples by which a group may begin before a row
        ends = -(-(problem.signal + early) // samples), -(-(problem.result_length + early) // samples) - groups
        steps = -(-(max(ends) - first_group) // max(1, useful * warps))
        blocks_along = -(-steps // config.integer("tiles"))
        return cls(
            samples=samples,
            vector=vector,
            gradient_vector=vector if slides else wide,
            slides=slides,
            warps=warps,
            tiles=-(-steps // blocks_along),
            shift=groups * samples,
            first=start + before * samples,
            before=before,
            after=max(0, last),
            earliest=earliest,
            low=low,
            high=high,
            useful=useful,
            first_group=first_group,
            blocks_along=blocks_along,
            min_blocks=config.integer("min_blocks"),
        )


class Filter1dGradientsWarp(OrderedFamily):
    """Gradients of signals whose samples lie side by side."""

    name = "filter1d_gradients_warp"

    def why_not(self, problem: Filter1d, device: Device) -> str | None:
        if (reason := why_no_gradients_of(problem)) is not None:
            return reason
        if problem.layout is not SignalLayout.BCT:
            return "is for signals whose samples lie side by side (layout bct)"
        if problem.taps > MAX_TAPS:
            return f"is for filters of {MAX_TAPS} taps at the most; this one has {problem.taps}"
        if self.first_legal(problem, device) is None:
            return f"{problem.taps} taps and {problem.rows} channels do not fit registers and a grid"
        return None

    def expected_ns(self, problem: Filter1d, device: Device) -> float | None:
        if self.first_legal(problem, device) is None:
            return None
        return expected_pass_ns(problem, device, 14, MEMORY_SHARE)

    def space(self, problem: Filter1d, device: Device) -> Space:
        return _space(problem, device)

    def candidates(self, problem: Filter1d, device: Device) -> Iterator[Config]:
        return _likely(problem, device)

    def unrolled(self, problem: Filter1d, config: Config) -> int:
        return 3 * problem.taps * config.integer("samples")

    def program(self, problem: Filter1d, config: Config) -> Program:
        geometry = GradientsWarpGeometry.of(problem, config)
        fold = Fold.of(problem, problem.batch * geometry.blocks_along) if problem.pass_.gives_weights else None
        source = render(
            "filter1d/gradients_warp.cu.jinja",
            p=GradientsText.of(problem),
            g=geometry,
            fold=fold,
            config=config.key(),
            store=config.text("store"),
        )
        blocks, threads = problem.rows * geometry.blocks_along, geometry.warps * WARP
        launch = Launch.of_blocks(self.name, blocks, threads, pass_arguments(problem))
        return pass_program(problem, config, source, launch, fold)


@functools.lru_cache(maxsize=256)
def _space(problem: Filter1d, device: Device) -> Space:
    paired = pair_stores(problem.dtype, device, "vector", PAIRED) if problem.pass_.gives_signal else ()
    return Space(
        parameters=(
            Parameter("samples", (4, 8), "adjacent samples of a lane"),
            Parameter("vector", (8, 4, 2, 1), "samples of one load and one store"),
            Parameter("threads", (32, 64, 96, 128, 160, 192, 256, 512), "threads of a block"),
            Parameter("tiles", tuple(range(1, 33)), "tiles of a warp at most, one after the other"),
            Parameter("min_blocks", MIN_BLOCKS, "blocks a multiprocessor must hold; 0 leaves it open"),
            Parameter("store", ("plain", "streaming"), "streaming marks the result as evicted first from L2"),
        ),
        constraints=(*paired, *_resources(problem, device), *_blocks(problem)),
    )


def _resources(problem: Filter1d, device: Device) -> tuple[Constraint, ...]:
    taps, items, (pitch, gradient_pitch) = problem.taps, problem.taps + problem.bias, pitches(problem)
    gives_weights, is_activated = problem.pass_.gives_weights, problem.activation is not None

    def registers(samples: int) -> int:
        window = samples + taps - 1 if gives_weights or is_activated else 0
        weights = 2 * taps if is_activated else taps
        return window + 2 * samples + taps - 1 + weights + (items if gives_weights else 0) + OTHER_REGISTERS

    return (
        Constraint(
            f"vectors of samples are aligned, {pitch} and {gradient_pitch} elements from row to row",
            lambda samples, vector: vector in signal_vectors(problem, samples),
        ),
        Constraint(
            f"at most {CHAIN} products are added one after the other",
            lambda samples, tiles: not gives_weights or samples * tiles <= CHAIN,
        ),
        Constraint(
            f"samples, gradients and taps of a lane must fit {THREAD_REGISTERS} registers, for {taps} taps",
            lambda samples: registers(samples) <= THREAD_REGISTERS,
        ),
        Constraint(
            f"the blocks asked for must fit the multiprocessor's {device.registers_per_multiprocessor} registers",
            lambda samples, threads, min_blocks: (
                min_blocks * threads * min(registers(samples), LEAST_REGISTERS) <= device.registers_per_multiprocessor
            ),
        ),
        Constraint(
            f"a multiprocessor holds {device.threads_per_multiprocessor} threads",
            lambda threads, min_blocks: min_blocks * threads <= device.threads_per_multiprocessor,
        ),
    )


def _blocks(problem: Filter1d) -> tuple[Constraint, ...]:
    def geometry(samples: int, threads: int, tiles: int) -> GradientsWarpGeometry:
        config: dict[str, Value] = {"samples": samples, "vector": 1, "threads": threads, "tiles": tiles}
        return GradientsWarpGeometry.of(problem, Config.of({**config, "min_blocks": 0}))

    return (
        Constraint(
            "most lanes of a warp have samples of their own",
            lambda samples: geometry(samples, WARP, 1).useful >= WARP // 2,
        ),
        Constraint(
            f"a block twice as long as the signal, {problem.signal}, is a shorter one",
            lambda samples, threads, tiles: (
                threads * tiles == WARP or samples * threads * tiles < 4 * max(problem.signal, problem.result_length)
            ),
        ),
        Constraint(
            "a grid has less than 2^31 blocks",
            lambda samples, threads, tiles: problem.rows * geometry(samples, threads, tiles).blocks_along <= MAX_GRID,
        ),
    )


def _likely(problem: Filter1d, device: Device) -> Iterator[Config]:
    """Yields configs for the default, the likeliest first, legal or not.

    On an H200, 42 to 55 configs were timed for each of 14 problems of 2 to 32 taps. Blocks of one warp waste the fewest
    lanes on the last tile of a channel, which pays where instructions bound the time; larger blocks read longer pieces
    of memory at once. Without an explicit number of blocks the compiler computes addresses of float32 again and again,
    to save registers: 1.15 times the time.
    """
    work = problem.taps * (problem.pass_.gives_signal + problem.pass_.gives_weights)
    work += 0 if problem.activation is None else problem.taps + ACTIVATION_WORK
    is_wide = problem.dtype.itemsize == 4 and problem.taps <= SHORT_TAPS
    if is_wide:
        threads, most, min_blocks = 64, 12, 8
    else:
        threads, most, min_blocks = (32, 32, 0) if work >= HEAVY_WORK else (96, 12, 0)
    for samples in (8, 4):
        for vector in signal_vectors(problem, samples):
            tiles = most
            while tiles > 1 and not _fills(problem, device, samples, threads, tiles):
                tiles -= tiles // 2
            while tiles >= 1:
                for blocks in {min_blocks: 0, 0: 0}:
                    yield _config(samples, vector, threads, tiles, blocks)
                tiles //= 2
            yield _config(samples, vector, WARP, 1, 0)


def _fills(problem: Filter1d, device: Device, samples: int, threads: int, tiles: int) -> bool:
    """True if there is work for half of the threads that the device holds."""
    length = max(problem.signal, problem.result_length)
    blocks = problem.rows * -(-length // (samples * threads * tiles))
    return blocks * threads >= device.threads_per_multiprocessor // 2 * device.multiprocessors


def _config(samples: int, vector: int, threads: int, tiles: int, min_blocks: int) -> Config:
    chosen: dict[str, Value] = {
        "samples": samples,
        "vector": vector,
        "threads": threads,
        "tiles": tiles,
        "min_blocks": min_blocks,
        "store": "streaming",
    }
    return Config.of(chosen)
