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
from warpsmith.generator.device import REFERENCE, Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.filter1d.fields import SignalLayout
from warpsmith.generator.filter1d.gradients_text import (
    FOLDED,
    MAX_TAPS,
    PAIRED,
    SUMS,
    Fold,
    GradientsText,
    operand_pointers,
    pitches,
    why_no_gradients_of,
)
from warpsmith.generator.filter1d.plain_family import CHAIN
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.pair_stores import pair_stores
from warpsmith.generator.problem import DType
from warpsmith.generator.program import Launch, Pointer, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

WARP = 32
VECTOR_BYTES = 16
"""Bytes of the widest load."""
OTHER_REGISTERS = 26
"""Registers besides samples, gradients, taps and sums, for addresses and the compiler."""
MEMORY_SHARE = 3600 / REFERENCE.memory_bytes_per_ns
SCHEDULERS, ISSUE_SHARE = 4, 0.8


def vectors_of(samples: int, pitch: int, length: int, dtype: DType) -> tuple[int, ...]:
    """Elements of one aligned load that lies inside a row or outside of it, the widest first."""
    return tuple(
        lanes
        for lanes in (8, 4, 2, 1)
        if not samples % lanes and not pitch % lanes and not length % lanes and lanes * dtype.itemsize <= VECTOR_BYTES
    )


@dataclasses.dataclass(frozen=True, slots=True)
class GradientsWarpGeometry:
    """Geometry of one config on one problem. A group is the samples, or outputs, of one lane."""

    samples: int
    vector: int
    gradient_vector: int
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
        _, gradient_pitch = pitches(problem)
        groups = -problem.first_lag // samples
        start = problem.first_lag + groups * samples  # sample under tap 0 of a lane's first output, from its first on
        before = 1 if start < 0 else 0
        last = (start + samples + problem.taps - 2) // samples
        earliest = -start - problem.taps + 1
        low, high = -(earliest // samples), max(0, (samples - 1 - start) // samples)
        gives_signal = problem.pass_.gives_signal
        useful = WARP - low - high if gives_signal else WARP
        first_group = min(0, -groups)
        end = max(-(-problem.signal // samples), -(-problem.result_length // samples) - groups)
        steps = -(-(end - first_group) // max(1, useful * warps))
        blocks_along = -(-steps // config.integer("tiles"))
        return cls(
            samples=samples,
            vector=config.integer("vector"),
            gradient_vector=vectors_of(samples, gradient_pitch, problem.result_length, problem.output_dtype)[0],
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


class Filter1dGradientsWarp(Family[Filter1d]):
    """Gradients of signals whose samples lie side by side."""

    name = "filter1d_gradients_warp"

    def why_not(self, problem: Filter1d, device: Device) -> str | None:
        if (reason := why_no_gradients_of(problem)) is not None:
            return reason
        if problem.layout is not SignalLayout.BCT:
            return "is for signals whose samples lie side by side (layout bct)"
        if problem.taps > MAX_TAPS:
            return f"is for filters of {MAX_TAPS} taps at the most; this one has {problem.taps}"
        if _default(problem, device) is None:
            return f"{problem.taps} taps and {problem.rows} channels do not fit registers and a grid"
        return None

    def is_likely(self, problem: Filter1d, device: Device) -> bool:
        return device.kind is DeviceKind.CUDA and self.why_not(problem, device) is None

    def expected_ns(self, problem: Filter1d, device: Device) -> float | None:
        config = _default(problem, device)
        if config is None:
            return None
        rates = device.rates
        each = problem.multiply_adds / problem.rows / problem.result_length + 14
        issued = problem.rows * problem.result_length * each / WARP / device.multiprocessors / SCHEDULERS / ISSUE_SHARE
        return 2 * rates.launch_ns + max(
            problem.bytes / (MEMORY_SHARE * rates.memory_bytes_per_ns), rates.cycles_ns(issued)
        )

    def space(self, problem: Filter1d, device: Device) -> Space:
        return _space(problem, device)

    def default(self, problem: Filter1d, device: Device) -> Config:
        config = _default(problem, device)
        if config is None:
            raise ValueError(f"{self.name} has no config for {problem.key()}; ask why_not first")
        return config

    def unrolled(self, problem: Filter1d, config: Config) -> int:
        return 3 * problem.taps * config.integer("samples")

    def program(self, problem: Filter1d, config: Config) -> Program:
        geometry = GradientsWarpGeometry.of(problem, config)
        gives_weights = problem.pass_.gives_weights
        fold = Fold.of(problem, problem.batch * geometry.blocks_along) if gives_weights else None
        source = render(
            "filter1d/gradients_warp.cu.jinja",
            p=GradientsText.of(problem),
            g=geometry,
            fold=fold,
            config=config.key(),
            store=config.text("store"),
        )
        of_kernel = [each for each in operand_pointers(problem) if each.buffer not in FOLDED]
        of_kernel += [Pointer(SUMS)] if gives_weights else []
        blocks = problem.rows * geometry.blocks_along
        launches = [Launch.of_blocks(self.name, blocks, geometry.warps * WARP, tuple(of_kernel))]
        if fold is not None:
            launches.append(fold.launch(self.name, problem))
        workspaces = () if fold is None else (fold.workspace,)
        return Program.of_source(self.name, config, source, tuple(launches), workspaces)


@functools.lru_cache(maxsize=256)
def _space(problem: Filter1d, device: Device) -> Space:
    taps, items, (pitch, _) = problem.taps, problem.taps + problem.bias, pitches(problem)
    gives_weights = problem.pass_.gives_weights
    reads_signal = gives_weights or problem.activation is not None

    def geometry(samples: int, threads: int, tiles: int) -> GradientsWarpGeometry:
        config = {"samples": samples, "vector": 1, "threads": threads, "tiles": tiles, "min_blocks": 0}
        return GradientsWarpGeometry.of(problem, Config.of(dict[str, Value](config)))

    def registers(samples: int) -> int:
        window = samples + taps - 1 if reads_signal else 0
        return window + 2 * samples + taps - 1 + taps + (items if gives_weights else 0) + OTHER_REGISTERS

    paired = pair_stores(problem.dtype, device, "vector", PAIRED) if problem.pass_.gives_signal else ()
    return Space(
        parameters=(
            Parameter("samples", (4, 8), "adjacent samples of a lane"),
            Parameter("vector", (8, 4, 2, 1), "samples of one load and one store"),
            Parameter("threads", (32, 64, 96, 128, 160, 192, 256, 512), "threads of a block"),
            Parameter(
                "tiles", (1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32), "tiles of a warp at most, one after the other"
            ),
            Parameter(
                "min_blocks",
                (0, 1, 2, 4, 6, 8, 10, 12, 16, 20, 24, 32),
                "blocks a multiprocessor must hold; 0 leaves it open",
            ),
            Parameter("store", ("plain", "streaming"), "streaming marks the result as evicted first from L2"),
        ),
        constraints=(
            *paired,
            Constraint(
                f"vectors of samples, {pitch} elements from row to row, are aligned and end with the {problem.signal}",
                lambda samples, vector: vector in vectors_of(samples, pitch, problem.signal, problem.dtype),
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
                    min_blocks * threads * min(registers(samples), 64) <= device.registers_per_multiprocessor
                ),
            ),
            Constraint(
                f"a multiprocessor holds {device.threads_per_multiprocessor} threads",
                lambda threads, min_blocks: min_blocks * threads <= device.threads_per_multiprocessor,
            ),
            Constraint(
                "most lanes of a warp have samples of their own",
                lambda samples: geometry(samples, WARP, 1).useful >= 16,
            ),
            Constraint(
                "a block is not twice as long as the signal",
                lambda samples, threads, tiles: (
                    threads * tiles == WARP
                    or samples * threads * tiles < 4 * max(problem.signal, problem.result_length)
                ),
            ),
            Constraint(
                "a grid has less than 2^31 blocks",
                lambda samples, threads, tiles: (
                    problem.rows * geometry(samples, threads, tiles).blocks_along <= MAX_GRID
                ),
            ),
        ),
    )


@functools.lru_cache(maxsize=256)
def _default(problem: Filter1d, device: Device) -> Config | None:
    """The likeliest legal config; None if no config is legal."""
    return next(filter(_space(problem, device).contains, _likely(problem)), None)


def _likely(problem: Filter1d) -> Iterator[Config]:
    """Yields configs for the default, the likeliest first, legal or not."""
    length, (pitch, _) = max(problem.signal, problem.result_length), pitches(problem)
    for samples in (8, 4):
        for vector in vectors_of(samples, pitch, problem.signal, problem.dtype):
            for threads in (128, 64, 32):
                tiles = 32
                while tiles > 1 and samples * threads * tiles > length:
                    tiles //= 2
                while tiles >= 1:
                    yield _config(samples, vector, threads, tiles)
                    tiles //= 2


def _config(samples: int, vector: int, threads: int, tiles: int) -> Config:
    chosen: dict[str, Value] = {
        "samples": samples,
        "vector": vector,
        "threads": threads,
        "tiles": tiles,
        "min_blocks": 0,
        "store": "streaming",
    }
    return Config.of(chosen)
