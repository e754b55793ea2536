"""Expected times of the weight side of `conv2d_pointwise`, and the model that `conv2d_gather` shares."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.conv2d.products.pointwise.pointwise_model import L2_SHARE, MEMORY_SHARE
from warpsmith.generator.conv2d.products.pointwise.pointwise_weight_geometry import PointwiseWeightGeometry
from warpsmith.generator.conv2d.products.split16.split16_model import CLOCK_SHARE
from warpsmith.generator.device import REFERENCE, Device
from warpsmith.generator.tensor_cores import TensorType, instruction_of


@dataclasses.dataclass(frozen=True, slots=True)
class WeightCosts:
    """Clock cycles of an SM in the gradient of weights, for stages of 32 pixels."""

    begin_ns: float
    """Nanoseconds of the first launch beside its stages."""
    sum_ns: float
    """Nanoseconds of the second launch, which adds up parts of sums, beside its bytes."""
    tensor_share: float
    """Share of the rate of mma that is sustained."""
    step: float
    """Cycles for which a block waits in a stage if it is alone."""
    wait: float
    """Cycles for which a warp waits for one of its copies, if it is alone."""
    product: float
    """Cycles for which a warp waits for each of its sums and TF32 products, if it is alone."""
    copy: float
    """Cycles of a warp's copy of 32 pixels, or of 32 vectors of channels."""
    split: float
    """Cycles for each row and column of a warp, whose 32 numbers it loads, and rounds or splits."""
    overlap: float
    """Exponent of the norm of a stage's three times: tensor cores, waits and instructions hide each other in part."""
    hidden: float
    """Share of the shorter one of copying and computing that the longer one does not hide."""
    l2_share: float
    """Share of the L2 rate that x and dy, each read once for each tile of the other's channels, reach."""
    store: float = 0.0
    """Cycles for each sum of a block, which it stores."""
    row_share: float = 1.0
    """Cost of a copy of dy, relative to one of x."""


WEIGHTS = {
    1: WeightCosts(
        begin_ns=400,
        sum_ns=4830,
        tensor_share=0.63,
        step=268,
        wait=51,
        product=0.04,
        copy=0.2,
        split=2.5,
        overlap=2.04,
        hidden=0.0,
        l2_share=5020 / REFERENCE.l2_bytes_per_ns,
        store=0.32,
    ),
    3: WeightCosts(
        begin_ns=2500,
        sum_ns=3400,
        tensor_share=0.81,
        step=349,
        wait=20,
        product=0.15,
        copy=3.2,
        split=2.0,
        overlap=1.6,
        hidden=0.05,
        l2_share=4650 / REFERENCE.l2_bytes_per_ns,
        store=0.16,
    ),
}
"""Costs of `conv2d_pointwise` by the TF32 products of a product. Those of 1 were fitted to 262 configs of 45 layers
with channels last, those of 3 to 283 of 53 in NCHW (H200, 2026-11-30). Since then two sums are stored at once:
`begin_ns` of 1, and `sum_ns` and `store` of 3, are those of 367 and 443 configs of 27 and 32 layers, within 0.14 and
0.12 in the root mean square. Their choice takes 1.019 and 1.017 times the best one's time in the mean, 1.08 and 1.12 at
most.
"""


def pointwise_weight_ns(geometry: PointwiseWeightGeometry, device: Device) -> float:
    """Nanoseconds of both launches of wgrad in `conv2d_pointwise`."""
    return weight_ns(geometry, WEIGHTS[geometry.products], device)


def weight_ns(geometry: PointwiseWeightGeometry, costs: WeightCosts, device: Device) -> float:
    """Nanoseconds of both launches of wgrad."""
    own = -(-geometry.blocks // device.multiprocessors)
    storing_ns = device.rates.cycles_ns(costs.store * geometry.tile_rows * geometry.tile_columns)
    computing_ns = own * (geometry.split_steps * _weight_step_ns(geometry, costs, device) + storing_ns)
    copying_ns = _weight_copying_ns(geometry, costs, device)
    long, short = max(computing_ns, copying_ns), min(computing_ns, copying_ns)
    return costs.begin_ns + long + costs.hidden * short + _weight_sums_ns(geometry, costs, device)


def _weight_step_ns(geometry: PointwiseWeightGeometry, costs: WeightCosts, device: Device) -> float:
    """Nanoseconds of an SM for one stage of a block, if as many blocks share it as there can be."""
    rates = device.rates.of_multiprocessor(CLOCK_SHARE)
    own = -(-geometry.blocks // device.multiprocessors)
    products = geometry.products * geometry.tile_rows * geometry.tile_columns * geometry.stage_pixels
    tensor_ns = products / (costs.tensor_share * rates.tensor_multiply_adds_per_ns(instruction_of(TensorType.TF32)))
    copies = geometry.tile_columns / geometry.source_vector + costs.row_share * geometry.tile_rows / geometry.vector
    sums = geometry.products * geometry.rows * geometry.columns
    waits = costs.step + costs.wait * copies / geometry.warps + costs.product * sums
    split = costs.split * (geometry.rows + geometry.columns) * geometry.warps
    times = (
        tensor_ns,
        rates.cycles_ns(waits / min(own, geometry.min_blocks)),
        rates.cycles_ns(costs.copy * copies + split),
    )
    return float(sum(each**costs.overlap for each in times) ** (1 / costs.overlap))


def _weight_copying_ns(geometry: PointwiseWeightGeometry, costs: WeightCosts, device: Device) -> float:
    """Nanoseconds in which the device moves x and dy for the first launch of wgrad."""
    x, dy = (4.0 * geometry.pixels * count for count in (geometry.all_columns, geometry.filters))
    read_once = 4.0 * geometry.source_pixels * geometry.channels
    memory_ns = (read_once + dy) / (MEMORY_SHARE * device.rates.memory_bytes_per_ns)
    read_again = x * geometry.row_tiles + dy * geometry.column_tiles
    return max(memory_ns, read_again / (costs.l2_share * device.rates.l2_bytes_per_ns))


def _weight_sums_ns(geometry: PointwiseWeightGeometry, costs: WeightCosts, device: Device) -> float:
    """Nanoseconds of the second launch of wgrad, which adds up the parts of sums; 0 if they have one part."""
    if geometry.splits == 1:
        return 0.0
    return costs.sum_ns + 8.0 * geometry.splits * geometry.weights / (L2_SHARE * device.rates.l2_bytes_per_ns)
