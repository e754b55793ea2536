"""Expected times of `conv2d_gather`.

Its figures were fitted to 502 configs of 18 layers of 1 to 48 channels (H200, 2026-11-30): within 0.14 in the root mean
square. The config that they choose takes 1.02 times the best one's time in the mean, and 1.10 at most.
"""

from __future__ import annotations

from warpsmith.generator.conv2d.products.pointwise.pointwise_model import weight_copying_ns, weight_sums_ns
from warpsmith.generator.conv2d.products.pointwise.pointwise_weight_geometry import PointwiseWeightGeometry
from warpsmith.generator.conv2d.products.split16.split16_model import CLOCK_SHARE
from warpsmith.generator.device import Device
from warpsmith.generator.tensor_cores import TensorType, instruction_of

COPY_CYCLES, WAIT_CYCLES = 8.0, 45.0
"""Clock cycles of an SM for a warp's copy of 32 pixels at a tap, and those for which the warp waits if it is alone."""
ROW_SHARE = 0.41
"""Cost of a copy of dy, relative to one at a tap, whose place is looked up first."""
SPLIT_CYCLES = {1: 0.8, 3: 1.6}
"""Clock cycles of an SM for each row and column of a warp, whose 32 numbers it rounds (1 product) or splits (3)."""
PRODUCT_CYCLES = 0.2
"""Clock cycles for which a warp waits for each of its sums and TF32 products, if it is alone."""
OVERLAP = 1.47
"""Exponent of the norm of a stage's three times: tensor cores, waits and instructions hide each other in part."""
HIDDEN = 0.15
"""Share of the shorter one of copying and computing that the longer one does not hide."""
BEGIN_NS = 3100.0
"""Nanoseconds of the first launch beside its stages."""


def gather_ns(geometry: PointwiseWeightGeometry, device: Device) -> float:
    """Nanoseconds of both launches."""
    computing_ns = -(-geometry.blocks // device.multiprocessors) * geometry.split_steps * _step_ns(geometry, device)
    copying_ns = weight_copying_ns(geometry, device)
    long, short = max(computing_ns, copying_ns), min(computing_ns, copying_ns)
    return BEGIN_NS + long + HIDDEN * short + weight_sums_ns(geometry, device)


def _step_ns(geometry: PointwiseWeightGeometry, device: Device) -> float:
    """Nanoseconds of an SM for one stage of a block, if as many blocks share it as there can be."""
    rates = device.rates.of_multiprocessor(CLOCK_SHARE)
    own = -(-geometry.blocks // device.multiprocessors)
    products = geometry.products * geometry.tile_rows * geometry.tile_columns * geometry.stage_pixels
    tensor_ns = products / rates.tensor_multiply_adds_per_ns(instruction_of(TensorType.TF32))
    copies = geometry.tile_columns + ROW_SHARE * geometry.tile_rows / geometry.vector
    sums = geometry.products * geometry.rows * geometry.columns
    waits = (WAIT_CYCLES * copies / geometry.warps + PRODUCT_CYCLES * sums) / min(own, geometry.min_blocks)
    split = SPLIT_CYCLES[geometry.products] * (geometry.rows + geometry.columns) * geometry.warps
    times = tensor_ns, rates.cycles_ns(waits), rates.cycles_ns(COPY_CYCLES * copies + split)
    return float(sum(each**OVERLAP for each in times) ** (1 / OVERLAP))
