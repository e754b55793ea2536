"""Expected times of `conv2d_gather`.

Its figures were fitted to 502 configs of 18 layers of 1 to 48 channels (H200, 2026-11-30): within 0.14 in the root mean
square. The config that they choose takes 1.02 times the best one's time in the mean, and 1.10 at most.
"""

from __future__ import annotations

from warpsmith.generator.conv2d.products.pointwise.pointwise_weight_geometry import PointwiseWeightGeometry
from warpsmith.generator.conv2d.products.pointwise.pointwise_weight_model import WeightCosts, weight_ns
from warpsmith.generator.device import REFERENCE, Device

SPLIT_CYCLES = {1: 0.8, 3: 1.6}
"""Cost of rounding (1 product) and of splitting (3 products)."""
COSTS = {
    products: WeightCosts(
        begin_ns=3100,
        sum_ns=4900,
        tensor_share=1,
        step=0,
        wait=45,
        product=0.2,
        copy=8,
        split=split,
        overlap=1.47,
        hidden=0.15,
        l2_share=4350 / REFERENCE.l2_bytes_per_ns,
        row_share=0.41,
    )
    for products, split in SPLIT_CYCLES.items()
}
"""Costs by the TF32 products of a product. A tap's place is looked up before each of its copies, so that copies of dy
take less.
"""


def gather_ns(geometry: PointwiseWeightGeometry, device: Device) -> float:
    """Nanoseconds of both launches."""
    return weight_ns(geometry, COSTS[geometry.products], device)
