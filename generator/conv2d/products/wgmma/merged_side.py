"""Sides of families that solve a layer as a wider one, whose copies and products of wgmma have no gaps.

A product of wgmma has 64 results side by side and sums over 16 channels at once, and a copy by TMA begins at multiples
of 8 channels. `Merging` says which layer of more channels is equal to one that does not fill them: its filters are
those of the layer, side by side, with zeros where they would read another part's channels. A launch before the GEMM
writes them into the workspace; plans with bound weights launch it once. The launch after it begins early, which saves
some of the time between both. The gradient of the weights is computed for all pairs of channels, and the launch that
adds up partial sums takes those within one part. The GEMM is that of `conv2d_warpgroup_im2col`.

Source: as of `conv2d_warpgroup_im2col`.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Callable
from typing import Any, ClassVar

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import LayerSide
from warpsmith.generator.conv2d.layer.text import Conv2dText, text_key
from warpsmith.generator.conv2d.products.split16.split16_model import LAUNCH_NS
from warpsmith.generator.conv2d.products.split16.split16_operand import CHUNK, CHUNK_BYTES
from warpsmith.generator.conv2d.products.split16.split16_programs import MAIN, PARTS, multiplying
from warpsmith.generator.conv2d.products.wgmma.im2col_image import Im2colImageGeometry, Im2colImages
from warpsmith.generator.conv2d.products.wgmma.im2col_weight import Im2colWeightGeometry, Im2colWeights
from warpsmith.generator.device import Device
from warpsmith.generator.program import Launch, Pointer, Program, Unit, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Space
from warpsmith.generator.steps import aligned

WIDE = "wide"
"""Name of the workspace with the filters of the wider layer, and of the launch that writes it."""
SUM = "sum"
THREADS = 256


@dataclasses.dataclass(frozen=True)
class MergedWeightGeometry(Im2colWeightGeometry):
    """One config of wgrad, of the wider layer."""

    cluster_blocks: ClassVar[int] = 1

    @property
    def stores_results(self) -> bool:
        return False  # the launch that adds up also picks the weights within a part

    def summing_ns(self, splits: int, device: Device) -> float:
        return super().summing_ns(max(splits, 2), device)  # sums of one part go through memory too


@dataclasses.dataclass(frozen=True)
class Merging:
    """How a family finds the wider layer of a layer."""

    image: type[Im2colImageGeometry]
    """Configs of fprop and dgrad; its name is the family's."""
    weight: type[MergedWeightGeometry]
    """Configs of wgrad."""
    merged: Callable[[Conv2d], Conv2d | None]
    """The wider layer, None if there is none."""
    why_none: Callable[[Conv2d], str]
    """Why a layer has no wider one, in one line."""
    shares_filters: bool = False
    """Whether all parts of the wider layer have the same filters; otherwise each has filters of its own."""

    @property
    def family(self) -> str:
        return self.image.name

    def layer(self, problem: Conv2d) -> Conv2d:
        """The wider layer. Raises ValueError if there is none, which `why_not` excludes."""
        layer = self.merged(problem)
        if layer is None:
            raise ValueError(f"{self.family} {self.why_none(problem)}")
        return layer

    def count(self, problem: Conv2d) -> int:
        """Parts of the wider layer that are one of `problem` each."""
        return self.layer(problem).weight[1] // problem.weight[1]

    def text(self, problem: Conv2d) -> Conv2dText:
        """Sizes of the wider layer, under the key of the layer itself."""
        return dataclasses.replace(Conv2dText.of(self.layer(problem)), key=text_key(problem))

    def launch(self, kernel: str, count: int, *arguments: Pointer) -> Launch:
        """A launch of `count` threads."""
        launch = Launch.of_blocks(f"{self.family}_{kernel}", -(-count // THREADS), THREADS, arguments)
        return dataclasses.replace(launch, unit=kernel)

    def unit(self, name: str, template: str, problem: Conv2d, **sizes: Any) -> Unit:
        """A template with the sizes of the layer itself."""
        own = {"family": self.family, "merged": self.count(problem), "shares": self.shares_filters, "threads": THREADS}
        return Unit(name, render(template, p=Conv2dText.of(problem), **own, **sizes))


class MergedSide(LayerSide):
    """A side that solves a layer as `inner` solves the wider one."""

    inner: ClassVar[LayerSide]
    own_launches: ClassVar[int] = 0
    """Launches that `inner` does not have."""

    def __init__(self, merging: Merging) -> None:
        self.merging = merging

    @abc.abstractmethod
    def own_bytes(self, layer: Conv2d) -> int:
        """Least bytes of workspace for the weights of the wider layer."""

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        layer = self.merging.merged(problem)
        if layer is None:
            return self.merging.why_none(problem)
        if (needed := self.own_bytes(layer)) > problem.workspace_limit:
            return f"needs {needed} bytes of workspace for the weights of the wider layer"
        return self.inner.why_not(layer, device)

    def space(self, problem: Conv2d, device: Device) -> Space:
        return self.inner.space(self.merging.layer(problem), device)

    def default(self, problem: Conv2d, device: Device) -> Config:
        return self.inner.default(self.merging.layer(problem), device)

    def starts(self, problem: Conv2d, device: Device) -> tuple[Config, ...]:
        return self.inner.starts(self.merging.layer(problem), device)

    def expected_ns(self, problem: Conv2d, device: Device) -> float | None:
        inner_ns = self.inner.expected_ns(self.merging.layer(problem), device)
        return None if inner_ns is None else LAUNCH_NS * self.own_launches + inner_ns


class MergedImages(MergedSide):
    """fprop and dgrad."""

    inner = Im2colImages()
    own_launches = 1

    def own_bytes(self, layer: Conv2d) -> int:
        return aligned(2 * math.prod(layer.weight))

    def geometry(self, problem: Conv2d, config: Config) -> Im2colImageGeometry:
        geometry = self.merging.image.of(self.merging.layer(problem), config)
        results = problem.input[1] if problem.pass_.is_transposed else problem.weight[0]
        own = results if self.merging.shares_filters else 0
        return dataclasses.replace(geometry, own_results=own)

    def program(self, problem: Conv2d, config: Config) -> Program:
        merging, layer = self.merging, self.merging.layer(problem)
        geometry, text = self.geometry(problem, config), merging.text(problem)
        images, filters = geometry.tensor_maps
        filters = dataclasses.replace(filters, buffer=WIDE)
        bias = (Pointer("b"),) if problem.bias else ()
        multiply = multiplying(merging.family, geometry, (images, filters, *bias, Pointer(problem.output.name)))
        source = render("conv2d/warpgroup_image.cu.jinja", p=text, g=geometry, config=config.key())
        vectors = math.prod(layer.weight) // CHUNK
        widen = merging.launch(WIDE, vectors, Pointer("w"), Pointer(WIDE))
        filling = merging.unit(WIDE, "conv2d/merged_filters.cu.jinja", problem, vectors=vectors)
        wide = Workspace(WIDE, CHUNK_BYTES * vectors, holds=("w",))
        return Program(merging.family, config, (filling, Unit(MAIN, source)), (widen, multiply), (wide,))


class MergedWeights(MergedSide):
    """wgrad."""

    inner = Im2colWeights(MergedWeightGeometry)

    def own_bytes(self, layer: Conv2d) -> int:
        return aligned(4 * math.prod(layer.weight))

    def program(self, problem: Conv2d, config: Config) -> Program:
        merging = self.merging
        geometry, text = merging.weight.of(merging.layer(problem), config), merging.text(problem)
        multiply = multiplying(merging.family, geometry, (*geometry.tensor_maps, Pointer(PARTS)))
        source = render("conv2d/warpgroup_weight.cu.jinja", p=text, g=geometry, config=config.key())
        add = merging.launch(SUM, math.prod(problem.weight), Pointer(PARTS), Pointer("dw"))
        add = dataclasses.replace(add, begins_early=True)
        sums = {"splits": geometry.splits, "wide_weights": geometry.weights}
        adding = merging.unit(SUM, "conv2d/merged_sum.cu.jinja", problem, **sums)
        units, parts = (Unit(MAIN, source), adding), Workspace(PARTS, geometry.sum_bytes)
        return Program(merging.family, config, units, (multiply, add), (parts,))
