"""The image side of `conv2d_winograd` (fprop, dgrad): tiles, search space, model, default config and program.

At each of the (m + 2)^2 points, a matrix of transformed weights (results by channels) is multiplied by a matrix of
transformed pixels (channels by tiles). Together these products are a layer of 1x1 taps, with a group for each point and
a pixel for each tile. `conv2d_warpgroup` solves such a layer, so its GEMM kernel is used unchanged and the transforms
write what it reads.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

from warpsmith.generator.architectures import STATIC_SHARED_BYTES
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import LayerSide, why_not_counted
from warpsmith.generator.conv2d.layer.text import Conv2dText
from warpsmith.generator.conv2d.products.split16.split16_arithmetic import Arithmetic
from warpsmith.generator.conv2d.products.split16.split16_model import LAUNCH_NS
from warpsmith.generator.conv2d.products.split16.split16_operand import CHUNK
from warpsmith.generator.conv2d.products.split16.split16_programs import MAIN
from warpsmith.generator.conv2d.products.wgmma.wgmma_image import (
    WgmmaImageGeometry,
    image_choice,
    image_constraints,
    image_ns,
    image_parameters,
    least_image,
)
from warpsmith.generator.conv2d.products.wgmma.wgmma_tiles import NAME as PRODUCT
from warpsmith.generator.conv2d.products.winograd.minimal import Minimal
from warpsmith.generator.conv2d.products.winograd.winograd_transforms import (
    MODEL_SHARE,
    NAME,
    PREFIX,
    WinogradAxis,
    WinogradFilters,
    WinogradTiles,
)
from warpsmith.generator.device import REFERENCE, Device
from warpsmith.generator.program import Launch, Pointer, Program, Unit, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value
from warpsmith.generator.steps import aligned

PRODUCTS = "products"
"""Name of the workspace for the products of one part of the batch: [point][channel of the result][tile]."""
BACK = f"{PREFIX}_results"
"""Name of the output transform's unit and kernel."""
TILES = (2, 4)
MOST_PARTS = 64
"""Most parts of a batch; smaller parts do not fill a GPU."""
BLOCK_TILES, THREADS = (16, 32, 64), (64, 128, 256)
LEAST_SUMMED = {2: 1, 4: 1024}
"""Fewest channels of a sum, by tile size. With more channels, errors grow more slowly than the scale they are compared
with: see the family's text.
"""
CACHE_BYTES = 26e6
"""Bytes of transformed tiles and products up to which L2 keeps both until they are read. Chunks of this size did best
in `filter2d_fft` on an H200, whose L2 has 50 MiB.
"""
MEMORY_SHARE, CACHE_SHARE, OUTSIDE_SHARE = (each / REFERENCE.l2_bytes_per_ns for each in (5200, 7200, 1300))
"""Shares of the L2 rate: of transformed tiles and products that go through memory, too; of those that L2 holds; of the
layer's operands, whose windows overlap. Fitted to 46 times of 12 layers on an H100 (2026-11-25), half of which are off
by less than 6% and the worst by 20%; rates of plain copies were 25% short. The reference GPU has faster memory, and the
same L2 rate."""
PRODUCTS_SHARE = 1.1
"""How many times as long products take as those of a layer, fitted with the shares."""
TRANSFORMS: dict[str, Value] = {"block_tiles": 32, "threads": 128}
"""Transform parameters with 1152 numbers of shared memory per warp, so that an SM runs several blocks."""


@dataclasses.dataclass(frozen=True)
class WinogradImageGeometry:
    """One config of fprop or dgrad."""

    layer: Conv2d
    minimal: Minimal
    parts: int
    """Parts of the batch, processed one after the other in the same workspace."""
    rows: WinogradAxis
    columns: WinogradAxis
    product: Conv2d
    """The layer of 1x1 taps."""
    multiply: WgmmaImageGeometry
    """WinogradTiles of its GEMM kernel."""
    block_tiles: int
    threads: int
    """Threads per block of the output transform."""

    @classmethod
    def of(cls, layer: Conv2d, config: Config) -> WinogradImageGeometry:
        tile, parts = config.integer("tile"), config.integer("parts")
        product = product_of(layer, tile, parts)
        return cls(
            layer=layer,
            minimal=Minimal.of(tile),
            parts=parts,
            rows=WinogradAxis.of(layer, 0, tile),
            columns=WinogradAxis.of(layer, 1, tile),
            product=product,
            multiply=dataclasses.replace(WgmmaImageGeometry.of(product, config), stays_scaled=layer.scales > 1),
            block_tiles=config.integer("block_tiles"),
            threads=config.integer("threads"),
        )

    @property
    def images(self) -> int:
        """Images per part."""
        return self.layer.input[0] // self.parts

    @property
    def tiles(self) -> int:
        """WinogradTiles per part and channel."""
        return self.images * self.rows.tiles * self.columns.tiles

    @property
    def results(self) -> int:
        """Channels of the result."""
        return self.multiply.results

    @property
    def vector(self) -> int:
        """Results of a row that one store writes; rows of the result and tiles begin at multiples of it."""
        return next(size for size in (4, 2, 1) if self.minimal.tile % size == 0 and self.columns.results % size == 0)

    @property
    def blocks_across(self) -> int:
        """Blocks of the output transform per channel."""
        return -(-self.tiles // self.threads)

    @property
    def scales_back(self) -> bool:
        """Whether the output transform removes the powers of two. It does if several images have their own, because the
        product kernel has a single image.
        """
        return self.multiply.stays_scaled

    @functools.cached_property
    def pixels(self) -> WinogradTiles:
        """The image transform."""
        images = self.multiply.images
        return WinogradTiles(
            family=PREFIX,
            operand=self.layer.inputs[0],
            arithmetic=Arithmetic.of(self.layer),
            minimal=self.minimal,
            rows=self.rows,
            columns=self.columns,
            step=self.minimal.tile,
            images=self.images,
            channels=images.channels,
            chunks=images.chunks,
            length=images.length,
            block_tiles=self.block_tiles,
            size_bytes=images.nbytes,
        )

    @functools.cached_property
    def weights(self) -> WinogradFilters:
        """The weight transform."""
        filters = self.multiply.filters
        return WinogradFilters(
            family=PREFIX,
            operand=self.layer.inputs[1],
            arithmetic=Arithmetic.of(self.layer),
            minimal=self.minimal,
            summed=filters.summed,
            results=filters.results,
            columns=filters.columns,
            tiles=filters.tiles,
            block_chunks=filters.block_chunks,
            blocks=filters.blocks,
            is_transposed=self.layer.pass_.is_transposed,
            size_bytes=filters.nbytes,
        )

    @property
    def workspaces(self) -> tuple[Workspace, ...]:
        """Workspaces of a part of the batch, and of the weights."""
        products = Workspace(PRODUCTS, self.product.output.nbytes)
        return (*self.weights.workspaces(), *self.pixels.workspaces(), products)

    @property
    def workspace_bytes(self) -> int:
        """Bytes of all workspaces, aligned as a plan lays them out."""
        return sum(aligned(each.nbytes) for each in self.workspaces)


@functools.lru_cache(maxsize=64)  # shared by all configs that a search or a model looks at
def product_of(layer: Conv2d, tile: int, parts: int) -> Conv2d:
    """The products of one part of the batch as a layer of 1x1 taps: its groups are points, its pixels are tiles."""
    minimal = Minimal.of(tile)
    summed, results = layer.summed_channels, layer.result_channels
    tiles = layer.input[0] // parts
    for axis in (0, 1):
        tiles *= WinogradAxis.of(layer, axis, tile).tiles
    return Conv2d(
        input=(1, minimal.products * summed, 1, tiles),
        weight=(minimal.products * results, summed, 1, 1),
        groups=minimal.products,
        precision=layer.precision,
        workspace=layer.workspace_limit,
    )


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
    return problem.summed_channels >= LEAST_SUMMED[tile]


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
    def geometry(tile: int, parts: int, warpgroups: int, columns: int, channels: int) -> WinogradImageGeometry:
        own: dict[str, Value] = {"tile": tile, "parts": parts, "block_tiles": BLOCK_TILES[0], "threads": THREADS[0]}
        product: dict[str, Value] = {"warpgroups": warpgroups, "columns": columns, "channels": channels}
        return WinogradImageGeometry.of(problem, Config.of({**least_image(problem).values(), **own, **product}))

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


@functools.lru_cache(maxsize=64)
def winograd_choices(problem: Conv2d, device: Device) -> tuple[Config, ...]:
    """The best products for each tile size and likely number of parts, sorted by expected time."""
    space = winograd_space(problem, device)
    found = list(filter(space.contains, _candidates(problem, device)))
    found = found or list(filter(space.contains, map(Config.of, least_of(problem))))
    return tuple(sorted(found, key=lambda config: expected_ns(problem, config, device)))


def expected_ns(problem: Conv2d, config: Config, device: Device) -> float:
    """Expected nanoseconds of all launches of a config."""
    geometry = WinogradImageGeometry.of(problem, config)
    l2_bytes_per_ns = device.rates.l2_bytes_per_ns
    multiplying_ns = geometry.parts * image_ns(WgmmaImageGeometry.of(geometry.product, config), device)
    between = geometry.parts * (geometry.pixels.nbytes + geometry.product.output.nbytes)
    between_ns = between / (l2_bytes_per_ns * (CACHE_SHARE if is_cached(geometry) else MEMORY_SHARE))
    images, weights, result = (problem.inputs[0].nbytes, problem.inputs[1].nbytes, problem.output.nbytes)
    outside = 2 * images + 2 * weights + geometry.weights.nbytes + result
    launches = 3 + 3 * geometry.parts
    outside_ns = outside / (OUTSIDE_SHARE * l2_bytes_per_ns)
    return PRODUCTS_SHARE * multiplying_ns + between_ns + outside_ns + launches * LAUNCH_NS


def _candidates(problem: Conv2d, device: Device) -> Iterator[Config]:
    """The products expected to take least time for each tile size and likely number of parts."""
    for least in least_of(problem):
        for parts in _likely_parts(problem, least):
            chosen: dict[str, Value] = {"tile": least["tile"], "parts": parts, **TRANSFORMS}
            product = WinogradImageGeometry.of(problem, Config.of({**least, **chosen})).product
            yield Config.of({**image_choice(product, device).config.values(), **chosen})


def _likely_parts(problem: Conv2d, least: dict[str, Value]) -> set[int]:
    """The fewest parts that fit the workspace, the next number in case the best products need more workspace, and the
    fewest parts that fit L2.
    """
    geometries = {
        parts: WinogradImageGeometry.of(problem, Config.of({**least, "parts": parts})) for parts in parts_of(problem)
    }
    fitting = [parts for parts, each in geometries.items() if each.workspace_bytes <= problem.workspace_limit]
    return {*fitting[:2], *[parts for parts in fitting if is_cached(geometries[parts])][:1]}


def is_cached(geometry: WinogradImageGeometry) -> bool:
    """Whether the transformed tiles of a part and its products stay in L2."""
    return geometry.pixels.nbytes + geometry.product.output.nbytes <= CACHE_BYTES


class WinogradImages(LayerSide):
    """fprop and dgrad, by F(2x2, 3x3) or F(4x4, 3x3)."""

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        space = self.space(problem, device)
        if not any(space.contains(Config.of(each)) for each in least_of(problem)):
            return f"what it transforms of an image does not fit into {problem.workspace_limit} bytes of workspace"
        return None

    def space(self, problem: Conv2d, device: Device) -> Space:
        return winograd_space(problem, device)

    def default(self, problem: Conv2d, device: Device) -> Config:
        return winograd_choices(problem, device)[0]

    def starts(self, problem: Conv2d, device: Device) -> tuple[Config, ...]:
        return winograd_choices(problem, device)[1:]

    def expected_ns(self, problem: Conv2d, device: Device) -> float:
        return MODEL_SHARE * expected_ns(problem, self.default(problem, device), device)

    def program(self, problem: Conv2d, config: Config) -> Program:
        geometry = WinogradImageGeometry.of(problem, config)
        product, multiply = Conv2dText.of(geometry.product), geometry.multiply
        main = render("conv2d/warpgroup_image.cu.jinja", p=product, g=multiply, config=config.key())
        back = render("conv2d/winograd_results.cu.jinja", p=Conv2dText.of(problem), g=geometry)
        return Program(
            NAME,
            config,
            (*geometry.pixels.units(problem), *geometry.weights.units(problem), Unit(MAIN, main), Unit(BACK, back)),
            (*geometry.weights.launches(), geometry.pixels.largest.launch(), *_parts(geometry)),
            geometry.workspaces,
        )


def _parts(geometry: WinogradImageGeometry) -> tuple[Launch, ...]:
    """Launches of the image transform, the products and the output transform of each part of the batch."""
    pixels, weights, multiply, layer = geometry.pixels, geometry.weights, geometry.multiply, geometry.layer
    powers = () if geometry.scales_back else (*pixels.powers, *weights.powers)
    factors = (Pointer(pixels.packed.name), Pointer(weights.packed.name), *powers)
    product = Launch.of_blocks(PRODUCT, multiply.blocks, multiply.threads, (*factors, Pointer(PRODUCTS)))
    product = dataclasses.replace(product, shared_bytes=multiply.shared_bytes, unit=MAIN)
    found: list[Launch] = []
    for part in range(geometry.parts):
        first = part * geometry.images
        result = Pointer(layer.output.name, first * layer.output.strides[0])
        bias = (Pointer("b"),) if layer.bias else ()
        blocks = geometry.blocks_across * geometry.results
        scales = (*pixels.powers_from(first), *weights.powers) if geometry.scales_back else ()
        back = Launch.of_blocks(BACK, blocks, geometry.threads, (Pointer(PRODUCTS), *scales, *bias, result))
        found += [pixels.launch(first), product, dataclasses.replace(back, unit=BACK)]
    return tuple(found)
