"""Expected times of the image side of `conv2d_pointwise`.

The figures were fitted to 152 configs by wgmma and 118 by mma, of 11 layers (H200, 2026-11-28): the
times are within a tenth in the root mean square.
"""

from __future__ import annotations

import dataclasses

from warpsmith.generator.conv2d.products.pointwise.pointwise_image_geometry import PointwiseImageGeometry
from warpsmith.generator.conv2d.products.split16.split16_model import CLOCK_SHARE
from warpsmith.generator.device import REFERENCE, Device
from warpsmith.generator.tensor_cores import TensorType, instruction_of

MEMORY_SHARE = 3900 / REFERENCE.memory_bytes_per_ns
"""Share of the memory rate that pixels and results reach together."""
L2_SHARE = 5200 / REFERENCE.l2_bytes_per_ns
"""Share of the L2 rate that pixels, each read once for each tile of channels, and results reach together."""
WEIGHT_CYCLES = 120.0
"""Clock cycles for each weight of a thread, which all threads of a block load and split before the first product."""
SCHEDULERS = 4
"""Schedulers of an SM; each issues an instruction of a warp per clock cycle."""


@dataclasses.dataclass(frozen=True, slots=True)
class Costs:
    """Issue slots and latencies in clock cycles of one way to multiply, for steps of 32 terms."""

    begin_ns: float
    """Nanoseconds of the launch, the first stage and the last stores."""
    latency: float
    """Cycles of a step of a block, or warpgroup, that has an SM for itself."""
    split: float
    """Slots to split 16 pixels."""
    copy: float
    """Slots to copy 16 pixels, 4 at once."""
    product: float
    """Slots for each 16 x 8 sums by 32 terms."""
    store: float
    """Slots for each 128 results, if adjacent ones are stored at once."""
    alone: float
    """How many times as long results take that are stored one by one."""
    hidden: float
    """Share of the shorter one of copying and computing that the longer one does not hide."""


MMA = Costs(begin_ns=4100, latency=1020, split=300, copy=142, product=70, store=51, alone=4, hidden=0.0)
WGMMA = Costs(begin_ns=3000, latency=880, split=222, copy=55, product=26.6, store=22.4, alone=16, hidden=0.26)


def image_ns(geometry: PointwiseImageGeometry, device: Device) -> float:
    """Nanoseconds of the launch: those of the SM with the most blocks."""
    tile, rates = geometry.tile, device.rates.of_multiprocessor(CLOCK_SHARE)
    costs = MMA if tile.warps == 1 else WGMMA
    own = -(-geometry.blocks // device.multiprocessors)  # blocks of the busiest SM
    together = min(own, geometry.min_blocks)
    rounds = -(-own // geometry.min_blocks)
    step_cycles = _step_cycles(geometry, costs, together)
    terms, columns = 32 * _steps(geometry), tile.all_columns
    products = (2 * geometry.parts - 1) * tile.all_rows * columns * terms
    tensor_ns = products / rates.tensor_multiply_adds_per_ns(instruction_of(TensorType.F16, tile.warps))
    computing_ns = own * geometry.tiles * max(rates.cycles_ns(_steps(geometry) * step_cycles), tensor_ns)
    weights = tile.all_rows * geometry.terms / tile.threads
    copying_ns = _copying_ns(geometry, device)
    long, short = max(computing_ns, copying_ns), min(computing_ns, copying_ns)
    begin_ns = costs.begin_ns + rounds * rates.cycles_ns(weights * WEIGHT_CYCLES)
    return begin_ns + long + costs.hidden * short


def _steps(geometry: PointwiseImageGeometry) -> float:
    """Steps of 32 terms per tile."""
    return geometry.steps * geometry.channels / 32


def _step_cycles(geometry: PointwiseImageGeometry, costs: Costs, together: int) -> float:
    """Clock cycles of an SM for a step of one block, if `together` blocks share it."""
    tile, by_fours = geometry.tile, 4 / geometry.vector
    parts = tile.all_columns / 16 * tile.reads
    split = parts * (costs.split * (0.5 + geometry.parts / 4) + costs.copy * by_fours)
    multiplied = costs.product * tile.all_rows * tile.all_columns / 128
    alone = costs.alone if geometry.vector == 1 and not geometry.stores_pairs else 1.0
    stored = costs.store * alone * tile.all_rows * tile.all_columns / 128 / _steps(geometry)
    return max((split + multiplied + stored) / SCHEDULERS, costs.latency / together)


def _copying_ns(geometry: PointwiseImageGeometry, device: Device) -> float:
    """Nanoseconds in which the device moves pixels and results."""
    read = 4.0 * geometry.columns * geometry.terms
    written = 4.0 * geometry.written
    again = geometry.row_tiles * geometry.tile.reads
    memory_ns = (read + written) / (MEMORY_SHARE * device.rates.memory_bytes_per_ns)
    return max(memory_ns, (read * again + written) / (L2_SHARE * device.rates.l2_bytes_per_ns))
