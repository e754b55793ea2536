"""Gradients of long filters by transforms: products of spectra that stay in registers, one inverse a thread block.

The gradient of tap k is the sum over rows and outputs t of gradient[t] times signal[t + first lag + k]: a correlation
of two long signals, of which the filter's taps are the lags. A thread block transforms a tile of outputs and the
samples beside it, multiplies, and adds the products of all rows and tiles of its share in registers, so that it needs
one inverse. A second launch adds the sums of all shares in an order that does not change. Tiles that meet no sample are
never computed.

Two tiles, of one row or of two rows that share a filter, are the real and the imaginary part of a line, z = x1 + i x2,
and w = w1 + i w2 for the outputs. The real part of the correlation of both lines is that of x1 with w1 plus that of x2
with w2: both end in one sum, so that nothing is unpacked.

An FFT's error is relative to its whole tile, so a problem must allow `accuracy="signalwise"`. Sums that are not finite
are added again, pair by pair.

Source: `filter1d_lags`, with the rows of a batch beside the tiles of a signal.
"""

from __future__ import annotations

import functools

from warpsmith.generator.architectures import MAX_GRID
from warpsmith.generator.device import Device
from warpsmith.generator.family import Work
from warpsmith.generator.fft.text import Twiddles
from warpsmith.generator.filter1d.defaults import RankedFamily, ranked_by
from warpsmith.generator.filter1d.fields import Filter1dPass, SignalLayout
from warpsmith.generator.filter1d.gradients_fft_geometry import Filter1dGradientsFftGeometry, tile_outputs
from warpsmith.generator.filter1d.gradients_text import (
    Fold,
    GradientsText,
    pass_arguments,
    pass_program,
    why_no_gradients_of,
)
from warpsmith.generator.filter1d.lags_family import MIN_BLOCKS
from warpsmith.generator.filter1d.lags_family import RADICES as OTHER_RADICES
from warpsmith.generator.filter1d.lags_geometry import shared_bytes
from warpsmith.generator.filter1d.lags_model import SHAPES as OTHER_SHAPES
from warpsmith.generator.filter1d.lags_model import LagShape, expected_ns, registers_of
from warpsmith.generator.filter1d.overlap import ceil_div
from warpsmith.generator.filter1d.parts_text import PartsText
from warpsmith.generator.filter1d.plain_family import CHAIN
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.text import is_strict
from warpsmith.generator.filter1d.toeplitz_batch_geometry import filter_rows
from warpsmith.generator.problem import Accuracy
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, words
from warpsmith.generator.tiles.lines import points_of, radices_of, text_of
from warpsmith.generator.tiles.space import INSTRUCTIONS

LEAST_TAPS = 33
"""Least taps: families of shorter filters pass over memory once for all gradients."""
RADICES = ("32x16", *OTHER_RADICES)
SHAPES = (LagShape((32, 16), 0, Twiddles.POWERS, 1.2), *OTHER_SHAPES)
"""Lines that do well: those of `filter1d_lags`, whose costs hold here (1.0 times those measured for 8 x 768 signals of
65,536 samples and 1,000 taps, 0.8 times for causal filters as long as the signal, half of whose lines is zero), and one
with two passes for filters of 256 taps (H200)."""
SHARES = tuple(2**i for i in range(12))
MOST_SUMS = 1 << 33
"""Most bytes of all shares' sums."""
_TWIDDLES = (Twiddles.TABLE, Twiddles.POWERS)
_LEAST_POINTS = 512
"""Points of a line that are never too many."""


class Filter1dGradientsFft(RankedFamily):
    """Gradients of weights by transforms of tiles, whose products are added before the inverse transform."""

    name = "filter1d_gradients_fft"

    def why_not(self, problem: Filter1d, device: Device) -> str | None:
        if (reason := why_no_gradients_of(problem)) is not None:
            return reason
        if problem.pass_ is not Filter1dPass.WGRAD:
            return f"computes gradients of weights (pass wgrad); this is {problem.pass_}"
        if problem.bias or problem.activation is not None:
            return "is for filters without bias and activation"
        if problem.accuracy is not Accuracy.SIGNALWISE:
            return "has errors relative to the whole signal: accuracy signalwise"
        if problem.layout is not SignalLayout.BCT:
            return "is for signals whose samples lie side by side (layout bct)"
        if problem.taps < LEAST_TAPS:
            return f"a filter of fewer than {LEAST_TAPS} taps costs less tap by tap"
        if not _ranked(problem, device):
            return f"a grid and its sums do not fit {problem.filters} filters of {problem.taps} taps"
        return None

    def ranked(self, problem: Filter1d, device: Device) -> tuple[tuple[float, Config], ...]:
        return _ranked(problem, device)

    def space(self, problem: Filter1d, device: Device) -> Space:
        return _space(problem, device)

    def work(self, problem: Filter1d, config: Config) -> Work | None:
        return None  # windows that reach beyond the signal have fewer multiply-adds than the problem counts

    def unrolled(self, problem: Filter1d, config: Config) -> int:
        radices = radices_of(config.text("radices"))
        return 2 * sum(INSTRUCTIONS[radix] for radix in (*radices, radices[-1]))

    def program(self, problem: Filter1d, config: Config) -> Program:
        geometry = Filter1dGradientsFftGeometry.of(problem, config)
        fold = Fold.of_filters(problem, geometry.shares)
        source = render(
            "filter1d/gradients_fft.cu.jinja",
            p=GradientsText.of(problem),
            g=PartsText.of(geometry.lines, geometry.twiddles),
            at=geometry,
            fold=fold,
            config=config.key(),
            strict=is_strict(problem),
            chain=CHAIN,
        )
        grid, block = (geometry.blocks, 1, 1), (geometry.lines.threads, 1, 1)
        launch = Launch(self.name, grid, block, pass_arguments(problem), geometry.lines.shared_bytes)
        return pass_program(problem, config, source, launch, fold)


@functools.lru_cache(maxsize=256)
def _space(problem: Filter1d, device: Device) -> Space:
    return Space(
        parameters=(
            Parameter("radices", RADICES, "points of a line, as radices of passes"),
            Parameter("shares", SHARES, "thread blocks that share the tiles of a group of taps"),
            Parameter("min_blocks", MIN_BLOCKS, "blocks a multiprocessor must hold; 0 leaves it open"),
            Parameter("twiddles", words(_TWIDDLES), "from memory, or some as products"),
            Parameter("prefetch", ("none", "next"), "next prefetches the next tiles of a thread block into L2"),
        ),
        constraints=(*_resources(device), *_sizes(problem)),
    )


def _resources(device: Device) -> tuple[Constraint, ...]:
    limit, whole = device.shared_per_block_bytes, device.shared_per_multiprocessor_bytes
    registers, threads_limit = device.registers_per_multiprocessor, device.threads_per_multiprocessor
    reserved = device.limits.reserved_shared_bytes

    def fits(radices: str, min_blocks: int) -> bool:
        made = radices_of(radices)
        threads, shared = points_of(radices) // made[-1], shared_bytes(made)
        return (
            shared <= limit
            and min_blocks * threads <= threads_limit
            and max(1, min_blocks) * threads * registers_of(made) <= registers
            and (min_blocks <= 1 or min_blocks * (shared + reserved) <= whole)
        )

    return (
        Constraint(
            f"a multiprocessor holds {threads_limit} threads, {registers} registers and {whole} bytes of shared memory",
            fits,
        ),
    )


def _sizes(problem: Filter1d) -> tuple[Constraint, ...]:
    rows, outputs = filter_rows(problem), problem.result_length

    def tiles(radices: str) -> int:
        return rows * ceil_div(outputs, tile_outputs(problem, points_of(radices)))

    def blocks(radices: str, shares: int) -> int:
        return problem.filters * ceil_div(problem.taps, points_of(radices) // 2) * shares

    return (
        Constraint(
            f"a share has a line of tiles at least, of {rows} rows of {outputs} outputs",
            lambda radices, shares: 2 * shares <= tiles(radices) + 1,
        ),
        Constraint(
            f"lines have at most twice the points that {outputs} outputs and {problem.taps} taps need",
            lambda radices: points_of(radices) <= max(_LEAST_POINTS, 2 * (outputs + problem.taps)),
        ),
        Constraint(
            f"a grid has at most {MAX_GRID} blocks, and int counts the tiles of {rows} rows",
            lambda radices, shares: blocks(radices, shares) <= MAX_GRID and tiles(radices) + 2 < 2**31,
        ),
        Constraint(
            f"sums of all shares take at most {MOST_SUMS} bytes",
            lambda shares: 4 * shares * problem.filters * problem.taps <= MOST_SUMS,
        ),
    )


@functools.lru_cache(maxsize=64)
def _ranked(problem: Filter1d, device: Device) -> tuple[tuple[float, Config], ...]:
    """Legal configs with their expected times in ns, the fastest first."""
    shapes = {text_of(each.radices): each for each in SHAPES}

    def expected(config: Config) -> float:
        geometry = Filter1dGradientsFftGeometry.of(problem, config)
        return expected_ns(problem, geometry, shapes[config.text("radices")], device)

    return ranked_by(
        _space(problem, device), (_config(shape, shares) for shape in SHAPES for shares in SHARES), expected
    )


def _config(shape: LagShape, shares: int) -> Config:
    return Config.of(
        {
            "radices": text_of(shape.radices),
            "shares": shares,
            "min_blocks": shape.min_blocks,
            "twiddles": shape.twiddles.value,
            "prefetch": "none",
        }
    )
