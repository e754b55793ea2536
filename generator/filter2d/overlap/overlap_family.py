"""Large filters by transforms of overlapping image tiles in shared memory (overlap-save).

Source: overlap-save (Stockham 1966, "High-speed convolution and correlation"), with two real tiles as one complex tile.
With a real filter the spectrum need not be split, since FFT(a + i b) H is the transform of both results. The forward
transform is by decimation in frequency (Gentleman and Sande 1966, "Fast Fourier transforms: for fun and profit"), the
inverse by decimation in time, so that no element ever moves to another place.

An FFT's error is relative to the whole tile, so a problem must ask for `accuracy="imagewise"`. A NaN or an infinity
spreads over both tiles. Unless the problem allows that, a block checks whether a result is not finite, and then
computes its tiles' results again, tap by tap.
"""

from __future__ import annotations

from math import prod

from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.fft.words import Twiddles
from warpsmith.generator.filter2d.overlap.overlap_geometry import Geometry, Partners
from warpsmith.generator.filter2d.overlap.overlap_model import likely_axes, sizes
from warpsmith.generator.filter2d.problem import Filter2d
from warpsmith.generator.filter2d.text import (
    Filter2dText,
    MemoryPath,
    Weights,
    too_many_weights,
    words,
)
from warpsmith.generator.filter2d.window.window_geometry import StoreHint
from warpsmith.generator.problem import Accuracy
from warpsmith.generator.program import ByValue, Launch, Pointer, Program, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Parameter, Space, Value
from warpsmith.generator.tiles.space import likely_values, tile_constraints, tile_parameters, unrolled
from warpsmith.generator.tiles.text import TileText
from warpsmith.generator.tiles.tile import Axis

MIN_TAPS = 49
"""Least taps: fewer taps cost less one by one than a transform does."""
LIKELY_TAPS = 17 * 17
"""Taps from which on the family is likely, and answers if nothing is stored."""
START_TILES = 4
"""Tile sizes that a search begins with."""
STARTS = 3
"""Starting configs for each tile size."""
_USUAL: dict[str, Value] = {
    "path": MemoryPath.GLOBAL.value,
    "weights": Weights.ARGUMENT.value,
    "ahead": 1,
    "partners": Partners.ADJACENT.value,
    "store": StoreHint.PLAIN.value,
}


_CHANGES: tuple[dict[str, Value], ...] = (
    {"ahead": 0},
    {"twiddles": Twiddles.POWERS.value},
    {"store": StoreHint.STREAMING.value},
)
"""Changes to the default config that are worth a try."""


class Filter2dOverlapSave(Family[Filter2d]):
    """`filter2d` by transforms of tiles."""

    name = "filter2d_overlap_save"

    def why_not(self, problem: Filter2d, device: Device) -> str | None:
        if problem.accuracy is not Accuracy.IMAGEWISE:
            return "has errors relative to its whole tile: accuracy imagewise"
        if problem.channels > 1:
            return "transforms images of one channel"
        if prod(problem.filter) < MIN_TAPS:
            return f"a filter of fewer than {MIN_TAPS} taps costs less tap by tap"
        if told := too_many_weights(problem, pointers=3):
            return told
        if not likely_axes(problem, device):
            r, s = problem.filter
            return f"no tile for a filter of {r}x{s} fits {device.shared_per_block_bytes} bytes of shared memory"
        return None

    def is_likely(self, problem: Filter2d, device: Device) -> bool:
        """More taps make a transform save more."""
        return device.kind is DeviceKind.CUDA and prod(problem.filter) >= LIKELY_TAPS

    def space(self, problem: Filter2d, device: Device) -> Space:
        return Space(
            parameters=(
                Parameter("path", words((MemoryPath.GLOBAL,)), "how pixels come from the image to a thread"),
                Parameter("weights", words((Weights.ARGUMENT,)), "where the spectrum's kernel finds the weights"),
                *tile_parameters(sizes(problem, 0), sizes(problem, 1)),
                Parameter("ahead", (0, 1), "1 reads the filter's spectrum before the transform that it multiplies"),
                Parameter("partners", words(Partners), "which two tiles are one complex tile"),
                Parameter("store", words(StoreHint), "streaming marks the result as evicted first from L2"),
            ),
            constraints=tile_constraints(device),
        )

    def default(self, problem: Filter2d, device: Device) -> Config:
        space = self.space(problem, device)
        choices = (each for axes in likely_axes(problem, device) for each in _configs(*axes, device))
        return next((config for config in choices if space.contains(config)), None) or next(space.configs())

    def starts(self, problem: Filter2d, device: Device) -> tuple[Config, ...]:
        space, default = self.space(problem, device), self.default(problem, device)
        found = [Config.of({**default.values(), **change}) for change in _CHANGES]
        for axes in likely_axes(problem, device)[:START_TILES]:
            found += [each for each in _configs(*axes, device) if space.contains(each)][:STARTS]
        return tuple(dict.fromkeys(each for each in found if each != default))

    def unrolled(self, problem: Filter2d, config: Config) -> int:
        """Unrolled work: each pass is written out forward and backward."""
        return unrolled(Axis.of(config.text("y_radices")), Axis.of(config.text("x_radices")))

    def program(self, problem: Filter2d, config: Config) -> Program:
        geometry = Geometry.of(problem, config)
        passes = geometry.passes
        source = render(
            "filter2d/overlap.cu.jinja",
            p=Filter2dText.of(problem),
            g=TileText(passes),
            at=geometry,
            config=config.key(),
        )
        weights = ByValue("weights")
        spectrum = Launch(
            entry=f"{self.name}_spectrum",
            grid=(passes.spectrum_blocks * geometry.filters, 1, 1),
            block=(passes.spectrum_threads, 1, 1),
            arguments=(Pointer("spectra"), weights),
        )
        tiles = Launch(
            entry=self.name,
            grid=(geometry.blocks, 1, 1),
            block=(passes.threads, 1, 1),
            arguments=(Pointer("image"), Pointer("result"), Pointer("spectra"), weights),
            shared_bytes=passes.shared_bytes,
        )
        workspace = Workspace("spectra", geometry.spectrum_bytes, holds=("weights",))
        return Program.of_source(self.name, config, source, (spectrum, tiles), (workspace,))


def _configs(y: Axis, x: Axis, device: Device) -> list[Config]:
    """Configs for tiles of these sizes, the likeliest first; not all are legal."""
    return [Config.of({**_USUAL, **values}) for values in likely_values(y, x, device)]
