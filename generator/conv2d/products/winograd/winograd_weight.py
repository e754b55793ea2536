"""wgrad of 3x3 layers by minimal filtering, F(3x3, 2x2): 16 products instead of 36 for the nine sums of a tile.

The gradient of a filter is x filtered by dy. A 2x2 tile of dy is a filter of 2x2 taps, and its 3x3 results over a 4x4
tile of x are summed over all tiles and images. At each of 16 points a matrix of transformed x (channels by tiles) is
multiplied by a matrix of transformed dy (filters by tiles). These products are wgrad of a layer of 1x1 taps with a
group for each point, computed by the GEMM kernel of `conv2d_warpgroup`. The kernel that adds up its split-K partial
sums transforms them back.

The largest errors over the scale that verification uses are 2e-8 for normal deviates. For the tuner's stress inputs
they are up to 5.4e-7 where images are 92x92 or 30x30, 9.4e-7 for 60 images of 12x12 and 2.3e-6 for 160 images of 7x7,
and larger with fewer terms. From LEAST_TERMS on, at least 3.2e-6 is allowed. Tiles of 4x4 were off by up to 1e-5, so
gradients do not use them.

Source: Lavin and Gray 2016, "Fast Algorithms for Convolutional Neural Networks", section 4.1 (the gradient of weights).
"""

from __future__ import annotations

import dataclasses
import functools

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import LayerSide, why_not_counted
from warpsmith.generator.conv2d.layer.text import Conv2dText, text_key
from warpsmith.generator.conv2d.products.split16.split16_arithmetic import Arithmetic
from warpsmith.generator.conv2d.products.split16.split16_model import LAUNCH_NS
from warpsmith.generator.conv2d.products.split16.split16_operand import Images
from warpsmith.generator.conv2d.products.split16.split16_programs import MAIN
from warpsmith.generator.conv2d.products.wgmma.wgmma_tiles import NAME as PRODUCT
from warpsmith.generator.conv2d.products.wgmma.wgmma_weight import (
    LEAST_WEIGHT,
    WgmmaWeightGeometry,
    weight_choice,
    weight_ns,
    weight_space,
)
from warpsmith.generator.conv2d.products.winograd.minimal import TAPS, Minimal
from warpsmith.generator.conv2d.products.winograd.winograd_transforms import (
    MODEL_SHARE,
    NAME,
    PREFIX,
    WinogradAxis,
    WinogradTiles,
)
from warpsmith.generator.device import REFERENCE, Device
from warpsmith.generator.program import Launch, Pointer, Program, Unit, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Parameter, Space, Value

L2_SHARE, PRODUCTS = 1900 / REFERENCE.l2_bytes_per_ns, 0.7
"""Share of the L2 rate at which operands and transformed tiles move, and share of a layer's products that these take:
fitted to 14 times of five layers on an H100 (2026-11-25), all within 8%."""
LEAST_TERMS = 16384
"""Fewest terms of a sum: images times the results of a plane."""
TILE = 2
"""Rows and columns of dy per tile."""
BLOCK_TILES: tuple[int, ...] = (16, 32, 64)
LEAST: dict[str, Value] = {**LEAST_WEIGHT, "block_tiles": BLOCK_TILES[0]}
"""The config with the least workspace."""
SUM_FILTERS, SUM_CHANNELS = 32, 8
"""Filters and channels per block of the summing kernel."""
PARTS = "parts"
"""Name of the workspace for split-K partial sums: [split][point][channel][filter]."""
SUM = f"{PREFIX}_sum"
"""Name of the unit and kernel that add up wgrad's partial sums and transform them back."""


@dataclasses.dataclass(frozen=True)
class WinogradWeightGeometry:
    """One config of wgrad."""

    layer: Conv2d
    minimal: Minimal
    multiply: WgmmaWeightGeometry
    """WinogradTiles of the GEMM kernel for the layer of 1x1 taps."""
    block_tiles: int

    sum_filters = SUM_FILTERS
    sum_channels = SUM_CHANNELS

    @classmethod
    def of(cls, layer: Conv2d, config: Config) -> WinogradWeightGeometry:
        multiply = WgmmaWeightGeometry.of(gradient_product(layer), config)
        return cls(layer, Minimal.of(TAPS, TILE), multiply, config.integer("block_tiles"))

    @functools.cached_property
    def x(self) -> WinogradTiles:
        rows, columns = (WinogradAxis.of(self.layer, axis, TILE) for axis in (0, 1))
        return self._tiles(0, self.multiply.x, rows, columns)

    @functools.cached_property
    def dy(self) -> WinogradTiles:
        rows, columns = (
            dataclasses.replace(each, sources=each.results, before=0) for each in (self.x.rows, self.x.columns)
        )
        return self._tiles(1, self.multiply.dy, rows, columns)

    @property
    def sum_tiles_across(self) -> int:
        """Blocks of the summing kernel along the filters."""
        return -(-self.multiply.dy.channels // SUM_FILTERS)

    @property
    def sum_blocks(self) -> int:
        """Blocks of the summing kernel."""
        return self.sum_tiles_across * -(-self.multiply.x.channels // SUM_CHANNELS)

    @property
    def workspaces(self) -> tuple[Workspace, ...]:
        """Workspaces of both operands and of the partial sums."""
        return (*self.x.workspaces(), *self.dy.workspaces(), Workspace(PARTS, self.multiply.sum_bytes))

    def sum_unit(self, name: str) -> Unit:
        """Unit of the kernel that adds up partial sums and transforms them back."""
        return Unit(name, render("conv2d/winograd_gradient.cu.jinja", key=text_key(self.layer), g=self))

    def _tiles(self, operand: int, images: Images, rows: WinogradAxis, columns: WinogradAxis) -> WinogradTiles:
        return WinogradTiles(
            family=PREFIX,
            operand=self.layer.inputs[operand],
            arithmetic=Arithmetic.of(self.layer),
            minimal=self.minimal,
            size_bytes=images.nbytes,
            rows=rows,
            columns=columns,
            step=TILE,
            images=self.layer.input[0],
            channels=images.channels,
            chunks=images.chunks,
            length=images.length,
            block_tiles=self.block_tiles,
            tile_k=images.tile_k,
        )


@functools.lru_cache(maxsize=64)
def gradient_product(layer: Conv2d) -> Conv2d:
    """The products as wgrad of a layer of 1x1 taps: its groups are points, its pixels are tiles."""
    points, tiles = Minimal.of(TAPS, TILE).products, layer.input[0]
    for axis in (0, 1):
        tiles *= WinogradAxis.of(layer, axis, TILE).tiles
    filters, channels = layer.weight[:2]
    return Conv2d(
        input=(1, points * channels, 1, tiles),
        weight=(points * filters, channels, 1, 1),
        groups=points,
        pass_=layer.pass_,
        precision=layer.precision,
        workspace=layer.workspace_limit,
    )


def _why_not_terms(layer: Conv2d) -> str | None:
    """Why F(3x3, 2x2) cannot compute this gradient of weights, in one line; None if it can."""
    if (terms := layer.terms) < LEAST_TERMS:
        return (
            f"is off by too much where a weight's gradient sums fewer than {LEAST_TERMS} terms; this one sums {terms}"
        )
    return why_not_counted(gradient_product(layer))


def gradient_ns(layer: Conv2d, config: Config, device: Device) -> float:
    """Expected nanoseconds of all launches of a config."""
    geometry = WinogradWeightGeometry.of(layer, config)
    multiplying_ns = weight_ns(WgmmaWeightGeometry.of(gradient_product(layer), config), device)
    moved = 2 * sum(operand.nbytes for operand in layer.inputs) + geometry.x.nbytes + geometry.dy.nbytes
    moved_ns = (moved + layer.output.nbytes) / (L2_SHARE * device.rates.l2_bytes_per_ns)
    return PRODUCTS * multiplying_ns + moved_ns + 6 * LAUNCH_NS


class WinogradWeights(LayerSide):
    """wgrad, by F(3x3, 2x2)."""

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        if (why_not := _why_not_terms(problem)) is not None:
            return why_not
        if not self.space(problem, device).contains(Config.of(LEAST)):
            return f"what it transforms of an image does not fit into {problem.workspace_limit} bytes of workspace"
        return None

    def space(self, problem: Conv2d, device: Device) -> Space:
        """The space of the GEMM kernel and of the transforms. The 1x1 layer has the workspace limit of the layer."""
        products = weight_space(gradient_product(problem), device)
        own = Parameter("block_tiles", BLOCK_TILES, "that a block transforms, of eight channels")
        return Space((*products.parameters, own), products.constraints)

    def default(self, problem: Conv2d, device: Device) -> Config:
        """The config whose products are expected to take least time."""
        products = weight_choice(gradient_product(problem), device).config
        return Config.of({**products.values(), "block_tiles": 32})

    def expected_ns(self, problem: Conv2d, device: Device) -> float:
        return MODEL_SHARE * gradient_ns(problem, self.default(problem, device), device)

    def program(self, problem: Conv2d, config: Config) -> Program:
        geometry = WinogradWeightGeometry.of(problem, config)
        x, dy, multiply = geometry.x, geometry.dy, geometry.multiply
        product = Conv2dText.of(gradient_product(problem))
        main = render("conv2d/warpgroup_weight.cu.jinja", p=product, g=multiply, config=config.key())
        factors = (Pointer(x.packed.name), Pointer(dy.packed.name), Pointer(PARTS))
        products = Launch.of_blocks(PRODUCT, multiply.blocks, multiply.threads, factors)
        sums = (Pointer(PARTS), *x.powers, *dy.powers, Pointer(problem.output.name))
        add = Launch.of_blocks(SUM, geometry.sum_blocks, SUM_FILTERS * SUM_CHANNELS, sums)
        return Program(
            NAME,
            config,
            (*x.units(problem), *dy.units(problem), Unit(MAIN, main), geometry.sum_unit(SUM)),
            (
                *(launch for each in (x, dy) for launch in (each.largest.launch(), each.launch())),
                dataclasses.replace(products, shared_bytes=multiply.shared_bytes, unit=MAIN),
                dataclasses.replace(add, unit=SUM),
            ),
            geometry.workspaces,
        )
