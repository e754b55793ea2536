"""Layers of many small groups on Hopper's tensor cores: neighbouring groups are multiplied as one.

A product of wgmma has 64 results side by side and sums over 16 channels at once, more than a group of 4 to 32 channels
has. Here `merged` neighbouring groups are one, whose filters are zero where they would read channels of another. A
launch before the GEMM writes those filters into the workspace; plans with bound weights launch it once. The gradient of
the weights is computed for all pairs of channels of merged groups, and the launch that adds up partial sums takes those
within one group. The GEMM is that of `conv2d_warpgroup_im2col`.

It multiplies `merged` times as often as the layer needs. Beside it, sums over taps read pixels of 4 channels, 8 bytes,
from 128-byte lines, and 64 results of `conv2d_mma` have pixels of their own group each.

Source: as of `conv2d_warpgroup_im2col`.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from typing import Any, ClassVar

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import LayerSide
from warpsmith.generator.conv2d.layer.text import Conv2dText, text_key
from warpsmith.generator.conv2d.products.split16.split16_model import LAUNCH_NS
from warpsmith.generator.conv2d.products.split16.split16_operand import CHUNK, CHUNK_BYTES
from warpsmith.generator.conv2d.products.split16.split16_programs import MAIN, PARTS, multiplying
from warpsmith.generator.conv2d.products.wgmma.im2col_family import Conv2dWarpgroupIm2col, why_no_lines, why_no_pixels
from warpsmith.generator.conv2d.products.wgmma.im2col_image import Im2colImageGeometry, Im2colImages
from warpsmith.generator.conv2d.products.wgmma.im2col_weight import Im2colWeightGeometry, Im2colWeights
from warpsmith.generator.conv2d.products.wgmma.im2col_window import CHANNELS, PRODUCT_CHANNELS
from warpsmith.generator.device import Device
from warpsmith.generator.problem import NonFinite
from warpsmith.generator.program import Launch, Pointer, Program, Unit, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Space
from warpsmith.generator.steps import aligned

NAME = "conv2d_warpgroup_groups"
WIDE = "wide"
"""Name of the workspace with the filters of merged groups, and of the launch that writes it."""
SUM = "sum"
THREADS = 256


@functools.lru_cache(maxsize=256)
def merged(problem: Conv2d) -> Conv2d | None:
    """The layer whose groups are those of `problem` merged so that least is copied and multiplied; None if no number
    of groups fits the copies of `conv2d_warpgroup_im2col`.
    """
    layers = [_merged(problem, count) for count in range(2, problem.groups + 1) if problem.groups % count == 0]
    return min((each for each in layers if why_no_lines(each) is None), key=_work, default=None)


def _merged(problem: Conv2d, count: int) -> Conv2d:
    filters, channels, rows, columns = problem.weight
    weight = (filters, channels * count, rows, columns)
    return dataclasses.replace(problem, groups=problem.groups // count, weight=weight)


def _work(layer: Conv2d) -> tuple[int, int, int]:
    """Copies of 64 channels by all tiles of one pixel, the products of these tiles, and the tiles."""
    tiles = layer.groups * -(-layer.group_filters // CHANNELS)
    copies = tiles * -(-layer.group_channels // CHANNELS)
    return copies, tiles * -(-layer.group_channels // PRODUCT_CHANNELS), tiles


@dataclasses.dataclass(frozen=True)
class GroupsImageGeometry(Im2colImageGeometry):
    """One config of fprop or dgrad, of the merged layer."""

    name: ClassVar[str] = NAME


@dataclasses.dataclass(frozen=True)
class GroupsWeightGeometry(Im2colWeightGeometry):
    """One config of wgrad, of the merged layer."""

    name: ClassVar[str] = NAME

    @property
    def stores_results(self) -> bool:
        return False  # the launch that adds up also picks the weights within a group


class GroupsSide(LayerSide):
    """A side that solves a layer as `inner` solves the merged one."""

    inner: ClassVar[LayerSide]

    @abc.abstractmethod
    def own_bytes(self, layer: Conv2d) -> int:
        """Least bytes of workspace that the merged layer takes and `inner` does not count."""

    @abc.abstractmethod
    def own_launches(self, problem: Conv2d, device: Device) -> int:
        """Launches of the default that `inner` does not have."""

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        layer = merged(problem)
        if layer is None:
            return f"merges groups to multiples of {PRODUCT_CHANNELS} channels, unlike {_sizes(problem)}"
        if (needed := self.own_bytes(layer)) > problem.workspace_limit:
            return f"needs {needed} bytes of workspace for the weights of merged groups"
        return self.inner.why_not(layer, device)

    def space(self, problem: Conv2d, device: Device) -> Space:
        return self.inner.space(_layer(problem), device)

    def default(self, problem: Conv2d, device: Device) -> Config:
        return self.inner.default(_layer(problem), device)

    def starts(self, problem: Conv2d, device: Device) -> tuple[Config, ...]:
        return self.inner.starts(_layer(problem), device)

    def expected_ns(self, problem: Conv2d, device: Device) -> float | None:
        inner_ns = self.inner.expected_ns(_layer(problem), device)
        return None if inner_ns is None else LAUNCH_NS * self.own_launches(problem, device) + inner_ns


class GroupsImages(GroupsSide):
    """fprop and dgrad."""

    inner = Im2colImages()

    def own_bytes(self, layer: Conv2d) -> int:
        return aligned(2 * math.prod(layer.weight))

    def own_launches(self, problem: Conv2d, device: Device) -> int:
        return 1

    def program(self, problem: Conv2d, config: Config) -> Program:
        layer = _layer(problem)
        geometry, text = GroupsImageGeometry.of(layer, config), _text(problem)
        images, filters = geometry.tensor_maps
        filters = dataclasses.replace(filters, buffer=WIDE)
        bias = (Pointer("b"),) if problem.bias else ()
        multiply = multiplying(NAME, geometry, (images, filters, *bias, Pointer(problem.output.name)))
        source = render("conv2d/warpgroup_image.cu.jinja", p=text, g=geometry, config=config.key())
        vectors = math.prod(layer.weight) // CHUNK
        widen = _launch(WIDE, vectors, Pointer("w"), Pointer(WIDE))
        units = (_unit(WIDE, "conv2d/groups_filters.cu.jinja", problem, vectors=vectors), Unit(MAIN, source))
        wide = Workspace(WIDE, CHUNK_BYTES * vectors, holds=("w",))
        return Program(NAME, config, units, (widen, multiply), (wide,))


class GroupsWeights(GroupsSide):
    """wgrad."""

    inner = Im2colWeights()

    def own_bytes(self, layer: Conv2d) -> int:
        return aligned(4 * math.prod(layer.weight))  # of one part; `inner` has none then, and counts those of several

    def own_launches(self, problem: Conv2d, device: Device) -> int:
        return int(self.default(problem, device).integer("splits") == 1)  # one part is added up too

    def program(self, problem: Conv2d, config: Config) -> Program:
        geometry, text = GroupsWeightGeometry.of(_layer(problem), config), _text(problem)
        multiply = multiplying(NAME, geometry, (*geometry.tensor_maps, Pointer(PARTS)))
        source = render("conv2d/warpgroup_weight.cu.jinja", p=text, g=geometry, config=config.key())
        add = _launch(SUM, math.prod(problem.weight), Pointer(PARTS), Pointer("dw"))
        sums = {"splits": geometry.splits, "wide_weights": geometry.weights}
        units = (Unit(MAIN, source), _unit(SUM, "conv2d/groups_sum.cu.jinja", problem, **sums))
        return Program(NAME, config, units, (multiply, add), (Workspace(PARTS, geometry.sum_bytes),))


class Conv2dWarpgroupGroups(Conv2dWarpgroupIm2col):
    """`conv2d` of small groups by wgmma instructions, on 16-bit pixels that TMA loads from the operand's own layout."""

    name = NAME
    image: ClassVar[LayerSide] = GroupsImages()
    weight: ClassVar[LayerSide] = GroupsWeights()

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        if (why := why_no_pixels(problem)) is not None:
            return why
        if problem.nonfinite is NonFinite.WINDOW:
            return "multiplies channels of other groups by zero, and a NaN among them: needs nonfinite any"
        if problem.groups == 1 or min(problem.group_channels, problem.group_filters) >= CHANNELS:
            return f"solves layers of groups of less than {CHANNELS} channels"
        return self.why_no_products(problem, device) or self.side(problem).why_not(problem, device)


def _layer(problem: Conv2d) -> Conv2d:
    layer = merged(problem)
    if layer is None:
        raise ValueError(f"{NAME} merges no groups of {_sizes(problem)}")
    return layer


def _sizes(problem: Conv2d) -> str:
    return f"{problem.groups} groups of {problem.group_channels} and {problem.group_filters} channels"


def _text(problem: Conv2d) -> Conv2dText:
    """Sizes of the merged layer, under the key of the layer itself."""
    return dataclasses.replace(Conv2dText.of(_layer(problem)), key=text_key(problem))


def _launch(kernel: str, count: int, *arguments: Pointer) -> Launch:
    launch = Launch.of_blocks(f"{NAME}_{kernel}", -(-count // THREADS), THREADS, arguments)
    return dataclasses.replace(launch, unit=kernel)


def _unit(name: str, template: str, problem: Conv2d, **sizes: Any) -> Unit:
    count = problem.groups // _layer(problem).groups
    return Unit(name, render(template, p=Conv2dText.of(problem), merged=count, threads=THREADS, **sizes))
