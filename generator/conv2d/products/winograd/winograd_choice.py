"""Default configs of `conv2d_winograd`, ranked by a model of its products and of the bytes that it moves."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.products.split16.split16_model import LAUNCH_NS
from warpsmith.generator.conv2d.products.wgmma.wgmma_choice import image_choice, image_ns
from warpsmith.generator.conv2d.products.wgmma.wgmma_image_geometry import ImageGeometry
from warpsmith.generator.conv2d.products.winograd.winograd_geometry import WinogradGeometry
from warpsmith.generator.conv2d.products.winograd.winograd_space import least_of, parts_of, winograd_space
from warpsmith.generator.device import REFERENCE, Device
from warpsmith.generator.space import Config, Value

CACHE_BYTES = 26e6
"""Bytes of transformed tiles and products up to which L2 keeps both until they are read. Chunks of this size did best
in `filter2d_fft` on an H200, whose L2 has 50 MiB.
"""
MEMORY_SHARE, CACHE_SHARE, OUTSIDE_SHARE = (each / REFERENCE.l2_bytes_per_ns for each in (5200, 7200, 1300))
"""Shares of the L2 rate: of transformed tiles and products that go through memory, too; of those that L2 holds; of the
layer's operands, whose windows overlap. Fitted to 46 times of 12 layers on an H100 (2026-11-25), half of which are off
by less than 6% and the worst by 20%; rates of plain copies were 25% short. The reference GPU has faster memory, and the
same L2 rate."""
PRODUCTS = 1.1
"""How many times as long products take as those of a layer, fitted with the shares."""
TRANSFORMS: dict[str, Value] = {"block_tiles": 32, "threads": 128}
"""Transform parameters with 1152 numbers of shared memory per warp, so that an SM runs several blocks."""


def winograd_choice(problem: Conv2d, device: Device) -> Config:
    """The config that is expected to take least time."""
    return winograd_choices(problem, device)[0]


@functools.lru_cache(maxsize=64)
def winograd_choices(problem: Conv2d, device: Device) -> tuple[Config, ...]:
    """The best products for each tile size and likely number of parts, sorted by expected time."""
    space = winograd_space(problem, device)
    found = list(filter(space.contains, _candidates(problem, device)))
    found = found or list(filter(space.contains, map(Config.of, least_of(problem))))
    return tuple(sorted(found, key=lambda config: expected_ns(problem, config, device)))


def expected_ns(problem: Conv2d, config: Config, device: Device) -> float:
    """Expected nanoseconds of all launches of a config."""
    geometry = WinogradGeometry.of(problem, config)
    l2_bytes_per_ns = device.rates.l2_bytes_per_ns
    multiplying_ns = geometry.parts * image_ns(ImageGeometry.of(geometry.product, config), device)
    between = geometry.parts * (geometry.pixels.nbytes + geometry.product.output.nbytes)
    between_ns = between / (l2_bytes_per_ns * (CACHE_SHARE if is_cached(geometry) else MEMORY_SHARE))
    images, weights, result = (problem.inputs[0].nbytes, problem.inputs[1].nbytes, problem.output.nbytes)
    outside = 2 * images + 2 * weights + geometry.weights.nbytes + result
    launches = 3 + 3 * geometry.parts
    outside_ns = outside / (OUTSIDE_SHARE * l2_bytes_per_ns)
    return PRODUCTS * multiplying_ns + between_ns + outside_ns + launches * LAUNCH_NS


def _candidates(problem: Conv2d, device: Device) -> Iterator[Config]:
    """The products expected to take least time for each tile size and likely number of parts."""
    for least in least_of(problem):
        for parts in _likely_parts(problem, least):
            chosen: dict[str, Value] = {"tile": least["tile"], "parts": parts, **TRANSFORMS}
            product = WinogradGeometry.of(problem, Config.of({**least, **chosen})).product
            yield Config.of({**image_choice(product, device).config.values(), **chosen})


def _likely_parts(problem: Conv2d, least: dict[str, Value]) -> set[int]:
    """The fewest parts that fit the workspace, the next number in case the best products need more workspace, and the
    fewest parts that fit L2.
    """
    geometries = {
        parts: WinogradGeometry.of(problem, Config.of({**least, "parts": parts})) for parts in parts_of(problem)
    }
    fitting = [parts for parts, each in geometries.items() if each.workspace_bytes <= problem.workspace_limit]
    return {*fitting[:2], *[parts for parts in fitting if is_cached(geometries[parts])][:1]}


def is_cached(geometry: WinogradGeometry) -> bool:
    """Whether the transformed tiles of a part and its products stay in L2."""
    return geometry.pixels.nbytes + geometry.product.output.nbytes <= CACHE_BYTES
