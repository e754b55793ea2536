"""Geometry of `filter1d_toeplitz_channels`: warps side by side across the channels, which walk along the signal."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.toeplitz_geometry import (
    STEP,
    Product,
    Split,
    products_of,
    sample_parts,
    tap_parts,
    top_of,
)
from warpsmith.generator.space import Config

COLUMNS = 16
"""Channels of a warp, which have one filter: N of two mma.m16n8k16."""
STRIP_OUTPUTS = 16
"""Outputs of each channel of a strip: M of mma.m16n8k16."""
VECTOR = 8
"""Channels of a load: 16 bytes."""


def channel_steps(problem: Filter1d) -> int:
    """Products along the windows of a strip."""
    return -(-(problem.taps + STRIP_OUTPUTS - 1) // STEP)


def ring_of(steps: int, chunk: int) -> int:
    """Steps of samples that a warp keeps in registers: whole chunks."""
    return -(-steps // chunk) * chunk


@dataclasses.dataclass(frozen=True, slots=True)
class Filter1dToeplitzChannelsGeometry:
    """Geometry of one config on one problem."""

    split: Split
    products: tuple[Product, ...]
    sample_parts: int
    tap_parts: int
    sums: int
    """Accumulators of a strip and 8 channels."""
    steps: int
    """Products along the windows of a strip."""
    chunk: int
    """Steps of 16 samples that a block loads at once."""
    ring: int
    """Steps of samples that a warp keeps in registers, and steps of an unrolled iteration: whole chunks."""
    warps: int
    channel_blocks: int
    """Blocks across the channels."""
    time_blocks: int
    """Blocks along a signal."""
    strips: int
    """Strips of a block, one after the other."""
    blocks: int
    min_blocks: int

    @classmethod
    def of(cls, problem: Filter1d, config: Config) -> Filter1dToeplitzChannelsGeometry:
        split, steps = Split(config.text("split")), channel_steps(problem)
        chunk, warps, segments = (config.integer(name) for name in ("chunk", "warps", "segments"))
        products, strips = products_of(problem, split), -(-problem.result_length // STRIP_OUTPUTS)
        own = -(-strips // segments)
        channel_blocks, time_blocks = -(-problem.channels // (COLUMNS * warps)), -(-strips // own)
        return cls(
            split=split,
            products=products,
            sample_parts=sample_parts(problem, split),
            tap_parts=tap_parts(problem, split),
            sums=1 + max(each.accumulator for each in products),
            steps=steps,
            chunk=chunk,
            ring=ring_of(steps, chunk),
            warps=warps,
            channel_blocks=channel_blocks,
            time_blocks=time_blocks,
            strips=own,
            blocks=channel_blocks * time_blocks * problem.batch,
            min_blocks=config.integer("min_blocks"),
        )

    @property
    def is_scaled(self) -> bool:
        """True if samples are scaled; 16-bit samples are not."""
        return False

    @property
    def are_taps_scaled(self) -> bool:
        """True if the taps are scaled before they are split."""
        return self.tap_parts > 1

    @property
    def tap_top(self) -> int:
        """Exponent of the largest tap after scaling. bfloat16 samples may be as large as float32, and the
        scale of the largest tap must be a normal float.
        """
        return 1 if self.split is Split.BFLOATS else top_of(self.split)
