"""An image in overlapping tiles, filtered by transforms in shared memory: large filters.

Source: overlap-save (Stockham 1966, "High-speed convolution and correlation"), with two real tiles as one complex one:
with a real filter it need not be taken apart, since FFT(a + i b) H is the transform of both results (section 3 of Vasilache
et al. 2014, "Fast convolutional nets with fbfft", packs images in the same way). Forward by decimation in frequency and
backward by decimation in time, so that no element ever moves to another place (Gentleman and Sande 1966).

An FFT's error is relative to the whole tile, so a problem must ask for `accuracy="imagewise"`. A NaN or an infinity spreads
over both tiles: unless the problem allows that, a block looks whether a result is not finite, and computes its tiles'
results again then, tap by tap.
"""

from __future__ import annotations

from math import prod

from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.fft.words import Twiddles
from warpsmith.generator.filter2d.overlap.geometry import Geometry, Partners, shape_of
from warpsmith.generator.filter2d.overlap.model import RADICES, RESERVED_BYTES, axes_of, likely_axes, resident
from warpsmith.generator.filter2d.overlap.text import OverlapText
from warpsmith.generator.filter2d.overlap.tile import COMPLEX_BYTES, WARP, Axis
from warpsmith.generator.filter2d.problem import MAX_WEIGHTS_BYTES, Filter2d
from warpsmith.generator.filter2d.text import Filter2dText, MemoryPath, Weights, require_filter2d, words
from warpsmith.generator.filter2d.window.geometry import StoreHint
from warpsmith.generator.problem import Accuracy, Problem
from warpsmith.generator.program import ByValue, Launch, Pointer, Program, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space

MIN_TAPS = 49
"""Fewer cost less one by one than a transform does."""
LIKELY_TAPS = 17 * 17
"""From which on it answers where nothing is stored."""
WARPS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 21, 22, 24, 26, 28, 30, 32)
MANY_WARPS, MAX_WARPS = 16, 40
"""Of a multiprocessor: what a default aims at, and what it stays below."""
OTHER_REGISTERS = 26
"""Of a thread, beside those of its points."""
START_TILES = 4
"""Sizes of tiles that a search begins with."""
_UNROLLED = {4: 8, 5: 18, 6: 26, 7: 40, 8: 32, 9: 52, 10: 60, 12: 72, 14: 110, 15: 120, 16: 96}
"""Multiply-adds that take the compiler as long as a transform of so many points."""
_USUAL = {
    "path": MemoryPath.GLOBAL.value,
    "weights": Weights.ARGUMENT.value,
    "twiddles": Twiddles.TABLE.value,
    "partners": Partners.ADJACENT.value,
    "store": StoreHint.PLAIN.value,
}
_NAMED_BARRIERS = 15
"""Of a block, beside the one of all threads (PTX ISA, bar)."""


class Filter2dOverlapSave(Family):
    """`filter2d` by transforms of tiles."""

    name = "filter2d_overlap_save"

    def why_not(self, problem: Problem, device: Device) -> str | None:
        if not isinstance(problem, Filter2d):
            return "solves filter2d only"
        if problem.accuracy is not Accuracy.IMAGEWISE:
            return f"a transform's error is relative to the whole tile, which accuracy {problem.accuracy} does not allow"
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
                Parameter("y_radices", _radices(filter2d, 0), "rows of a tile as two radices, in the order of the steps"),
                Parameter("x_radices", _radices(filter2d, 1), "columns of a tile, likewise"),
                Parameter("gaps", (0, 2, 6, 12), "percent of a tile that may be left out against bank conflicts"),
                Parameter("team", (1, 2, 4, 8, 16), "warps that share a group of columns or rows"),
                Parameter("warps", WARPS, "warps of a block"),
                Parameter("columns", (8, 16, 32, 64), "columns of a group; neighbours of a warp read neighbouring ones"),
                Parameter("rows", (8, 16, 32, 64), "rows of a group"),
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
        choices = (
            config
            for axes in likely_axes(filter2d, device)
            for config in _configs(*axes, device)
            if space.contains(config)
        )
        return next(choices, None) or next(space.configs())

    def starts(self, problem: Problem, device: Device) -> tuple[Config, ...]:
        filter2d, default = require_filter2d(problem), self.default(problem, device)
        space = self.space(problem, device)
        found = [
            config
            for axes in likely_axes(filter2d, device)[:START_TILES]
            for config in _configs(*axes, device)
            if space.contains(config) and config != default
        ]
        return tuple(dict.fromkeys(found))

    def unrolled(self, problem: Problem, config: Config) -> int:  # noqa: ARG002 - whatever is filtered
        """Each step is written out once, forward and backward."""
        shape = shape_of(config)
        radices = (shape.y.first, shape.y.second, shape.x.first, shape.x.second)
        return 2 * sum(_UNROLLED[radix] + 8 * radix for radix in radices)

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
    """Every way to take the sizes of `axes_of` apart."""
    sizes = axes_of(problem, axis)
    found = (Axis(size // second, second) for size in sizes for second in RADICES if size % second == 0)
    return tuple(each.text for each in found if each.first in RADICES)


def _configs(y: Axis, x: Axis, device: Device) -> list[Config]:
    """Tiles of these sizes as teams of some widths would do them, the likeliest first; not all are legal."""
    blocks = resident(y.points * x.points, device)
    found = []
    for team, columns, rows in ((1, 16, 16), (2, 16, 16), (1, 8, 8), (2, 32, 32), (1, 32, 32)):
        groups = max(-(-x.points // columns), -(-y.points // rows))
        for teams in dict.fromkeys((groups, -(-groups // 2))):
            warps = team * teams
            if warps * blocks > MAX_WARPS:
                continue
            shape = {"y_radices": y.text, "x_radices": x.text, "gaps": 2 if min(y.points, x.points) > 50 else 6}
            work = {"team": team, "warps": warps, "columns": columns, "rows": rows, "min_blocks": 0}
            found.append(Config.of({**_USUAL, **shape, **work}))
    return sorted(found, key=lambda config: abs(config.integer("warps") * blocks - MANY_WARPS))


def _constraints(device: Device) -> tuple[Constraint, ...]:
    limit = device.shared_per_block_bytes

    def room(y_radices: str, x_radices: str, gaps: int) -> int:
        points = Axis.of(y_radices).points * Axis.of(x_radices).points
        return COMPLEX_BYTES * (points + points * gaps // 100)

    def registers(y_radices: str, x_radices: str) -> int:
        axes = Axis.of(y_radices), Axis.of(x_radices)
        return 2 * max(radix for axis in axes for radix in (axis.first, axis.second)) + OTHER_REGISTERS

    return (
        Constraint(
            f"a tile with its gaps fits {limit} bytes of shared memory",
            lambda y_radices, x_radices, gaps: room(y_radices, x_radices, gaps) <= limit,
        ),
        Constraint("a block is whole teams", lambda team, warps: warps % team == 0),
        Constraint(
            f"teams of several warps that are not the block have a barrier each, of {_NAMED_BARRIERS}",
            lambda team, warps: team in (1, warps) or warps // team <= _NAMED_BARRIERS,
        ),
        Constraint(
            "at most a third of the teams' rounds over the columns is idle",
            lambda x_radices, team, warps, columns: _is_busy(Axis.of(x_radices).points, columns, warps // team),
        ),
        Constraint(
            "at most a third of the teams' rounds over the rows is idle",
            lambda y_radices, team, warps, rows: _is_busy(Axis.of(y_radices).points, rows, warps // team),
        ),
        Constraint(
            f"twice its points and {OTHER_REGISTERS} registers a thread fit a multiprocessor of "
            f"{device.registers_per_multiprocessor} so often",
            lambda y_radices, x_radices, warps, min_blocks: (
                registers(y_radices, x_radices) * WARP * warps * max(1, min_blocks)
                <= device.registers_per_multiprocessor
            ),
        ),
        Constraint(
            f"a multiprocessor holds {device.threads_per_multiprocessor} threads and "
            f"{device.shared_per_multiprocessor_bytes} bytes of shared memory",
            lambda y_radices, x_radices, gaps, warps, min_blocks: (
                min_blocks * WARP * warps <= device.threads_per_multiprocessor
                and min_blocks * (room(y_radices, x_radices, gaps) + RESERVED_BYTES)
                <= max(device.shared_per_multiprocessor_bytes, min_blocks and limit + RESERVED_BYTES)
            ),
        ),
    )


def _is_busy(points: int, group: int, teams: int) -> bool:
    """Whether teams have work in two of three places."""
    rounds = -(-points // (group * teams))
    return 3 * points >= 2 * rounds * group * teams
