"""Filters of signals whose channels lie side by side, on tensor cores: a banded Toeplitz matrix of the taps times the
samples of channels that have one filter.

Source: convolution as products with banded Toeplitz matrices; groups of channels with one filter each, as in the
two-stage blocked convolutions of StripedHyena 2 (Ku et al. 2025, "Systems and Algorithms for Convolutional Multi-Hybrid
Language Models at Scale"). Splits, and samples that are not finite: see `toeplitz_family`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from warpsmith.generator.architectures import MAX_GRID, STATIC_SHARED_BYTES, THREAD_REGISTERS
from warpsmith.generator.device import Device
from warpsmith.generator.filter1d.defaults import OrderedFamily
from warpsmith.generator.filter1d.fields import SignalLayout
from warpsmith.generator.filter1d.gates import why_no_projection
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.text import (
    DEFAULT_REACH,
    Filter1dText,
    Weights,
    filter1d_arguments,
    pitches,
)
from warpsmith.generator.filter1d.toeplitz_channels_geometry import (
    COLUMNS,
    STRIP_OUTPUTS,
    VECTOR,
    Filter1dToeplitzChannelsGeometry,
    channel_steps,
    ring_of,
)
from warpsmith.generator.filter1d.toeplitz_geometry import STEP, WARP, Split, products_of, tap_parts
from warpsmith.generator.filter1d.toeplitz_model import channels_ns
from warpsmith.generator.filter1d.toeplitz_rules import splits_of, why_no_products
from warpsmith.generator.problem import DType
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value, words

MAX_PRODUCTS = 800
"""Most mma instructions of an iteration, which are all unrolled: ptxas takes seconds for more."""
LIKELY_TAPS = 9
"""Least taps of a default: `filter1d_channels` is faster by 15% with 7 taps, this by 13% with 16 (H200)."""
LONG_STEPS = 10
"""Steps of a window beyond which a default has narrow blocks."""
LIKELY_WARPS = 15
"""Warps for each multiprocessor in a default: 2048 on an H200."""
OTHER_REGISTERS = 48
"""Registers besides the band, sums and loads, for addresses and the compiler."""


class Filter1dToeplitzChannels(OrderedFamily):
    """`filter1d` of signals whose channels lie side by side, by mma.sync."""

    name = "filter1d_toeplitz_channels"
    default_reach = DEFAULT_REACH

    def why_not(self, problem: Filter1d, device: Device) -> str | None:
        if (reason := why_no_products(problem, device) or why_no_projection(problem)) is not None:
            return reason
        if problem.layout is not SignalLayout.BTC:
            return "is for signals whose channels lie side by side (layout btc)"
        if problem.dtype not in (DType.FLOAT16, DType.BFLOAT16):
            return f"is for float16 and bfloat16 samples; these are {problem.dtype}"
        group = problem.channels // problem.filters
        if problem.filters > 1 and group % COLUMNS:
            return f"multiplies {COLUMNS} channels by one filter; groups of {group} channels have one each"
        pitch, result_pitch = pitches(problem)
        if problem.channels % VECTOR or pitch % VECTOR or result_pitch % 4:
            return f"needs whole vectors of {VECTOR} channels; there are {problem.channels}, {pitch} elements apart"
        if self.first_legal(problem, device) is None:
            return f"a thread's registers and a grid do not fit {problem.taps} taps and {problem.channels} channels"
        return None

    def is_likely(self, problem: Filter1d, device: Device) -> bool:
        return problem.taps >= LIKELY_TAPS and super().is_likely(problem, device)

    def expected_ns(self, problem: Filter1d, device: Device) -> float | None:
        config = self.first_legal(problem, device)
        return None if config is None else channels_ns(problem, config, device)

    def space(self, problem: Filter1d, device: Device) -> Space:
        return _space(problem, device)

    def candidates(self, problem: Filter1d, device: Device) -> Iterator[Config]:
        return _likely(problem, device)

    def unrolled(self, problem: Filter1d, config: Config) -> int:
        geometry = Filter1dToeplitzChannelsGeometry.of(problem, config)
        return 8 * geometry.ring * geometry.steps * len(geometry.products)

    def program(self, problem: Filter1d, config: Config) -> Program:
        geometry = Filter1dToeplitzChannelsGeometry.of(problem, config)
        source = render(
            "filter1d/toeplitz_channels.cu.jinja",
            p=Filter1dText.of(problem),
            g=geometry,
            config=config.key(),
            store=config.text("store"),
        )
        arguments = filter1d_arguments(problem, Weights.GLOBAL)
        launch = Launch.of_blocks(self.name, geometry.blocks, WARP * geometry.warps, arguments)
        return Program.of_source(self.name, config, source, (launch,))


@functools.lru_cache(maxsize=256)
def _space(problem: Filter1d, device: Device) -> Space:
    return Space(
        parameters=(
            Parameter("weights", (Weights.GLOBAL.value,), "each warp reads its filter from global memory"),
            Parameter("split", words(splits_of(problem)), "type of the parts of float32 taps"),
            Parameter("chunk", (1, 2, 3, 4, 5, 6, 8), f"steps of {STEP} samples that a block loads at once"),
            Parameter("warps", (1, 2, 4, 8), f"warps of a block, each with {COLUMNS} channels"),
            Parameter("segments", (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256), "blocks along a signal"),
            Parameter("min_blocks", (0, 2, 3, 4, 6, 8), "blocks a multiprocessor must hold; 0 leaves it open"),
            Parameter("store", ("plain", "streaming"), "streaming marks the result as evicted first from L2"),
        ),
        constraints=(*_resources(problem, device), *_blocks(problem)),
    )


def _resources(problem: Filter1d, device: Device) -> tuple[Constraint, ...]:
    steps = channel_steps(problem)

    def registers(split: str, chunk: int) -> int:
        """Registers of a thread: its part of the band, samples of a strip's windows, sums, and loads."""
        kind = Split(split)
        sums = 8 * (1 + products_of(problem, kind)[-1].accumulator)
        return 4 * steps * tap_parts(problem, kind) + 4 * ring_of(steps, chunk) + sums + 4 * chunk + OTHER_REGISTERS

    return (
        Constraint(
            f"band, samples and loads of a thread must fit {THREAD_REGISTERS} registers, for {problem.taps} taps",
            lambda split, chunk: registers(split, chunk) <= THREAD_REGISTERS,
        ),
        Constraint(
            f"at most {MAX_PRODUCTS} products are unrolled",
            lambda split, chunk: (
                2 * ring_of(steps, chunk) * steps * len(products_of(problem, Split(split))) <= MAX_PRODUCTS
            ),
        ),
        Constraint(
            f"chunks and taps of a block must fit {STATIC_SHARED_BYTES >> 10} KiB of shared memory",
            lambda chunk, warps: (
                64 * chunk * (COLUMNS * warps + 8) + 4 * warps * (16 * steps + 7) <= STATIC_SHARED_BYTES
            ),
        ),
        Constraint(
            f"the blocks asked for must fit the multiprocessor's {device.registers_per_multiprocessor} registers",
            lambda split, chunk, warps, min_blocks: (
                min_blocks * warps * WARP * registers(split, chunk) <= device.registers_per_multiprocessor
            ),
        ),
    )


def _blocks(problem: Filter1d) -> tuple[Constraint, ...]:
    steps, strips = channel_steps(problem), -(-problem.result_length // STRIP_OUTPUTS)
    return (
        Constraint(
            f"a chunk is no longer than twice the {steps} steps of a window",
            lambda chunk: chunk == 1 or chunk < 2 * steps,
        ),
        Constraint(
            f"a signal has {strips} strips of {STRIP_OUTPUTS} outputs", lambda segments: segments <= max(1, strips)
        ),
        Constraint(
            f"a block wider than twice the {problem.channels} channels is a narrower one",
            lambda warps: warps == 1 or COLUMNS * warps < 2 * problem.channels,
        ),
        Constraint(
            "a grid has less than 2^31 blocks",
            lambda warps, segments: problem.batch * -(-problem.channels // (COLUMNS * warps)) * segments <= MAX_GRID,
        ),
    )


def _likely(problem: Filter1d, device: Device) -> Iterator[Config]:
    """Yields configs for the default, the likeliest first, legal or not.

    On an H200, 36 configs were timed for 16, 64, 128 and 256 taps on 8192 channels of 8192 samples. Wide blocks read
    whole lines; with many taps narrow ones leave a choice between blocks whose threads have 180 registers. With gates,
    whose loads take as many registers again, four warps are 3% faster than eight.
    """
    is_long = channel_steps(problem) > LONG_STEPS
    for split in splits_of(problem):
        for warps in (2, 1) if is_long else (8, 4, 2, 1) if problem.gates is None else (4, 2, 1):
            for chunk in (6, 3, 2, 1) if is_long else (3, 2, 1):
                for segments in _segments(problem, device):
                    chosen: dict[str, Value] = {
                        "weights": Weights.GLOBAL.value,
                        "split": split.value,
                        "chunk": chunk,
                        "warps": warps,
                        "segments": segments,
                        "min_blocks": 0,
                        "store": "streaming",
                    }
                    yield Config.of(chosen)


def _segments(problem: Filter1d, device: Device) -> Iterator[int]:
    """Yields numbers of blocks along a signal: the fewest that make enough warps, since each block reads the samples
    before its first window once more; then fewer.
    """
    across = problem.batch * -(-problem.channels // COLUMNS)
    counts = [1, 2, 4, 8, 16, 32, 64, 128, 256]
    enough = next((each for each in counts if each * across >= LIKELY_WARPS * device.multiprocessors), counts[-1])
    yield from (each for each in reversed(counts) if each <= enough)
