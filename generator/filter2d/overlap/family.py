"""An image in overlapping tiles, filtered by transforms in shared memory: large filters.

Source: overlap-save (Stockham 1966, "High-speed convolution and correlation"), with two real tiles as one complex one:
with a real filter it need not be taken apart, since FFT(a + i b) H is the transform of both results. Forward by
decimation in frequency (Gentleman and Sande 1966, "Fast Fourier transforms: for fun and profit") and backward by
decimation in time, so that no element ever moves to another place.

An FFT's error is relative to the whole tile, so a problem must ask for `accuracy="imagewise"`. A NaN or an infinity
spreads over both tiles: unless the problem allows that, a block looks whether a result is not finite, and computes its
tiles' results again then, tap by tap.
"""

from __future__ import annotations

import itertools
import math
from math import prod

from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.fft.words import Twiddles
from warpsmith.generator.filter2d.overlap.geometry import Partners
from warpsmith.generator.filter2d.overlap.model import (
    GAPS,
    GROUPS,
    INSTRUCTIONS,
    MOST_CORNERS,
    RESERVED_BYTES,
    axes_of_columns,
    axes_of_rows,
    idle,
    likely_axes,
    resident,
    sizes,
)
from warpsmith.generator.filter2d.overlap.text import OverlapText
from warpsmith.generator.filter2d.overlap.tile import COMPLEX_BYTES, WARP, Axis, TileShape, fitted, turns
from warpsmith.generator.filter2d.problem import MAX_WEIGHTS_BYTES, Filter2d
from warpsmith.generator.filter2d.text import Filter2dText, MemoryPath, Weights, require_filter2d, words
from warpsmith.generator.filter2d.window.geometry import StoreHint
from warpsmith.generator.problem import Accuracy, Problem
from warpsmith.generator.program import ByValue, Launch, Pointer, Program, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

MIN_TAPS = 49
"""Fewer cost less one by one than a transform does."""
LIKELY_TAPS = 17 * 17
"""From which on it answers where nothing is stored."""
WARPS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 18, 20, 21, 24, 28, 32)
MANY_WARPS = 15
"""Of a multiprocessor: what a default aims at."""
OTHER_REGISTERS = 30
"""Of a thread, beside those of its points."""
MOST_IDLE = 0.5
"""Share of a warp's turns without work, up to which a config is legal."""
START_TILES = 4
"""Sizes of tiles that a search begins with."""
STARTS = 3
"""Configs of each."""
_USUAL: dict[str, Value] = {
    "path": MemoryPath.GLOBAL.value,
    "weights": Weights.ARGUMENT.value,
    "ahead": 1,
    "min_blocks": 0,
    "twiddles": Twiddles.TABLE.value,
    "partners": Partners.ADJACENT.value,
    "store": StoreHint.PLAIN.value,
}


class Filter2dOverlapSave(Family):
    """`filter2d` by transforms of tiles."""

    name = "filter2d_overlap_save"

    def why_not(self, problem: Problem, device: Device) -> str | None:
        if not isinstance(problem, Filter2d):
            return "solves filter2d only"
        if problem.accuracy is not Accuracy.IMAGEWISE:
            return f"a transform's error is relative to its whole tile, which is not what {problem.accuracy} means"
        if problem.channels > 1:
            return "transforms images of one channel"
        if prod(problem.filter) < MIN_TAPS:
            return f"a filter of fewer than {MIN_TAPS} taps costs less tap by tap"
        if problem.filters * prod(problem.filter) * 4 > MAX_WEIGHTS_BYTES - 8:
            return "the weights and three pointers are too large for a kernel's parameters"
        if not likely_axes(problem, device):
            r, s = problem.filter
            return f"no tile for a filter of {r}x{s} fits {device.shared_per_block_bytes} bytes of shared memory"
        return None

    def is_likely(self, problem: Problem, device: Device) -> bool:
        """The more taps there are, the more a transform saves."""
        return device.kind is DeviceKind.CUDA and prod(require_filter2d(problem).filter) >= LIKELY_TAPS

    def space(self, problem: Problem, device: Device) -> Space:
        filter2d = require_filter2d(problem)
        return Space(
            parameters=(
                Parameter("path", words((MemoryPath.GLOBAL,)), "how pixels come from the image to a thread"),
                Parameter("weights", words((Weights.ARGUMENT,)), "where the spectrum's kernel finds the weights"),
                Parameter("y_radices", _radices(filter2d, 0), "rows of a tile as two radices, in the order of passes"),
                Parameter("x_radices", _radices(filter2d, 1), "columns of a tile, likewise"),
                Parameter("gaps", GAPS, "percent of a tile that may be left out against bank conflicts"),
                Parameter("group", GROUPS, "values of the first digit of rows that a warp transforms at a time"),
                Parameter("warps", WARPS, "warps of a block"),
                Parameter("ahead", (0, 1), "1 reads the filter's spectrum before the transform that it multiplies"),
                Parameter("min_blocks", (0, 2, 3, 4, 6), "blocks a multiprocessor must hold; 0 leaves it open"),
                Parameter("twiddles", words((Twiddles.TABLE, Twiddles.POWERS)), "all from memory, or some as products"),
                Parameter("partners", words(Partners), "which two tiles are one complex tile"),
                Parameter("store", words(StoreHint), "streaming marks the result as evicted first from L2"),
            ),
            constraints=_constraints(device),
        )

    def default(self, problem: Problem, device: Device) -> Config:
        filter2d = require_filter2d(problem)
        space = self.space(problem, device)
        choices = (each for axes in likely_axes(filter2d, device) for each in _configs(*axes, device))
        return next((config for config in choices if space.contains(config)), None) or next(space.configs())

    def starts(self, problem: Problem, device: Device) -> tuple[Config, ...]:
        filter2d = require_filter2d(problem)
        space, default = self.space(problem, device), self.default(problem, device)
        found: list[Config] = []
        for axes in likely_axes(filter2d, device)[:START_TILES]:
            found += [each for each in _configs(*axes, device) if space.contains(each)][:STARTS]
        return tuple(dict.fromkeys(each for each in found if each != default))

    def unrolled(self, problem: Problem, config: Config) -> int:  # noqa: ARG002 - whatever is filtered
        """Each pass is written out forward and backward."""
        y, x = Axis.of(config.text("y_radices")), Axis.of(config.text("x_radices"))
        corners = x.first * INSTRUCTIONS[y.second] + y.second * (INSTRUCTIONS[x.first] + 4 * x.first)
        return INSTRUCTIONS[y.first] + 4 * y.first + corners + INSTRUCTIONS[x.second]

    def program(self, problem: Problem, config: Config) -> Program:
        filter2d = require_filter2d(problem)
        text = OverlapText.of(filter2d, config)
        geometry = text.geometry
        source = render("filter2d/overlap.cu.jinja", p=Filter2dText.of(filter2d), g=text, config=config.key())
        weights = ByValue("weights")
        spectrum = Launch(
            entry=f"{self.name}_spectrum",
            grid=(geometry.x.points * geometry.filters, 1, 1),
            block=(geometry.spectrum_threads, 1, 1),
            arguments=(Pointer("spectra"), weights),
        )
        tiles = Launch(
            entry=self.name,
            grid=(geometry.blocks, 1, 1),
            block=(geometry.threads, 1, 1),
            arguments=(Pointer("image"), Pointer("result"), Pointer("spectra"), weights),
            shared_bytes=geometry.shared_bytes,
        )
        workspace = Workspace("spectra", geometry.spectrum_bytes)
        return Program.of_source(self.name, config, source, (spectrum, tiles), (workspace,))


def _radices(problem: Filter2d, axis: int) -> tuple[str, ...]:
    """Every way to take the axis's sizes apart."""
    axes = (axes_of_columns, axes_of_rows)[axis]
    return tuple(each.text for size in sizes(problem, axis) for each in axes(size))


def _configs(y: Axis, x: Axis, device: Device) -> list[Config]:
    """Tiles of these sizes as blocks of some widths would do them, the likeliest first; not all are legal."""
    blocks = resident(y.points * x.points, device)
    found = []
    for gaps, group in itertools.product(GAPS, GROUPS):
        shape = TileShape(y, x, group, gaps)
        layout = fitted(shape)
        lost = turns(shape, layout) * (1 if resident(layout.elements(shape), device) == blocks else 2)
        for warps in WARPS:
            distance = abs(math.log2(warps * blocks / MANY_WARPS))
            cost = lost * (1 + idle(shape, warps)) * (1 + distance / 2)
            values: dict[str, Value] = {
                "y_radices": y.text,
                "x_radices": x.text,
                "gaps": gaps,
                "group": group,
                "warps": warps,
            }
            found.append((cost, Config.of({**_USUAL, **values})))
    return [config for _, config in sorted(found, key=lambda each: each[0])]


def _constraints(device: Device) -> tuple[Constraint, ...]:
    limit, whole = device.shared_per_block_bytes, device.shared_per_multiprocessor_bytes

    def room(y_radices: str, x_radices: str, gaps: int) -> int:
        points = Axis.of(y_radices).points * Axis.of(x_radices).points
        return COMPLEX_BYTES * (points + points * gaps // 100)

    def shape(y_radices: str, x_radices: str, group: int = 1, gaps: int = 0) -> TileShape:
        return TileShape(Axis.of(y_radices), Axis.of(x_radices), group, gaps)

    return (
        Constraint(
            f"a thread transforms at most {MOST_CORNERS} points at once",
            lambda y_radices, x_radices: Axis.of(y_radices).second * Axis.of(x_radices).first <= MOST_CORNERS,
        ),
        Constraint(
            f"a tile with its gaps fits {limit} bytes of shared memory",
            lambda y_radices, x_radices, gaps: room(y_radices, x_radices, gaps) <= limit,
        ),
        Constraint(
            "a group has no more values than the digit", lambda y_radices, group: group <= Axis.of(y_radices).first
        ),
        Constraint(
            f"a warp has work in {100 - round(100 * MOST_IDLE)} of 100 turns",
            lambda y_radices, x_radices, group, warps: idle(shape(y_radices, x_radices, group), warps) <= MOST_IDLE,
        ),
        Constraint(
            f"twice its points and {OTHER_REGISTERS} registers a thread fit a multiprocessor of "
            f"{device.registers_per_multiprocessor} so often",
            lambda y_radices, x_radices, warps, min_blocks: (
                (2 * shape(y_radices, x_radices).most_points + OTHER_REGISTERS) * WARP * warps * max(1, min_blocks)
                <= device.registers_per_multiprocessor
            ),
        ),
        Constraint(
            f"a multiprocessor holds {device.threads_per_multiprocessor} threads and {whole} bytes of shared memory",
            lambda y_radices, x_radices, gaps, warps, min_blocks: (
                max(1, min_blocks) * WARP * warps <= device.threads_per_multiprocessor
                and (min_blocks < 2 or min_blocks * (room(y_radices, x_radices, gaps) + RESERVED_BYTES) <= whole)
            ),
        ),
    )
