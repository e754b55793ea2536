"""Two long signals with each other, few lags: products of spectra that stay in registers, one inverse a thread block.

The taps are the second signal. A group of lags needs, for a tile of taps, a tile of samples that is longer by the lags
of the group. A thread block transforms both, multiplies them, and adds the products of all tiles of its share in
registers, so that it needs one inverse. A second launch adds the sums of all shares as a tree, in an order that does
not change. Tiles that meet no sample are never computed. Many lags make many groups: this is the document's first
method, block by block, with its accumulation moved before the inverse.

Two consecutive tiles of a signal, real ones, are the real and the imaginary part of a line, z = x1 + i x2 and w1 + i w2
for the taps. The real part of the correlation of both lines is that of x1 with w1 plus that of x2 with w2, all that
is needed; the imaginary part is dropped. The signal and the taps never share a line, nor do two channels, so that no
scale reaches another.

An FFT's error is relative to its whole tile, so a problem must allow `accuracy="signalwise"`. Outputs that are not
finite are summed again from their windows alone.

Source: "Parallel filters", section 4.3, convolution in parts: few of all pairs of blocks interact, and sums of products
are transformed back once.
"""

from __future__ import annotations

import functools

from warpsmith.generator.architectures import MAX_GRID
from warpsmith.generator.device import Device
from warpsmith.generator.fft.text import Twiddles
from warpsmith.generator.filter1d.defaults import RankedFamily
from warpsmith.generator.filter1d.fft_family import LEAST_TAPS
from warpsmith.generator.filter1d.fft_geometry import span_of
from warpsmith.generator.filter1d.fields import SignalLayout
from warpsmith.generator.filter1d.gates import why_no_gates
from warpsmith.generator.filter1d.lags_geometry import (
    ADDING_THREADS,
    Filter1dLagsGeometry,
    lags_of_group,
    number_bytes,
    shared_bytes,
    tile_taps,
)
from warpsmith.generator.filter1d.lags_model import (
    SHAPES,
    LagShape,
    expected_ns,
    registers_of,
    share_counts,
    usual_shares,
)
from warpsmith.generator.filter1d.overlap import ceil_div
from warpsmith.generator.filter1d.parts_text import PartsText
from warpsmith.generator.filter1d.plain_family import CHAIN
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.states import why_no_state
from warpsmith.generator.filter1d.text import DEFAULT_REACH, Filter1dText, Weights, is_strict, why_no_gradient
from warpsmith.generator.problem import Accuracy, DType
from warpsmith.generator.program import Argument, Launch, Pointer, Program, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value, words
from warpsmith.generator.tiles.lines import points_of, radices_of, text_of
from warpsmith.generator.tiles.space import INSTRUCTIONS

MIN_BLOCKS = (0, 1, 2, 3, 4, 6, 8, 12)
RADICES = ("32x8", "8x8x8", "16x8x8", "8x16x8", "8x8x16", "16x16x8", "16x8x16", "16x16x16", "32x16x16")
"""Points of lines. A thread has one transform of the last pass, and three times as many complex numbers in registers as
that has points."""
MOST_SUMS = 1 << 33
"""Most bytes of all shares' sums."""


class Filter1dLags(RankedFamily):
    """`filter1d` of two long signals by tiles whose products are added before the inverse transform."""

    name = "filter1d_lags"
    default_reach = DEFAULT_REACH

    def why_not(self, problem: Filter1d, device: Device) -> str | None:
        if (reason := why_no_gradient(problem) or why_no_state(problem) or why_no_gates(problem)) is not None:
            return reason
        if problem.accuracy is not Accuracy.SIGNALWISE:
            return "has errors relative to the whole signal: accuracy signalwise"
        if problem.layout is not SignalLayout.BCT:
            return "loads samples of a channel that lie side by side: layout bct"
        if problem.taps < LEAST_TAPS:
            return f"a filter of fewer than {LEAST_TAPS} taps costs less tap by tap"
        if not _ranked(problem, device):
            return f"a grid and its sums do not fit {problem.rows} channels of {problem.result_length} outputs"
        return None

    def ranked(self, problem: Filter1d, device: Device) -> tuple[tuple[float, Config], ...]:
        return _ranked(problem, device)

    def space(self, problem: Filter1d, device: Device) -> Space:
        return _space(problem, device)

    def starts(self, problem: Filter1d, device: Device) -> tuple[Config, ...]:
        """Configs of all likely sizes, and the default with other twiddles and another number of shares."""
        space, default = self.space(problem, device), self.default(problem, device)
        counts = share_counts(device)
        place = counts.index(default.integer("shares"))
        changes: list[dict[str, Value]] = [{"twiddles": each.value} for each in _TWIDDLES]
        changes += [{"prefetch": "next"}, {"min_blocks": 0}]
        changes += [{"shares": counts[each]} for each in (place - 1, place + 1) if 0 <= each < len(counts)]
        found = [config for _, config in _ranked(problem, device)[1:]]
        found += [Config.of({**default.values(), **change}) for change in changes]
        return tuple(each for each in dict.fromkeys(found) if each != default and space.contains(each))

    def unrolled(self, problem: Filter1d, config: Config) -> int:
        radices = radices_of(config.text("radices"))
        return 2 * sum(INSTRUCTIONS[radix] for radix in (*radices, radices[-1]))

    def program(self, problem: Filter1d, config: Config) -> Program:
        geometry = Filter1dLagsGeometry.of(problem, config)
        strict = is_strict(problem)
        source = render(
            "filter1d/lags.cu.jinja",
            p=Filter1dText.of(problem),
            g=PartsText.of(geometry.lines, geometry.twiddles),
            at=geometry,
            config=config.key(),
            strict=strict,
            chain=CHAIN,
        )
        taps: tuple[Argument, ...] = () if problem.weights is not None else (Pointer("weights"),)
        bias: tuple[Argument, ...] = (Pointer("bias"),) if problem.bias else ()
        again = (Pointer("signal"), *taps) if strict else ()
        first = Launch(
            self.name,
            (geometry.blocks, 1, 1),
            (geometry.lines.threads, 1, 1),
            (Pointer("signal"), Pointer("sums"), *taps),
            geometry.lines.shared_bytes,
        )
        second = Launch.of_blocks(
            f"{self.name}_add",
            geometry.rows * geometry.row_adders,
            ADDING_THREADS,
            (Pointer("sums"), Pointer("result"), *again, *bias),
        )
        workspaces = (Workspace("sums", geometry.sums * number_bytes(problem)),)
        return Program.of_source(self.name, config, source, (first, second), workspaces)


_TWIDDLES = (Twiddles.TABLE, Twiddles.POWERS)


@functools.lru_cache(maxsize=256)
def _space(problem: Filter1d, device: Device) -> Space:
    return Space(
        parameters=(
            Parameter("weights", words((Weights.GLOBAL,)), "where the kernel finds the taps"),
            Parameter("radices", RADICES, "points of a line, as radices of passes"),
            Parameter("shares", share_counts(device), "thread blocks that share the tiles of a group of lags"),
            Parameter("min_blocks", MIN_BLOCKS, "blocks a multiprocessor must hold; 0 leaves it open"),
            Parameter("twiddles", words(_TWIDDLES), "from memory, or some as products"),
            Parameter("prefetch", ("none", "next"), "next prefetches the next line of a thread block into L2"),
        ),
        constraints=_constraints(problem, device),
    )


def _constraints(problem: Filter1d, device: Device) -> tuple[Constraint, ...]:
    limit, whole = device.shared_per_block_bytes, device.shared_per_multiprocessor_bytes
    registers, threads_limit = device.registers_per_multiprocessor, device.threads_per_multiprocessor
    reserved, packed = device.limits.reserved_shared_bytes, 1 if problem.dtype is DType.COMPLEX64 else 2

    def blocks(radices: str, shares: int) -> int:
        return problem.rows * ceil_div(span_of(problem), lags_of_group(problem, points_of(radices))) * shares

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
        Constraint(
            f"a share has a line of tiles at least, of {problem.taps} taps",
            lambda radices, shares: shares <= ceil_div(problem.taps, packed * tile_taps(problem, points_of(radices))),
        ),
        Constraint(
            f"lines have at most twice the points that {problem.taps} taps and {span_of(problem)} lags need",
            lambda radices: points_of(radices) <= max(_LEAST_POINTS, 2 * (problem.taps + span_of(problem))),
        ),
        Constraint(
            f"a grid has at most {MAX_GRID} blocks, for {problem.rows} channels",
            lambda radices, shares: max(blocks(radices, shares), problem.output.size) <= MAX_GRID,
        ),
        Constraint(
            f"sums of all shares take at most {MOST_SUMS} bytes",
            lambda radices, shares: (
                blocks(radices, shares) * lags_of_group(problem, points_of(radices)) * number_bytes(problem)
                <= MOST_SUMS
            ),
        ),
    )


_LEAST_POINTS = 512
"""Points of a line that are never too many."""


@functools.lru_cache(maxsize=64)
def _ranked(problem: Filter1d, device: Device) -> tuple[tuple[float, Config], ...]:
    """A legal config of each shape with its expected time in ns, the fastest first."""
    space, found = _space(problem, device), []
    for shape in SHAPES:
        config = _config(shape, 1)
        shares = usual_shares(Filter1dLagsGeometry.of(problem, config), device)
        config = _config(shape, shares)
        if space.contains(config):
            geometry = Filter1dLagsGeometry.of(problem, config)
            found.append((expected_ns(problem, geometry, shape, device), config))
    return tuple(sorted(found, key=lambda each: (each[0], each[1].key())))


def _config(shape: LagShape, shares: int) -> Config:
    return Config.of(
        {
            "weights": Weights.GLOBAL.value,
            "radices": text_of(shape.radices),
            "shares": shares,
            "min_blocks": shape.min_blocks,
            "twiddles": shape.twiddles.value,
            "prefetch": "none",
        }
    )
