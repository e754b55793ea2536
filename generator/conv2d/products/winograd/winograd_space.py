"""Search spaces of `conv2d_winograd`."""

from __future__ import annotations

from warpsmith.generator.architectures import STATIC_SHARED_BYTES
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import why_not_counted
from warpsmith.generator.conv2d.layer.words import Pass
from warpsmith.generator.conv2d.products.split16.split16_operand import CHUNK
from warpsmith.generator.conv2d.products.wgmma.wgmma_space import image_constraints, image_parameters, least_image
from warpsmith.generator.conv2d.products.winograd.minimal import Minimal
from warpsmith.generator.conv2d.products.winograd.winograd_geometry import WinogradGeometry, product_of
from warpsmith.generator.device import Device
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

TILES = (2, 4)
MOST_PARTS = 64
"""Most parts of a batch; smaller parts do not fill a GPU."""
BLOCK_TILES, THREADS = (16, 32, 64), (64, 128, 256)
LEAST_SUMMED = {2: 1, 4: 1024}
"""Fewest channels of a sum, by tile size. With more channels, errors grow more slowly than the scale they are compared
with: see the family's text.
"""


def least_of(problem: Conv2d) -> tuple[dict[str, Value], ...]:
    """The config with the least workspace for each tile size that is exact enough."""
    parts = parts_of(problem)[-1]
    own: dict[str, Value] = {"parts": parts, "block_tiles": BLOCK_TILES[0], "threads": THREADS[0]}
    multiply = least_image(problem).values()
    return tuple({"tile": tile, **own, **multiply} for tile in TILES if is_exact(problem, tile))


def parts_of(problem: Conv2d) -> tuple[int, ...]:
    """The numbers of equal parts that the batch divides into."""
    images = problem.input[0]
    return tuple(parts for parts in range(1, min(images, MOST_PARTS) + 1) if images % parts == 0)


def is_exact(problem: Conv2d, tile: int) -> bool:
    """Whether the errors of this tile size stay below the bound."""
    summed = problem.weight[0] if problem.pass_ is Pass.DGRAD else problem.input[1]
    return summed >= LEAST_SUMMED[tile]


def winograd_space(problem: Conv2d, device: Device) -> Space:
    """The space of fprop and dgrad. The constraints of the GEMM kernel do not depend on the tile size and the parts."""
    product = product_of(problem, TILES[0], 1)
    return Space(
        parameters=(
            Parameter("tile", TILES, "rows and columns of the result that are computed at once"),
            Parameter("parts", parts_of(problem), "of the batch, one after the other, so that caches hold them"),
            *image_parameters(device),
            Parameter("block_tiles", BLOCK_TILES, "that a block transforms, of eight channels"),
            Parameter("threads", THREADS, "of a block that transforms back"),
        ),
        constraints=(
            Constraint(
                f"tiles of 4x4 results are off by too much where sums have fewer than {LEAST_SUMMED[4]} channels",
                lambda tile: is_exact(problem, tile),
            ),
            *image_constraints(product, device),
            Constraint(
                f"transformed tiles and 1 KiB take at most {STATIC_SHARED_BYTES} bytes of static shared memory",
                lambda tile, block_tiles: (
                    4 * CHUNK * block_tiles * Minimal.of(tile).products <= STATIC_SHARED_BYTES - 1024
                ),
            ),
            *_memory(problem),
        ),
    )


def _memory(problem: Conv2d) -> tuple[Constraint, ...]:
    def geometry(tile: int, parts: int, warpgroups: int, columns: int, channels: int) -> WinogradGeometry:
        own: dict[str, Value] = {"tile": tile, "parts": parts, "block_tiles": BLOCK_TILES[0], "threads": THREADS[0]}
        product: dict[str, Value] = {"warpgroups": warpgroups, "columns": columns, "channels": channels}
        return WinogradGeometry.of(problem, Config.of({**least_image(problem).values(), **own, **product}))

    return (
        Constraint(
            "a part has fewer than 2^31 transformed pixels, weights and products",
            lambda tile, parts: why_not_counted(product_of(problem, tile, parts)) is None,
        ),
        Constraint(
            f"what is transformed, and the products, take at most {problem.workspace_limit} bytes",
            lambda tile, parts, warpgroups, columns, channels: (
                geometry(tile, parts, warpgroups, columns, channels).workspace_bytes <= problem.workspace_limit
            ),
        ),
    )
